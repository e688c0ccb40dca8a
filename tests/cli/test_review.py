"""The command review: what it refuses, what it writes, how it starts and stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from tests.patience import PATIENCE

from plusone.data.formats import read
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.extras import install_command
from plusone.reviewing.opening import open_suggestions
from plusone.suggestions import Suggestions, write_suggestions

pytestmark = pytest.mark.slow

A = "a" * 16


@pytest.fixture
def reviewed(folder, tmp_path):
    """Suggestions about the small data set; two answers yes, one no, one skipped.

    The seen label of item 39, about which nothing else was said, is wrong.
    """
    truth = read(folder / "labels.csv").table
    labels = LabelMatrix.from_lists([[row[0]] for row in map(truth.truth.positives, range(60))], 3)
    table = LabelTable(truth.ids, truth.classes, labels, split=truth.split)
    row, label = np.nonzero(labels.dense() == 0)
    p = np.linspace(0.9, 0.1, len(row)).astype(np.float32)
    found = Suggestions(table, row, label.astype(np.int32), p, p, {})
    write_suggestions(found, tmp_path / "s")
    asked = list(zip(row.tolist(), label.tolist(), strict=True))
    desk = open_suggestions(tmp_path / "s")
    for step, (pair, action) in enumerate(zip(asked, ("yes", "no", "yes", "skip"), strict=False)):
        desk.answer(A, f"{step:016x}", [(*pair, action)])
    desk.answer(A, "f" * 16, [(39, int(labels.positives(39)[0]), "no")])
    desk.store.close()
    return tmp_path / "s"


def test_summary(cli, reviewed):
    answer = cli("review", reviewed, "--summary", "--json")
    assert answer.code == 0, answer.err
    progress = answer.json["progress"]
    assert (progress["yes"], progress["no"], progress["skipped"]) == (2, 1, 1)
    assert (progress["wrong"], progress["added"]) == (1, 0)
    asked = progress["questions"]
    every = cli("review", reviewed, "--summary", "--min-probability", 0, "--json")
    assert asked < every.json["progress"]["questions"] == 120
    assert progress["accepted"] == pytest.approx(2 / 3)
    assert sum(one["yes"] for one in answer.json["classes"]) == 2
    shown = cli("review", reviewed, "--summary")
    assert "66.67" in shown.out
    assert max(len(line) for line in shown.out.splitlines()) <= 80


@pytest.mark.parametrize("suffix", ["csv", "npz", "parquet"])
def test_export_is_a_label_table_that_train_takes(cli, folder, reviewed, tmp_path, suffix):
    to = tmp_path / f"labels.{suffix}"
    answer = cli("review", reviewed, "--export", to, "--json")
    assert answer.code == 0, answer.err
    assert (answer.json["yes"], answer.json["no"], answer.json["left_out"]) == (2, 2, 0)
    assert answer.json["wrong"] == 1
    labels = read(to, check_images=False).table.labels
    assert int(labels.per_class(1).sum()) == 61
    assert int(labels.per_class(-1).sum()) == 2
    assert len(labels.positives(39)) == 0
    if suffix == "csv":
        run = tmp_path / "run"
        trained = cli("train", to, "-x", folder / "x.npz", "--epochs", 1, "--out", run, "--json")
        assert trained.code == 0, trained.err
        seen = read(run / "observed.npz", check_images=False).table.labels
        assert int(seen.per_class(-1).sum()) == 2


def test_an_export_elsewhere_finds_the_images(cli, folder, tmp_path):
    classes, to = tmp_path / "classes.txt", tmp_path / "new labels.csv"
    classes.write_text("cat\ndog\n")
    new = ("review", "--annotate", folder / "photos", "--classes", classes)
    answer = cli(*new, "--db", tmp_path / "db.sqlite", "--export", to)
    assert answer.code == 0, answer.err
    assert read(to).table.root.samefile(folder / "photos")


def test_wrong_usage_is_one_sentence(bad, reviewed, tmp_path, folder):
    assert "either a folder" in bad("review").err
    assert "either a folder" in bad("review", reviewed, "--annotate", folder).err
    assert "not a folder of suggestions" in bad("review", tmp_path).err
    assert "unknown order 'best'" in bad("review", reviewed, "--order", "best").err
    assert "--classes" in bad("review", "--annotate", folder / "photos").err
    assert "for --annotate" in bad("review", reviewed, "--classes", "c.txt").err
    assert "for suggestions" in bad("review", "--annotate", folder, "--budget", 5).err
    assert "suffix" in bad("review", reviewed, "--export", tmp_path / "labels.txt").err
    assert "is a folder" in bad("review", reviewed, "--export", tmp_path).err
    assert "database of answers" in bad("review", reviewed, "--db", tmp_path / "no" / "x").err


def test_new_items(cli, folder, tmp_path):
    classes = tmp_path / "classes.txt"
    classes.write_text("red\ngreen\nblue\n")
    answer = cli(
        "review", "--annotate", folder / "photos", "--classes", classes, "--summary", "--json",
        "--db", tmp_path / "r.sqlite",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    assert answer.json["progress"]["questions"] == 24
    assert (tmp_path / "r.sqlite").is_file()


def test_without_the_extra_it_says_what_to_install(reviewed):
    code = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from plusone.cli.app import main\n"
        f"main(['review', {str(reviewed)!r}, '--no-browser'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 2
    assert done.stderr.endswith(install_command("review") + "\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_it_serves_until_ctrl_c_and_stops_cleanly(start, reviewed):
    process = start("review", reviewed, "--no-browser", "--json", "--stop-after", PATIENCE)
    found = json.loads(process.stdout.readline())
    assert found["url"].startswith(f"http://127.0.0.1:{found['port']}/?token=")
    assert found["answered"] == 3
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert out == ""
    assert "Traceback" not in err
    assert err.endswith(f"stopped; 3 answered, all in {reviewed / 'review.sqlite'}\n")
    assert found["url"].partition("token=")[2] not in err
    left = {path.name for path in reviewed.iterdir() if path.name.startswith("review.sqlite")}
    assert left == {"review.sqlite"}


@pytest.mark.slow
def test_it_stops_by_itself(start, reviewed):
    process = start("review", reviewed, "--no-browser", "--stop-after", 0.5, "--budget", 2)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert out.startswith("http://127.0.0.1:")
    assert "questions are open" in err
