"""Test F1 of thresholds by class that were chosen from seen labels alone.

    python benchmarks/thresholds.py DATA [--ucmerced-features FILE] [--keep FOLDER]

DATA is the folder with VOCdevkit, voc2012_features and mulan. Each method is trained on single
positives (lr 1e-3, 10 epochs, the epoch chosen on seen labels); then the thresholds are chosen on
the validation items in several ways and the test items predicted. Prints the mean over methods and
data sets. With `--keep` the scores of finished trainings stay in a folder.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from plusone.data.dataset import Dataset
from plusone.data.source import load_source
from plusone.methods import get_method
from plusone.metrics.threshold import thresholds_from
from plusone.recipe import make_recipe
from plusone.training.task import make_task
from plusone.training.trainer import Training

METHODS = ("an", "wan", "em", "gr", "softmax", "role")
Scores = dict[str, np.ndarray]


def sources(data: Path, ucmerced: Path | None) -> dict[str, Callable[[], Dataset]]:
    found: dict[str, Callable[[], Dataset]] = {
        "yeast": lambda: load_source(str(data / "mulan" / "yeast")),
        "digits": lambda: load_source("digits-features"),
        "voc": lambda: load_source(str(data / "VOCdevkit"), features=[data / "voc2012_features"]),
    }
    if ucmerced is not None:
        labels = str(data / "ucmerced" / "labels.csv")
        found["ucmerced"] = lambda: load_source(labels, features=[ucmerced])
    return found


def train(dataset: Dataset, method: str) -> Scores:
    """Scores and labels of validation and test items."""
    said = {"method": method, "epochs": 10, "select_on": "observed", "probe": "off"}
    said["expected_positives"] = "truth" if get_method(method).needs_k else None
    recipe = make_recipe(get_method(method).defaults, said)
    task = make_task(dataset, recipe)
    training = Training(task, recipe)
    for _ in training.epochs():
        pass
    return {
        "val": training.predict(task.val).numpy(),
        "seen": task.val.observed.dense(),
        "val_truth": task.val.truth.dense(),
        "test": training.predict(task.test).numpy(),
        "test_truth": task.test.truth.dense(),
    }


def f1(predicted: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Macro and micro F1 in per cent; classes without a positive are left out of the first."""
    hits, both = (predicted & truth).sum(0), predicted.sum(0) + truth.sum(0)
    present = truth.any(axis=0)
    return 100 * (2 * hits / np.maximum(both, 1))[present].mean(), 200 * hits.sum() / both.sum()


def rules(scores: Scores) -> dict[str, np.ndarray]:
    val, seen, truth = scores["val"], scores["seen"], scores["val_truth"]
    k = float((truth == 1).sum(1).mean())
    return {
        "0.5 for all": np.full(val.shape[1], 0.5),
        "seen labels": thresholds_from(val, seen),
        "seen labels and k": thresholds_from(val, seen, expected_positives=k),
        "seen labels and k / 1.4": thresholds_from(val, seen, expected_positives=k / 1.4),
        "seen labels and 1.4 k": thresholds_from(val, seen, expected_positives=1.4 * k),
        "all labels": thresholds_from(val, truth),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    values: dict[str, list[tuple[float, float]]] = {}
    for name, load in sources(args.data, args.ucmerced_features).items():
        for method in METHODS:
            kept = None if args.keep is None else args.keep / f"{name}-{method}.npz"
            if kept is not None and kept.exists():
                scores = dict(np.load(kept))
            else:
                scores = train(load(), method)
                if kept is not None:
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    np.savez(kept, **scores)
            for rule, thresholds in rules(scores).items():
                found = f1(scores["test"] > thresholds, scores["test_truth"] == 1)
                values.setdefault(rule, []).append(found)
    print("| thresholds from | macro F1 | micro F1 |\n| --- | --- | --- |")
    for rule, pairs in values.items():
        macro, micro = np.mean(pairs, axis=0)
        print(f"| {rule} | {macro:.1f} | {micro:.1f} |")


if __name__ == "__main__":
    main()
