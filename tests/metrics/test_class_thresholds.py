import numpy as np
import pytest
import torch
from scipy.special import logit
from sklearn.metrics import f1_score

from plusone.metrics.threshold import (
    SHRINKAGE_F1,
    SHRINKAGE_PRODUCT,
    _best,
    _common,
    thresholds_by_expected_f1,
    thresholds_from,
)


def made(n: int, seed: int = 0, seen: bool = True):
    """Two classes whose scores separate at 0.2 and at 0.8; one seen label per item."""
    chance = np.random.default_rng(seed)
    truth = chance.random((n, 2)) < 0.5
    truth[~truth.any(axis=1), 0] = True
    noise = chance.uniform(0, 0.15, size=(n, 2))
    scores = np.where(truth, [0.25, 0.82], [0.0, 0.62]) + noise
    observed = np.where(truth, 1, -1)
    if seen:
        kept = np.array([chance.choice(np.flatnonzero(row)) for row in truth])
        observed = np.zeros((n, 2), dtype=int)
        observed[np.arange(n), kept] = 1
    return scores, observed, truth


def naive_best(scores, positives, prior):
    """Tries a cut below every seen positive."""
    found = []
    for cut in sorted(scores[positives]):
        recall = (scores[positives] >= cut).mean()
        share = (scores >= cut).mean()
        quality = recall**2 / share if prior is None else 2 * recall * prior / (prior + share)
        below = scores[scores < cut]
        found.append((quality, (cut + (below.max() if below.size else 0)) / 2))
    top = max(quality for quality, _ in found)
    return max(cut for quality, cut in found if quality == pytest.approx(top, abs=1e-12))


@pytest.mark.parametrize("prior", [None, 0.1, 0.6])
@pytest.mark.parametrize("seed", range(6))
def test_the_best_cut_of_a_class_against_a_naive_loop(seed, prior):
    chance = np.random.default_rng(seed)
    scores = chance.random(40).round(2 if seed % 2 else 6)
    positives = chance.random(40) < scores * 0.6
    positives[0] = True
    found = _best(np.sort(scores), scores[positives], prior)
    assert found == pytest.approx(naive_best(scores, positives, prior))


@pytest.mark.parametrize("k", [None, 1.3])
def test_many_seen_labels_find_the_gap_of_each_class(k):
    scores, observed, truth = made(4000)
    found = thresholds_from(scores, observed, expected_positives=k)
    assert ((scores > found) == truth).mean() > 0.99
    complete = thresholds_from(scores, np.where(truth, 1, -1))
    assert ((scores > complete) == truth).mean() > 0.99


def test_few_seen_labels_are_drawn_to_the_common_threshold():
    scores, observed, _ = made(6, seed=3)
    positive = observed == 1
    ordered = np.sort(scores.T, axis=1)
    common = _common(scores, positive, ordered, None)
    found = thresholds_from(scores, observed)
    logit = lambda p: np.log(p / (1 - p))  # noqa: E731
    for label, count in enumerate(positive.sum(axis=0)):
        own = _best(ordered[label], scores[positive[:, label], label], None)
        share = count / (count + SHRINKAGE_PRODUCT)
        expected = share * logit(own) + (1 - share) * logit(common)
        assert logit(found[label]) == pytest.approx(expected)
    assert SHRINKAGE_F1 < SHRINKAGE_PRODUCT


def test_a_class_that_was_never_seen_gets_the_common_threshold():
    scores, observed, _ = made(200)
    wide = np.hstack([scores, np.full((200, 1), 0.4)])
    labels = np.hstack([observed, np.zeros((200, 1), dtype=int)])
    found = thresholds_from(wide, labels)
    # The class adds nothing to the others, and its threshold is between theirs.
    assert found[:2] == pytest.approx(thresholds_from(scores, observed), abs=0.05)
    assert 0 < found[2] < 1
    assert (thresholds_from(wide, np.zeros_like(labels)) == 0.5).all()


def test_more_expected_positives_lower_thresholds():
    chance = np.random.default_rng(0)
    scores = chance.random((2000, 3))
    observed = (chance.random((2000, 3)) < 0.2 * scores**2).astype(int)
    few = thresholds_from(scores, observed, expected_positives=0.2)
    many = thresholds_from(scores, observed, expected_positives=2.0)
    assert (many < few - 0.05).all()


def test_tensors_and_extreme_scores():
    scores = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    observed = torch.tensor([[1, 0], [1, 0], [0, 1], [0, 1]])
    found = thresholds_from(scores, observed)
    assert ((found > 0) & (found < 1)).all()
    assert ((scores.numpy() > found) == (observed.numpy() == 1)).all()


def test_bad_inputs_are_refused():
    with pytest.raises(ValueError, match=r"scores must be in \[0, 1\]"):
        thresholds_from(np.array([[2.0]]), np.array([[1]]))
    with pytest.raises(ValueError, match="observed must have the shape of scores"):
        thresholds_from(np.array([[0.5]]), np.array([[1, 0]]))


def test_expected_f1_needs_no_labels():
    rng = np.random.default_rng(0)
    p = rng.beta([0.3, 1.0, 4.0], [3.0, 3.0, 3.0], size=(4000, 3))
    truth = rng.random(p.shape) < p
    found = thresholds_by_expected_f1(p)
    own = np.array([thresholds_by_expected_f1(p[:, [c]])[0] for c in range(3)])
    for c in range(3):
        cuts = np.linspace(0.02, 0.9, 45)
        f1 = [f1_score(truth[:, c], p[:, c] > cut) for cut in cuts]
        assert f1_score(truth[:, c], p[:, c] > own[c]) > max(f1) - 0.01
    pooled = thresholds_by_expected_f1(p.reshape(-1, 1))[0]
    assert (abs(own - pooled) > 0.005).all()  # otherwise the next line could not fail
    assert logit(found) == pytest.approx((logit(own) + logit(pooled)) / 2, abs=1e-9)
