"""Small data sets, a small backbone, and trainings on them."""

import numpy as np
import pytest
import torch
from torch import nn

from plusone.data.dataset import Dataset
from plusone.inputs.forward import predict
from plusone.inputs.task import make_task
from plusone.recipe import make_recipe
from plusone.training.closed_fit import fit_for


class TinyBackbone(nn.Module):
    """Batch norm and dropout on 16 x 16 images: what is hard to resume."""

    dim = 8

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 5, stride=4), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.3)
        )

    def forward(self, images):
        return self.layers(images.float() / 255)


def feature_data(n=240, dim=8, n_classes=4, **rest) -> Dataset:
    """Classes that are halves of the space; the last quarter is the test split."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, dim)).astype(np.float32)
    y = (x @ rng.normal(size=(dim, n_classes)) > 0.5).astype(np.int8)
    split = np.where(np.arange(n) < n * 3 // 4, "train", "test")
    given = {"complete": True, "split": split, "hints": hints_for(y)}
    return Dataset.from_arrays(x, y, **(given | rest))


def hints_for(y):
    """Scores that are right more often than not; one item has none."""
    hints = 0.4 * y + 0.6 * np.random.default_rng(1).random(y.shape)
    hints[0] = np.nan
    return hints


def image_data(n=64, n_classes=3) -> Dataset:
    """Classes that are patterns: bright, upright stripes, lying stripes."""
    rng = np.random.default_rng(0)
    y = (rng.random((n, n_classes)) < 0.5).astype(np.int64)
    x = rng.integers(0, 40, size=(n, 1, 16, 16))
    stripes = 70 * (np.arange(16) % 2)
    patterns = [np.full((16, 16), 70), np.tile(stripes, (16, 1)), np.tile(stripes, (16, 1)).T]
    for pattern, present in zip(patterns, y.T, strict=True):
        x += present[:, None, None, None] * pattern
    split = np.where(np.arange(n) < n * 3 // 4, "train", "test")
    x = x.astype(np.uint8)
    return Dataset.from_arrays(x, y, complete=True, split=split, hints=hints_for(y))


def make_training(data: Dataset, *, backbone=None, **settings):
    recipe = make_recipe({"method": "an", "flip": False}, settings)
    if backbone:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            module = TinyBackbone() if backbone is True else backbone
        return fit_for(make_task(data, recipe), recipe, backbone=module)
    return fit_for(make_task(data, recipe), recipe)


def scores_of(training, inputs):
    """Scores in [0, 1] of any inputs under the weights of a run."""
    model, kind = training.model, "images" if training.task.images else "features"
    return training.method.probabilities(predict(model, model, inputs, kind=kind))


@pytest.fixture(name="feature_data", scope="session")
def _feature_data():
    return feature_data


@pytest.fixture(name="image_data", scope="session")
def _image_data():
    return image_data


@pytest.fixture(scope="session")
def training():
    """Makes a training: `training(data, backbone=True, **settings)`, True is the tiny one."""
    return make_training


@pytest.fixture
def tiny_backbone():
    return TinyBackbone()


@pytest.fixture
def pictures(tmp_path):
    """Seven PNG files of different shapes and contents."""
    from PIL import Image

    paths = []
    for number in range(7):
        rng = np.random.default_rng(number)
        pixels = rng.integers(0, 256, size=(9 + number, 12, 3), dtype=np.uint8)
        paths.append(tmp_path / f"p{number}.png")
        Image.fromarray(pixels).save(paths[-1])
    return tuple(paths)
