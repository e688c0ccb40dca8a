"""Calibration: what it is fitted on, that it is right, and that it never changes an order."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from plusone import fit
from plusone.data import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.metrics import expected_calibration_error
from plusone.probabilities.calibration import (
    Calibration,
    HeldOut,
    fit_calibration,
    read_calibration,
    write_calibration,
)
from plusone.probabilities.k import LabelsPerItem

CURVE = Calibration((-1.0, 0.5), (3.0, 1.0, 0.25), (0.5, -1.5), "seen", "some items", 1.5)


class Draw:
    """Items with known probabilities, and scores that are a wrong but increasing map of them."""

    def __init__(self, n=1200, classes=8, seed=0):
        rng = np.random.default_rng(seed)
        z = torch.from_numpy(rng.normal(-1.5, 2.0, size=(n, classes)))
        self.p = torch.sigmoid(z).numpy()
        self.y = rng.random(z.shape) < self.p
        some = self.y.any(axis=1)
        self.p, self.y, z = self.p[some], self.y[some], z[torch.from_numpy(some)]
        self.scores = torch.where(z > 0, 0.4 * z, 0.8 * z) + 2.0
        picks = (self.y * (rng.random(self.y.shape) + 1)).argmax(axis=1)
        self.seen = np.eye(classes, dtype=np.int8)[picks]
        self.k = float(self.y.sum(axis=1).mean())

    def error(self, calibration):
        p = torch.sigmoid(calibration(self.scores)).numpy()
        assert p.mean() == pytest.approx(self.y.mean(), rel=0.1)
        return expected_calibration_error(p, self.y.astype(int))


@pytest.fixture(scope="module")
def draw():
    return Draw()


def test_seen_labels_and_k_give_probabilities(draw):
    held_out = HeldOut(draw.scores, LabelMatrix.from_dense(draw.seen))
    found = fit_calibration(held_out, LabelsPerItem.given(draw.k))
    assert (found.origin, found.k) == ("seen", draw.k)
    raw = torch.sigmoid(draw.scores).numpy()
    assert expected_calibration_error(raw, draw.y.astype(int)) > 0.3
    assert draw.error(found) < 0.03


def test_all_labels_need_no_k(draw):
    truth = LabelMatrix.from_dense(np.where(draw.y, 1, -1).astype(np.int8), default=-1)
    found = fit_calibration(HeldOut(draw.scores, truth), None)
    assert found.origin == "truth"
    assert "all labels of" in found.sentence()
    assert draw.error(found) < 0.02


def test_an_audit_counts_k(draw):
    states = draw.seen.copy()
    states[:100] = np.where(draw.y[:100], 1, -1)
    found = fit_calibration(
        HeldOut(draw.scores, LabelMatrix.from_dense(states)), LabelsPerItem.given(1.5 * draw.k)
    )
    assert found.origin == "audit"
    assert found.k == draw.y[:100].sum(axis=1).mean()
    assert draw.error(found) < 0.03


def test_a_map_of_the_scores_does_not_matter(draw):
    labels = LabelMatrix.from_dense(draw.seen)
    one = fit_calibration(HeldOut(draw.scores, labels), LabelsPerItem.given(draw.k))
    other = fit_calibration(HeldOut(100 * draw.scores - 7, labels), LabelsPerItem.given(draw.k))
    found = other(100 * draw.scores - 7)
    torch.testing.assert_close(found, one(draw.scores), atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_a_class_stays(seed):
    draw = Draw(200, 4, seed)
    found = fit_calibration(
        HeldOut(draw.scores, LabelMatrix.from_dense(draw.seen)), LabelsPerItem.given(draw.k)
    )
    x = torch.linspace(-60, 60, 2001).double()[:, None].expand(-1, 4)
    assert (found(x).diff(dim=0) > 0).all()  # also where probabilities round to 1


def test_k_is_no_less_than_what_is_seen(draw):
    states = np.where(draw.y & (np.cumsum(draw.y, axis=1) <= 2), 1, 0).astype(np.int8)
    found = fit_calibration(
        HeldOut(draw.scores, LabelMatrix.from_dense(states)), LabelsPerItem.given(1.0)
    )
    assert found.k == states.sum(axis=1).mean() > 1.3


def test_too_few_items_or_an_unknown_k_say_so():
    draw = Draw(19)
    few = fit_calibration(
        HeldOut(draw.scores, LabelMatrix.from_dense(draw.seen)), LabelsPerItem.given(2.0)
    )
    assert not few.calibrated
    assert torch.equal(few(draw.scores), draw.scores)
    assert "not calibrated (" in few.sentence()
    assert "validation items have seen labels, and 20 are needed" in few.sentence()
    draw = Draw(60)
    unknown = fit_calibration(HeldOut(draw.scores, LabelMatrix.from_dense(draw.seen)), None)
    assert unknown.note == "the number of labels per item is not known"


def test_the_inverse():
    y = np.linspace(-8, 4, 60)
    x = np.stack([CURVE.inverse(np.full(2, value)) for value in y])
    np.testing.assert_allclose(CURVE(torch.from_numpy(x)), np.stack([y, y], axis=1), atol=1e-12)
    none = Calibration.none(2)
    assert (none.inverse(np.array([1.0, 2.0])) == [1, 2]).all()


def test_written_and_read_back(tmp_path):
    write_calibration(tmp_path, ("a", "b"), CURVE)
    assert read_calibration(tmp_path, ("a", "b")) == CURVE
    assert read_calibration(tmp_path, ("b", "a")) == replace(CURVE, offsets=(-1.5, 0.5))
    write_calibration(tmp_path, ("a", "b"), Calibration.none(2, "too few"))
    assert read_calibration(tmp_path, ("a", "b")) == Calibration.none(2, "too few")
    (tmp_path / "calibration.json").unlink()
    old = read_calibration(tmp_path, ("a", "b")).sentence()
    assert old == "probabilities: raw scores, not calibrated (the run holds no calibration)"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"from": "moon"}, "is not what plusone train writes"),
        ({"offsets": {"a": 1.0}}, "None is not a number"),
        ({"slopes": [3.0, -1.0, 0.25]}, "is not increasing"),
        ({"slopes": [1.0]}, "is not increasing"),
        ({"knots": [1.0, 0.0]}, "is not increasing"),
        ({"knots": "x"}, "None is not a number"),
        ({"knots": [1.0, True]}, "True is not a number"),
    ],
)
def test_broken_files(tmp_path, change, sentence):
    content = CURVE.to_json(("a", "b")) | change
    (tmp_path / "calibration.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=sentence):
        read_calibration(tmp_path, ("a", "b"))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["em", "recovery"])
def test_a_training_gives_probabilities_from_one_label_per_item(method):
    """From features and single labels alone, without k: the claim of docs/evidence, in small."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 10)).astype(np.float32)
    y = 3 * x[:, :6] - 2 + rng.logistic(size=(1500, 6)) > 0
    y[np.arange(1500), x[:, :6].argmax(axis=1)] = True
    test = np.arange(1500) >= 900
    split = np.where(test, "test", "train")
    data = Dataset.from_arrays(x, y.astype(int), complete=True, split=split)
    fitted = fit(data, method, select_on="observed", probe="off")
    assert fitted.calibration.origin == "seen"
    p, raw = fitted.predict(x[test]), fitted.scores(x[test])
    error = expected_calibration_error(p, y[test].astype(int))
    assert error < 0.05
    assert error < expected_calibration_error(raw, y[test].astype(int)) / 2
    assert p.mean() == pytest.approx(y[test].mean(), rel=0.2)
    measured = fitted.result.test_calibrated
    assert measured["ece"] == pytest.approx(error, abs=1e-6)
    assert measured["mean_probability"] == pytest.approx(p.mean(), abs=1e-6)
    for c in range(6):
        order = np.argsort(raw[:, c], kind="stable")
        assert (np.diff(p[order, c]) >= 0).all()
    if method == "recovery":
        assert "900 items that were each left out" in fitted.calibration.sentence()
