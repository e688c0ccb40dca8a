"""Processes that are killed, clocks that go back, data that changes meanwhile."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from pathlib import Path

import psutil
import pytest
from PIL import Image

from .conftest import SMALL

KILLS = os.environ.get("PLUSONE_KILLS", "")
TOOL = Path(__file__).resolve().parents[2] / "tools" / "kills.py"


@pytest.mark.slow
def test_kill_9_at_random_moments(python):
    words = ["--kills", KILLS or "2", "--json", *([] if KILLS else ["--only", "suggest"])]
    done = subprocess.run([python, TOOL, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["kills"], found["damage"]) == (int(KILLS or 2), 0)
    assert all(row["ends"] and row["files"] for row in found["rows"])


def test_a_process_that_decodes_images_is_killed(cli, photos, tmp_path):
    mine = {child.pid for child in psutil.Process().children()}
    over = threading.Event()

    def kill_the_first() -> None:
        while not over.is_set():
            for child in psutil.Process().children():
                if child.pid not in mine:
                    child.kill()
                    return
            time.sleep(0.002)

    killer = threading.Thread(target=kill_the_first)
    killer.start()
    words = ("-s", "workers=1", "-s", "cache_mb=0", "-s", "batch_size=1", "--epochs", 20)
    answer = cli("train", photos, "-m", "an", *SMALL, *words, "--out", tmp_path / "run")
    over.set()
    killer.join()
    assert answer.code == 1
    assert answer.sentence.startswith("a process that decodes images was killed (out of memory")
    assert "train continues with --resume" in answer.sentence


def test_a_clock_that_goes_back(cli, words, tmp_path, monkeypatch):
    now = iter(range(2_000_000_000, 0, -1000))
    monkeypatch.setattr(time, "time", lambda: float(next(now)))
    command = ("train", *words, "-m", "gr", "--epochs", 2, "--json", "--out", tmp_path / "run")
    answer = cli(*command)
    assert answer.code == 0, answer.err
    assert answer.json["seconds"] >= 0
    records = (tmp_path / "run" / "records.jsonl").read_text().splitlines()
    assert all(json.loads(line)["seconds"] >= 0 for line in records)


def test_an_image_mended_between_stop_and_resume(cli, photos, tmp_path, monkeypatch):
    good = (photos / "red" / "0.png").read_bytes()
    (photos / "red" / "0.png").write_bytes(b"")
    command = ("train", photos, "-m", "an", "--epochs", 3, *SMALL, "--out", tmp_path / "run")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("plusone.results.EpochRecord.to_json", stop)
        assert cli(*command).code == 130
    (photos / "red" / "0.png").write_bytes(good)
    answer = cli(*command, "--resume")
    assert answer.code == 2
    assert "cannot resume, the seen labels are not the same as before" in answer.sentence


@pytest.mark.parametrize("held", ["cache_mb=0", "cache_mb=100"])
def test_other_images_between_stop_and_resume(cli, photos, tmp_path, held):
    """Every image of the same name replaced by a black one of the same size."""
    words = ("-m", "an", "--epochs", 1, *SMALL, "-s", held, "--out", tmp_path / "run")
    assert cli("train", photos, *words).code == 0
    assert cli("train", photos, *words, "--resume").code == 0
    for path in photos.rglob("*.png"):
        Image.new("RGB", (24, 20)).save(path)
    answer = cli("train", photos, *words, "--resume")
    assert answer.code == 2
    assert re.search("cannot resume, .* not the same as before", answer.sentence)
