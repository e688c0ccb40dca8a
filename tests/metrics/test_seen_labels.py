"""Scores on seen labels: against plain loops, and where the answer is known."""

import itertools
import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from plusone.errors import InputError
from plusone.metrics.seen_labels import (
    DEFAULT,
    SCORES,
    corrected_map,
    log_rank,
    pick_likelihood,
    reciprocal_rank,
    score_name,
    seen_auc,
    seen_map,
    top_recall,
    weighted_auc,
)
from plusone.recipe import Recipe, make_recipe


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


@pytest.mark.parametrize("name", SCORES)
def test_every_score_is_higher_for_better_models(name):
    rng = np.random.default_rng(0)
    truth = rng.random((400, 6)) < 0.3
    truth[~truth.any(1), 0] = True
    seen = np.zeros(truth.shape, dtype=np.int8)
    for row, labels in enumerate(truth):
        seen[row, rng.choice(np.flatnonzero(labels))] = 1
    noise = rng.normal(size=truth.shape)
    values = [
        SCORES[name].function(1 / (1 + np.exp(-(4 * truth - 2 + spread * noise))), seen)
        for spread in (0.1, 2.0, 8.0)
    ]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == 3
    assert all(map(math.isfinite, values))


def test_names():
    assert score_name("auto") == DEFAULT
    with pytest.raises(InputError, match="did you mean 'seen_auc'"):
        score_name("seen-auc")


def test_a_recipe_refuses_unknown_scores():
    assert Recipe().select_by == "auto"
    assert make_recipe({"select_by": "seen_map"}).select_by == "seen_map"
    with pytest.raises(InputError, match=r"^recipe: select_by = 'best': unknown selection score"):
        make_recipe({"select_by": "best"})
