from __future__ import annotations

import json
import tracemalloc
from itertools import combinations

import numpy as np
import pytest

from plusone.data.formats import read
from plusone.errors import InputError
from plusone.probabilities.intervals import interval_of, k_intervals

TABLE_A2 = {  # Cole et al. 2021
    "VOCdevkit": [(1.0, 2.0), (1.1, 1.9), (1.2, 1.7)],
    "coco2014/coco_train2014.npz": [(1.8, 4.4), (2.1, 4.0), (2.4, 3.6)],
}


@pytest.mark.parametrize("name", TABLE_A2)
def test_table_a2_is_reproduced(shared, name):
    table = read(shared / "data" / name, check_images=False).table
    counts = table.truth.take(table.rows_of("train")).per_item(1)
    found = k_intervals(counts, draws=100_000)
    assert [row.size for row in found.rows] == [5, 10, 25]
    for row, (low, high) in zip(found.rows, TABLE_A2[name], strict=True):
        assert row.low == pytest.approx(low, abs=0.1)
        assert row.high == pytest.approx(high, abs=0.1)


def test_draws_are_without_replacement():
    counts = [0, 0, 1, 2, 5, 9]
    every = [sum(chosen) / 3 for chosen in combinations(counts, 3)]
    found = k_intervals(counts, [3, 6], draws=200_000, level=0.8)
    expected = np.quantile(every, [0.1, 0.9], method="inverted_cdf")
    assert (found.rows[0].low, found.rows[0].high) == pytest.approx(tuple(expected), abs=0.35)
    assert (found.rows[1].low, found.rows[1].high) == (found.k, found.k)  # all of them: certain


def test_more_items_tell_more_and_seeds_repeat():
    counts = np.random.default_rng(0).integers(1, 6, 500)
    found = k_intervals(counts, [5, 50, 400], draws=2000, seed=3)
    widths = [row.high - row.low for row in found.rows]
    assert widths == sorted(widths, reverse=True)
    assert all(row.low < found.k < row.high for row in found.rows)
    assert k_intervals(counts, [5, 50, 400], draws=2000, seed=3) == found
    assert json.loads(json.dumps(found.to_dict()))["rows"][0]["size"] == 5


def test_the_bootstrap_interval_covers_k_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    weights = np.array([0.65, 0.26, 0.07, 0.02])
    k = weights @ np.arange(1, 5)
    hits = 0
    for trial in range(200):
        found = interval_of(rng.choice(4, size=40, p=weights) + 1, draws=500, seed=trial)
        hits += found.low <= k <= found.high
    assert 0.8 < hits / 200 < 0.97


def test_few_groups_give_no_interval_and_many_little_memory():
    counts = np.random.default_rng(0).integers(1, 6, 40_000)
    for n_groups in (1, 19):  # one group drawn again and again would be certain
        found = interval_of(counts[:30], groups=np.arange(30) % n_groups)
        assert (found.low, found.high, found.groups) == (None, None, n_groups)
        assert found.k == counts[:30].mean()
    alone = interval_of(counts[:5], groups=[*"abcde"])  # groups of one item change nothing
    assert (alone.low, alone.high) == (interval_of(counts[:5]).low, interval_of(counts[:5]).high)
    tracemalloc.start()
    found = interval_of(counts, groups=np.arange(40_000) % 10_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6
    error = counts.reshape(4, -1).mean(axis=0).std() / 100  # of the mean of 10,000 groups
    assert found.low == pytest.approx(found.k - 1.645 * error, abs=0.1 * error)
    assert found.high == pytest.approx(found.k + 1.645 * error, abs=0.1 * error)


def test_chunks_do_not_change_the_draws(monkeypatch):
    counts, groups = np.random.default_rng(0).integers(1, 6, 90), np.arange(90) // 3
    whole = interval_of(counts, groups=groups, draws=500)
    monkeypatch.setattr("plusone.probabilities.intervals.NUMBERS", 300)
    assert interval_of(counts, groups=groups, draws=500) == whole


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(InputError, match="cannot draw 5 of 3 items"):
        k_intervals([1, 2, 3], [5])
    with pytest.raises(InputError, match="no items"):
        interval_of([])
    with pytest.raises(InputError, match="level = 1"):
        interval_of([1, 2], level=1.0)
