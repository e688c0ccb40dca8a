"""Groups are never divided; groups of one item change nothing."""

import numpy as np
import pytest

from plusone.data.groups import group_numbers, random_folds, random_items
from plusone.data.inspect import summarise
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable, hold_out_validation
from plusone.errors import InputError


def permutation(seed=0):
    return lambda count: np.random.default_rng(seed).permutation(count)


def some_groups(n=200, n_groups=30, seed=1):
    number = np.random.default_rng(seed).integers(n_groups, size=n)
    return np.array([f"album {each}" for each in number])


def table(groups, **rest):
    n = len(groups)
    labels = LabelMatrix.from_dense(np.eye(3, dtype=np.int8)[np.arange(n) % 3])
    return LabelTable(
        np.arange(n).astype(str), ("a", "b", "c"), labels, groups=np.asarray(groups), **rest
    )


@pytest.mark.parametrize("size", [0, 1, 20, 40, 199, 200])
def test_draws_take_whole_groups_and_come_close(size):
    groups = some_groups()
    rows = random_items(200, size, permutation(), groups)
    drawn = set(groups[rows])
    assert set(np.flatnonzero(np.isin(groups, list(drawn)))) == set(rows)
    assert 1 <= len(drawn) < len(set(groups))
    assert abs(len(rows) - size) <= np.bincount(group_numbers(groups)).max()


def test_larger_draws_contain_smaller_ones():
    before = set()
    for size in range(1, 200, 7):
        rows = set(random_items(200, size, permutation(), some_groups()))
        assert before <= rows
        before = rows


@pytest.mark.parametrize("folds", [2, 5, 30])
def test_folds_have_whole_groups_and_about_the_same_size(folds):
    groups = some_groups()
    fold = random_folds(200, folds, permutation(), groups)
    assert all(len(set(fold[groups == name])) == 1 for name in set(groups))
    sizes = np.bincount(fold, minlength=folds)
    assert sizes.min() > 0
    assert sizes.max() - sizes.min() <= np.bincount(group_numbers(groups)).max()


def test_groups_of_one_item_change_nothing():
    alone = np.array([f"g{row}" for row in range(50, 0, -1)])
    draw = permutation(3)
    assert set(random_items(50, 11, draw, alone)) == set(random_items(50, 11, draw))
    assert (random_folds(50, 4, draw, alone) == random_folds(50, 4, draw)).all()
    whole = table(alone)
    plain = LabelTable(whole.ids, whole.classes, whole.labels)
    assert (hold_out_validation(whole).split == hold_out_validation(plain).split).all()


def test_validation_has_whole_groups():
    whole = table(some_groups())
    held = hold_out_validation(whole, share=0.25)
    train, val = (set(held.groups[held.rows_of(name)]) for name in ("train", "val"))
    assert train
    assert val
    assert not train & val
    assert 40 <= len(held.rows_of("val")) <= 60
    with pytest.raises(InputError, match="all training items are in one group"):
        hold_out_validation(table(["a"] * 9))
    tests = table(["a"] * 9, split=np.array(["test"] * 9))
    assert not len(hold_out_validation(tests).rows_of("val"))


def test_inspect_counts_groups_and_those_in_several_splits():
    split = np.array(["train", "test", "train", "train", "test"])
    found = summarise(table(list("aabbc"), split=split))
    assert (found.groups, found.largest_group, found.divided_groups) == (3, 2, 1)
    assert summarise(table(list("aabbc"))).divided_groups == 0
    whole = table(list("aabbc"))
    assert summarise(LabelTable(whole.ids, whole.classes, whole.labels)).groups is None
    assert whole.take([4, 0]).groups.tolist() == ["c", "a"]
