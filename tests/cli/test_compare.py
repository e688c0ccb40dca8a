"""methods, demo and bench, without their long trainings."""

from __future__ import annotations

import json

import pytest

from plusone.cli import common
from plusone.cli.compare import DEMO_METHODS

SCORES = dict(zip(DEMO_METHODS, (0.5, 0.55, 0.6, 0.6, 0.7, 0.75, 0.65, 0.9), strict=True))


@pytest.fixture
def no_training(monkeypatch):
    """Results out of thin air, in this process."""

    def result(job):
        score = SCORES.get(job.recipe.method, 0.5)
        return {
            "key": job.key,
            "method": job.recipe.method,
            "seed": job.recipe.seed,
            "lr": job.recipe.lr,
            "options": job.recipe.options,
            "data": job.source.data,
            "val_map": score - 0.01,
            "test_map": score,
            "best_epoch": 1,
            "recovery": {"recovery_map": score + 0.01},
            "seconds": 12.34,
            "run": None,
        }

    monkeypatch.setattr("plusone.bench.jobs.run_job", result)
    monkeypatch.setattr(
        "plusone.bench.jobs.in_processes", lambda work, items, *_: (work(item) for item in items)
    )


def test_methods(cli):
    listed = cli("methods")
    assert listed.code == 0
    assert max(map(len, listed.out.splitlines())) <= 80
    found = cli("methods", "--json").json
    assert set(found) >= set(DEMO_METHODS)
    one = cli("methods", "em")
    assert "entropy" in one.out
    assert "alpha" in one.out
    assert "--set options.alpha=" in one.err
    assert set(cli("methods", "em", "--json").json) == {"em"}
    assert "expected_positives" in cli("methods", "epr").out


@pytest.mark.usefixtures("no_training")
def test_demo_table_fits_80_columns_with_one_line_a_method(cli, tmp_path):
    answer = cli("demo", "--out", tmp_path / "d")
    assert answer.code == 0
    lines = [line.rstrip() for line in answer.out.splitlines() if line.strip()]
    assert len(lines) == 3 + len(DEMO_METHODS)  # title, header, rule, methods
    assert max(map(len, lines)) <= 80
    assert "…" not in answer.out
    for words in ("test mAP", "recovered", "gap closed", "seconds"):
        assert words in lines[1]
    assert lines[3].split()[0] == "an"
    assert "0 %" in lines[3]
    assert "100 %" in lines[-1]
    assert "62 %" in next(line for line in lines if " gr " in line)
    rows = json.loads((tmp_path / "d" / "results.json").read_text())["rows"]
    assert [row["method"] for row in rows] == list(DEMO_METHODS)
    assert (tmp_path / "d" / "table.md").read_text().count("\n") == 2 + len(DEMO_METHODS)


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_bench_table_fits_narrow_and_wide_terminals(cli, tmp_path, monkeypatch, columns):
    monkeypatch.setattr(common.out, "width", columns)
    methods = "an,wan_sampled,bce"
    answer = cli("bench", "digits-features", "-m", methods, "--out", tmp_path, "--lr", "1e-3,1e-4")
    assert answer.code == 0
    lines = [line.rstrip() for line in answer.out.splitlines() if line.strip()]
    assert len(lines) == 3 + 3
    assert max(map(len, lines)) <= columns
    assert "…" not in answer.out
    assert ("sd" in lines[1]) == (columns >= 80)


@pytest.mark.usefixtures("no_training")
def test_demo_and_bench_json(cli, tmp_path):
    demo = cli("demo", "--out", tmp_path / "d", "--json", "--seed", 4)
    assert demo.json == json.loads((tmp_path / "d" / "results.json").read_text())
    assert "seed 4" in demo.err
    arguments = ("digits", "-m", "an,gr,an", "--seeds", "0,1,1", "--out", tmp_path / "b", "--json")
    bench = cli("bench", *arguments)
    assert [(row["method"], row["seeds"]) for row in bench.json["rows"]] == [("an", 2), ("gr", 2)]
    assert "done before" not in bench.err
    again = cli("bench", *arguments)
    assert again.json == bench.json
    assert again.err.count("done before") == 4
    one = cli("bench", *arguments, "--seed", 7)
    assert {row["seeds"] for row in one.json["rows"]} == {1}


@pytest.mark.usefixtures("no_training")
def test_report_reads_the_folder_of_a_bench(cli, tmp_path):
    cli("bench", "digits", "-m", "an,gr", "--seeds", "0,1", "--out", tmp_path)
    assert len(cli("report", tmp_path, "--json").json["runs"]) == 4
    assert cli("report", tmp_path).code == 0


@pytest.mark.usefixtures("no_training")
def test_ctrl_c_in_a_bench_says_how_to_go_on(cli, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("plusone.bench.jobs.run_job", stop)
    answer = cli("demo", "--out", tmp_path)
    assert (answer.code, answer.out) == (130, "")
    assert "run the same command again to go on" in answer.err


@pytest.mark.slow
def test_demo_for_real(cli, tmp_path, monkeypatch):
    """The demo with two methods and one epoch."""
    from plusone.data.source import DATA_DEFAULTS

    monkeypatch.setattr("plusone.cli.compare.DEMO_METHODS", ("an", "bce"))
    monkeypatch.setitem(DATA_DEFAULTS["digits"], "epochs", 1)
    answer = cli("demo", "--out", tmp_path / "d", "--json")
    assert answer.code == 0, answer.err
    assert [row["method"] for row in answer.json["rows"]] == ["an", "bce"]


@pytest.fixture
def tuned(monkeypatch):
    """Trainings that like lr 1e-3 and, at that rate, alpha 0.2; keeps what was trained."""
    trained = []

    def result(job):
        recipe = job.recipe
        score = 0.5 + 0.1 * (recipe.lr == 1e-3) + 0.1 * (recipe.options.get("alpha") == 0.2)
        trained.append((recipe.lr, recipe.options, recipe.seed))
        return {
            "key": job.key, "method": recipe.method, "seed": recipe.seed, "lr": recipe.lr,
            "options": recipe.options, "data": "d", "val_map": score,
            "test_map": score + 0.01 * recipe.seed, "seconds": 1.0,
        }  # fmt: skip

    monkeypatch.setattr("plusone.bench.jobs.run_job", result)
    monkeypatch.setattr(
        "plusone.bench.jobs.in_processes", lambda work, items, *_: (work(item) for item in items)
    )
    return trained


def test_tuning_chooses_the_rate_then_the_options_then_trains_the_other_seeds(cli, tmp_path, tuned):
    arguments = ("bench", "digits-features", "-m", "an,em", "--tune", "--lr", "1e-2,1e-3")
    answer = cli(*arguments, "--seeds", "0,1", "--out", tmp_path, "--json")
    assert answer.code == 0
    rows = {row["method"]: row for row in answer.json["rows"]}
    assert rows["em"]["lr"] == 1e-3
    assert rows["em"]["options"] == {"alpha": 0.2}
    assert rows["em"]["seeds"] == 2
    assert rows["em"]["test_map"] == pytest.approx(0.705)
    assert rows["an"]["options"] == {}
    assert len(tuned) == 3 + 5  # an: 2 rates, 1 more seed; em: 2 rates, 2 more options, 1 more seed
    assert (1e-2, {"alpha": 0.2}, 0) not in tuned
    assert "alpha 0.2" in (tmp_path / "table.md").read_text()


def test_options_that_were_given_are_not_searched(cli, tmp_path, tuned):
    arguments = ("bench", "digits-features", "-m", "em", "--tune", "--lr", "1e-3", "--seed", 0)
    answer = cli(*arguments, "-s", "options.alpha=0.3", "--out", tmp_path, "--json")
    assert answer.code == 0
    assert tuned == [(1e-3, {"alpha": 0.3}, 0)]


def test_every_grid_fits_its_method():
    from plusone.bench.tuning import OPTIONS
    from plusone.methods import METHODS

    for name, grid in OPTIONS.items():
        default = METHODS[name].make_options({})
        made = [METHODS[name].make_options(options) for options in grid]
        assert len({str(entry) for entry in (default, *made)}) == len(grid) + 1, name
    fixed = {"iu", "iun", "an", "bce", "wan_sampled", "pr", "softmax"}  # nothing to choose
    assert OPTIONS.keys() == METHODS.keys() - fixed
