"""Seen, missing and recovered training labels."""

from __future__ import annotations

import pytest

from plusone.errors import InputError
from plusone.prediction.run_folder import read_metrics
from plusone.report.training_labels import class_counts, recovery_table


def test_seen_and_missing_positives_with_the_most_frequent_class_first(result):
    labels = {"classes": ["cat", "dog"], "seen": [1, 2], "true": [2, 5]}
    found = class_counts(result(data="pets", items={"train": 6}, labels=labels))
    assert [(row.name, row.seen, row.missing) for row in found.rows] == [
        ("dog", 2, 3),
        ("cat", 1, 1),
    ]


@pytest.mark.slow
def test_counts_of_a_real_run(an_run, halves):
    found = class_counts(read_metrics(an_run))
    assert found.data == "halves"
    assert found.items == 128
    assert sum(row.seen for row in found.rows) == 128  # one positive per item
    true = [row.true for row in found.rows]
    assert true == sorted(true, reverse=True)
    assert found.missing_share == pytest.approx(1 - 128 / sum(true))


def test_unknown_truth_is_refused(result):
    with pytest.raises(InputError, match="photos: the missing positives are not known"):
        class_counts(result(data="photos", items={"train": 3}))


@pytest.fixture(scope="module")
def results(train_into, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    jobs = [("an", 0, 0.01), ("role", 0, 0.01), ("an", 1, 0.01), ("an", 0, 0.1)]
    return [
        train_into(folder / str(number), method=name, seed=seed, lr=lr, expected_positives=2.0)
        for number, (name, seed, lr) in enumerate(jobs)
    ]


def test_one_row_per_setting_with_the_mean_over_seeds(results, result):
    an, role, other = recovery_table([*results, result(seed=5)])
    assert (an.method, an.seeds, role.method, role.seeds, other.seeds) == ("an", 2, "role", 1, 1)
    assert (an.lr, other.lr) == (0.01, 0.1)
    maps = [results[place].recovery["recovery_map"] for place in (0, 2)]
    assert an.predictions == pytest.approx(sum(maps) / 2)
    assert an.predictions_sd == pytest.approx(abs(maps[0] - maps[1]) / 2**0.5)
    assert role.predictions_sd is None


def test_estimates_only_of_methods_that_keep_them(results):
    an, role, _ = recovery_table(results)
    assert an.estimates is None
    assert role.estimates == results[1].recovery_estimates["recovery_map"]
    assert role.hidden == results[1].recovery["hidden_map"]
