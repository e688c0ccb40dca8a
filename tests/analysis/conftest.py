"""A small data set with all labels known, and trainings on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from plusone.data.dataset import Dataset
from plusone.recipe import make_recipe
from plusone.training.run import train
from plusone.training.task import make_task


def data(n=200, dim=6, n_classes=4) -> Dataset:
    """Classes that are halves of the space; every item has one; the last fifth is for testing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, dim)).astype(np.float32)
    y = (x @ rng.normal(size=(dim, n_classes)) > 0.4).astype(np.int8)
    y[y.sum(axis=1) == 0, 0] = 1
    split = np.where(np.arange(n) < n * 4 // 5, "train", "test")
    return Dataset.from_arrays(x, y, complete=True, split=split, name="halves")


def train_into(folder: Path, dataset: Dataset | None = None, **settings):
    dataset = dataset or data()
    recipe = make_recipe({"method": "an", "epochs": 4, "lr": 0.01}, settings)
    return train(make_task(dataset, recipe), recipe, folder).to_json()


@pytest.fixture(name="halves", scope="session")
def _halves():
    return data()


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
