"""The same seed gives the same result: in another process, after other work, with other threads."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.patience import HOUR

from plusone.compare.jobs import Job, make_units, run_jobs, run_unit
from plusone.data.dataset import Dataset
from plusone.data.source import Source
from plusone.inputs.task import make_task
from plusone.methods import METHODS
from plusone.recipe import make_recipe
from plusone.training.closed_fit import fit_for

from .everything_once import everything

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("everything_once.py")


def test_everything_is_the_same_in_a_fresh_process_and_after_other_work(tmp_path):
    environment = os.environ | {"PYTHONHASHSEED": "271828", "OMP_NUM_THREADS": "1"}
    fresh = subprocess.Popen(
        [sys.executable, str(SCRIPT)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    torch.manual_seed(99)  # what other work leaves behind
    torch.rand(7)
    np.random.seed(7)
    random.seed(5)
    here = everything(tmp_path)
    out, err = fresh.communicate(timeout=HOUR)
    assert fresh.returncode == 0, err
    there = json.loads(out)
    assert here.keys() == there.keys() >= METHODS.keys()
    assert {name for name in here if here[name] != there[name]} == set()
    ways = {here[name] for name in ("images", "images, two workers", "images, cache")}
    assert len(ways) == 1  # how images are read changes nothing
    assert len({here[name].split()[0] for name in METHODS}) > len(METHODS) * 3 // 4


def wide(n=320, dim=512, n_classes=64) -> Dataset:
    """Enough arithmetic that a step is shared among threads."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, dim)).astype(np.float32)
    y = (x @ rng.normal(size=(dim, n_classes)) > 20).astype(np.int8)
    y[y.sum(axis=1) == 0, 0] = 1
    split = np.where(np.arange(n) < n * 3 // 4, "train", "test")
    return Dataset.from_arrays(x, y, complete=True, split=split)


def drawn(n=32) -> Dataset:
    """Small images, for a network with convolutions."""
    x = np.random.default_rng(0).integers(0, 256, size=(n, 3, 32, 32), dtype=np.uint8)
    y = (x.mean(axis=(2, 3)) > x.mean()).astype(np.int8)
    y[y.sum(axis=1) == 0, 0] = 1
    split = np.where(np.arange(n) < n * 3 // 4, "train", "test")
    return Dataset.from_arrays(x, y, complete=True, split=split)


@pytest.mark.parametrize(
    ("data", "method"),
    [(wide, "an"), (wide, "em_apl"), (wide, "role"), (wide, "gr"), (drawn, "an")],
)
def test_threads_change_the_last_digits_only(data, method):
    found = []
    for threads in (1, 2):
        given = {"method": method, "epochs": 2, "batch_size": 128 if data is wide else 8,
                 "threads": threads, "backbone": "cnn", "expected_positives": 2.0}  # fmt: skip
        recipe = make_recipe(given)
        training = fit_for(make_task(data(), recipe), recipe)
        maps = [record.val_map for record in training.epochs()]
        found.append((maps, training.model.state_dict()))
    (one, first), (two, second) = found
    assert np.abs(np.subtract(one, two)).max() <= 1e-3
    for name, value in first.items():
        if value.is_floating_point():
            torch.testing.assert_close(second[name], value, rtol=1e-3, atol=1e-4, msg=name)


def test_one_process_and_two_give_the_same_comparison(tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    y = (x[:, :3] > 0).astype(np.int8)
    y[y.sum(axis=1) == 0, 0] = 1
    np.savez(tmp_path / "d.npz", xtr=x[:40], ytr=y[:40], xte=x[40:], yte=y[40:])
    source = Source(str(tmp_path / "d.npz"))
    trainings = (("an", 0), ("an", 1), ("role", 1), ("gr", 1))  # the first two as one computation
    recipes = [make_recipe({"method": m, "epochs": 2, "seed": seed}) for m, seed in trainings]
    jobs = [Job(source, recipe) for recipe in recipes]
    units = make_units(jobs, 2)
    assert [len(unit.jobs) for unit in units] == [2, 1, 1]
    there = run_jobs(jobs, tmp_path / "journal.jsonl", workers=2)
    here = [result for unit in units for result in run_unit(unit)]
    assert [timeless(result) for result in here] == [timeless(result) for result in there]


def timeless(result):
    """A result without the times that it took."""
    times = {"seconds": True, "stacked": True, "alone": True, "epochs": {"__all__": {"seconds"}}}
    return result.model_dump(mode="json", exclude=times)
