"""A small data set with all labels known, and trainings on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from plusone.data.dataset import Dataset
from plusone.inputs.task import make_task
from plusone.recipe import make_recipe
from plusone.results import EpochRecord, RunResult
from plusone.training.run import train


def data(n=200, dim=6, n_classes=4) -> Dataset:
    """Classes that are halves of the space; every item has one; the last fifth is for testing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, dim)).astype(np.float32)
    y = (x @ rng.normal(size=(dim, n_classes)) > 0.4).astype(np.int8)
    y[y.sum(axis=1) == 0, 0] = 1
    split = np.where(np.arange(n) < n * 4 // 5, "train", "test")
    hints = rng.random(y.shape)
    return Dataset.from_arrays(x, y, complete=True, split=split, hints=hints, name="halves")


def result(**values) -> RunResult:
    """A result by hand, with epochs of the given validation mAPs where `val_maps` is given."""
    if "val_maps" in values:
        values["epochs"] = [epoch(n, val_map=v) for n, v in enumerate(values.pop("val_maps"), 1)]
    known = {"method": "an", "seed": 0, "val_map": 0.5, "test_map": 0.5, "best_epoch": 1,
             "seconds": 1.0, "data": "d", "lr": 0.1, "selected_on": "truth"}  # fmt: skip
    return RunResult.model_validate(known | values)


def epoch(number=1, **values) -> EpochRecord:
    """The record of an epoch by hand; its loss is its validation mAP."""
    known = {"stage": 0, "epoch": number, "val_map": 0.5, "selected_on": "truth", "best": True,
             "weights": "raw", "seconds": 1.0}  # fmt: skip
    known |= {"losses": {"loss": values.get("val_map", 0.5)}}
    return EpochRecord.model_validate(known | values)


def train_into(folder: Path, dataset: Dataset | None = None, **settings):
    dataset = dataset or data()
    recipe = make_recipe({"method": "an", "epochs": 4, "lr": 0.01}, settings)
    return train(make_task(dataset, recipe), recipe, folder)


@pytest.fixture(name="halves", scope="session")
def _halves():
    return data()


@pytest.fixture(name="result", scope="session")
def _result():
    return result


@pytest.fixture(name="epoch", scope="session")
def _epoch():
    return epoch


@pytest.fixture(name="train_into", scope="session")
def _train_into():
    """`train_into(folder, method="gr", ...)` leaves a run and returns its result."""
    return train_into


@pytest.fixture(scope="session")
def an_run(tmp_path_factory):
    """Folder of a finished run of `an`."""
    folder = tmp_path_factory.mktemp("runs") / "an"
    train_into(folder)
    return folder
