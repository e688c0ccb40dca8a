"""methods, demo and bench, without their long trainings."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys

import pytest
from tests.patience import PATIENCE

from plusone.cli import printing
from plusone.cli.board import Board
from plusone.compare.jobs import JobResult, read_journal
from plusone.methods import COMPARED
from plusone.suggestions.folder import read_suggestions

pytestmark = pytest.mark.slow

SCORES = dict(zip(COMPARED, (0.5, 0.55, 0.6, 0.6, 0.7, 0.75, 0.65, 0.9), strict=True))


def result_of(job, val, test):
    recipe = job.recipe
    values = {
        "key": job.key,
        "source": {"data": job.source.data, "features": [], "format": "auto", "labels": "auto"},
        "stacked": 1,
        "method": recipe.method,
        "seed": recipe.seed,
        "lr": recipe.lr,
        "options": recipe.options,
        "data": job.source.name,
        "mode": "finetune" if job.source.data == "digits" else "linear",
        "val_map": val,
        "test_map": test,
        "best_epoch": 1,
        "recovery": {"recovery_map": test + 0.01},
        "k": None,
        "recipe": recipe.model_dump(mode="json", exclude_defaults=True),
        "observation": {"scheme": "single(protocol='cole2021')", "seed": 1200, "digest": "ab"},
        "seconds": 12.34,
        "run": None,
        "selected_on": "truth",
        "version": "1",
    }
    return JobResult.model_validate(values)


@pytest.fixture
def train_as(monkeypatch, in_this_process):
    """Replaces trainings by a function of the job, in this process."""

    def use(result):
        monkeypatch.setattr(
            "plusone.compare.jobs.run_unit",
            lambda unit, features=None: [result(job) for job in unit.jobs],
        )

    return use


@pytest.fixture
def no_training(train_as):
    """Results out of thin air."""

    def result(job):
        score = SCORES.get(job.recipe.method, 0.5)
        return result_of(job, score - 0.01, score)

    train_as(result)


def test_methods(cli):
    listed = cli("methods")
    assert listed.code == 0
    assert max(map(len, listed.out.splitlines())) <= 80
    found = cli("methods", "--json").json
    assert set(found) >= set(COMPARED)
    one = cli("methods", "em")
    assert "entropy" in one.out
    assert "alpha" in one.out
    assert "--set options.alpha=" in one.err
    assert set(cli("methods", "em", "--json").json) == {"em"}
    assert "expected_positives" in cli("methods", "epr").out
    assert "class_priors=estimate" in cli("methods", "crisp").out
    assert "class_priors" not in cli("methods", "epr").out


@pytest.mark.usefixtures("no_training")
def test_demo_table_fits_80_columns_with_one_line_a_method(cli, tmp_path):
    answer = cli("demo", "--methods", "--out", tmp_path / "d", "--no-report")
    assert answer.code == 0, answer.err
    lines = [line.rstrip() for line in answer.out.splitlines() if line.strip()]
    assert len(lines) == 3 + len(COMPARED)  # title, header, rule, methods
    assert max(map(len, lines)) <= 80
    assert "…" not in answer.out
    for words in ("test mAP", "recovered", "gap closed", "searched", "lr"):
        assert words in lines[1]
    assert lines[3].split()[0] == "an"
    assert "0 %" in lines[3]
    assert "100 %" in lines[-1]
    assert "62 %" in next(line for line in lines if " gr " in line)
    rows = json.loads((tmp_path / "d" / "results.json").read_text())["rows"]
    assert [row["method"] for row in rows] == list(COMPARED)
    table = (tmp_path / "d" / "table.md").read_text()
    assert table.count("\n| ") == 2 + len(COMPARED)
    assert all(row["best"] == (row["method"] == "gr") for row in rows)


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_bench_table_fits_narrow_and_wide_terminals(cli, tmp_path, monkeypatch, columns):
    monkeypatch.setattr(printing.out, "width", columns)
    methods = "an,wan_sampled,bce"
    options = ("--out", tmp_path, "--lr", "1e-3,1e-4", "--no-report")
    answer = cli("bench", "digits-features", "-m", methods, *options)
    assert answer.code == 0, answer.err
    lines = [line.rstrip() for line in answer.out.splitlines() if line.strip()]
    assert len(lines) == 3 + 3
    assert max(map(len, lines)) <= columns
    assert "…" not in answer.out
    assert ("sd" in lines[1]) == (columns >= 80)


@pytest.mark.usefixtures("no_training")
def test_demo_and_bench_json(cli, tmp_path):
    demo = cli("demo", "--methods", "--out", tmp_path / "d", "--json", "--seed", 4, "--no-report")
    assert demo.json == json.loads((tmp_path / "d" / "results.json").read_text())
    assert "seed 4" in demo.err
    arguments = ("digits", "-m", "an,gr,an", "--seeds", "0,1,1", "--out", tmp_path / "b", "--json")
    arguments += ("--no-report",)
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
    cli("bench", "digits", "-m", "an,gr", "--seeds", "0,1", "--out", tmp_path, "--no-report")
    assert len(cli("report", tmp_path, "--json").json["runs"]) == 4


@pytest.mark.usefixtures("no_training")
def test_bench_ends_with_its_report(cli, tmp_path, monkeypatch):
    asked = []

    def write_report(places, to, *, on_progress):
        on_progress("tables", 1, 2)
        asked.append((places, to))
        return to

    monkeypatch.setattr("plusone.report.writing.write_report", write_report)
    answer = cli("bench", "digits", "-m", "an,gr", "--seeds", "0,1", "--out", tmp_path)
    assert asked == [([tmp_path], tmp_path / "report.html")]
    assert answer.err.rstrip().endswith(f"report: {tmp_path / 'report.html'}")


@pytest.mark.usefixtures("no_training")
def test_several_data_sets_give_several_tables(cli, folder, tmp_path):
    arguments = ("bench", "digits", "digits-features", "-m", "an,gr,bce", "--seeds", "0,1")
    answer = cli(*arguments, "--out", tmp_path, "--no-report")
    assert answer.code == 0, answer.err
    assert "digits, finetune, 2 seeds" in answer.out
    assert "digits-features, linear, 2 seeds" in answer.out
    assert answer.out.count(" gr ") == 2
    assert answer.err.count("digits-features  an") == 2
    whole = json.loads((tmp_path / "results.json").read_text())
    assert whole["command"] == (
        f"plusone bench digits digits-features --methods an,gr,bce --seeds 0,1 --out {tmp_path}"
    )
    again = cli("bench", tmp_path / "bench.toml", "--out", tmp_path, "--no-report", "--json")
    assert again.err.count("(done before)") == 12
    assert again.json["rows"] == whole["rows"]


@pytest.mark.usefixtures("no_training")
def test_a_toml_file_and_flags_beside_it(cli, folder, tmp_path):
    (tmp_path / "c.toml").write_text(
        'methods = ["an", "gr"]\nseeds = [0]\nsettings = { epochs = 3 }\n'
        '[[data]]\npath = "digits-features"\nname = "mine"\n[method.gr]\nlr = 0.25\n'
    )
    options = ("--out", tmp_path / "b", "--no-report", "--json")
    whole = cli("bench", tmp_path / "c.toml", "--seeds", "1,2", "--epochs", 2, *options).json
    assert [(row["data"], row["lr"], row["seeds"]) for row in whole["rows"]] == [
        ("mine", 1e-3, 2),
        ("mine", 0.25, 2),
    ]
    assert whole["settings"]["settings"] == {"epochs": 2}
    assert (tmp_path / "b" / "results.csv").read_text().count("\n") == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("c.toml",), "c.toml: cannot be read"),
        (("c.toml", "digits"), "c.toml: describes a whole comparison"),
        (("c.toml", "-x", "f.npz"), "belong in its [[data]] blocks"),
        (("c.toml", "--labels", "seen"), "belong in its [[data]] blocks"),
        (
            ("digits", "digits-features", "-x", "f.npz"),
            "and --hints can belong to one data set",
        ),
        (("digits-features", "--modes", "linear,finetune"), "the mode finetune cannot be"),
        (("digits", "--modes", "quick"), "modes.0 = 'quick'"),
        (("digits", "--trials", "3"), "--trials: needs --search optuna"),
        (("digits", "--tune", "--storage", "x"), "--storage: needs --search optuna"),
        (("digits", "--search", "luck"), "search = 'luck'"),
        (("digits", "-s", "eppochs=3"), "unknown setting 'eppochs'"),
    ],
)
def test_comparisons_that_cannot_be(bad, tmp_path, arguments, message):
    answer = bad("bench", *arguments, "--out", tmp_path / "b")
    assert message in answer.err
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "b").exists()


@pytest.mark.usefixtures("no_training")
def test_the_live_table_on_a_terminal(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(printing.err, "_force_terminal", True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(printing.err, "is_interactive", True)
    monkeypatch.setattr("plusone.cli.board.is_watched", lambda: True)
    answer = cli("bench", "digits", "-m", "an,gr", "--seeds", "0,1", "-o", tmp_path, "--no-report")
    assert answer.code == 0, answer.err
    assert "best val mAP" in answer.err
    assert "4 of 4 done" in answer.err
    assert "seed 0  lr" not in answer.err, "a line per training is for files"


def test_the_board_shows_what_fits_and_the_time_left(monkeypatch):
    from plusone.compare.jobs import Job
    from plusone.data.source import Source
    from plusone.methods import METHODS
    from plusone.recipe import make_recipe

    jobs = [
        Job(Source("digits"), make_recipe({"method": method, "mode": mode, "seed": seed}))
        for method in METHODS
        for mode in ("linear", "finetune")
        for seed in (0, 1)
    ]
    board = Board(jobs, 2)
    clock = board.touched
    monkeypatch.setattr("time.monotonic", lambda: clock)
    assert board.left() == "time left: unknown yet"
    board.add(result_of(jobs[6], 0.5, 0.25))
    grid = board.table(height=20)
    assert grid.row_count == 13
    assert "more rows" in str(grid.title)
    cells = [str(next(iter(column.cells))) for column in grid.columns]
    assert cells == ["digits", jobs[6].recipe.method, "finetune", "1/2", "50.00", "25.00"]
    minutes, seconds = divmod(round(12.34 * (len(jobs) - 1) / 2), 60)
    assert board.left() == f"about 0:{minutes:02d}:{seconds:02d} left"
    monkeypatch.setattr("time.monotonic", lambda: clock + 1e6)
    assert board.left() == "about 0:00:00 left"


def test_methods_that_cannot_be_stacked_are_named(cli, train_as, tmp_path):
    train_as(
        lambda job: result_of(job, 0.5, 0.5).model_copy(
            update={"alone": "it learns parameters of its own"}
        )
    )
    answer = cli("bench", "digits-features", "-m", "role", "-o", tmp_path, "--no-report")
    assert "trained one by one: role (it learns parameters of its own)" in answer.err


def test_ctrl_c_in_a_bench_says_how_to_go_on(cli, train_as, tmp_path):
    def stop(job):
        raise KeyboardInterrupt

    train_as(stop)
    answer = cli("demo", "--methods", "--out", tmp_path)
    assert (answer.code, answer.out) == (130, "")
    assert "run the same command again to continue" in answer.err


def numbers(whole):
    """What the table is made of; times differ, and stacks round differently."""
    return [
        [
            *(row[name] for name in ("method", "lr", "seeds", "best", "within_noise")),
            *(round(row[name], 5) for name in ("val_map", "test_map", "test_sd")),
        ]
        for row in whole["rows"]
    ]


KILLED = """
import os, signal, sys
from plusone.cli.app import main
from plusone.compare import jobs

append = jobs.append_jsonl

def append_and_die(*values):
    append(*values)
    os.kill(os.getpid(), signal.SIGKILL)

jobs.append_jsonl = append_and_die
main(sys.argv[1:])
"""


def test_a_bench_that_was_killed_finishes_with_the_same_table(
    cli, folder, tmp_path, in_this_process
):
    options = ("bench", folder / "labels.csv", "-x", folder / "x.npz", "-m", "an,role,bce")
    options += ("--seeds", "0,1", "--lr", "1e-2,1e-3", "-s", "epochs=20", "--json", "--no-report")
    options += ("--workers", 1)
    straight = cli(*options, "--out", tmp_path / "straight")
    assert straight.code == 0, straight.err
    words = map(str, (*options, "--out", tmp_path / "killed"))
    killed = subprocess.run([sys.executable, "-c", KILLED, *words], timeout=PATIENCE)
    assert killed.returncode == -signal.SIGKILL
    done = len(list(read_journal(tmp_path / "killed" / "journal.jsonl")))
    assert 0 < done < 12
    again = cli(*options, "--out", tmp_path / "killed")
    assert again.code == 0, again.err
    assert again.err.count("(done before)") == done
    assert numbers(again.json) == numbers(straight.json)


def test_demo_trains_a_tagger_and_suggests_what_is_missing(cli, tmp_path, monkeypatch):
    """The demo on few pictures: figures are shares, its suggestions can be reviewed."""
    monkeypatch.setattr("plusone.compare.demo.ITEMS", 300)
    answer = cli("demo", "--out", tmp_path / "d", "--json")
    assert answer.code == 0, answer.err
    found = answer.json
    assert [one["method"] for one in found["trained"]] == ["recovery", "an"]
    assert all(0.25 < one["test_map"] < 1 for one in found["trained"])  # chance is 0.26
    assert found["hidden"] > 300
    assert read_suggestions(tmp_path / "d" / "suggestions").table.root.is_dir()
    page = (tmp_path / "d" / "report.html").read_text(encoding="utf-8")
    assert page.count("<article>") == 24
    assert "hidden and found" in page
    again = cli("demo", "--out", tmp_path / "d", "--no-report")  # the same pictures
    assert again.code == 0, again.err
    for word in ("mAP", "plusone review", "plusone train"):
        assert word in again.out + again.err
    other = cli("demo", "--out", tmp_path / "d", "--seed", 1)
    assert other.code == 2
    assert "other pictures" in other.err


@pytest.mark.usefixtures("in_this_process")
def test_demo_for_real(cli, tmp_path, monkeypatch):
    """The demo with two methods, one epoch of few items and a report without figures."""
    from plusone.data.source import DATA_DEFAULTS

    monkeypatch.setattr("plusone.report.writing.find_spec", lambda name: None)
    monkeypatch.setattr("plusone.methods.COMPARED", ("an", "bce"))
    for name, value in (("epochs", 1), ("train_share", 0.1)):
        monkeypatch.setitem(DATA_DEFAULTS["digits"], name, value)
    answer = cli("demo", "--methods", "--out", tmp_path / "d", "--json")
    assert answer.code == 0, answer.err
    assert [row["method"] for row in answer.json["rows"]] == ["an", "bce"]
    assert f"report: {tmp_path / 'd' / 'report.html'}" in answer.err
    assert (tmp_path / "d" / "report.html").stat().st_size > 10_000


@pytest.fixture
def tuned(train_as):
    """Trainings that like lr 1e-3 and, at that rate, alpha 0.2; keeps what was trained."""
    trained = []

    def result(job):
        recipe = job.recipe
        score = 0.5 + 0.1 * (recipe.lr == 1e-3) + 0.1 * (recipe.options.get("alpha") == 0.2)
        trained.append((recipe.lr, recipe.options, recipe.seed))
        return result_of(job, score, score + 0.01 * recipe.seed)

    train_as(result)
    return trained


def test_tuning_chooses_the_rate_then_the_options_then_trains_the_other_seeds(cli, tmp_path, tuned):
    arguments = ("bench", "digits-features", "-m", "an,em", "--tune", "--lr", "1e-2,1e-3")
    more = ("--no-extend", "--seeds", "0,1", "--out", tmp_path, "--json", "--no-report")
    answer = cli(*arguments, *more)
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
    answer = cli(*arguments, "-s", "options.alpha=0.3", "--out", tmp_path, "--no-report")
    assert answer.code == 0
    assert tuned == [(1e-3, {"alpha": 0.3}, 0)]


def test_optuna_from_the_command_line(cli, tmp_path, tuned):
    pytest.importorskip("optuna")
    arguments = ("bench", "digits-features", "-m", "em", "--search", "optuna", "--trials", 4)
    options = ("--seeds", "0,1", "--out", tmp_path, "--json", "--no-report")
    whole = cli(*arguments, *options).json
    assert len(tuned) == 4 + 1
    assert "4 trials" in whole["settings"]["rule"]
    assert whole["rows"][0]["seeds"] == 2
    assert (tmp_path / "optuna.journal").exists()
    assert cli(*arguments, *options).json == whole
    assert len(tuned) == 5


def test_every_grid_fits_its_method():
    from plusone.methods import METHODS

    for name, info in METHODS.items():
        made = [info.make_options(options) for options in ({}, *info.grid)]
        assert len({str(entry) for entry in made}) == len(made), name
        tuned = bool(dataclasses.fields(info.options)) and not info.closed_form
        assert bool(info.grid) == tuned, name  # a closed form chooses its own penalty
