"""Disks that take no more, and folders that take nothing: one sentence, and no half file."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from plusone.cli.checks import check_folder
from plusone.data.images import cached_images
from plusone.errors import InputError, RunError
from plusone.io.files import LEFTOVER, alone_in, replacing, room, write_text
from plusone.io.jsonl import append_jsonl
from plusone.prediction.checkpoint import load
from plusone.reviewing.store import Answer, Store

from .conftest import SMALL, no_room_for

FULL = "could not be written, the file would be larger than files may be here"
TRAIN = ("-m", "gr", "-s", "batch_size=16", "--no-report", "--json")


def whole(folder):
    """Every file of a run folder can be read, and nothing temporary is left."""
    for path in folder.rglob("*"):
        assert not path.name.endswith(LEFTOVER)
        if path.suffix == ".json":
            json.loads(path.read_text())
        if path.suffix == ".safetensors":
            load(path)
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                assert [arrays[name] for name in arrays.files]
        if path.suffix == ".jsonl":
            assert all(map(json.loads, path.read_text().splitlines()))


def test_a_file_that_does_not_fit_leaves_the_old_one(tmp_path):
    write_text(tmp_path / "a.txt", "old")
    with no_room_for(1000), pytest.raises(OSError, match="too large") as caught:
        write_text(tmp_path / "a.txt", "x" * 2000)
    assert caught.value.filename == str(tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    sentence = room(caught.value)
    assert sentence is not None
    assert sentence.startswith(f"{tmp_path / 'a.txt'}: {FULL}")
    assert "B are free)" in sentence


def test_lines_are_added_whole_or_not_at_all(tmp_path):
    path = tmp_path / "lines"
    append_jsonl(path, 1)
    with no_room_for(8), pytest.raises(OSError, match="too large") as caught:
        append_jsonl(path, "two and more", 2)
    append_jsonl(path, 3)
    assert path.read_text() == "1\n3\n"
    assert caught.value.filename == str(path)


def test_a_device_that_is_full_is_said_to_be():
    with pytest.raises(OSError, match="No space") as caught, open("/dev/full", "w") as file:
        file.write("x")
    assert "the output: could not be written, the disk is full" in (room(caught.value) or "")
    assert room(OSError(errno.EACCES, "no")) is None


def test_training_stops_in_a_sentence_and_goes_on_later(cli, words, tmp_path, monkeypatch):
    monkeypatch.setattr("plusone.training.run.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    monkeypatch.setattr("plusone.cli.checks.TRIAL", 1)
    run, straight = tmp_path / "run", tmp_path / "straight"
    command = ("train", *words, *TRAIN, "--epochs", 40)
    with no_room_for(12_000):
        answer = cli(*command, "--out", run)
    assert answer.code == 1
    assert answer.out == ""
    assert f"{run / 'records.jsonl'}: {FULL}" in answer.sentence
    assert f"stopped; add --resume to the same command to continue ({run})" in answer.err
    whole(run)
    assert 0 < len((run / "records.jsonl").read_text().splitlines()) < 40
    assert cli(*command, "--out", run, "--resume").code == 0
    assert cli(*command, "--out", straight).code == 0
    for name in ("model.safetensors", "calibration.json", "thresholds.json"):
        assert (run / name).read_bytes() == (straight / name).read_bytes()


@pytest.mark.parametrize("size", [300, 1500, 3000])
def test_a_run_that_cannot_begin_leaves_no_half_file(cli, words, tmp_path, monkeypatch, size):
    monkeypatch.setattr("plusone.cli.checks.TRIAL", 1)
    with no_room_for(size):
        answer = cli("train", *words, *TRAIN, "--epochs", 2, "--out", tmp_path / "run")
    assert answer.code == 1
    assert FULL in answer.sentence
    whole(tmp_path / "run")


def test_no_work_begins_on_a_full_disk(cli, words, data, photos, tmp_path):
    run = tmp_path / "run"
    assert cli("train", *words, *TRAIN, "--epochs", 1, "--out", run).code == 0
    to = tmp_path / "to"
    with no_room_for(1000):
        for command in (
            ("train", *words, "--out", to),
            ("bench", *words, "--out", to),
            ("suggest", run, "--out", to),
            ("features", photos, "--backbone", "cnn", "--out", to / "x.npz"),
            ("predict", run, data / "x.npz", "--out", to / "tags.csv"),
            ("observe", data / "labels.csv", "--out", to / "seen.csv"),
            ("example", to),
            ("report", run, "--out", to / "report.html"),
            ("export", run, "--out", to),
        ):
            answer = cli(*command)
            assert answer.code == 1, (command, answer)
            assert FULL in answer.sentence, command
            assert not to.exists(), command


def test_a_file_of_many_is_named_by_its_own_name(cli, photos, tmp_path, monkeypatch):
    """Pictures that are written or copied into a folder; nothing of the folder is left."""
    monkeypatch.setattr("plusone.cli.checks.TRIAL", 1)
    run, to = tmp_path / "run", tmp_path / "to"
    assert cli("train", photos, *SMALL, "-m", "an", "--epochs", 1, "--out", run).code == 0
    with no_room_for(200):
        for command in (
            ("example", to),
            ("demo", "--out", to),
            ("predict", run, photos, "--copy-to", to),
        ):
            answer = cli(*command)
            assert answer.code == 1, (command, answer)
            assert f"{to}/" in answer.sentence, command
            assert LEFTOVER not in answer.sentence, command
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(LEFTOVER)]


def test_other_commands_stop_in_a_sentence_too(cli, words, data, tmp_path, monkeypatch):
    monkeypatch.setattr("plusone.cli.checks.TRIAL", 1)
    run, to = tmp_path / "run", tmp_path / "to"
    assert cli("train", *words, *TRAIN, "--epochs", 1, "--out", run).code == 0
    with no_room_for(500):
        for command in (
            ("suggest", run, "--folds", 2, "--out", to / "s"),
            ("predict", run, data / "x.npz", "--out", to / "tags.csv"),
            ("observe", data / "labels.csv", "--out", to / "seen.npz"),
            ("export", run, "--out", to / "e"),
        ):
            answer = cli(*command)
            assert answer.code == 1, (command, answer)
            assert FULL in answer.sentence, command
    whole(to)


def test_decoded_images_that_do_not_fit(photos, tmp_path):
    paths = sorted(photos.rglob("*.png"))
    with no_room_for(5000), pytest.raises(OSError, match="too large"):
        cached_images(paths, 16, tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"this user may not mount: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_fills_up_and_is_cleared(cli, words, small_disk, monkeypatch):
    monkeypatch.setattr("plusone.training.run.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    other = small_disk / "other"
    other.write_bytes(bytes(200_000))
    command = ("train", *words, *TRAIN, "--epochs", 40, "--out", small_disk / "run")
    answer = cli(*command)
    assert answer.code == 1
    assert "could not be written, the disk is full (" in answer.sentence
    assert "kB are free); the previous content is intact" in answer.sentence
    whole(small_disk / "run")
    other.unlink()
    assert cli(*command, "--resume").code == 0


def test_a_folder_that_may_not_be_written_to():
    with tempfile.TemporaryDirectory() as name, ExitStack() as later:
        place = Path(name)
        place.chmod(0o555)
        if os.geteuid() == 0:  # root may write everywhere: somebody else tries
            os.setresuid(65534, 65534, 0)
            later.callback(os.setresuid, 0, 0, 0)
        with pytest.raises(InputError) as caught:
            check_folder(place / "run")
        assert str(caught.value) == f"{place}: cannot be written to; choose another --out"


def test_a_read_only_file_system(cli, words, small_disk):
    if subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=False).returncode:
        pytest.skip("this user may not mount")
    for command in (("train", *words), ("bench", *words)):
        answer = cli(*command, "--out", small_disk / "to")
        assert answer.code == 2
        assert answer.sentence == f"{small_disk}: cannot be written to; choose another --out\n"


def test_two_at_once_in_one_folder(cli, words, tmp_path):
    run = tmp_path / "run"
    with alone_in(run):
        answer = cli("train", *words, *TRAIN, "--epochs", 1, "--out", run)
        assert answer.code == 2
        assert answer.sentence.startswith(f"{run}: another plusone is at work in this folder")
        bench = cli("bench", *words, "-m", "an", "--seed", 0, "--out", run)
        assert bench.sentence.startswith(f"{run}: another plusone is at work in this folder")
    assert cli("train", *words, *TRAIN, "--epochs", 1, "--out", run).code == 0


def test_a_killed_process_keeps_no_folder(tmp_path, python):
    code = (
        "import os, sys, time; from pathlib import Path; from plusone.io.files import alone_in\n"
        "with alone_in(Path(sys.argv[1])):\n"
        "    if not os.fork(): print(os.getpid(), flush=True)\n"  # by then it has let go
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen([python, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        process.kill()
        process.wait()
        with alone_in(tmp_path):  # although its child lives on
            os.kill(child, 0)
    finally:
        os.kill(child, 9)
        process.stdout.close()


def test_a_name_of_a_temporary_file_is_never_said(tmp_path):
    with (
        pytest.raises(OSError, match="No space") as caught,
        replacing(tmp_path / "a.npy") as temporary,
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(temporary))
    assert (room(caught.value) or "").startswith(f"{tmp_path / 'a.npy'}: could not be written")


def test_features_are_extracted_again_from_where_they_were(cli, photos, tmp_path, monkeypatch):
    monkeypatch.setattr("plusone.cli.checks.TRIAL", 1)
    command = ("features", photos, "--backbone", "cnn", "--size", 16, "--workers", 0, "--json")
    with no_room_for(2000):
        answer = cli(*command, "-o", tmp_path / "x.npz")
    assert answer.code == 1
    assert FULL in answer.sentence
    assert "stopped; run the same command again to continue" in answer.err
    assert not (tmp_path / "x.npz").exists()
    assert cli(*command, "-o", tmp_path / "x.npz").json["items"] == 24


def test_an_answer_that_cannot_be_kept_is_said_not_to_be(small_disk):
    store = Store(small_disk / "review.sqlite")
    store.append("a" * 16, "00", [Answer("1.png", "dog", "yes")])
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space"):
        filler.write_bytes(bytes(300_000))
    kept = ["00"]

    def answer_on() -> None:
        for number in range(1, 500):
            store.append("a" * 16, f"{number:02x}", [Answer("1.png", "dog" * 100, "no")])
            kept.append(f"{number:02x}")

    with pytest.raises(RunError, match="the answer could not be saved"):
        answer_on()
    filler.unlink()
    store.append("a" * 16, "ffff", [Answer("1.png", "cat", "yes")])
    assert [entry.step for entry in store.since()] == [*kept, "ffff"]
    store.close()
