"""Audits that are not drawn evenly are weighted back."""

import numpy as np

from plusone.probabilities.drawing import draw_audit

from .conftest import make


def test_weighted_means_of_drawn_items_are_those_of_all_items():
    made = make(600)
    hidden = made.truth & (made.observed == 0)
    sizes, shares = hidden.sum(1), []
    for seed in range(200):
        rows, weight = draw_audit(made.probabilities, made.observed, 60, seed)
        assert len(rows) == len(np.unique(rows)) == 60
        shares.append((weight * sizes[rows]).sum() / weight.sum())
    error = np.std(shares) / np.sqrt(len(shares))
    assert abs(np.mean(shares) - sizes.mean()) < 4 * error


def test_items_with_probable_labels_are_drawn_more_often():
    made = make(600)
    probable = ((made.probabilities > 0.5) & (made.observed == 0)).sum(1)
    rows, weight = draw_audit(made.probabilities, made.observed, 60)
    assert probable[rows].mean() > 1.2 * probable.mean()
    assert np.corrcoef(weight, probable[rows])[0, 1] < -0.5


def test_few_items_are_all_drawn_and_complete_ones_never():
    made = make(40)
    made.observed[:5] = np.where(made.truth[:5], 1, -1)
    rows, weight = draw_audit(made.probabilities, made.observed, 100)
    assert rows.tolist() == list(range(5, len(made.truth)))
    assert (weight == 1).all()
