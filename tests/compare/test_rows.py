"""From results to rows: the learning rate, the gap, the marks, published figures."""

from __future__ import annotations

import dataclasses
import math

import pytest

from plusone.compare.rows import (
    PARTS_OF_NAMES,
    mean_per_class,
    mean_score,
    outcome,
    published,
    summarise,
)
from plusone.data.public import PUBLIC
from plusone.methods import METHODS, PublishedFigure


def test_validation_picks_the_learning_rate(result):
    (row,) = summarise(
        [
            result("an", 0, 0.1, 0.50, 0.99),
            result("an", 1, 0.1, 0.52, 0.97),
            result("an", 0, 0.01, 0.60, 0.40),
            result("an", 1, 0.01, 0.70, 0.60),
        ]
    ).rows
    assert (row.lr, row.seeds) == (0.01, 2)
    assert row.val_map == pytest.approx(0.65)
    assert row.test_map == pytest.approx(0.5)
    assert row.test_sd == pytest.approx(0.1 * 2**0.5)
    assert row.seconds == pytest.approx(2.5)
    assert row.recovery_map is None
    assert len(row.keys) == 2
    assert row.best
    assert not row.within_noise


def test_one_seed_and_no_test_split(result):
    (row,) = summarise([result(test=None, recovery={"recovery_map": 0.7})]).rows
    assert (row.test_map, row.test_sd, row.recovery_map) == (None, None, 0.7)
    assert row.gap_closed is None
    assert row.score == 0.5


def test_only_seeds_are_repetitions(result):
    short, long = {"epochs": 1}, {"epochs": 3}
    trained = [result(val=0.5, recipe=short), result(val=0.6, recipe=long)]
    (row,) = summarise(
        [one.model_copy(update={"key": str(place)}) for place, one in enumerate(trained)]
    ).rows
    assert (row.seeds, row.val_map) == (1, 0.6)


def test_a_training_counts_once(result):
    (row,) = summarise([result(), result(), result(seed=1)]).rows
    assert row.seeds == 2


def gaps(rows):
    return {row.method: row.gap_closed for row in rows}


def test_gap_closed_within_each_table(result):
    scores = (("an", 0.5), ("em", 0.6), ("bce", 0.9))
    rows = [result(m, test=t) for m, t in scores]
    rows += [result(m, test=t / 2, mode="finetune") for m, t in scores]
    tables = summarise(rows).tables()
    assert list(tables) == [("d", "linear"), ("d", "finetune")]
    for table in tables.values():
        assert gaps(table) == pytest.approx({"an": 0, "em": 0.25, "bce": 1})
    assert set(gaps(summarise(rows[:2]).rows).values()) == {None}
    upside_down = summarise([result("an", test=0.9), result("bce", test=0.5)])
    assert set(gaps(upside_down.rows).values()) == {None}


def test_methods_that_see_more_labels_do_not_compete(result):
    scores = {"gr": 0.7, "em": 0.6, "bce": 0.9, "iun": 0.8, "iu": 0.75, "bce_ls": 0.95}
    results = [
        result(method, seed, test=score + seed * {"em": 0.002, "gr": 0.001}.get(method, 0.0))
        for method, score in scores.items()
        for seed in (0, 1)
    ]
    summary = summarise(results)
    marked = {row.method: (row.best, row.within_noise) for row in summary.rows}
    assert marked.pop("gr") == (True, False)
    assert set(marked.values()) == {(False, False)}
    assert {row.method for row in summary.rows if row.p_seeds is not None} == {"em"}
    (test,) = summary.tests
    assert (test["data"], test["mode"], test["methods"], test["seeds"]) == ("d", "linear", 2, 2)


def test_within_noise_of_the_best(result):
    table = {"an": (0.50, 0.52, 0.51), "em": (0.58, 0.62, 0.59), "gr": (0.60, 0.61, 0.60)}
    results = [
        result(method, seed, test=score)
        for method, scores in table.items()
        for seed, score in enumerate(scores)
    ]
    rows = {row.method: row for row in summarise(results).rows}
    assert rows["gr"].best
    assert rows["em"].within_noise
    assert not rows["an"].within_noise
    assert rows["an"].p_seeds < 0.05 < rows["em"].p_seeds


def test_with_one_seed_the_classes_decide(result):
    best = [0.5, 0.6, 0.7, 0.8, 0.9, 0.55, 0.65, 0.75]
    near = [0.52, 0.58, 0.71, 0.79, 0.88, 0.56, 0.66, 0.72]
    far = [score - 0.1 - 0.01 * number for number, score in enumerate(best)]
    rows = {
        row.method: row
        for row in summarise(
            [
                result("gr", test=0.68, test_ap=best),
                result("em", test=0.67, test_ap=near),
                result("an", test=0.5, test_ap=far),
                result("wan", test=0.4),
                result("wan_sampled", test=0.68),
            ]
        ).rows
    }
    assert rows["em"].within_noise
    assert not rows["an"].within_noise
    assert rows["an"].p_classes < 0.05
    assert rows["wan"].p_classes is None
    assert not rows["wan"].within_noise, "no test could tell"
    assert rows["wan_sampled"].within_noise, "the same score"


def test_the_score_decides_and_old_results_have_map_for_one(result):
    assert result(val=0.4).choice_score == 0.4
    assert result(val=0.4, val_score=0.7).choice_score == 0.7
    assert result(val=0.4, val_score=None).choice_score == 0.4
    assert mean_score([result(val=0.25), result(val_score=0.75)]) == 0.5


def test_everything_that_chooses_uses_it(result):
    high_map = result(lr=1e-2, val=0.9, val_score=0.1, test=0.3)
    high_score = result(lr=1e-3, val=0.2, val_score=0.8, test=0.6)
    assert outcome([high_map, high_score]).lr == 1e-3
    (row,) = summarise([high_map, high_score]).rows
    assert (row.lr, row.val_map, row.val_score) == (1e-3, 0.2, 0.8)


def test_without_a_test_split_methods_are_ranked_by_it(result):
    rows = summarise(
        [
            result("an", val=0.9, val_score=0.5, test=None),
            result("gr", val=0.2, val_score=0.8, test=None),
        ]
    ).rows
    assert [row.method for row in rows if row.best] == ["gr"]


def test_mean_per_class():
    assert mean_per_class([[0.2, None, 0.5], [0.4, 0.3, math.nan]]) == [
        pytest.approx(0.3), None, None,
    ]  # fmt: skip


VOC = {
    "data": "VOC2012",
    "items": {"train": 4574, "val": 1143, "test": 5823},
    "labels": {"classes": list(map(str, range(20))), "seen": [1] * 20, "true": [2] * 20},
}


def test_voc_linear(result):
    found = published(result("role", **VOC))
    assert found is not None
    assert found[0] == 86.5
    assert "Cole et al." in found[1]
    assert published(result("gr", **VOC)) is None
    assert published(result("gr", **VOC, mode="finetune"))[0] == 89.83
    assert published(result("role", **VOC, mode="linear_init"))[0] == 88.26
    assert published(result("gr", **VOC, mode="stages")) is None
    lem = {"recipe": {"method": "an", "head": "labelwise"}}
    assert published(result("an", **VOC, mode="finetune", **lem))[0] == 87.6
    assert published(result("an", **VOC, **lem)) is None
    for boost, figure in ((1.0, 89.15), (5.0, 89.29), (2.0, None)):
        row = result("ll_r", **VOC, mode="finetune", options={"boost": boost})
        assert (published(row) or [None])[0] == figure


def test_all_labels(result):
    seen = {"scheme": "all", "seed": 1200, "digest": "x"}
    assert published(result("bce", **VOC, observation=seen))[0] == 86.7
    assert published(result("bce", **VOC)) is None
    iun = {"scheme": "positives_and_negatives(n_pos=1, n_neg=None)", "digest": "x"}
    assert published(result("iun", **VOC, observation=iun))[0] == 86.4


@pytest.mark.parametrize(
    "other",
    [
        {"data": "photos"},
        {"items": {"train": 4574, "val": 1143, "test": 5822}},
        {"items": {"train": 457, "val": 1143, "test": 5823}},
        {"labels": {"classes": ["a"], "seen": [1], "true": [2]}},
        {"observation": {"scheme": "fraction(0.5)", "digest": "x"}},
        {"observation": {"scheme": "given", "digest": "x"}},
        {"data": "coco"},
    ],
)
def test_other_settings_have_no_published_figure(result, other):
    assert published(result("an", **VOC)) is not None
    assert published(result("an", **(VOC | other))) is None


def test_unknown_truth_has_no_published_figure(result):
    assert published(result("an", data="VOC2012", items=VOC["items"])) is None


def test_the_tables_name_methods_and_data_that_exist():
    names = {field.name for field in dataclasses.fields(PublishedFigure)}
    assert names - {"mode", "source", "options", "scores"} == PUBLIC.keys() == PARTS_OF_NAMES.keys()
    for info in METHODS.values():
        rows = [(figure.mode, figure.source, str(figure.options)) for figure in info.published]
        assert len(set(rows)) == len(rows)
        assert {mode for mode, *_ in rows} <= {"linear", "finetune", "linear_init", "labelwise"}
        for figure in info.published:
            places = ("CVPR", "ECCV", "ICLR", "IJCAI", "NeurIPS", "ICCV", "arXiv")
            assert any(place in figure.source for place in places)


def test_figures_agree_with_the_method_sheet(shared):
    """Every figure of the sheet's section on published results that has a row of its own."""
    sheet = (shared / "METHODS.md").read_text(encoding="utf-8")
    names = {"BCE, all labels": "bce", "AN-LS": "an_ls", "N-LS": "n_ls", "LAC (LEM)": "lac"}
    names |= {"AN": "an", "WAN": "wan", "Focal": "focal", "ASL": "asl", "ROLE": "role"}
    names |= {"SPLC": "splc", "EM": "em", "EM + APL": "em_apl", "LASD": "lasd", "GR": "gr"}
    found = 0
    for line in sheet.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 6 and cells[0] in names and cells[1].replace(".", "").isdigit():
            info = METHODS[names[cells[0]]]
            figure = next(figure for figure in info.published if figure.mode == "finetune")
            figures = (figure.voc, figure.coco, figure.nuswide, figure.cub)
            assert figures == tuple(map(float, cells[1:5])), cells[0]
            found += 1
    assert found == len(names)
