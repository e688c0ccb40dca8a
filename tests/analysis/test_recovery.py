from __future__ import annotations

import pytest

from plusone.analysis.recovery import recovery_table


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
