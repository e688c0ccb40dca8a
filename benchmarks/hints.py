"""What hints without a download (ConSE) are worth: alone, in methods, as features, as a prior.

    python benchmarks/hints.py DATA --ucmerced-features lite0.npz --hints FOLDER --out hints.json

DATA is the folder with VOCdevkit, voc2012_features and ucmerced; FOLDER has voc.npz and
ucmerced.npz, made by `plusone hints ... -x FEATURES`. One label per image is seen (protocol
cole2021, seed 1200), a fifth of the training items validates. The learning rates and three seeds of
a method are trained as one stack; the rate (with --tune also the options, among the method's grid)
with the highest mean validation mAP is reported. What is in the file already is not measured again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plusone.data.dataset import Dataset
from plusone.data.source import load_source
from plusone.inputs.task import make_task, split_and_observe
from plusone.io.files import write_json
from plusone.methods import METHODS
from plusone.metrics import mean_average_precision
from plusone.probabilities.hint_prior import with_prior
from plusone.recipe import make_recipe
from plusone.training.closed_fit import fit_for
from plusone.training.crossfit import cross_fit
from plusone.training.stack import train_stacked
from plusone.training.trainer import Training

SEEDS = (0, 1, 2)
STACKED = ("em", "gr", "vlpl", "gpr")
K = {"voc": 1.5, "ucmerced": 3.3}
SHARED = {"epochs": 25, "batch_size": 64, "probe": "off"}


def alone(data: Dataset) -> float:
    """Test mAP of the hints themselves."""
    rows = data.table.rows_of("test")
    assert data.table.hints is not None
    assert data.table.truth is not None
    return mean_average_precision(data.table.hints[rows], data.table.truth.dense(rows) == 1)


def tuned(
    data: Dataset, method: str, k: float, rates: Sequence[float], tune: bool
) -> dict[str, Any]:
    """The best options and rate of a method by mean validation mAP, and their test mAPs."""
    best: dict[str, Any] = {}
    for options in ({}, *(METHODS[method].grid if tune else ())):
        given = {"method": method, "expected_positives": k, "options": dict(options)} | SHARED
        recipes = [make_recipe(given, {"lr": lr, "seed": seed}) for lr in rates for seed in SEEDS]
        task = make_task(data, recipes[0])
        done = [training for training, _ in train_stacked(task, recipes)]
        for rate in rates:
            own = [training for training in done if training.recipe.lr == rate]
            val = float(np.mean([training.stage_maps[-1] for training in own]))
            if val > best.get("val", -1.0):
                test = [_test_map(training) for training in own]
                best = {"val": val, "options": dict(options), "lr": rate, "test": test}
    return best


def _test_map(training: Training) -> float:
    test = training.task.test
    assert test is not None
    assert test.truth is not None
    return mean_average_precision(training.predict(test).numpy(), test.truth.dense() == 1)


def solved(data: Dataset, **more: Any) -> float:
    """Test mAP of recovery, which has neither seed nor rate."""
    recipe = make_recipe({"method": "recovery"}, more)
    training = fit_for(make_task(data, recipe), recipe)
    for _ in training.epochs():
        pass
    return _test_map(training)


def prior(data: Dataset) -> dict[str, float]:
    """Hidden labels of the training items: their mAP without and with hints as a prior."""
    recipe = make_recipe({"method": "recovery"})
    table = split_and_observe(data.table, recipe)
    fit = cross_fit(Dataset(table, data.features, data.name), recipe)
    seen, truth = table.labels.take(fit.rows), data.table.truth
    assert table.hints is not None
    assert truth is not None
    own, hints = fit.scores.table(), table.hints[fit.rows]
    combined, weight = with_prior(own, hints, seen)
    states, full = seen.dense(), truth.dense(fit.rows) == 1

    def hidden(scores: np.ndarray) -> float:
        columns = [states[:, label] == 0 for label in range(states.shape[1])]
        each = [
            mean_average_precision(scores[rows, label, None], full[rows, label, None])
            for label, rows in enumerate(columns)
            if full[rows, label].any()
        ]
        return float(np.mean(each))

    return {"weight": weight, "without": hidden(own), "with": hidden(combined.table())}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, and writes after every row what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--ucmerced-features", type=Path, required=True)
    parser.add_argument("--hints", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("hints.json"))
    parser.add_argument("--names", nargs="+", default=["ucmerced", "voc"])
    parser.add_argument("--rates", nargs="+", type=float, default=[1e-2, 1e-3, 1e-4])
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--rows", nargs="+", help="Only these rows.")
    given = parser.parse_args(arguments)
    sources = {
        "voc": (given.data / "VOCdevkit", given.data / "voc2012_features"),
        "ucmerced": (given.data / "ucmerced" / "labels.csv", given.ucmerced_features),
    }
    results: dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {}
    for name in given.names:
        labels, features = sources[name]
        data = load_source(str(labels), features=[features], hints=given.hints / f"{name}.npz")
        rows: dict[str, Any] = results.setdefault(name, {})
        jobs = {
            "hints alone": lambda data=data: alone(data),
            "recovery": lambda data=data: solved(data),
            "recovery, hint features": lambda data=data: solved(data, hint_features=True),
            "prior": lambda data=data: prior(data),
            **{
                method: lambda data=data, name=name, method=method: tuned(
                    data, method, K[name], given.rates, given.tune
                )
                for method in STACKED
            },
        }
        for row, measure in jobs.items():
            if row not in rows and (given.rows is None or row in given.rows):
                rows[row] = measure()
                print(name, row, rows[row], flush=True)
                write_json(given.out, results)


if __name__ == "__main__":
    main()
