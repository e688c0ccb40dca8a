"""Does everything that has a seed once and says what came out; test_twice.py compares."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from plusone.compare.choose import choose
from plusone.compare.loop import simulate
from plusone.data.dataset import Dataset
from plusone.data.formats import read
from plusone.data.observation import observe_table
from plusone.inputs.task import make_task
from plusone.methods import METHODS
from plusone.recipe import make_recipe
from plusone.suggestions.find import suggest
from plusone.training.closed_fit import fit_for
from plusone.training.expected import estimated
from plusone.training.stack import train_stacked
from plusone.training.trainer import Training


def vectors(n=120, dim=6, n_classes=4) -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, dim)).astype(np.float32)
    y = (x[:, :n_classes] > 0.2).astype(np.int8)
    y[y.sum(axis=1) == 0, 0] = 1
    split = np.where(np.arange(n) < n * 3 // 4, "train", "test")
    hints = rng.random((n, n_classes))
    return Dataset.from_arrays(x, y, complete=True, split=split, hints=hints)


def photos(folder: Path, n=24) -> Dataset:
    rng = np.random.default_rng(0)
    lines = ["image,labels,negatives,split"]
    for row in range(n):
        pixels = rng.integers(0, 256, size=(20, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{row}.png")
        lines.append(f"{row}.png,{'ab'[row % 2]},*,{'test' if row > 17 else 'train'}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return read(folder / "labels.csv")


def digest(training: Training) -> str:
    """A hash of everything the training learned."""
    tensors, _ = training.state()
    state = hashlib.sha256()
    for name in sorted(tensors):
        state.update(name.encode() + tensors[name].detach().contiguous().numpy().tobytes())
    return state.hexdigest()[:16]


def trained(data: Dataset, **settings) -> str:
    recipe = make_recipe(settings)
    training = fit_for(make_task(data, recipe), recipe)
    maps = [record.val_map for record in training.epochs()]
    return f"{digest(training)} {maps}"


def everything(folder: Path) -> dict[str, str]:
    """One line for each thing."""
    data, found = vectors(), {}
    for name in sorted(name for name in METHODS if METHODS[name].trains_on(["features"])):
        given = {"method": name, "epochs": 2, "batch_size": 16, "lr": 0.02, "seed": 3}
        given |= {"expected_positives": 1.5, "options": dict(METHODS[name].quick)}
        found[name] = trained(data, **given)
    recipes = [make_recipe({"method": "em", "epochs": 2, "seed": seed}) for seed in (0, 1)]
    for number, (training, _) in enumerate(train_stacked(make_task(data, recipes[0]), recipes)):
        found[f"stacked {number}"] = digest(training)
    pictures = photos(folder)
    both = {"epochs": 2, "batch_size": 6, "backbone": "cnn", "image_size": 32}
    both |= {"expected_positives": 1.0}
    for name, settings in {
        "images": {"workers": 0, "cache_mb": 0},
        "images, two workers": {"workers": 2, "cache_mb": 0},
        "images, cache": {"workers": 0, "cache_dir": str(folder / "cache")},
    }.items():
        found[name] = trained(pictures, method="an", **both, **settings)
    for name in sorted(name for name in METHODS if METHODS[name].inputs == "images"):
        quick = dict(METHODS[name].quick)
        found[name] = trained(pictures, method=name, options=quick, workers=0, **both)
    found["images, role"] = trained(pictures, method="role", workers=0, ema=0.9, **both)
    recipe = make_recipe({"method": "an", "epochs": 3, "lr": 0.02, "expected_positives": 1.5})
    seen = replace(data, table=observe_table(data.table))
    hints = suggest(seen, recipe, 2)
    found["suggest"] = hashlib.sha256(hints.probability.tobytes()).hexdigest()[:16]
    chosen = choose(data, [recipe, recipe.model_copy(update={"method": "em"})])
    found["choose"] = json.dumps(chosen.to_dict(), sort_keys=True, default=str)
    k = estimated(recipe, make_task(seen, recipe))
    found["priors"] = repr(k)
    ask = {"questions": (10,), "orders": ("worth",), "seeds": (0,), "folds": 2}
    found["loop"] = json.dumps(simulate(data, recipe, folder / "loop", **ask).to_json())
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        json.dump(everything(Path(place)), sys.stdout)
