"""What is guaranteed about thresholds is true in at least 90 % of many draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from plusone.data.matrix import LabelMatrix
from plusone.probabilities.bound import at_most, counted
from plusone.probabilities.calibration import Calibration, HeldOut
from plusone.probabilities.guarantees import (
    Labels,
    fewest,
    fixed_list,
    items_needed,
    precision_threshold,
    recall_threshold,
)
from plusone.probabilities.left_out import NONE, LeftOut, kept_scores

TARGET, CLASSES = 0.9, 6
ENOUGH = 0.9 - 2 * (0.9 * 0.1 / 200) ** 0.5  # of 200 draws, two standard errors below 90 %


def world(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits of labels that depend on each other, and labels drawn by them; none is empty."""
    rng = np.random.default_rng([seed, n])
    z = rng.normal(-1.6, 2.2, size=(n, CLASSES)) + rng.normal(size=(n, 1))
    truth = rng.random(z.shape) < 1 / (1 + np.exp(-z))
    kept = truth.any(axis=1)
    return z[kept], truth[kept]


def score(z: np.ndarray) -> np.ndarray:
    """Scores that are too sure."""
    return 1 / (1 + np.exp(-(1.5 * z + 0.5)))


def labels(z: np.ndarray, truth: np.ndarray | None = None) -> Labels:
    unit = np.repeat(np.arange(len(z)), CLASSES)
    return Labels(score(z).ravel(), unit, None if truth is None else truth.ravel())


@pytest.fixture(scope="module")
def many() -> tuple[np.ndarray, np.ndarray]:
    z, truth = world(30_000, 1)
    return score(z), truth


@pytest.mark.parametrize("audited", [150, 400])
def test_the_precision_is_reached_in_nine_of_ten_draws(many, audited):
    scores, truth = many
    kept = []
    for seed in range(200):
        z, known = world(900, seed)
        thresholds = fixed_list(labels(z), audited / len(z), TARGET)
        found = precision_threshold(labels(z[:audited], known[:audited]), thresholds, TARGET)
        true = 1.0 if found.threshold is None else truth[scores > found.threshold].mean()
        kept.append(true >= TARGET)
    assert np.mean(kept) >= ENOUGH


def test_a_bad_model_gets_no_threshold_more_often_than_the_level_allows():
    rng = np.random.default_rng(0)
    given = 0
    for _ in range(200):  # every label is right with 0.88, whatever its score
        p, right = rng.random(300), rng.random(300) < 0.88
        thresholds = fixed_list(Labels(p, np.arange(300)), 1.0, TARGET)
        assert len(thresholds) > 5
        audited = Labels(p, np.arange(300), right)
        given += precision_threshold(audited, thresholds, TARGET).threshold is not None
    assert 0 < given <= 0.1 * 200


def test_the_list_is_fixed_before_the_answers_and_goes_from_strict_to_loose():
    z, _ = world(900, 3)
    thresholds = fixed_list(labels(z), 0.3, TARGET)
    assert (np.diff(thresholds) < 0).all()
    first = labels(z).above(float(thresholds[0]))
    expected = 0.3 * counted(np.ones(first.sum()), labels(z).unit[first])
    assert expected >= 2 * fewest(TARGET) - 1
    assert not len(fixed_list(labels(z), 0.001, TARGET))


def test_labels_of_one_item_count_as_right_or_wrong_together():
    p, right = np.full(60, 0.95), np.ones(60, dtype=bool)
    alone, together = np.arange(60), np.repeat(np.arange(20), 3)
    some = np.array([0.9])
    assert precision_threshold(Labels(p, alone, right), some, TARGET).threshold == 0.9
    assert precision_threshold(Labels(p, together, right), some, TARGET).threshold is None


def test_the_number_of_items_needed_is_enough_most_of_the_time():
    z, _ = world(3000, 5)
    p = 1 / (1 + np.exp(-z))
    every = Labels(p.ravel(), np.repeat(np.arange(len(z)), CLASSES))
    needed = items_needed(every, len(z), TARGET)
    given = 0
    for seed in range(50):
        own, known = world(int(1.3 * needed) + 100, seed)
        q = 1 / (1 + np.exp(-own[:needed]))
        audited = Labels(q.ravel(), np.repeat(np.arange(needed), CLASSES), known[:needed].ravel())
        thresholds = fixed_list(every, needed / len(z), TARGET)
        given += precision_threshold(audited, thresholds, TARGET).threshold is not None
    assert given >= 30
    assert items_needed(Labels(np.full(100, 0.5), np.arange(100)), 100, TARGET) is None


def kept(z: np.ndarray, truth: np.ndarray, seed: int) -> LeftOut:
    """What a run keeps of items with one label seen, by true probabilities."""
    rng = np.random.default_rng(seed)
    seen = (truth * rng.random(truth.shape)).argmax(axis=1)
    observed = LabelMatrix.from_dense(np.eye(CLASSES, dtype=np.int8)[seen])
    right = Calibration((), (1.0,), (0.0,) * CLASSES, "truth", "")
    return kept_scores(
        HeldOut(torch.from_numpy(z).float(), observed), right, 10 + np.arange(len(z))
    )


def test_the_recall_is_reached_in_nine_of_ten_draws_by_seen_labels_alone():
    z, truth = world(30_000, 1)
    overall, first, unweighted = [], [], []
    for seed in range(200):
        own, known = world(500, seed)
        found = kept(own, known, seed)
        at = (found.positive).numpy()
        p = torch.sigmoid(found.log_odds[at]).double().numpy()
        label, weight = found.label[at].numpy(), found.weight.double().numpy()
        assert (found.item[at] == torch.arange(len(own))).all()
        unit = np.arange(len(p))
        everyone = 1 / (1 + np.exp(-z))
        t = recall_threshold(p, weight, unit, TARGET)
        overall.append((everyone[truth] > t).mean() >= TARGET)
        t = recall_threshold(p, np.ones(len(p)), unit, TARGET)
        unweighted.append((everyone[truth] > t).mean() >= TARGET)
        one = label == 0
        t = recall_threshold(p[one], weight[one], unit[one], TARGET)
        first.append((everyone[truth[:, 0], 0] > t).mean() >= TARGET)
    assert np.mean(overall) >= ENOUGH
    assert np.mean(first) >= ENOUGH
    assert np.mean(unweighted) != np.mean(overall)  # the weights matter


def test_the_weight_is_the_expected_number_of_labels():
    sure = torch.tensor([[30.0, 30.0, 30.0, -30.0], [30.0, -30.0, -30.0, -30.0]])
    observed = LabelMatrix.from_dense(np.array([[1, 0, 0, 0], [1, 0, 0, 0]], dtype=np.int8))
    right = Calibration((), (1.0,), (0.0,) * 4, "truth", "")
    found = kept_scores(HeldOut(sure, observed), right, np.arange(len(sure)))
    assert found.weight.tolist() == pytest.approx([3, 1])
    assert found.label.tolist() == [0, 1, 2, 0]  # improbable labels are not kept
    assert not found.complete.any()


def test_what_is_kept_is_small_and_comes_back_from_a_file():
    z, truth = world(300, 0)
    found = kept(z, truth, 0)
    again = LeftOut.of(found.tensors())
    assert again is not None
    assert all(torch.equal(getattr(again, name.split(".")[1]), value)
               for name, value in found.tensors().items())  # fmt: skip
    assert LeftOut.of({}) is None
    assert found.row[0] == 10
    assert (found.pick != NONE).all()
    assert len(found.item) < z.size


def test_too_few_positives_give_no_threshold():
    p = np.linspace(0.1, 1, fewest(TARGET))
    unit = np.arange(len(p))
    assert recall_threshold(p, np.ones(len(p)), unit, TARGET) < 0.1
    assert recall_threshold(p[1:], np.ones(len(p) - 1), unit[1:], TARGET) is None
    assert recall_threshold(p, np.ones(len(p)), unit // 2, TARGET) is None
    assert at_most(0.0, 0.0) == 1.0
