"""Estimates of runs: every method, what is measured, what is extrapolated, and how."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from plusone.closed_form import growth
from plusone.closed_form.growth import Growth
from plusone.data import Dataset
from plusone.data.source import load_source
from plusone.methods import METHODS
from plusone.methods.recovery import RidgeOptions, RidgeRegression
from plusone.recipe import Recipe
from plusone.training import dry_run
from plusone.training.dry_run import estimate_run, table_bytes

STEP, AFTER = 0.02, 0.05  # seconds that the method `slow` sleeps


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch):
    monkeypatch.setattr(dry_run, "SECONDS", 0.0)
    monkeypatch.setattr(growth, "SIDE", 50)


@pytest.fixture
def vectors() -> Dataset:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(120, 6)).astype(np.float32)
    hints = draw.uniform(size=(120, 3))
    return Dataset.from_arrays(x, (x[:, :3] > 0).astype(int), complete=True, hints=hints)


@pytest.fixture
def images() -> Dataset:
    draw = np.random.default_rng(0)
    x = draw.integers(0, 256, (160, 3, 16, 16), dtype=np.uint8)
    y = draw.integers(0, 2, (160, 3))
    y[:, 0] |= ~y.any(1)
    split = np.repeat(["train", "val", "test"], [80, 40, 40])
    return Dataset.from_arrays(x, y, complete=True, split=split)


def recipe(**settings) -> Recipe:
    given = {"method": "an", "lr": 0.01, "epochs": 5, "batch_size": 8, "expected_positives": 1.5}
    return Recipe(**(given | settings))


@pytest.mark.parametrize(
    "name", sorted(name for name, info in METHODS.items() if info.inputs != "images")
)
def test_every_method_is_estimated(vectors, name):
    estimate = estimate_run(vectors, recipe(method=name, options=METHODS[name].quick))
    assert estimate.items == {"train": 96, "val": 24, "test": 0}
    assert 0 < estimate.low <= estimate.seconds <= estimate.high
    assert estimate.bytes > 1e7
    named = [part for part in estimate.parts if "epochs" in part.what or "closed" in part.what]
    part = named[0]
    closed = METHODS[name].closed_form
    assert part.measured == "all of it" if closed else part.measured.startswith("4 of ")
    assert (part.epoch is None) == closed


class Slow(RidgeRegression):
    """Takes long, longer in the last epoch, and after each epoch."""

    def loss(self, outs, batch, clock):
        time.sleep(STEP * (1 + (clock.epoch == clock.epochs - 1)))
        return super().loss(outs, batch, clock)

    def after_epoch(self, clock, predict):
        time.sleep(AFTER)


SLOW = {"name": "slow", "build": Slow, "options": RidgeOptions}


def test_steps_and_what_follows_them_are_counted_for_any_method(vectors, monkeypatch):
    monkeypatch.setitem(METHODS, "slow", replace(METHODS["an"], **SLOW))
    parts = estimate_run(vectors, recipe(method="slow")).parts
    (epochs,) = (part for part in parts if part.what == "5 epochs")
    first, last = 12 * STEP + AFTER, 12 * 2 * STEP + AFTER  # 96 items in batches of 8
    assert epochs.measured == "4 of 60 steps"
    assert epochs.epoch >= (first + last) / 2
    assert epochs.seconds >= 5 * (first + last) / 2
    assert epochs.high >= 5 * last
    assert epochs.low >= 5 * first / dry_run.MARGIN


def test_rates_that_are_tried_are_measured_as_one_stack(vectors):
    parts = estimate_run(vectors, recipe(), rate_open=True).parts
    assert [part.what for part in parts][1] == "5 epochs with several learning rates"
    alone = estimate_run(vectors, recipe(method="role"), rate_open=True).parts
    assert [part.what for part in alone][1] == "5 epochs"


def test_a_closed_form_is_extrapolated_from_two_samples(vectors, monkeypatch):
    monkeypatch.setattr(dry_run, "SOLVED", (30, 60))
    estimate = estimate_run(vectors, recipe(method="recovery"))
    assert estimate.parts[0].measured == "30 and 60 of 120 items"
    assert estimate.items == {"train": 96, "val": 24, "test": 0}
    assert estimate.high > estimate.seconds > estimate.low
    assert estimate.more_bytes > 0


def test_closed_forms_grow_with_the_cube_of_the_items_while_they_are_exact():
    form = Growth(width=1, classes=1, kernel=True, folds=True, tried=0)
    measured = [(n, 2e-9 * n**3) for n in (500, 1000)]
    assert form.seconds(2400, measured) == pytest.approx(2e-9 * 2400**3, rel=0.01)
    # Above, the landmarks stay, and items beyond them cost products alone.
    assert form.seconds(20_000, measured) < 20 * form.seconds(2500, measured)


def test_tables_of_a_closed_form():
    form = Growth(width=10, classes=20, kernel=True, folds=True, tried=4)
    assert form.bytes(1000) == 4 * (1000**2 + 7 * 1000 * 20 + 15 * 1000**2 + 1000 * 10)
    linear = replace(form, kernel=False, folds=False)
    assert linear.bytes(1000) == 4 * (1000 * 10 + 7 * 1000 * 20 + 10 * 10**2 + 1000 * 10)
    many = linear.bytes(100_000_000) - linear.bytes(50_000_000)  # items beyond those in memory
    assert many == 4 * 50_000_000 * 10


@pytest.mark.parametrize(
    ("method", "per_label"), [("gr", 0), ("ll_cp", 2), ("em_apl", 8), ("en", 10), ("role", 20)]
)
def test_bytes_of_what_a_method_keeps_per_label(method, per_label):
    """As docs/scale.md has them."""
    assert table_bytes(Recipe(method=method), 100) == pytest.approx(100 * per_label)


def test_tables_that_do_not_fit_are_measured_on_a_sample(vectors, monkeypatch):
    needed = 120 * table_bytes(Recipe(method="role"), 3)
    monkeypatch.setattr(dry_run, "host_memory", lambda: (None, needed / 2 / dry_run.FREE))
    estimate = estimate_run(vectors, recipe(method="role"))
    assert estimate.items == {"train": 96, "val": 24, "test": 0}
    assert estimate.parts[0].measured == "50 % of the items"
    assert estimate.parts[1].measured == "4 of 60 steps"
    assert estimate.more_bytes == 48 * 3 * 20 + 60 * 6 * 4


def test_training_a_backbone_is_measured_on_some_images(images):
    estimate = estimate_run(images, recipe(mode="finetune", backbone="cnn", batch_size=8))
    assert estimate.items == {"train": 80, "val": 40, "test": 40}
    assert [part.what for part in estimate.parts][1] == "5 epochs"
    assert estimate.parts[0].measured == "40 % of the items"
    assert estimate.parts[1].measured == "4 of 50 steps"
    assert estimate.more_bytes == 96 * 3 * 16 * 16


def test_features_of_some_images_are_extracted_and_stand_for_all(images):
    settings = {"mode": "linear", "backbone": "cnn"}
    for method in ("an", "recovery"):
        parts = estimate_run(images, recipe(method=method, **settings)).parts
        assert parts[0].what == "features of the images"
        assert parts[0].measured == "32 of 160 images"
    assert [part.what for part in parts][1] == "closed form"


def test_both_stages_of_linear_init(images):
    given = recipe(mode="linear_init", backbone="cnn", finetune_epochs=2)
    first, second = (part for part in estimate_run(images, given).parts if "stage" in part.what)
    assert first.what == "stage 1: 5 epochs"
    assert second.what == "stage 2: 2 epochs"


@pytest.mark.parametrize("cache_mb", [0, 100])
def test_image_files_are_decoded(tmp_path, monkeypatch, cache_mb):
    monkeypatch.setattr(dry_run, "EVALUATED", 2)
    draw = np.random.default_rng(0)
    lines = ["image,labels"]
    for number in range(40):
        name = f"{number}.png"
        Image.fromarray(draw.integers(0, 256, (9, 9, 3), dtype=np.uint8)).save(tmp_path / name)
        lines.append(f"{name},{'abc'[number % 3]}")
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    settings = {"mode": "finetune", "backbone": "cnn", "image_size": 16, "cache_mb": cache_mb}
    settings |= {"batch_size": 2, "workers": 0, "epochs": 2}
    estimate = estimate_run(load_source(str(tmp_path)), recipe(**settings))
    assert estimate.items["train"] == 32
    assert estimate.parts[1].measured == "4 of 32 steps"
    assert (estimate.more_bytes > 0) == (cache_mb > 0)
