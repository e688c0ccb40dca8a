"""Product categories with `classes.csv`: training, tags, missing labels, evaluation, export."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from plusone.cli.app import main
from plusone.commands import train
from plusone.data.classes_file import with_parents
from plusone.data.dataset import Dataset
from plusone.data.hierarchy import Hierarchy
from plusone.data.matrix import LabelMatrix
from plusone.prediction.evaluate import evaluate_run
from plusone.prediction.load import load_run
from plusone.prediction.run_folder import read_metrics, read_observed
from plusone.probabilities.calibration import Calibration
from plusone.probabilities.consistent import as_predicted, consistent
from plusone.probabilities.k import LabelsPerItem, with_implied
from plusone.probabilities.thresholds import Thresholds, read_thresholds
from plusone.report.classes import per_class
from plusone.report.material import collect
from plusone.suggestions.folder import read_suggestions
from plusone.training.api import fit

PARENTS = {
    "sneakers": "shoes",
    "boots": "shoes",
    "shirts": "clothes",
    "coats": "clothes",
    "mugs": "kitchen",
    "pans": "kitchen",
    "shoes": "fashion",
    "clothes": "fashion",
    "kitchen": "home",
    "fashion": "",
    "home": "",
}
LEAVES = tuple(PARENTS)[:6]
N, D = 260, 12


def products() -> Dataset:
    """Products with one or two categories each, of which one is seen; a quarter is for testing."""
    rng = np.random.default_rng(0)
    truth = np.eye(6, dtype=np.int8)[rng.integers(6, size=N)]
    truth |= np.eye(6, dtype=np.int8)[rng.integers(6, size=N)]
    x = truth @ rng.normal(size=(6, D)) + 0.7 * rng.normal(size=(N, D))
    split = np.where(np.arange(N) < 195, "train", "test")
    data = Dataset.from_arrays(
        x.astype(np.float32), truth, complete=True, classes=LEAVES, split=split, name="products"
    )
    return replace(data, table=with_parents(data.table, PARENTS))


def violations(classes: tuple[str, ...], p: np.ndarray) -> int:
    """How often a class is more probable than its parent."""
    place = classes.index
    return sum(
        int((p[:, place(name)] > p[:, place(parent)]).sum())
        for name, parent in PARENTS.items()
        if parent
    )


@pytest.mark.parametrize("method", ["recovery", "gr", "an", "em"])
def test_every_method_learns_closed_labels_and_gives_consistent_probabilities(method: str) -> None:
    data = products()
    settings = {} if method == "recovery" else {"epochs": 4, "lr": 0.01, "batch_size": 16}
    fitted = fit(data, method, **settings)
    seen = fitted.training.task.train.observed.dense()
    classes = fitted.training.task.classes
    assert (seen.sum(axis=1) == 3).all()  # a category, and the two above it
    p = fitted.predict(data.features[data.table.rows_of("test")])
    assert violations(classes, p) == 0
    unprojected = replace(fitted.predictor, hierarchy=None)
    assert violations(classes, fitted._predict(unprojected, data.features[195:])) > 0
    cuts = fitted.thresholds.array
    assert all(
        cuts[classes.index(parent)] <= cuts[classes.index(name)]
        for name, parent in PARENTS.items()
        if parent
    )
    top, middle, leaf = (value or 0.0 for value in fitted.result.test_map_by_level)
    ap = [value or 0.0 for value in fitted.result.test_ap or ()]
    assert leaf == pytest.approx(np.mean(ap[:6]))
    assert top == pytest.approx(np.mean([ap[classes.index(name)] for name in ("fashion", "home")]))
    assert middle > 0.5


@pytest.fixture(scope="module")
def run(once: Callable[..., Path]) -> Path:
    """A run on labels in a file, with `classes.csv` beside it."""

    def make(folder: Path) -> None:
        data = products()
        assert data.table.truth is not None
        hidden = data.table.truth.dense()[:, :6] == 1
        picks = (hidden * np.random.default_rng(1).random(hidden.shape)).argmax(axis=1)
        with (folder / "labels.csv").open("w") as text:
            rows = csv.writer(text)
            rows.writerow(["image", "labels"])
            rows.writerows([f"p{row}", LEAVES[picks[row]]] for row in range(195))
        ids = np.array([f"p{row}" for row in range(195)])
        np.savez(folder / "x.npz", x=np.asarray(data.features)[:195], ids=ids)
        text = "".join(f"{name},{parent}\n" for name, parent in PARENTS.items())
        (folder / "classes.csv").write_text(f"class,parent\n{text}")
        train(folder / "labels.csv", features=folder / "x.npz", out=folder / "run")

    return once("products", make) / "run"


def test_a_run_keeps_the_hierarchy(run: Path) -> None:
    observed = read_observed(run)
    assert observed.hierarchy is not None
    assert observed.hierarchy.depth == 3
    assert (observed.labels.per_item(1) == 3).all()
    predictor = load_run(run, "cpu")
    assert predictor.hierarchy == observed.hierarchy
    (run.parent / "classes.csv").write_text("class,parent\nboots,home\nhome,\n")  # changed since
    assert load_run(run, "cpu").hierarchy == observed.hierarchy
    assert read_metrics(run).k_from != "given"
    assert read_thresholds(run, predictor.classes).origin == "probabilities"


def test_tags_and_missing_labels_agree_with_it(run: Path, tmp_path: Path) -> None:
    tags = tmp_path / "tags.csv"
    with pytest.raises(SystemExit) as left:
        main(["predict", str(run), str(run.parent / "x.npz"), "--out", str(tags)])
    assert left.value.code == 0
    rows = list(csv.DictReader(tags.open()))
    for row in rows:
        own = row["labels"].split("|") if row["labels"] else []
        for name in own:
            assert not PARENTS[name] or PARENTS[name] in own, row
    with pytest.raises(SystemExit) as left:
        main(["suggest", str(run), "--out", str(tmp_path / "s"), "--also", "probabilities"])
    assert left.value.code == 0
    with np.load(tmp_path / "s" / "probabilities.npz") as found:
        classes = tuple(found["classes"].tolist())
        assert violations(classes, found["probabilities"]) == 0
        assert (found["seen"] == 1).sum(axis=1).tolist() == [3] * 195
    assert read_suggestions(tmp_path / "s").table.hierarchy == load_run(run, "cpu").hierarchy


def test_an_audit_that_names_categories_has_those_above_them(run: Path, tmp_path: Path) -> None:
    from plusone.prediction.run_folder import read_audit

    audit = tmp_path / "audit.csv"
    audit.write_text("image,labels\np0,boots|mugs\np1,pans\n")
    table = read_audit(audit, run)
    names = [[table.classes[label] for label in table.labels.positives(row)] for row in (0, 1)]
    assert set(names[0]) == {"boots", "shoes", "fashion", "mugs", "kitchen", "home"}
    assert set(names[1]) == {"pans", "kitchen", "home"}


def test_exports_agree_with_it(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    ort = pytest.importorskip("onnxruntime")
    with pytest.raises(SystemExit) as left:
        main(["export", str(run), "--out", str(tmp_path / "model"), "--onnx"])
    assert left.value.code == 0
    with np.load(run.parent / "x.npz") as stored:
        x = stored["x"]
    session = ort.InferenceSession(str(tmp_path / "model" / "model.onnx"))
    (p,) = session.run(None, {session.get_inputs()[0].name: x})
    predictor = load_run(tmp_path / "model", "cpu")
    assert violations(predictor.classes, p) == 0
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["classes"]) == list(predictor.classes)
    expected = torch.sigmoid(predictor.from_logits(predictor.model(torch.from_numpy(x)).logits))
    np.testing.assert_allclose(p, expected.detach().numpy(), atol=1e-5)
    assert violations(predictor.classes, expected.detach().numpy()) == 0


def test_the_projection_is_the_largest_below() -> None:
    tree = Hierarchy((3, 3, 4, 4, None, None))  # 0 and 1 below 3, 2 and 3 below 4
    z = torch.tensor([[0.1, 0.7, 0.2, 0.4, 0.3, 0.9]])
    assert consistent(z, tree).tolist() == torch.tensor([[0.1, 0.7, 0.2, 0.7, 0.7, 0.9]]).tolist()
    torch.testing.assert_close(consistent(torch.logit(z), tree), torch.logit(consistent(z, tree)))
    assert consistent(z, None) is z
    curve = Calibration((-0.5, 1.0), (0.5, 1.0, 2.0), (0.1, -0.3, 0.0, 1.0, -1.0, 0.0), "seen", "")
    scores = torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    after = as_predicted(scores, curve, tree)
    torch.testing.assert_close(curve(after), consistent(curve(scores), tree), atol=1e-5, rtol=1e-5)
    cuts = Thresholds((0.2, 0.3, 0.6, 0.5, 0.4, 0.5), "given").within(tree)
    assert cuts.values == (0.2, 0.3, 0.6, 0.2, 0.2, 0.5)


def test_labels_per_item_have_those_that_follow_from_them() -> None:
    tree = Hierarchy((2, 2, None, None))
    named = LabelMatrix.from_dense([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1]])
    k = with_implied(LabelsPerItem(2.0, 1.0, 3.0, 4), named, tree)
    assert (k.low, k.k, k.high) == (1.5, 2.75, 3.875)  # half of the labels lie below class 2


def test_report_and_evaluation_have_levels(tmp_path: Path) -> None:
    data = products()
    result = train(data, out=tmp_path / "run")
    section = per_class(collect([tmp_path / "run"]))
    levels = next(block for block in section.blocks if block.kind == "table")
    assert levels.caption == "Levels of the hierarchy"
    assert [row[2].text for row in levels.rows] == ["2", "3", "6"]
    assert [row[3].value for row in levels.rows] == list(result.test_map_by_level)
    found = evaluate_run(load_run(tmp_path / "run", "cpu"), data, "test")
    assert found.map_by_level == pytest.approx(result.test_map_by_level, abs=1e-3)
    assert "mAP by level, the top first: " in found.sentences()[-1]
