"""Audits that are not drawn evenly are weighted back."""

import numpy as np

from plusone.probabilities.answers import Answers
from plusone.probabilities.drawing import draw_audit

from .conftest import as_calibrated, make


def test_weighted_means_of_drawn_items_are_those_of_all_items():
    made = make(600)
    found = as_calibrated(made.probabilities, made.observed)
    hidden = made.truth & (made.observed == 0)
    sizes, shares = hidden.sum(1), []
    for seed in range(200):
        rows, weight = draw_audit(found, 60, seed)
        assert len(rows) == len(np.unique(rows)) == 60
        shares.append((weight * sizes[rows]).sum() / weight.sum())
    error = np.std(shares) / np.sqrt(len(shares))
    assert abs(np.mean(shares) - sizes.mean()) < 4 * error


def test_weights_about_others_give_the_means_of_the_items_that_are_not_drawn():
    """Of 600 items 240 are drawn, those with many probable labels for sure: the rest has fewer."""
    made = make(600)
    known = as_calibrated(made.probabilities, made.observed)
    n, sizes = len(made.truth), (made.truth & (made.observed == 0)).sum(1)
    found, drawn, whole, yes = [], [], [], np.ones(240, dtype=bool)
    for seed in range(200):
        rows, weight = draw_audit(known, 240, seed)
        answers = Answers(rows, np.zeros(240, dtype=np.int64), yes, rows, weight=weight)
        others = answers.about_others(n)
        found.append((others * sizes[rows]).sum() / others.sum() - np.delete(sizes, rows).mean())
        drawn.append(sizes[rows].mean() - np.delete(sizes, rows).mean())
        whole.append((weight * sizes[rows]).sum() / weight.sum() - np.delete(sizes, rows).mean())
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found)) < max(4 * error, 0.03)
    assert np.mean(whole) > 0.2
    assert np.mean(drawn) > 0.4


def test_items_with_probable_labels_are_drawn_more_often():
    made = make(600)
    probable = ((made.probabilities > 0.5) & (made.observed == 0)).sum(1)
    rows, weight = draw_audit(as_calibrated(made.probabilities, made.observed), 60)
    assert probable[rows].mean() > 1.2 * probable.mean()
    assert np.corrcoef(weight, probable[rows])[0, 1] < -0.5


def test_few_items_are_all_drawn_and_complete_ones_never():
    made = make(40)
    made.observed[:5] = np.where(made.truth[:5], 1, -1)
    rows, weight = draw_audit(as_calibrated(made.probabilities, made.observed), 100)
    assert rows.tolist() == list(range(5, len(made.truth)))
    assert (weight == 1).all()
