"""Thresholds by class: found on validation, kept in the run, read back."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.probabilities.calibration import Calibration, HeldOut
from plusone.probabilities.thresholds import (
    Thresholds,
    find_thresholds,
    read_thresholds,
    write_thresholds,
)


@pytest.fixture
def known():
    """Two classes whose positives lie above 0.3 and above 0.8."""
    rng = np.random.default_rng(0)
    scores = rng.uniform(size=(2000, 2))
    truth = LabelMatrix.from_dense(np.where(scores > (0.3, 0.8), 1, -1), default=-1)
    seen = np.where((truth.dense() == 1) & (rng.uniform(size=scores.shape) < 0.3), 1, 0)
    return scores, LabelMatrix.from_dense(seen), truth


def find(scores, labels):
    """Thresholds of scores that are not calibrated."""
    return find_thresholds(
        HeldOut(torch.logit(torch.from_numpy(scores)), labels), Calibration.none(2)
    )


def test_from_all_labels_and_from_the_seen_ones(known):
    scores, observed, truth = known
    best = find(scores, truth)
    assert best.origin == "truth"
    assert best.values == pytest.approx((0.3, 0.8), abs=0.03)
    seen = find(scores, observed)
    assert seen.origin == "seen"
    assert seen.values == pytest.approx((0.3, 0.8), abs=0.15)
    assert "per class, from the seen labels" in seen.sentence()


def test_they_follow_from_calibrated_probabilities(known):
    scores, observed, _ = known
    certain = Calibration((), (8.0,), (8 * np.log(7 / 3), -8 * np.log(4)), "seen", "a test")
    log_odds = torch.logit(torch.from_numpy(scores))
    best = find_thresholds(HeldOut(log_odds, observed), certain)
    assert best.origin == "probabilities"
    raw = best.of_scores(certain)
    assert raw.values == pytest.approx((0.3, 0.8), abs=0.03)
    predicted = torch.sigmoid(certain(log_odds)).numpy() > best.array
    assert (predicted == (scores > raw.array)).all()


def test_written_and_read_back(tmp_path):
    found = Thresholds((0.25, 0.75), "seen")
    write_thresholds(tmp_path, ("a", "b"), found)
    assert read_thresholds(tmp_path, ("a", "b")) == found
    assert read_thresholds(tmp_path, ("b", "a")).values == (0.75, 0.25)


def test_a_run_without_thresholds_uses_a_half_and_says_so(tmp_path):
    found = read_thresholds(tmp_path, ("a", "b"))
    assert found.values == (0.5, 0.5)
    assert found.sentence() == (
        "threshold: 0.5 for every class (the run holds no thresholds of its own)"
    )
    assert Thresholds.same(0.3, 2).sentence() == "threshold: 0.3 for every class"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "cannot be read"),
        ("[]", "is not what plusone train writes"),
        ('{"from": "moon", "thresholds": {"a": 0.5}}', "is not what plusone train writes"),
        ('{"from": "seen", "thresholds": {}}', "the threshold of 'a' is None"),
        ('{"from": "seen", "thresholds": {"a": 2}}', "the threshold of 'a' is 2"),
        ('{"from": "seen", "thresholds": {"a": true}}', "the threshold of 'a' is True"),
        ('{"from": "seen", "thresholds": {"a": NaN}}', "the threshold of 'a' is nan"),
    ],
)
def test_broken_files(tmp_path, content, sentence):
    (tmp_path / "thresholds.json").write_text(content)
    with pytest.raises(InputError, match=sentence):
        read_thresholds(tmp_path, ("a",))


def test_an_edited_file_counts(tmp_path):
    write_thresholds(tmp_path, ("a",), Thresholds((0.25,), "seen"))
    content = json.loads((tmp_path / "thresholds.json").read_text())
    content["thresholds"]["a"] = 0.9
    (tmp_path / "thresholds.json").write_text(json.dumps(content))
    assert read_thresholds(tmp_path, ("a",)).values == (0.9,)


def test_scores_that_crowd_at_the_edges_keep_their_thresholds(known):
    scores, observed, _ = known
    for small in (scores * 1e-4, 1 - (1 - scores) * 1e-4):
        found = find(small, observed)
        predicted = small > found.array
        assert predicted.any(axis=0).all()
        assert not predicted.all(axis=0).any()


def test_an_edited_file_is_not_called_one_threshold_for_all():
    assert Thresholds((0.2, 0.2), "given").sentence() == "threshold: 0.2 for every class"
    assert Thresholds((0.2, 0.3), "given").sentence() == "thresholds: per class, as given"
