"""What sections make of results that are not as they mostly are."""

import numpy as np
import pytest

from plusone.report import classes, curves, gradients, hidden, k_intervals, surfaces
from plusone.report.material import collect
from plusone.report.sweeps import ablations


def group_of(make, folder, results):
    make.journal(folder, results)
    (group,) = collect([folder]).groups
    return group


def title(drawing):
    return drawing.draw().get_suptitle().replace("\n", " ")


def changed(result, **probe):
    """The same result with other values in each epoch's probe."""
    epochs = [epoch | {"probe": epoch["probe"] | probe} for epoch in result["epochs"]]
    return result | {"epochs": epochs}


def test_classes_of_many_methods_without_bce(make, tmp_path):
    names = ("an", "gr", "em", "role", "lasd", "wan", "epr", "hill", "asl")
    best = {"hill": 0.95, "asl": 0.94}
    results = [make.result(name, test_map=best.get(name, 0.5)) for name in names]
    make.journal(tmp_path, results)
    (drawing,) = classes.per_class(collect([tmp_path])).blocks
    legend = drawing.draw().legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["hill", "an", "asl"]


def test_the_best_is_compared_with_a_rival_rather_than_a_reference(make, tmp_path):
    results = [
        make.result("an", test_map=0.9),
        make.result("gr", test_ap=[0.7] * 4),
        make.result("bce"),
    ]
    make.journal(tmp_path, results)
    (drawing,) = classes.per_class(collect([tmp_path])).blocks
    assert title(drawing).startswith("pets: an beats gr in 1 of 3 classes")


def test_nothing_is_hidden(make, tmp_path):
    full = changed(make.result("bce"), positives=[0] * 100, distance=None)
    make.journal(tmp_path, [full])
    assert not hidden.hidden_labels(collect([tmp_path])).blocks


def test_probes_of_test_items_before_training_and_of_each_class(make, tmp_path):
    flat, one = [1] * 100, [0] * 99 + [50]
    by_class = [[flat, flat], [one, flat], [flat, flat], [flat, flat]]
    full = changed(make.result("gr"), by_class=by_class)
    full["recipe"] |= {"probe": "full", "probe_on": "test"}
    full["epochs"][0]["probe_before"] = full["epochs"][0]["probe"] | {"positives": flat}
    make.journal(tmp_path, [full, make.result("an")])  # an, probed on training items, is left out
    blocks = hidden.hidden_labels(collect([tmp_path])).blocks
    notes = {block.name.rsplit("-", 1)[0]: block.note for block in blocks}
    assert all(note.endswith("All labels of test items.") for note in notes.values())
    drawn = {block.name.rsplit("-", 1)[0]: block for block in blocks}
    assert title(drawn["class-densities"]).startswith("pets, ant, seed 0: ")
    panels = drawn["false-negatives"].draw().axes
    before = panels[0].lines[0]  # grey: half of the labels of each bin that had enough
    share = 1 / (1 + np.array(full["epochs"][0]["probe"]["negatives"]))
    assert before.get_ydata() == pytest.approx([s for s in share if round(1 / s) >= hidden.ENOUGH])


def test_empty_records_and_values_that_are_not_finite(make, tmp_path):
    bad = make.result("gr")
    bad["epochs"][0] |= {"losses": {"loss": None}}
    make.journal(tmp_path, [make.result("an", epochs=[]), bad])
    material = collect([tmp_path])
    (drawing,) = curves.learning(material).blocks
    assert "no method loses" in title(drawing)
    titles = [title(drawing) for drawing in hidden.hidden_labels(material).blocks]
    assert titles[2] == "pets, seed 0: after the last epoch the distance is 0.30 with gr"


def test_a_curve_ends_where_the_first_seed_stopped(make, tmp_path):
    short = make.result("gr", 1)
    short["epochs"] = short["epochs"][:2]
    group = group_of(make, tmp_path, [make.result("gr", 0), short])
    (curve,) = curves.averaged(group)
    assert curves.line_of(curve, curve.val_map).x == (1, 2)


def test_the_threshold_is_that_of_the_training(make, tmp_path):
    group = group_of(make, tmp_path / "a", [make.result("lasd", options={"tau": 0.8})])
    assert hidden.lasd_tau(group) == 0.8
    between = group_of(make, tmp_path / "b", [make.result("lasd", options={"tau": 0.805})])
    assert hidden.lasd_tau(between) == hidden.lasd_tau(
        group_of(make, tmp_path / "c", [make.result("gr")])
    )


def test_epochs_of_the_last_stage(make):
    assert gradients.last_stage_epochs(make.typed("gr")) == 3
    epochs = [
        epoch | {"stage": stage}
        for epoch, stage in zip(make.result()["epochs"], (0, 1, 1), strict=True)
    ]
    assert gradients.last_stage_epochs(make.typed("gr", epochs=epochs)) == 2
    assert gradients.last_stage_epochs(make.typed("gr", epochs=[])) == 0  # its records are gone


def test_surfaces_by_data_and_without_a_centre(make, tmp_path):
    lost = make.surface("em", 1.0)
    lost["loss"][2][2] = None
    for number, document in enumerate(
        (make.surface("an", 1.0), make.surface("an", 1.0) | {"data": "other"}, lost)
    ):
        make.document(tmp_path / str(number), document)
    first, second, note = surfaces.surfaces(collect([tmp_path])).blocks
    assert title(first).startswith("pets: mean rise")
    assert title(second).startswith("other: mean rise")
    assert note.text == "em: its loss is not finite at the solution."


def test_intervals_without_rows(make, tmp_path):
    make.document(tmp_path, make.intervals | {"rows": []})
    assert k_intervals.intervals(collect([tmp_path])) is None


@pytest.mark.parametrize("tested", [True, False])
def test_the_whole_method_is_bold_and_no_other(make, tmp_path, tested):
    rows = [row | {"change": 0.0} for row in make.ablation["rows"]]
    if not tested:
        rows = [row | {"test_map": None, "change": None} for row in rows]
    make.document(tmp_path, make.ablation | {"rows": rows})
    (table,) = ablations(collect([tmp_path])).blocks
    assert [row[0].strong for row in table.rows] == [False, True]
    assert table.columns[2][0] == ("test mAP" if tested else "validation mAP")


def test_positives_per_item_are_those_of_the_data(make):
    assert hidden.positives_per_item([make.typed("gr")]) == pytest.approx(27 / 20)
    alone = make.typed("gr", labels={"classes": ["a"], "seen": [20], "true": [20]})
    assert hidden.positives_per_item([alone]) is None
