"""How well classes are ranked by how many seen positives they have.

    python benchmarks/rare_classes.py DATA --out rare_classes.json

DATA is the folder with mulan/corel5k.npz and species (awt_bird, awt_plant and nz). One label each
of 2,000 training items of corel5k is seen (scheme single); of the species files all records at an
eighth of the sites (three draws) and at all sites. Every method has its own automatic settings.
Average precision and AUC of each class are measured on all test items and averaged over the
classes, sets and draws that have a number of seen positives among training and validation items.
`chance` is the mean share of positives, the average precision of a random order; `predicted` the
share of classes that some test item is tagged with. What is in the file already is not measured
again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.data.observation import observe_table
from plusone.data.source import load_source
from plusone.data.species_files import read_species
from plusone.io.files import write_json
from plusone.metrics import average_precision, roc_auc
from plusone.training.api import fit

METHODS = ("recovery", "ridge", "gr")
ITEMS = 2_000  # of corel5k, to learn from
SPECIES = ("awt_bird", "awt_plant", "nz")
SHARES = ((0.125, 3), (1.0, 1))  # of the sites, and how many draws
BINS = ((0, 0), (1, 1), (2, 5), (6, 20), (21, 100), (101, None))

Case = tuple[str, Dataset, np.ndarray, np.ndarray]  # name, data, inputs and truth of test items


def corel5k(data: Path) -> Iterator[Case]:
    """One seen label per item."""
    whole = load_source(str(data / "mulan" / "corel5k.npz"))
    test = whole.table.rows_of("test")
    assert isinstance(whole.features, np.ndarray)
    assert whole.table.truth is not None
    train = whole.table.rows_of("train")
    train = np.sort(np.random.default_rng(0).permutation(train)[:ITEMS])
    for seed in (1200,):
        seen = observe_table(whole.table, "single", seed).labels.take(train)
        own = Dataset.from_arrays(whole.features[train], seen, name="corel5k")
        yield f"corel5k-{seed}", own, whole.features[test], whole.table.truth.dense(test) == 1


def species(data: Path) -> Iterator[Case]:
    """Records of people at some of the sites."""
    for name in SPECIES:
        file = read_species(data / "species" / f"{name}.npz")
        for share, draws in SHARES:
            for draw in range(draws):
                order = np.random.default_rng(draw).permutation(len(file.x))
                rows = np.sort(order[: round(share * len(file.x))])
                seen = LabelMatrix.from_dense(file.seen[rows])
                own = Dataset.from_arrays(file.x[rows], seen, classes=file.species, name=name)
                yield f"{name}-{share:g}-{draw}", own, file.test_x, file.test_y == 1


def by_class(case: Case, method: str) -> list[dict[str, float]]:
    """The figures of each class that a test item has."""
    _, data, x, truth = case
    fitted = fit(data, method)
    scores = torch.from_numpy(
        np.concatenate([fitted.scores(part) for part in np.array_split(x, 9)])
    )
    labels = torch.from_numpy(truth.astype(np.int8) * 2 - 1)
    precision, area = average_precision(scores, labels).numpy(), roc_auc(scores, labels).numpy()
    predicted = np.concatenate([fitted.predict(part) for part in np.array_split(x, 9)])
    above = (predicted > fitted.thresholds.array).sum(axis=0)
    seen, share = data.table.labels.per_class(1), truth.mean(axis=0)
    return [
        {
            "seen": int(seen[label]),
            "ap": float(precision[label]),
            "auc": float(area[label]),
            "chance": float(share[label]),
            "predicted": int(above[label] > 0),
        }
        for label in np.flatnonzero(truth.any(axis=0) & ~truth.all(axis=0)).tolist()
    ]


def binned(classes: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    """Their means by the number of seen positives."""
    rows = []
    for low, high in BINS:
        own = [
            row for row in classes if low <= row["seen"] and (high is None or row["seen"] <= high)
        ]
        if own:
            mean = {
                key: float(np.mean([row[key] for row in own])) for key in own[0] if key != "seen"
            }
            rows.append({"from": low, "to": high, "classes": len(own)} | mean)
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, and writes after every run what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    known: dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {}
    runs = known.setdefault("runs", {})
    for group, cases in (("species", species(given.data)), ("corel5k", corel5k(given.data))):
        for case in cases:
            for method in METHODS:
                key = f"{group} {case[0]} {method}"
                if key not in runs:
                    started = time.process_time()
                    classes = by_class(case, method)
                    runs[key] = {"seconds": time.process_time() - started, "classes": classes}
                    write_json(given.out, known)
                    print(key, f"{runs[key]['seconds']:.0f} s", flush=True)
    known["binned"] = {
        f"{group} {method}": binned(
            [
                row
                for key, run in runs.items()
                if key.startswith(f"{group} ") and key.endswith(f" {method}")
                for row in run["classes"]
            ]
        )
        for group in ("species", "corel5k")
        for method in METHODS
    }
    write_json(given.out, known)
    for name, rows in known["binned"].items():
        for row in rows:
            print(name, {key: round(value, 4) if value else value for key, value in row.items()})


if __name__ == "__main__":
    main()
