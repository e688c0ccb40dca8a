"""Scores in blocks give what a table of all of them gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plusone.errors import InputError
from plusone.io.arrays import Blocks, load_npz, write_npz
from plusone.probabilities import accept as accepting
from plusone.probabilities import scores, unseen_labels
from plusone.probabilities.accept import accept, largest_set
from plusone.probabilities.hint_prior import with_prior
from plusone.probabilities.k import LabelsPerItem, labels_per_item
from plusone.probabilities.scores import Division, Scores
from plusone.probabilities.unseen_labels import calibrate
from plusone.probabilities.wrong import find_wrong

from .conftest import as_calibrated, make

GIVEN = LabelsPerItem.given(2.0)


def test_small_blocks_change_nothing(monkeypatch):
    made = make(60)
    hints = made.scores.astype(np.float32)

    def results():
        table = made.table.labels
        found = calibrate(made.scores, table, k=labels_per_item(made.scores, table))
        combined, _ = with_prior(made.scores, hints, table)
        wrong = find_wrong(made.scores, table, 2.0)
        some = found.unseen(0.3)
        return found.probabilities, some.row, some.label, combined.table(), wrong.score

    whole = results()
    monkeypatch.setattr(scores, "BLOCK", 40)
    for one, other in zip(whole, results(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_labels_are_unobserved_and_probable_and_come_item_by_item():
    made = make(50)
    found = as_calibrated(made.probabilities, made.observed)
    low = found.unseen(0.2)
    row, label = np.nonzero((made.observed == 0) & (made.probabilities >= 0.2))
    assert (low.row.tolist(), low.label.tolist()) == (row.tolist(), label.tolist())
    np.testing.assert_array_equal(low.probability, made.probabilities[row, label])
    assert len(found.unseen(0.6)) == (made.probabilities[row, label] >= 0.6).sum()


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("target", [0.03, 0.2, 0.5, 0.9])
def test_less_probable_labels_are_asked_for_as_long_as_they_may_be_accepted(
    target, per_class, monkeypatch
):
    monkeypatch.setattr(accepting, "FEWEST", 1)
    made = make(80, seed=1)
    p = made.probabilities**3  # most are small
    expected = np.zeros(p.shape, dtype=bool)
    parts = [[label] for label in range(p.shape[1])] if per_class else [list(range(p.shape[1]))]
    for part in parts:
        row, place = np.nonzero(made.observed[:, part] == 0)
        label = np.array(part)[place]
        chosen = largest_set(p[row, label], target)
        expected[row[chosen], label[chosen]] = True
    found = accept(as_calibrated(p, made.observed), target, per_class=per_class)
    assert np.argwhere(expected).tolist() == np.stack([found.row, found.label], 1).tolist()


def test_processes_share_the_items_of_a_pass():
    made = make(41)
    whole = as_calibrated(made.probabilities, made.observed).unseen(0.1)
    rows = []
    for rank in range(3):
        found = as_calibrated(made.probabilities, made.observed)
        found.scores = replace(found.scores, division=Division(rank, 3))
        rows.append(found.unseen(0.1).row)
        assert len(np.unique(rows[-1])) < 20
    assert np.concatenate(rows).tolist() == whole.row.tolist()


def test_more_labels_than_can_be_held_are_refused(monkeypatch):
    monkeypatch.setattr(unseen_labels, "MOST_UNSEEN", 30)
    made = make(50)
    found = calibrate(made.scores, made.table.labels, k=GIVEN)
    with pytest.raises(InputError, match=r"more than 30 labels .* of 0.01 or more.*--min-prob"):
        found.unseen(0.01)


def test_arrays_are_written_in_blocks(tmp_path: Path):
    table = np.arange(12, dtype=np.float64).reshape(6, 2)
    parts = Blocks((6, 2), np.float32, (table[start : start + 4] for start in (0, 4)))
    write_npz(tmp_path / "a.npz", {"x": parts, "ids": Blocks.of(np.array(["ä", "b"]))})
    found = load_npz(tmp_path / "a.npz")
    assert found["x"].dtype == np.float32
    np.testing.assert_array_equal(found["x"], table)
    assert found["ids"].tolist() == ["ä", "b"]


def test_scores_that_are_scores_stay_so():
    one = Scores.of([[0.2, 0.8]])
    assert Scores.of(one) is one
    assert (len(one), one.shape) == (1, (1, 2))
