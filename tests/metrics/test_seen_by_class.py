"""Scores of the order of items, against plain loops and where the answer is known."""

import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from plusone.metrics.seen_labels import corrected_map, log_rank, seen_auc, seen_map, weighted_auc


def seen_classes(observed):
    return [label for label in range(observed.shape[1]) if (observed[:, label] == 1).any()]


def above(column, item):
    """How many other items stand above an item, ties half."""
    others = [value for number, value in enumerate(column) if number != item]
    return sum(1.0 if v > column[item] else 0.5 if v == column[item] else 0.0 for v in others)


def test_seen_map_is_that_of_scikit_learn(case):
    found, observed = case
    each = [
        average_precision_score(observed[:, label] == 1, found[:, label])
        for label in seen_classes(observed)
    ]
    assert seen_map(found, observed) == pytest.approx(np.mean(each))


def test_areas_are_those_of_scikit_learn(case):
    found, observed = case
    classes = seen_classes(observed)
    areas = [roc_auc_score(observed[:, label] == 1, found[:, label]) for label in classes]
    weights = [math.sqrt((observed[:, label] == 1).sum()) for label in classes]
    assert len(classes) == 4
    assert seen_auc(found, observed) == pytest.approx(np.mean(areas))
    assert weighted_auc(found, observed) == pytest.approx(np.average(areas, weights=weights))


def test_log_rank_and_corrected_map_against_loops(case):
    found, observed = case
    logs, maps = [], []
    for label in seen_classes(observed):
        column = found[:, label]
        places = sorted(above(column, item) for item in np.flatnonzero(observed[:, label] == 1))
        logs.append(np.mean([-math.log((place + 1) / len(column)) for place in places]))
        maps.append(
            np.mean([min(1, 3 * j / (place + 1)) for j, place in enumerate(places, start=1)])
        )
    assert log_rank(found, observed) == pytest.approx(np.mean(logs))
    assert corrected_map(found, observed, k=3) == pytest.approx(np.mean(maps))


def test_corrected_map_without_its_limit_is_seen_map():
    found = np.linspace(1, 0, 50)[:, None]
    observed = np.zeros((50, 1), dtype=int)
    observed[[9, 30]] = 1
    assert corrected_map(found, observed, k=2) == pytest.approx(2 * seen_map(found, observed))


@pytest.mark.parametrize("score", [seen_auc, weighted_auc])
def test_areas_do_not_depend_on_the_scale_of_a_class(score, case):
    found, observed = case
    bent = np.stack([column**power for column, power in zip(found.T, range(1, 6), strict=True)], 1)
    assert score(bent, observed) == pytest.approx(score(found, observed))


@pytest.mark.parametrize("score", [seen_auc, weighted_auc])
def test_perfect_useless_and_inverted_orders(score):
    observed = np.eye(3, dtype=int)
    assert score(observed + 0.0, observed) == 1
    assert score(np.ones((3, 3)), observed) == 0.5
    assert score(-1.0 * observed, observed) == 0
    assert score(np.ones((2, 1)), np.ones((2, 1))) == 0.5  # all items are seen positives


def test_area_of_seen_positives_is_affine_in_the_true_area():
    """If positives are seen at random: (1 - h) AUC + h / 2."""
    rng = np.random.default_rng(0)
    truth = rng.random((20_000, 1)) < 0.3
    found = rng.normal(size=truth.shape) + 1.2 * truth
    seen = truth & (rng.random(truth.shape) < 0.4)
    hidden = (truth & ~seen).sum() / (~seen).sum()
    wanted = (1 - hidden) * roc_auc_score(truth, found) + hidden / 2
    assert seen_auc(found, seen) == pytest.approx(wanted, abs=0.01)


def test_precision_on_seen_labels_prefers_a_model_that_bets_on_the_pick():
    """The bet ranks items with one label above those with two; all labels call it the worse."""
    rng = np.random.default_rng(1)
    n = 4000
    both = rng.random(n) < 0.5
    has = both | (rng.random(n) < 0.3)
    truth = np.stack([has, both | ~has], 1)
    first = rng.random(n) < np.where(truth.all(1), 0.5, truth[:, 0])
    seen = np.stack([first, ~first], 1)
    noise = rng.normal(size=truth.shape)
    knows = truth + 0.3 * noise
    bets = truth / truth.sum(1, keepdims=True) + 0.3 * noise
    assert seen_map(knows, truth) > seen_map(bets, truth)
    assert seen_map(knows, seen) < seen_map(bets, seen)


def test_a_class_with_one_seen_positive_weighs_less():
    found, observed = np.zeros((100, 2)), np.zeros((100, 2), dtype=int)
    found[:, 0], found[:, 1] = np.arange(100), np.arange(100)
    observed[84:, 0] = 1  # 16, all on top
    observed[0, 1] = 1  # one, at the bottom
    assert seen_auc(found, observed) == 0.5
    assert weighted_auc(found, observed) == pytest.approx(4 / 5)


@pytest.mark.parametrize("score", [seen_map, seen_auc, weighted_auc, log_rank, corrected_map])
def test_nothing_seen_is_refused(score):
    with pytest.raises(ValueError, match="no label is a seen positive"):
        score(np.ones((3, 2)), np.array([[0, -1]] * 3))
