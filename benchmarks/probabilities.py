"""How far calibrated probabilities are from the truth, and the F1 of the thresholds they give.

    python benchmarks/probabilities.py DATA [--ucmerced-features FILE] [--draws 2] [--keep FILE]

DATA is the folder with VOCdevkit and voc2012_features. A run learns from 500 items, each with one
seen label, picked at random or in proportion to how frequent its class is. The default is trained
as `plusone.fit` does, other methods for 10 epochs on linear heads; nothing but seen
labels is used to train, select and calibrate. "audit": the calibration also knows all labels of 100
of the held-out items. Prints for the test items of every data set: the expected calibration error
(ece) over all item-class pairs, its mean over classes, the mean probability divided by the share of
true labels, and F1. With `--keep` finished rows are kept in a JSONL file and not measured again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from picks import picked

from plusone import fit
from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.data.source import load_source
from plusone.metrics import expected_calibration_error
from plusone.metrics.threshold import thresholds_from
from plusone.probabilities import LabelsPerItem
from plusone.probabilities.calibration import HeldOut, fit_calibration
from plusone.probabilities.thresholds import find_thresholds
from plusone.training.api import Fitted

METHODS = ("em", "gr", "an", "softmax", None)  # None: the default
OTHERS = {"head": "linear", "epochs": 10, "batch_size": 32}
SCHEMES = ("uniform", "frequent")
ITEMS, AUDITED = 500, 100
NOTHING = "-"
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def arrays(dataset: Dataset) -> Arrays:
    """Features and all labels of the items to learn from, and of the test items."""
    table = dataset.table
    assert table.truth is not None
    assert dataset.features is not None
    x = np.asarray(dataset.features[np.arange(len(table))], dtype=np.float32)
    x, y = x.reshape(len(x), -1), table.truth.dense() == 1
    test = np.isin(np.arange(len(table)), table.rows_of("test"))
    return x[~test], y[~test], x[test], y[test]


def sources(data: Path, ucmerced: Path | None) -> dict[str, Callable[[], Arrays]]:
    found = {"digits": lambda: arrays(load_source("digits-features"))}
    if ucmerced is not None:
        labels = str(data / "ucmerced" / "labels.csv")
        found["UC Merced"] = lambda: arrays(load_source(labels, features=[ucmerced]))
    voc, features = str(data / "VOCdevkit"), [data / "voc2012_features"]
    found["VOC"] = lambda: arrays(load_source(voc, features=features))
    return found


def f1(p: np.ndarray, thresholds: Any, truth: np.ndarray) -> tuple[float, float]:
    """Macro and micro F1 in per cent; classes without a positive are left out of the first."""
    predicted = p > thresholds
    hits, both = (predicted & truth).sum(0), predicted.sum(0) + truth.sum(0)
    macro = (2 * hits / np.maximum(both, 1))[truth.any(axis=0)].mean()
    return round(100 * macro, 2), round(200 * hits.sum() / max(both.sum(), 1), 2)


def error(p: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    by_class = [
        expected_calibration_error(p[:, [c]], truth[:, [c]].astype(int)) for c in range(p.shape[1])
    ]
    return {
        "ece": expected_calibration_error(p, truth.astype(int)),
        "by_class": float(np.mean(by_class)),
        "ratio": float(p.mean() / truth.mean()),
    }


def measure(items: Arrays, method: str | None, scheme: str, seed: int) -> dict[str, Any]:
    """One run and all figures of its probabilities."""
    x, y, x_test, y_test = items
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.flatnonzero(y.any(axis=1)))[:ITEMS]
    x, y = x[rows], y[rows]
    seen = picked(scheme, y, seed)
    settings: dict[str, Any] = {"seed": seed, "probe": "off"} | (OTHERS if method else {})
    fitted = fit(Dataset.from_arrays(x, seen), method, **settings)
    row: dict[str, Any] = {"k": float(y.sum(1).mean()), "used": fitted.calibration.k}
    scores, p = fitted.scores(x_test), fitted.predict(x_test)
    row |= {"method": fitted.training.recipe.method, "raw": error(scores, y_test)}
    row["calibrated"] = error(p, y_test)
    held_out = fitted.training.held_out()
    row["f1"] = thresholds(fitted, held_out, p, scores, y_test)
    truth = all_labels(fitted, held_out, y)
    known, states = rng.permutation(len(truth))[:AUDITED], held_out.labels.dense()
    states[known] = np.where(truth[known], 1, -1)
    k = fitted.calibration.k
    audited = fit_calibration(
        HeldOut(held_out.log_odds, LabelMatrix.from_dense(states)),
        None if k is None else LabelsPerItem.given(k),
    )
    z = audited(torch.logit(torch.from_numpy(scores).double(), eps=1e-7))
    return row | {"audited": error(torch.sigmoid(z).numpy(), y_test)}


def all_labels(fitted: Fitted, held_out: HeldOut, y: np.ndarray) -> np.ndarray:
    """All labels of the held-out items, in their order; rows are named by their number."""
    task = fitted.training.task
    ids = task.val.ids
    if len(held_out.labels) > len(task.val):
        ids = np.concatenate([task.train.ids, task.val.ids])
    return y[ids.astype(int)]


def thresholds(
    fitted: Fitted, held_out: HeldOut, p: np.ndarray, scores: np.ndarray, truth: np.ndarray
) -> dict[str, Any]:
    """F1 of several thresholds, all from seen labels alone."""
    raw = torch.sigmoid(held_out.log_odds).numpy()
    seen = held_out.labels.dense()
    found = find_thresholds(held_out, fitted.calibration)
    return {
        "raw scores, 0.5": f1(scores, 0.5, truth),
        "raw scores, from seen labels": f1(scores, thresholds_from(raw, seen), truth),
        "raw scores, from seen labels and k": f1(
            scores, thresholds_from(raw, seen, expected_positives=fitted.calibration.k), truth
        ),
        "probabilities, 0.5": f1(p, 0.5, truth),
        "probabilities, expected F1": f1(p, found.array, truth),
    }


def rows(args: argparse.Namespace) -> list[dict[str, Any]]:
    known = sources(args.data, args.ucmerced_features)
    kept = args.keep.read_text().splitlines() if args.keep and args.keep.exists() else []
    done = {json.dumps(row["job"]): row for row in map(json.loads, kept)}
    loaded: dict[str, Arrays] = {}
    result = []
    for name, scheme, seed in product(known, SCHEMES, range(args.draws)):
        for method in METHODS:
            job = [name, scheme, seed, method]
            if json.dumps(job) not in done:
                if name not in loaded:
                    loaded[name] = known[name]()
                row = {"job": job} | measure(loaded[name], method, scheme, seed)
                done[json.dumps(job)] = row
                if args.keep:
                    with args.keep.open("a") as file:
                        file.write(json.dumps(row) + "\n")
            result.append(done[json.dumps(job)])
    return result


def tables(measured: list[dict[str, Any]]) -> Iterator[str]:
    """Two tables in Markdown."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in measured:
        name, scheme, _, method = row["job"]
        label = f"{row['method']} (default)" if method is None else method
        groups.setdefault((f"{name}, {scheme}", label), []).append(row)
    yield (
        "| data | method | runs | k, true / used | raw ece | ece, mean (worst) | by class | "
        "mean / true (least, most) | ece with an audit (worst) |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for (data, method), group in groups.items():
        used = [row["used"] for row in group if row["used"] is not None]
        values = {
            part: {
                name: [row[part][name] for row in group] for name in ("ece", "by_class", "ratio")
            }
            for part in ("raw", "calibrated", "audited")
        }
        own, audited = values["calibrated"], values["audited"]
        yield (
            f"| {data} | {method} | {len(group)} "
            f"| {np.mean([row['k'] for row in group]):.2f} / "
            f"{f'{np.mean(used):.2f}' if used else NOTHING} "
            f"| {np.mean(values['raw']['ece']):.3f} "
            f"| {np.mean(own['ece']):.3f} ({max(own['ece']):.3f}) | {np.mean(own['by_class']):.3f} "
            f"| {np.mean(own['ratio']):.2f} ({min(own['ratio']):.2f}, {max(own['ratio']):.2f}) "
            f"| {np.mean(audited['ece']):.3f} ({max(audited['ece']):.3f}) |"
        )
    yield ""
    names = list(dict.fromkeys(data for data, _ in groups))
    yield f"| thresholds | {' | '.join(names)} |"
    yield f"|{' --- |' * (len(names) + 1)}"
    for rule in measured[0]["f1"]:
        cells = []
        for name in names:
            pairs = [
                row["f1"][rule] for key, group in groups.items() if key[0] == name for row in group
            ]
            cells.append("{:.1f} / {:.1f}".format(*np.mean(pairs, axis=0)))
        yield f"| {rule} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("\n".join(tables(rows(args))))


if __name__ == "__main__":
    main()
