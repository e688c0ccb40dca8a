"""Scores of the order of labels, against plain loops and where the answer is known."""

import itertools
import math

import numpy as np
import pytest

from plusone.metrics.seen_labels import pick_likelihood, reciprocal_rank, top_recall


def ranks(found, observed):
    """Rank of each seen label within its item, ties in the middle."""
    for row, seen in zip(found, observed, strict=True):
        for label in np.flatnonzero(seen == 1):
            more = sum(value > row[label] for value in row)
            ties = sum(value == row[label] for value in row) - 1
            yield 1 + more + ties / 2


def test_ranks_against_loops(case):
    found, observed = case
    each = list(ranks(found, observed))
    assert reciprocal_rank(found, observed) == pytest.approx(np.mean([1 / rank for rank in each]))
    for k in (1, 3):
        assert top_recall(found, observed, k) == pytest.approx(np.mean([r <= k for r in each]))


def picked(p, label):
    """Probability that a label is picked, over all label sets that are not empty."""
    total, some = 0.0, 0.0
    for labels in itertools.product((0, 1), repeat=len(p)):
        if any(labels):
            chance = math.prod(v if y else 1 - v for v, y in zip(p, labels, strict=True))
            some += chance
            total += chance * labels[label] / sum(labels)
    return total / some


def test_pick_likelihood_over_all_label_sets():
    rng = np.random.default_rng(0)
    found = rng.uniform(0.02, 0.98, size=(6, 5))
    observed = np.zeros((6, 5), dtype=int)
    labels = rng.integers(5, size=6)
    observed[np.arange(6), labels] = 1
    wanted = [math.log(picked(row, label)) for row, label in zip(found, labels, strict=True)]
    assert pick_likelihood(found, observed) == pytest.approx(np.mean(wanted), rel=1e-9)


def test_pick_likelihood_of_many_classes():
    """With equal probabilities every label is picked alike, however many there are."""
    observed = np.zeros((2, 400), dtype=int)
    observed[:, 7] = 1
    for p in (0.001, 0.1, 0.9):
        assert pick_likelihood(np.full((2, 400), p), observed) == pytest.approx(-math.log(400))


def test_pick_likelihood_bears_certainty():
    observed = np.array([[1, 0]])
    assert pick_likelihood(np.array([[1.0, 0.0]]), observed) == pytest.approx(0, abs=1e-5)
    assert pick_likelihood(np.array([[0.0, 1.0]]), observed) < -10
    assert math.isfinite(pick_likelihood(np.array([[0.0, 0.0]]), observed))


@pytest.mark.parametrize("score", [reciprocal_rank, top_recall, pick_likelihood])
def test_items_without_a_seen_label_do_not_count(score, case):
    found, observed = case
    more = np.concatenate([found, found[:3]])
    nothing = np.minimum(observed[:3], 0)
    assert score(more, np.concatenate([observed, nothing])) == pytest.approx(score(found, observed))
    with pytest.raises(ValueError, match="no label is a seen positive"):
        score(found[:3], nothing)
