"""What it costs to choose epoch, learning rate and method by seen labels instead of all labels.

    python benchmarks/selection.py DATA --ucmerced-features FILE --out DIR

DATA holds VOCdevkit, voc2012_features, ucmerced and mulan. Every method is trained with every
learning rate from one positive per item, in validation too. Each epoch is scored by every selection
score on the seen labels of the validation items, and by mAP on all their labels. The regret of a
score is the test mAP of what all labels choose minus the test mAP of what the score chooses, in
points, for three choices: the epoch alone (mean over methods and rates), rate and epoch (mean over
methods), and method, rate and epoch. It can be below 0 by chance.

Every finished method is kept in DIR, so a stopped run goes on. The tables are in DIR/selection.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plusone.compare.results_table import markdown
from plusone.data.dataset import Dataset
from plusone.data.source import load_source
from plusone.inputs.task import Task, make_task
from plusone.io.files import write_json, write_text
from plusone.metrics import mean_average_precision
from plusone.metrics.seen_labels import DEFAULT, SCORES
from plusone.recipe import Recipe
from plusone.training.selection import Validation
from plusone.training.stack import AloneError, train_stacked
from plusone.training.trainer import Training

RATES = (1e-2, 1e-3, 1e-4, 1e-5)
METHODS = ("an", "an_ls", "wan", "asl", "hill", "splc", "softmax", "en", "lasd", "em", "gr", "role")
LARGE = ("an", "wan", "hill", "softmax", "en", "lasd", "em", "gr")  # where each takes minutes
FEWER = {"corel5k": LARGE, "voc": LARGE}
EPOCHS = {"corel5k": 20}
LEVELS = ("epoch", "rate", "method")
LAST = f"the last epoch, then {DEFAULT}"
Course = dict[str, Any]  # of one method: "val", "test" and "scores" by name, each [rates, epochs]


class Watched(Training):
    """A training that also notes what every score says of each epoch, and its test mAP."""

    courses: Course

    def validated(self, logits: Tensor) -> Validation:
        found, seen = self.method.probabilities(logits), self.task.val.observed.dense()
        truth, test = self.task.val.truth, self.task.test
        assert truth is not None
        assert test is not None
        assert test.truth is not None
        place = RATES.index(self.recipe.lr)
        for name, score in SCORES.items():
            self.courses["scores"][name][place].append(score.function(found, seen))
        for name, scores, labels in (
            ("val", found, truth), ("test", self.predict(test), test.truth)
        ):  # fmt: skip
            value = mean_average_precision(scores, labels.dense(), empty="zero")
            self.courses[name][place].append(value)
        return super().validated(logits)


def sources(data: Path, ucmerced: Path | None) -> dict[str, Callable[[], Dataset]]:
    """How to load each data set."""
    found = {
        "voc": lambda: load_source(str(data / "VOCdevkit"), features=[data / "voc2012_features"]),
        "yeast": lambda: load_source(str(data / "mulan" / "yeast.npz")),
        "corel5k": lambda: load_source(str(data / "mulan" / "corel5k.npz")),
        "digits-features": lambda: load_source("digits-features"),
    }
    if ucmerced is not None:
        labels = str(data / "ucmerced" / "labels.csv")
        found["ucmerced"] = lambda: load_source(labels, features=[ucmerced])
    return found


def course(dataset: Dataset, method: str, seed: int, epochs: int) -> Course:
    """Trains a method with every learning rate."""
    Watched.courses = {
        "val": [[] for _ in RATES],
        "test": [[] for _ in RATES],
        "scores": {name: [[] for _ in RATES] for name in SCORES},
    }
    recipes = [
        Recipe(
            method=method, lr=lr, epochs=epochs, seed=seed, observe="single", probe="off",
            observe_seed=1200 + seed, split_seed=1200 + seed, expected_positives="truth", threads=1,
        )
        for lr in RATES
    ]  # fmt: skip
    task: Task = make_task(dataset, recipes[0])
    try:
        train_stacked(task, recipes, kind=Watched)
    except AloneError:
        for recipe in recipes:
            list(Watched(task, recipe).epochs())
    return Watched.courses


def regrets(courses: dict[str, Course], by: str) -> dict[str, float]:
    """What is lost at each level, in points, by a score, or by taking the last epoch."""
    test = np.array([each["test"] for each in courses.values()])  # [methods, rates, epochs]
    truth = np.array([each["val"] for each in courses.values()])
    name = DEFAULT if by == LAST else by
    chosen = np.array([each["scores"][name] for each in courses.values()])
    if by == LAST:
        chosen[:, :, :-1] = -np.inf
    shapes = {"epoch": (-1, test.shape[2]), "rate": (len(test), -1), "method": (1, -1)}
    return {
        level: 100 * float(np.mean(_at(test, truth, shape) - _at(test, chosen, shape)))
        for level, shape in shapes.items()
    }


def _at(values: np.ndarray, score: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The value at the highest score of each row."""
    best = score.reshape(shape).argmax(axis=1)
    return values.reshape(shape)[np.arange(len(best)), best]


def tables(done: dict[tuple[str, int], dict[str, Course]]) -> str:
    """Regret by score and data set, one table for each level and one of the means."""
    names = [*SCORES, LAST]
    found = {
        (name, place): regrets(courses, name) for place, courses in done.items() for name in names
    }
    mean = {
        name: [fmean(found[name, place][level] for place in done) for level in LEVELS]
        for name in names
    }
    names.sort(key=lambda name: fmean(mean[name]))
    shown = {name: f"**{name}**" if name == DEFAULT else name for name in names}
    text = "Mean over the data sets and seeds:\n\n"
    text += markdown(
        ["score", *LEVELS], [[shown[name], *(f"{v:.2f}" for v in mean[name])] for name in names]
    )
    for level in LEVELS:
        columns = [f"{data}, seed {seed}" for data, seed in done]
        rows = [
            [shown[name], *(f"{found[name, place][level]:.2f}" for place in done)] for name in names
        ]
        text += f"\nChoice of {level}:\n\n" + markdown(["score", *columns], rows)
    return text


def run(
    loaders: dict[str, Callable[[], Dataset]], seeds: Sequence[int], folder: Path
) -> dict[tuple[str, int], dict[str, Course]]:
    """Trains what the folder does not hold yet, and returns the courses of all."""
    done: dict[tuple[str, int], dict[str, Course]] = {}
    for name, load in loaders.items():
        dataset: Dataset | None = None
        for seed in seeds:
            for method in FEWER.get(name, METHODS):
                path = folder / f"{name}-{seed}-{method}.json"
                if not path.exists():
                    dataset = dataset or load()
                    write_json(path, course(dataset, method, seed, EPOCHS.get(name, 25)))
                    print(f"{name}, seed {seed}: {method} done", flush=True)
                courses = done.setdefault((name, seed), {})
                courses[method] = json.loads(path.read_text(encoding="utf-8"))
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="+", help="names of data sets; default all")
    parser.add_argument("--out", type=Path, default=Path("selection"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    loaders = sources(args.data, args.ucmerced_features)
    wanted = {name: load for name, load in loaders.items() if name in (args.only or loaders)}
    text = tables(run(wanted, args.seeds, args.out))
    write_text(args.out / "selection.md", text)
    print(text)


if __name__ == "__main__":
    main()
