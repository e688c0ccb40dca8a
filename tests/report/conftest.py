"""Results made by hand, and runs on a small data set with all labels known."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from plusone.compare.jobs import JobResult
from plusone.data.dataset import Dataset
from plusone.inputs.task import make_task
from plusone.recipe import make_recipe
from plusone.results import EpochRecord, RunResult
from plusone.training.run import train

CLASSES = ["ant", "bee", "cat", "dog"]


def fake_result(method: str = "an", seed: int = 0, **other: Any) -> dict[str, Any]:
    """What one training leaves in a journal, with probes of three epochs."""
    rng = np.random.default_rng([seed, len(method)])
    epochs = [
        {
            "stage": 0,
            "epoch": epoch,
            "losses": {"loss": 1 / epoch},
            "val_map": 0.5 + 0.05 * epoch,
            "selected_on": "truth",
            "best": True,
            "weights": "raw",
            "seconds": 0.5,
            "probe": {
                "positives": rng.integers(0, 5, 100).tolist(),
                "negatives": rng.integers(0, 50, 100).tolist(),
                "distance": 0.1 * epoch,
            },
        }
        for epoch in (1, 2, 3)
    ]
    return {
        "key": f"{method}-{seed}",
        "source": {"data": "digits-features", "features": [], "format": "auto", "labels": "auto"},
        "method": method,
        "seed": seed,
        "val_map": 0.65,
        "test_map": 0.6 + 0.01 * seed + 0.02 * len(method),
        "best_epoch": 3,
        "seconds": 1.5,
        "data": "pets",
        "lr": 1e-3,
        "options": {},
        "mode": "linear",
        "k": 1.5,
        "recipe": {"method": method, "seed": seed, "epochs": 3},
        "selected_on": "truth",
        "weights": "raw",
        "observation": {"scheme": "single", "seed": 1200, "digest": "0123abcd"},
        "items": {"train": 20, "val": 5, "test": 5},
        "version": "0.1.0",
        "test_ap": [0.5, 0.6 + 0.01 * len(method), None, 0.8],
        "labels": {"classes": CLASSES, "seen": [5, 5, 5, 5], "true": [9, 7, 5, 6]},
        "recovery": {"recovery_map": 0.7, "hidden_map": 0.4},
        "examples": [
            {
                "id": "scene-00001",
                "seen": ["ant"],
                "truth": ["ant", "bee"],
                "scores": {"bee": 0.9, "ant": 0.6, "cat": 0.2},
            }
        ],
        "epochs": epochs,
    } | other


def write_journal(folder: Path, results: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(result) + "\n" for result in results)
    (folder / "journal.jsonl").write_text(lines, encoding="utf-8")
    return folder


def write_document(folder: Path, document: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{document['kind']}.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


SWEEP = {
    "kind": "sweep",
    "title": "alpha of em",
    "command": "plusone sweep pets -m em --over options.alpha=0.01,0.1,1",
    "over": "options.alpha",
    "label": "alpha",
    "values": [0.01, 0.1, 1.0],
    "baseline": {"name": "an", "test_map": 0.62, "test_sd": 0.01},
    "default": 0.1,
    "rows": [
        {"data": "pets", "method": "em", "value": value, "test_map": score, "test_sd": 0.01,
         "val_map": score, "seeds": 2, "lr": 1e-3, "keys": []}
        for value, score in ((0.01, 0.61), (0.1, 0.66), (1.0, 0.58))
    ],
}  # fmt: skip
ABLATION = {
    "kind": "ablation",
    "title": "parts of gr",
    "command": "plusone ablate pets -m gr",
    "method": "gr",
    "data": "pets",
    "rows": [
        {"data": "pets", "method": "gr", "name": "khat", "options": {"sigma": 1e6},
         "test_map": 0.6, "test_sd": 0.01, "val_map": 0.6, "seeds": 2, "change": -0.05, "keys": []},
        {"data": "pets", "method": "gr", "name": "khat + v + robust losses", "options": {},
         "test_map": 0.65, "test_sd": 0.01, "val_map": 0.65, "seeds": 2, "change": 0.0, "keys": []},
    ],
    "notes": ["On features nothing is augmented."],
}  # fmt: skip
INTERVALS = {
    "kind": "intervals", "data": "pets", "items": 20, "classes": 4, "k": 1.5, "draws": 100,
    "seed": 0, "level": 0.9, "rows": [{"size": 5, "low": 1.0, "high": 2.0}],
}  # fmt: skip


def surface(method: str, height: float) -> dict[str, Any]:
    at = np.linspace(-1, 1, 5)
    loss = 1 + height * (at[:, None] ** 2 + at[None] ** 2)
    return {
        "kind": "surface", "method": method, "data": "pets", "run": "r", "extent": 1.0, "steps": 5,
        "seed": 0, "alphas": at.tolist(), "betas": at.tolist(), "loss": loss.tolist(),
        "train_items": 20,
    }  # fmt: skip


@pytest.fixture
def make() -> SimpleNamespace:
    """Results and documents by hand."""
    return SimpleNamespace(
        result=fake_result,
        typed=lambda *args, **other: JobResult.model_validate(fake_result(*args, **other)),
        journal=write_journal,
        document=write_document,
        surface=surface,
        sweep=SWEEP,
        ablation=ABLATION,
        intervals=INTERVALS,
    )


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """A folder with the journal of a bench and one of every other kind of folder."""
    methods = ("an", "gr", "wan", "lasd", "bce")
    folder = write_journal(
        tmp_path / "bench", [fake_result(name, seed) for name in methods for seed in (0, 1)]
    )
    for document in (SWEEP, ABLATION, INTERVALS, surface("an", 1.0), surface("em", 0.3)):
        name = f"{document['kind']}-{document.get('method', '')}"
        write_document(tmp_path / "bench" / name, document)
    return folder


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
