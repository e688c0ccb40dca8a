"""The command `reproduce`: stopped, continued, shown, refused."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compare.trees import PAPERS, TREES, tree

import plusone.compare.jobs

SMALL = {"backbone": "cnn", "image_size": 16, "workers": 0, "device": "cpu"}
QUICK = {"epochs": 1, "finetune_epochs": 1, "expected_positives": 1.7}  # for four classes
HEAD = {"width": 8, "heads": 2, "feedforward": 8}


@pytest.mark.slow
def test_stopped_and_continued(cli, tmp_path, monkeypatch, in_this_process):
    features = tree("voc", tmp_path / "voc")
    words = ("reproduce", "voc", tmp_path / "voc", "-x", features, "-m", "an,wan", "--lr", 1e-1)
    words += ("-s", "epochs=1", "--seeds", "0,1", "--workers", 1, "-o", tmp_path / "out")
    monkeypatch.setattr("plusone.report.writing.find_spec", lambda name: None)  # as tables
    append, calls = plusone.compare.jobs.append_jsonl, []

    def stop_at_the_third(*arguments):
        calls.append(arguments)
        if len(calls) == 3:  # both methods with batch 8 are done
            raise KeyboardInterrupt
        append(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(plusone.compare.jobs, "append_jsonl", stop_at_the_third)
        stopped = cli(*words)
    assert stopped.code == 130
    assert "run the same command again to continue" in stopped.err
    assert "| an |" in (tmp_path / "out" / "table.md").read_text(encoding="utf-8")
    first = (tmp_path / "out" / "linear-batch8" / "journal.jsonl").read_bytes()

    done = cli(*words)
    assert done.code == 0, done.err
    assert done.err.count("(done before)") == 4  # two methods, two seeds
    assert (tmp_path / "out" / "linear-batch8" / "journal.jsonl").read_bytes() == first
    assert "PASCAL VOC 2012, table cole, linear" in done.out
    assert "warning: PASCAL VOC 2012, train items: 40 found, 5,717 published" in done.err
    header = next(line for line in done.out.splitlines() if "method" in line)
    assert header.split() == ["method", "test", "mAP", "published", "difference", "lr", "batch"]
    table = (tmp_path / "out" / "table.md").read_text(encoding="utf-8")
    assert "| batch 8 | batch 16 |" in table
    assert f"to repeat: plusone reproduce voc {tmp_path / 'voc'} --features" in table
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "84.2" in page  # the published figure of an


def test_tables_that_count_labels(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tree("voc", tmp_path / "voc")
    intervals = cli("reproduce", "voc", tmp_path / "voc", "-t", "cole-a2", "--json").json
    assert [line["row"] for line in intervals["lines"]] == ["5", "10", "25"]
    assert intervals["lines"][0]["published"] == ["1.0", "2.0"]
    low, high = map(float, intervals["lines"][0]["here"])
    assert 0 <= low < high <= 4
    answer = cli("reproduce", "voc", tmp_path / "voc", "-t", "cole-a3")
    assert answer.out.split("most positives of an item")[1].split()[:2] == ["3", "5"]
    table = (tmp_path / "voc-cole-a3" / "table.md").read_text(encoding="utf-8")
    assert "Cole et al. 2021, Table A3" in table
    assert "cannot be compared" in table


def settings(values, prefix=""):
    """Settings as words of a command line."""
    return [word for name, value in values.items() for word in ("-s", f"{prefix}{name}={value}")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "data"),
    [
        ("cole", "voc"),
        ("cole-2", "coco"),
        ("em", "cub"),
        ("lasd", "nuswide"),
        ("gr", "coco"),
        ("gr", "nuswide"),
        ("lac", "voc"),
        ("lac", "cub"),
    ],
)
@pytest.mark.usefixtures("in_this_process")
def test_every_row_of_a_table(cli, tmp_path, table, data):
    root, column = tmp_path / data, list(TREES).index(data)
    tree(data, root, images=True)
    rows = {
        (mode, method): figures[column]
        for mode, methods in PAPERS[table].items()
        for method, figures in methods.items()
        if figures[column] != "-"
    }
    large = {"lac", "mime"} & {method for _, method in rows}  # their heads have sizes of their own
    words = ("reproduce", data, root, "-t", table, "--seeds", 0, "--workers", 1, "--no-report")
    words += (*settings(SMALL | QUICK), "-s", f"head_options={HEAD}")
    names = dict.fromkeys(method for _, method in rows if method not in large)
    chosen = ("-m", ",".join(names)) if large else ()
    answers = [cli(*words, *chosen, "--json", "-o", tmp_path / "small")]
    for name in large:
        sizes = settings(HEAD, "options.")
        answers.append(cli(*words, "-m", name, *sizes, "--json", "-o", tmp_path / name))
    assert [answer.code for answer in answers] == [0] * len(answers), answers
    lines = {
        (line["mode"], line["method"]): line for answer in answers for line in answer.json["lines"]
    }
    left_out = {row for row in rows if row not in lines}
    assert left_out == ({("finetune", "smile")} if table == "gr" else set())
    assert {row: line["published"] for row, line in lines.items()} == {
        row: figure for row, figure in rows.items() if row not in left_out
    }
    assert all(line["difference"] is not None for line in lines.values())
    notes = " ".join(answers[0].json["notes"])
    assert ("smile was not trained: it needs a fixed vector for each item" in notes) == (
        table == "gr"
    )
    assert "backbone cnn" in notes
    assert "features of the data set" not in notes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "data"), [("lasd-3", "voc"), ("gr-3", "coco"), ("lac-3", "coco")]
)
@pytest.mark.usefixtures("in_this_process")
def test_every_row_of_an_ablation_on_images(cli, tmp_path, table, data):
    tree(data, tmp_path / data, images=True)
    words = ("reproduce", data, tmp_path / data, "-t", table, "--seeds", 0, "--workers", 1)
    sizes = settings(HEAD, "options.") if table == "lac-3" else ()
    answer = cli(*words, *settings(SMALL | QUICK), *sizes, "-o", tmp_path / "out", "--json")
    assert answer.code == 0, answer.err
    column = list(TREES).index(data)
    typed = [figures[column] for figures in PAPERS["ablations"][table]["figures"]]
    assert list(dict.fromkeys(row["published"] for row in answer.json["rows"])) == typed
    assert all(row["test_map"] is not None for row in answer.json["rows"])


@pytest.mark.parametrize("name", ["lasd-3", "gr-3", "lac-3"])
def test_ablations_with_their_published_figures(cli, tmp_path, name, in_this_process):
    features = tree("voc", tmp_path / "voc")
    words = ("reproduce", "voc", tmp_path / "voc", "-t", name, "-x", features, "--lr", 1e-2)
    words += ("-s", "epochs=1", "-s", "expected_positives=1.7", "--seeds", 0, "--workers", 1)
    if name == "lac-3":
        words += ("-s", "options.width=8", "-s", "options.feedforward=8", "-s", "freeze=()")
    answer = cli(*words, "-o", tmp_path / "out", "--json")
    assert answer.code == 0, answer.err
    rows = answer.json["rows"]
    assert rows[0]["published"] == (87.6 if name == "lac-3" else 85.89)
    assert all(row["published"] and row["paper"] for row in rows)
    table = (tmp_path / "out" / "table.md").read_text(encoding="utf-8")
    assert "| published |" in table
    assert "cannot be compared with the published ones" in table


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("mnist", "."), "'mnist' is no data set; choose one of voc, coco, nuswide, cub"),
        (("voc", ".", "-t", "role"), "'role' is no table; choose one of cole, cole-2, em, lasd"),
        (("voc", ".", "--modes", "frozen"), "'frozen' is no mode; choose among linear, finetune"),
        (("voc", ".", "-m", "rolle"), "'rolle'"),
        (("voc", ".", "-t", "gr", "-x", "x.npz"), "its rows are of the modes finetune (13)"),
        (("voc", ".", "-t", "gr-3", "-m", "em"), "the table gr-3 takes no --methods"),
        (("voc", ".", "-t", "cole-a2", "--lr", "1"), "the table cole-a2 takes no --lr"),
        (("voc", "nowhere"), "nowhere: is not a folder; download PASCAL VOC 2012 from"),
        (("voc", "."), "VOC2012/ImageSets/Main: is missing"),
        (("voc", ".", "-s", "epoch=1"), "unknown setting 'epoch'"),
        (("voc", ".", "--lr", "1e-3", "-s", "lr=1"), "lr is given by --set and as a list"),
        (("voc", ".", "-m", "em", "-s", "options.beta=1"), "unknown method option 'beta'"),
    ],
)
def test_refused_before_anything_is_read(bad, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    assert message in " ".join(bad("reproduce", *words).err.split())


def test_help_teaches(cli):
    text = " ".join(cli("reproduce", "--help").out.replace("│", "").split())
    for part in ("cole, em, lasd, gr or lac", "the first seed picks the rate", "a GPU",
                 "skipped when the command is run again"):  # fmt: skip
        assert part in text


def test_species(cli, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3)).astype(np.float32)
    (tmp_path / "files").mkdir()
    np.savez(
        tmp_path / "files" / "north.npz",
        x=x,
        species=(x[:, 0] > 0).astype(np.int16),
        site=np.arange(120),
        background=rng.normal(size=(50, 3)).astype(np.float32),
        test_x=x,
        test_y=np.stack([x[:, 0] <= 0, x[:, 0] > 0], axis=1).astype(np.int8),
        names=np.array(["shade", "sun"]),
    )
    words = ("reproduce", "species", tmp_path / "files", "-m", "ridge", "-o", tmp_path / "out")
    answer = cli(*words, "--json")
    assert answer.json["mean_auc"]["ridge"] > 0.9
    assert (tmp_path / "out" / "species.md").exists()
    assert "ridge" in cli(*words).out
    refused = cli(*words, "--lr", 0.1)
    assert (refused.code, "--lr" in refused.err) == (2, True)
    assert cli("reproduce", "voc", tmp_path, "--background", 5).code == 2
