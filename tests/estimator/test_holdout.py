import numpy as np
import pytest

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.estimator.plusone_classifier import held_out


def chance(seed: int = 0) -> np.random.RandomState:
    return np.random.RandomState(seed)


def test_the_share_is_held_out_and_depends_on_the_seed():
    labels = LabelMatrix.from_lists([[row % 3] for row in range(100)], 3)
    held = held_out(labels, 0.2, chance())
    assert held.sum() == 20
    assert (held == held_out(labels, 0.2, chance())).all()
    assert (held != held_out(labels, 0.2, chance(1))).any()


@pytest.mark.parametrize("seed", range(20))
def test_every_class_keeps_a_seen_positive(seed):
    labels = LabelMatrix.from_lists([[0], [0], [0], [1], [1, 2], [0, 3], [3], []], 4)
    held = held_out(labels, 0.5, chance(seed))
    assert 1 <= held.sum() <= 4
    assert (labels.take(np.flatnonzero(~held)).per_class(1) > 0).all()
    assert labels.take(np.flatnonzero(held)).per_class(1).any()


def test_items_without_labels_come_last():
    labels = LabelMatrix.from_lists([[], [], [], [], [0], [0], [1], [1]], 2)
    assert held_out(labels, 0.25, chance())[4:].sum() == 2
    alone = LabelMatrix.from_lists([[], [0], [1]], 2)
    held = held_out(alone, 0.4, chance())
    assert held[1:].sum() == 1


def test_bad_shares_and_single_items_are_refused():
    labels = LabelMatrix.from_lists([[0], [1]], 2)
    for share in (0.0, 1.0, -1):
        with pytest.raises(InputError, match="validation_fraction"):
            held_out(labels, share, chance())
    with pytest.raises(InputError, match="1 sample is too few"):
        held_out(labels.take([0]), 0.1, chance())


@pytest.mark.parametrize("seed", range(5))
def test_whole_groups_are_held_out(seed):
    rng = np.random.default_rng(seed)
    labels = LabelMatrix.from_lists([[row % 3] for row in range(100)], 3)
    groups = rng.integers(25, size=100)
    held = held_out(labels, 0.2, chance(seed), groups)
    assert not set(groups[held]) & set(groups[~held])
    assert 15 <= held.sum() <= 25
    assert (labels.take(np.flatnonzero(~held)).per_class(1) > 0).all()
    alone = held_out(labels, 0.2, chance(seed), np.arange(100))
    assert (alone == held_out(labels, 0.2, chance(seed))).all()


def test_a_group_that_is_too_large_stays():
    labels = LabelMatrix.from_lists([[row % 2] for row in range(100)], 2)
    groups = np.where(np.arange(100) < 80, 0, np.arange(100))
    held = held_out(labels, 0.1, chance(), groups)
    assert not held[:80].any()
    assert held.sum() == 10
