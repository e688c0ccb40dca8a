"""Comparisons: their entries, and whole ones trained in this process."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from plusone.compare.bench import make_entries, rule_of, run_bench
from plusone.compare.jobs import make_units, run_unit
from plusone.compare.spec import make_spec
from plusone.errors import InputError
from plusone.methods import METHODS


def spec(**values):
    return make_spec({"data": [{"path": "digits"}], "methods": ["an", "gr"]} | values, source="s")


def test_data_then_modes_then_methods():
    blocks = [{"path": "digits"}, {"path": "digits", "name": "again", "labels": "complete"}]
    entries = make_entries(spec(data=blocks, modes=["linear", "finetune"]))
    assert [(entry.data, entry.mode, entry.method) for entry in entries] == [
        (name, mode, method)
        for name in (None, "again")
        for mode in ("linear", "finetune")
        for method in ("an", "gr")
    ]
    assert make_entries(spec())[0].mode == "auto"
    fine = [name for name, info in METHODS.items() if info.trains_on(["images"])]
    able = [name for name in fine if not METHODS[name].needs_hints]
    assert [entry.method for entry in make_entries(spec(methods=["all"]))] == able
    hinted = spec(methods=["all"], data=[{"path": "digits", "hints": "hints.npz"}])
    assert [entry.method for entry in make_entries(hinted)] == fine
    linear = [name for name, info in METHODS.items() if info.trains_on(["features"])]
    hinted = spec(methods=["all"], modes=["linear"], data=[hinted.data[0]])
    assert [entry.method for entry in make_entries(hinted)] == linear


def test_settings_of_data_and_method_are_laid_over_each_other():
    entries = make_entries(
        spec(
            data=[{"path": "digits", "settings": {"epochs": 4, "batch_size": 8}}],
            settings={"epochs": 3, "options": {}},
            method={"gr": {"lr": 0.5, "epochs": 5, "options": {"w": 3.0}}},
        )
    )
    recipes = [entry.jobs([{}, {"lr": 0.1}], [0])[1].recipe for entry in entries]
    assert [(r.epochs, r.batch_size, r.lr) for r in recipes] == [(4, 8, 0.1), (5, 8, 0.1)]
    assert entries[1].jobs([{}], [0])[0].recipe.lr == 0.5
    assert entries[1].options == {"w": 3.0}


def test_reference_methods_keep_the_labels_that_define_them():
    given = {"data": [{"path": "digits-features"}], "methods": ["an", "bce", "iu"]}
    given |= {"settings": {"observe": "partial(0.3)"}, "method": {"iu": {"observe": "given"}}}
    schemes = [entry.settings.get("observe") for entry in make_entries(make_spec(given, source=""))]
    assert schemes == ["partial(0.3)", None, "given"]


@pytest.mark.parametrize("mode", ["finetune", "linear_init"])
def test_modes_that_need_images(arrays, tmp_path, mode):
    (tmp_path / "l.csv").write_text("image,a\nx,1\n")
    np.savez(tmp_path / "f.npz", x=np.zeros((1, 2)), ids=np.array(["x"]))
    for block in (
        {"path": "digits-features"},
        {"path": str(arrays)},
        {"path": str(tmp_path / "l.csv"), "features": [str(tmp_path / "f.npz")]},
    ):
        with pytest.raises(InputError, match=f"{block['path']}: has features but no .* {mode} "):
            make_entries(spec(data=[block], modes=["linear", mode]))
        assert make_entries(spec(data=[block], modes=["linear"]))


def test_unknown_methods_are_refused_wherever_they_are():
    with pytest.raises(InputError, match="unknown method 'grr'"):
        make_entries(spec(method={"grr": {}}))
    with pytest.raises(InputError, match="nowhere: no such file"):
        make_entries(spec(data=[{"path": "nowhere"}]))


def test_data_is_there_once():
    with pytest.raises(InputError, match="digits: is listed twice"):
        make_entries(spec(data=[{"path": "digits"}, {"path": "digits", "name": "b"}]))


def test_all_beside_others_is_all():
    whole = make_entries(spec(methods=["all"]))
    assert make_entries(spec(methods=["all", "an"])) == whole


def test_a_rate_of_the_method_is_not_searched():
    entries = make_entries(spec(lr=[0.1, 0.2], method={"gr": {"lr": 0.5}}))
    assert [entry.rates((0.1, 0.2)) for entry in entries] == [[{"lr": 0.1}, {"lr": 0.2}], [{}]]
    (job,) = entries[1].jobs(entries[1].rates((0.1, 0.2)), [0])
    assert job.recipe.lr == 0.5


def comparison(*paths, **values):
    given = {"methods": ["an", "em"], "seeds": [0, 1], "settings": {"epochs": 2}} | values
    return make_spec(given | {"data": [{"path": str(path)} for path in paths]}, source="s")


@pytest.fixture
def run():
    """Trains in this process; keeps what was trained."""
    trained = {}

    def train(jobs):
        for unit in make_units([job for job in jobs if job.key not in trained], 1):
            trained.update({entry.key: entry for entry in run_unit(unit)})
        return [trained[job.key] for job in jobs]

    train.trained = trained
    return train


def test_methods_by_data_by_seeds(arrays, tmp_path, run):
    other = tmp_path / "other.npz"
    shutil.copy(arrays, other)
    bench = run_bench(comparison(arrays, other), tmp_path, run)
    rows = [(row.data, row.method, row.mode, row.seeds) for row in bench.summary.rows]
    assert rows == [(d, m, "linear", 2) for d in ("d", "other") for m in ("an", "em")]
    assert len(bench.results) == len(run.trained) == 8
    first, second = (bench.summary.rows[place].test_map for place in (0, 2))
    assert first == pytest.approx(second)
    assert [test["data"] for test in bench.summary.tests] == ["d", "other"]


def test_data_sets_of_one_name_are_numbered(arrays, tmp_path, run):
    again = tmp_path / "deeper" / "d.npz"
    again.parent.mkdir()
    shutil.copy(arrays, again)
    bench = run_bench(comparison(arrays, again, methods=["an"]), tmp_path, run)
    assert [row.data for row in bench.summary.rows] == ["d", "d (2)"]
    block = {"path": str(arrays), "name": "mine"}
    named = comparison(arrays, methods=["an"]).model_dump() | {"data": [block]}
    bench = run_bench(make_spec(named, source="s"), tmp_path, run)
    assert [row.data for row in bench.summary.rows] == ["mine"]


def test_wrong_settings_are_refused_before_anything_is_trained(arrays, tmp_path, run):
    with pytest.raises(InputError, match="unknown method option 'alfa'"):
        run_bench(comparison(arrays, method={"em": {"options": {"alfa": 1}}}), tmp_path, run)
    assert run.trained == {}


def test_tuning_keeps_what_it_tried(arrays, tmp_path, run):
    tuned = comparison(arrays, tune=True, lr=[0.1, 0.01], extend=False)
    bench = run_bench(tuned, tmp_path, run)
    assert [row.seeds for row in bench.summary.rows] == [2, 2]
    assert len(bench.results) == 3 + 5  # an: 2 rates, a seed; em: 2 rates, 2 options, a seed
    chosen = {key for row in bench.summary.rows for key in row.keys}
    assert len(chosen) == 4


def test_tuning_by_optuna(arrays, tmp_path, run):
    pytest.importorskip("optuna")
    tuned = comparison(arrays, methods=["em"], tune=True, search="optuna", trials=3)
    bench = run_bench(tuned, tmp_path, run)
    assert len(bench.results) == 4  # 3 trials, and the other seed
    best = max(bench.results, key=lambda entry: (entry.val_map, entry.seed == 0))
    (row,) = bench.summary.rows
    assert row.lr == best.lr or best.seed == 1
    assert "3 trials" in bench.rule
    assert (tmp_path / "optuna.journal").exists()
    run_bench(tuned, tmp_path, run)
    assert len(run.trained) == 4


def test_the_rule_is_stated(arrays):
    assert rule_of(comparison(arrays)).startswith("nothing was searched")
    assert "mean over the seeds" in rule_of(comparison(arrays, lr=[1, 2]))
    assert "first seed" in rule_of(comparison(arrays, tune=True))
