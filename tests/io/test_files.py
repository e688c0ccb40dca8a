"""Where outputs are written: links, devices, modes, temporary files and locks of others."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from tests.patience import PATIENCE

from plusone.errors import InputError
from plusone.io.files import (
    LEFTOVER,
    alone_in,
    clear_leftovers,
    in_turn,
    output_file,
    replacing,
    write_text,
)
from plusone.io.jsonl import append_jsonl
from plusone.prediction.checkpoint import save


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.mark.parametrize("write", [write_text, append_jsonl])
def test_only_regular_files_are_replaced(tmp_path, pipe, write):
    """`--out /dev/null` as root once replaced the device by a file."""
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    for path, kind in (
        (Path("/dev/null"), "a device"),
        (tmp_path / "null", "a device"),
        (pipe, "a pipe"),
        (tmp_path / "folder", "a folder"),
        (tmp_path / "loop", "a link that leads to itself"),
    ):
        with pytest.raises(InputError, match=f"is {kind}, not a file"):
            write(path, "text")
    assert Path("/dev/null").is_char_device()
    assert pipe.is_fifo()
    assert not [name for name in os.listdir(tmp_path) if name.endswith(LEFTOVER)]


def test_a_link_stays_and_its_target_gets_the_content(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old.txt").write_text("old")
    for name, target in (("one", "a/old.txt"), ("two", "a/new.txt")):
        (tmp_path / name).symlink_to(target)
        write_text(tmp_path / name, "new")
        assert os.readlink(tmp_path / name) == target
        assert (tmp_path / target).read_text() == "new"
    assert output_file(tmp_path / "one") == tmp_path.resolve() / "a" / "old.txt"


def test_modes_follow_the_umask_and_the_old_file(tmp_path):
    before = os.umask(0o077)
    try:
        write_text(tmp_path / "private", "x")
        os.umask(0o002)
        write_text(tmp_path / "group", "x")
    finally:
        os.umask(before)
    (tmp_path / "old").write_text("x")
    (tmp_path / "old").chmod(0o640)
    write_text(tmp_path / "old", "y")
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"private": 0o600, "group": 0o664, "old": 0o640}


def test_weights_have_the_mode_of_other_files(tmp_path):
    before = os.umask(0o022)
    try:
        save(tmp_path / "a.safetensors", {"x": torch.zeros(1)}, {})
        write_text(tmp_path / "a.txt", "x")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o644}


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give files away")
def test_root_leaves_a_file_to_its_owner(tmp_path):
    (tmp_path / "theirs").write_text("x")
    os.chown(tmp_path / "theirs", 12345, 12345)
    write_text(tmp_path / "theirs", "y")
    status = (tmp_path / "theirs").stat()
    assert (status.st_uid, status.st_gid) == (12345, 12345)


def test_links_in_an_output_folder_do_not_lead_out_of_it(tmp_path):
    run, outside = tmp_path / "run", tmp_path / "outside"
    (run / "folds").mkdir(parents=True)
    outside.write_text("mine")
    (run / "best").symlink_to("model")
    with alone_in(run):
        pass
    for link in (run / "metrics.json", run / "folds" / "0.npz"):
        link.symlink_to(outside)
        with pytest.raises(InputError, match="is a link that leaves the folder"), alone_in(run):
            pass
        link.unlink()
    (run / "figures").symlink_to(tmp_path)
    with pytest.raises(InputError, match="is a link that leaves the folder"), alone_in(run):
        pass
    assert outside.read_text() == "mine"


def test_only_our_own_abandoned_temporary_files_are_removed(tmp_path):
    for name in (".video.mp4.part", ".x.part", "y.part", f"a{LEFTOVER}", f".old.0{LEFTOVER}"):
        (tmp_path / name).write_text("x")
    with replacing(tmp_path / "now") as temporary:
        temporary.write_text("x")
        clear_leftovers(tmp_path)
        assert temporary.exists()
        left = {path.name for path in tmp_path.iterdir()} - {temporary.name}
    assert left == {".video.mp4.part", ".x.part", "y.part", f"a{LEFTOVER}"}
    assert (tmp_path / "now").read_text() == "x"


TURN = """
import sys, time
from pathlib import Path
from plusone.io.files import in_turn

lock, log = map(Path, sys.argv[1:])
for _ in range(15):
    with in_turn(lock):
        with log.open("a") as file:
            file.write("in ")
        time.sleep(0.002)
        with log.open("a") as file:
            file.write("out ")
"""


def test_one_at_a_time_although_the_lock_file_goes(tmp_path):
    """The holder removes the lock file: those that wait for it must not share it with new ones."""
    lock, log = tmp_path / "lock", tmp_path / "log"
    started = [
        subprocess.Popen([sys.executable, "-c", TURN, str(lock), str(log)]) for _ in range(3)
    ]
    assert [one.wait(PATIENCE) for one in started] == [0, 0, 0]
    assert log.read_text().split() == ["in", "out"] * 45
    assert not lock.exists()


def test_who_waits_for_a_removed_lock_file_takes_the_new_one(tmp_path):
    lock = tmp_path / "lock"
    inside: list[int] = []
    together: list[int] = []

    def enter() -> None:
        with in_turn(lock):
            inside.append(1)
            together.append(len(inside))
            time.sleep(0.1)
            inside.pop()

    with in_turn(lock):
        waiting = threading.Thread(target=enter)
        waiting.start()
        time.sleep(0.1)  # it waits for the file that is removed next
    late = threading.Thread(target=enter)
    late.start()
    for thread in (waiting, late):
        thread.join()
    assert together == [1, 1]
