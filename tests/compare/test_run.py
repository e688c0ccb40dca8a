"""Whole comparisons, trained in this process."""

from __future__ import annotations

import shutil

import pytest

from plusone.compare.bench import rule_of, run_bench
from plusone.compare.jobs import make_units, run_unit
from plusone.compare.spec import make_spec
from plusone.errors import InputError


def spec(*paths, **values):
    given = {"methods": ["an", "em"], "seeds": [0, 1], "settings": {"epochs": 2}} | values
    return make_spec(given | {"data": [{"path": str(path)} for path in paths]}, source="s")


@pytest.fixture
def run():
    """Trains in this process; keeps what was trained."""
    trained = {}

    def here(jobs):
        for unit in make_units([job for job in jobs if job.key not in trained], 1):
            trained.update({entry.key: entry for entry in run_unit(unit)})
        return [trained[job.key] for job in jobs]

    here.trained = trained
    return here


def test_methods_by_data_by_seeds(arrays, tmp_path, run):
    other = tmp_path / "other.npz"
    shutil.copy(arrays, other)
    bench = run_bench(spec(arrays, other), tmp_path, run)
    rows = [(row.data, row.method, row.mode, row.seeds) for row in bench.summary.rows]
    assert rows == [(d, m, "linear", 2) for d in ("d", "other") for m in ("an", "em")]
    assert len(bench.results) == len(run.trained) == 8
    first, second = (bench.summary.rows[place].test_map for place in (0, 2))
    assert first == pytest.approx(second)
    assert [test["data"] for test in bench.summary.tests] == ["d", "other"]


def test_data_sets_of_one_name_are_told_apart(arrays, tmp_path, run):
    again = tmp_path / "deeper" / "d.npz"
    again.parent.mkdir()
    shutil.copy(arrays, again)
    bench = run_bench(spec(arrays, again, methods=["an"]), tmp_path, run)
    assert [row.data for row in bench.summary.rows] == ["d", "d (2)"]
    block = {"path": str(arrays), "name": "mine"}
    named = spec(arrays, methods=["an"]).model_dump() | {"data": [block]}
    bench = run_bench(make_spec(named, source="s"), tmp_path, run)
    assert [row.data for row in bench.summary.rows] == ["mine"]


def test_wrong_settings_are_refused_before_anything_is_trained(arrays, tmp_path, run):
    with pytest.raises(InputError, match="unknown method option 'alfa'"):
        run_bench(spec(arrays, method={"em": {"options": {"alfa": 1}}}), tmp_path, run)
    assert run.trained == {}


def test_tuning_keeps_what_it_tried(arrays, tmp_path, run):
    bench = run_bench(spec(arrays, tune=True, lr=[0.1, 0.01]), tmp_path, run)
    assert [row.seeds for row in bench.summary.rows] == [2, 2]
    assert len(bench.results) == 3 + 5  # an: 2 rates, a seed; em: 2 rates, 2 options, a seed
    chosen = {key for row in bench.summary.rows for key in row.keys}
    assert len(chosen) == 4


def test_tuning_by_optuna(arrays, tmp_path, run):
    pytest.importorskip("optuna")
    wanted = spec(arrays, methods=["em"], tune=True, search="optuna", trials=3)
    bench = run_bench(wanted, tmp_path, run)
    assert len(bench.results) == 4  # 3 trials, and the other seed
    best = max(bench.results, key=lambda entry: (entry.val_map, entry.seed == 0))
    (row,) = bench.summary.rows
    assert row.lr == best.lr or best.seed == 1
    assert "3 trials" in bench.rule
    assert (tmp_path / "optuna.journal").exists()
    run_bench(wanted, tmp_path, run)
    assert len(run.trained) == 4


def test_the_rule_is_stated(arrays):
    assert rule_of(spec(arrays)).startswith("nothing was searched")
    assert "mean over the seeds" in rule_of(spec(arrays, lr=[1, 2]))
    assert "first seed" in rule_of(spec(arrays, tune=True))
