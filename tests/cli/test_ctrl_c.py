"""Ctrl-C on real processes: exit code 130, nothing left running, nothing lost."""

from __future__ import annotations

import json
import os
import signal
import time

import psutil
import pytest
from tests.patience import PATIENCE

pytestmark = pytest.mark.slow


def wait_for(condition, process):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)


def stopped(process):
    """Presses Ctrl-C: the terminal tells the whole process group. Returns what was said."""
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert err.endswith("plusone: stopped by Ctrl-C\n")
    assert psutil.wait_procs(family, timeout=PATIENCE)[1] == []
    return err


def test_train_goes_on_after_ctrl_c_as_if_nothing_had_happened(cli, start, folder, tmp_path):
    options = ("train", folder / "labels.csv", "-x", folder / "x.npz", "-m", "gr", "--json")
    options += ("-s", "batch_size=1", "--lr", 0.01, "--epochs", 200, "-s", "threads=1")
    to = tmp_path / "stopped"
    process = start(*options, "--out", to)
    wait_for((to / "checkpoint.safetensors").exists, process)
    err = stopped(process)
    assert f"stopped; add --resume to the same command to continue ({to})" in err
    assert not (to / "metrics.json").exists()
    epochs = len((to / "records.jsonl").read_text().splitlines())
    assert 0 < epochs < 200

    resumed = cli(*options, "--out", to, "--resume")
    assert resumed.code == 0, resumed.err
    assert "epoch   1 " not in resumed.err
    straight = cli(*options, "--out", tmp_path / "straight")
    assert straight.code == 0, straight.err
    differ = {"seconds", "run"}
    assert {k: v for k, v in resumed.json.items() if k not in differ} == {
        k: v for k, v in straight.json.items() if k not in differ
    }

    def records(folder):
        lines = map(json.loads, (folder / "records.jsonl").read_text().splitlines())
        return [{k: v for k, v in line.items() if k != "seconds"} for line in lines]

    assert records(to) == records(tmp_path / "straight")
    weights = [f / "model.safetensors" for f in (to, tmp_path / "straight")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_the_processes_that_decode_images_end(start, folder, tmp_path):
    options = ("train", folder / "photos", "-m", "an", "--backbone", "cnn", "--epochs", 10_000)
    options += ("-s", "image_size=32", "-s", "cache_mb=0", "-s", "workers=2", "--json")
    process = start(*options, "--out", tmp_path / "run")
    wait_for((tmp_path / "run" / "checkpoint.safetensors").exists, process)
    assert len(psutil.Process(process.pid).children()) == 4  # of training and validation items
    stopped(process)


def test_bench_goes_on_after_ctrl_c(cli, start, folder, tmp_path, in_this_process):
    options = ("bench", folder / "labels.csv", "-x", folder / "x.npz", "-m", "an,bce")
    options += ("--seeds", "0,1,2", "-s", "epochs=150", "--out", tmp_path, "--json", "--no-report")
    options += ("--workers", 1, "--lr", 1e-3)
    journal = tmp_path / "journal.jsonl"
    process = start(*options)
    wait_for(lambda: journal.exists() and journal.stat().st_size > 0, process)
    err = stopped(process)
    assert f"stopped; run the same command again to continue ({tmp_path} keeps what is done)" in err
    done = len(journal.read_text().splitlines())
    assert 0 < done < 6
    again = cli(*options)
    assert again.code == 0, again.err
    assert again.err.count("(done before)") == done
    assert [row["seeds"] for row in again.json["rows"]] == [3, 3]


def test_a_killed_bench_leaves_no_process_behind(start, folder, tmp_path):
    forever = ("-s", "epochs=1000000", "--workers", 2)  # they must not end because they are done
    data = (folder / "labels.csv", "-x", folder / "x.npz")
    process = start("bench", *data, "-m", "an", *forever, "--out", tmp_path)
    workers = []

    def working():
        found = psutil.Process(process.pid).children()
        workers[:] = [child for child in found if "spawn_main" in " ".join(child.cmdline())]
        return len(workers) == 2

    wait_for(working, process)
    time.sleep(0.5)
    process.kill()
    # One that is loading its libraries, which takes long on a busy machine, looks up after that.
    assert psutil.wait_procs(workers, timeout=PATIENCE)[1] == []


def test_a_worker_that_dies_fails_the_bench(start, folder, tmp_path):
    options = ("-m", "an", "-s", "epochs=1000000", "--workers", 1, "--seed", 0, "--lr", 0.001)
    data = (folder / "labels.csv", "-x", folder / "x.npz")
    process = start("bench", *data, *options, "--out", tmp_path)
    workers = []

    def working():
        found = psutil.Process(process.pid).children()
        workers[:] = [child for child in found if "spawn_main" in " ".join(child.cmdline())]
        return workers

    wait_for(working, process)
    workers[0].kill()
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (1, "")
    assert "plusone: an, seed 0, lr 0.001: its process died, killed by" in err
    assert "Traceback" not in err


def test_sigterm_ends_as_ctrl_c_does(start, folder, tmp_path):
    """As a scheduler or `kill` sends it: to the process alone."""
    options = ("train", folder / "labels.csv", "-x", folder / "x.npz", "-m", "gr", "--json")
    options += ("-s", "batch_size=1", "--epochs", 100, "-s", "threads=1", "--lr", "0.01")
    process = start(*options, "--out", tmp_path / "run")
    wait_for((tmp_path / "run" / "checkpoint.safetensors").exists, process)
    process.terminate()
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143
    assert out == ""
    assert "stopped; add --resume to the same command to continue" in err
    assert err.endswith("plusone: stopped by SIGTERM\n")
