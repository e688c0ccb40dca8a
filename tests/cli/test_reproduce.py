"""The command `reproduce`: stopped, continued, shown, refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import plusone.compare.jobs

N = 60


def devkit(root: Path) -> Path:
    """VOC 2012 without images, 40 train and 20 val items; returns their features."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 5)).astype(np.float32)
    lists = root / "VOC2012" / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    for part, rows in (("train", range(40)), ("val", range(40, N))):
        for column, name in enumerate(("ant", "bee", "cat")):
            lines = (f"{row:03d} {1 if x[row, column] > 0 else -1}\n" for row in rows)
            (lists / f"{name}_{part}.txt").write_text("".join(lines))
    np.savez(root / "x.npz", x=x, ids=np.array([f"{row:03d}.jpg" for row in range(N)]))
    return root / "x.npz"


@pytest.mark.slow
def test_stopped_and_continued(cli, tmp_path, monkeypatch, in_this_process):
    features = devkit(tmp_path / "voc")
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
    devkit(tmp_path / "voc")
    intervals = cli("reproduce", "voc", tmp_path / "voc", "-t", "cole-a2", "--json").json
    assert [line["row"] for line in intervals["lines"]] == ["5", "10", "25"]
    assert intervals["lines"][0]["published"] == ["1.0", "2.0"]
    low, high = map(float, intervals["lines"][0]["here"])
    assert 0 <= low < high <= 3
    answer = cli("reproduce", "voc", tmp_path / "voc", "-t", "cole-a3")
    assert answer.out.split("most positives of an item")[1].split()[:2] == ["3", "5"]
    table = (tmp_path / "voc-cole-a3" / "table.md").read_text(encoding="utf-8")
    assert "Cole et al. 2021, Table A3" in table
    assert "cannot be compared" in table


@pytest.mark.parametrize("name", ["lasd-3", "gr-3", "lac-3"])
def test_ablations_with_their_published_figures(cli, tmp_path, name, in_this_process):
    features = devkit(tmp_path / "voc")
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
