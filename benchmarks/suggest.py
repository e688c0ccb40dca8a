"""Missing labels found at a wanted precision, and what that precision really was.

    python benchmarks/suggest.py DATA --ucmerced-features FILE --out suggest.md

`DATA` is the folder with VOCdevkit, voc2012_features and ucmerced; without the features of UC
Merced (`plusone features`) only VOC is measured. One positive per training item is seen. Each
method is cross-fitted on features and calibrated without an audit, with audits of 100 and 200
random items, and with 200 answers about suggestions above one half; labels are then accepted at 80,
90 and 95 %. "raw" takes the scores at their word. Finished folds are kept in a folder, so a stopped
run goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean

import numpy as np
import torch

from plusone.closed_form import k_from_features
from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.data.observation import observe_table
from plusone.data.source import load_source
from plusone.data.table import LabelTable
from plusone.io.files import write_text
from plusone.methods import get_method
from plusone.metrics.calibration_error import expected_calibration_error
from plusone.probabilities import LabelsPerItem
from plusone.probabilities.accept import accept
from plusone.probabilities.answers import answers_from
from plusone.probabilities.unseen_labels import Calibrated, calibrate
from plusone.recipe import make_recipe
from plusone.training.crossfit import cross_fit

METHODS = {
    "an": {"lr": 1e-3},
    "em": {"lr": 1e-3, "options": {"alpha": 0.1}},
    "gr": {"lr": 1e-4},
    "role": {"lr": 1e-3},
}
TARGETS = (0.8, 0.9, 0.95)
AUDITS = (100, 200)
ANSWERS = 200

Numbers = dict[str, float]


def data_sets(folder: Path, ucmerced: Path | None) -> Iterator[tuple[str, Dataset]]:
    features = [folder / "voc2012_features"]
    yield "VOC 2012", load_source(str(folder / "VOCdevkit"), features=features)
    if ucmerced is not None:
        yield "UC Merced", load_source(str(folder / "ucmerced"), features=[ucmerced])


def measure(found: Calibrated, observed: np.ndarray, truth: np.ndarray) -> dict[float, Numbers]:
    """What is accepted at each target, and how much of it is right."""
    unseen, result = observed == 0, {}
    p = found.probabilities[unseen][:, None]
    error = expected_calibration_error(p, truth[unseen][:, None].astype(int))
    hidden = (truth & unseen).sum()
    for target in TARGETS:
        made = accept(found, observed, target)
        right = (made.mask & truth).sum()
        result[target] = {
            "accepted": made.count,
            "estimated": made.expected or np.nan,
            "low": np.nan if made.low is None else made.low,
            "true": right / made.count if made.count else np.nan,
            "recovered": right / hidden,
            "ece": error,
        }
    return result


def ways(
    scores: np.ndarray, table: LabelTable, truth: np.ndarray, k: LabelsPerItem, seed: int
) -> Iterator[tuple[str, Calibrated]]:
    """Scores as they are, and calibrated with what is known."""
    raw = scores.astype(np.float64)
    yield "raw", Calibrated(raw, raw)
    blind = calibrate(scores, table.labels, k=k)
    yield "no audit", blind
    rng = np.random.default_rng(1000 + seed)
    for items in AUDITS:
        rows = rng.choice(len(table), items, replace=False)
        labels = LabelMatrix.from_dense(truth[rows].astype(int), default=-1)
        answers = answers_from(LabelTable(table.ids[rows], table.classes, labels), table)
        yield (
            f"audit of {items} items",
            calibrate(scores, table.labels, k=k, answers=answers),
        )
    likely = np.argwhere((table.labels.dense() == 0) & (blind.probabilities > 0.5))
    row, label = likely[rng.choice(len(likely), ANSWERS, replace=False)].T
    states = np.zeros(truth.shape, dtype=np.int8)
    states[row, label] = np.where(truth[row, label], 1, -1)
    rows = np.unique(row)
    audit = LabelTable(table.ids[rows], table.classes, LabelMatrix.from_dense(states[rows]))
    answers = answers_from(audit, table)
    made = calibrate(scores, table.labels, k=k, answers=answers)
    yield f"{ANSWERS} answers", made


def run(
    dataset: Dataset, name: str, args: argparse.Namespace
) -> tuple[dict[tuple[str, str], list[dict[float, Numbers]]], list[float]]:
    """All methods and seeds on one data set; and the estimates of k."""
    found: dict[tuple[str, str], list[dict[float, Numbers]]] = {}
    estimates = []
    for seed in range(args.seeds):
        table = observe_table(dataset.table, "single", 1200 + seed)
        rows = np.setdiff1d(np.arange(len(table)), table.rows_of("test"))
        part, truth = table.take(rows), table.truth.dense(rows) == 1
        x = torch.from_numpy(np.asarray(dataset.features[rows], dtype=np.float32))
        k = k_from_features(x, part.labels)
        estimates.append(k.k)
        for method in args.methods:
            recipe = make_recipe({"method": method, "seed": seed, "probe": "off"}, METHODS[method])
            if get_method(method).needs_k:
                recipe = recipe.model_copy(update={"expected_positives": k.k})
            place = args.keep / f"{name.replace(' ', '-')}-{method}-{seed}"
            fit = cross_fit(replace(dataset, table=table), recipe, args.folds, keep=place)
            for way, made in ways(fit.probabilities, part, truth, k, seed):
                figures = measure(made, part.labels.dense(), truth)
                found.setdefault((method, way), []).append(figures)
                shown = figures[0.9]
                print(
                    f"{name} {method} seed {seed} {way}: accepted {shown['accepted']:.0f}, "
                    f"true {shown['true']:.3f}, recovered {shown['recovered']:.3f}",
                    flush=True,
                )
    return found, estimates


def table_of(found: dict[tuple[str, str], list[dict[float, Numbers]]], target: float) -> list[str]:
    lines = [
        "| method | calibration | accepted | estimated | true | from - to | missing labels found "
        "| ECE |",
        "| --- | --- | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    for (method, way), runs in found.items():
        rows = [figures[target] for figures in runs]
        true = [row["true"] for row in rows if not np.isnan(row["true"])]
        spread = f"{100 * min(true):.1f} - {100 * max(true):.1f}" if true else "-"
        figures = {key: mean(row[key] for row in rows) for key in rows[0]}
        share = f"{100 * mean(true):.1f}" if true else "-"
        expected = f"{100 * figures['estimated']:.1f}" if true else "-"
        lines.append(
            f"| {method} | {way} | {figures['accepted']:.0f} | {expected} | "
            f"{share} | {spread} | {100 * figures['recovered']:.1f} | {100 * figures['ece']:.2f} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the data sets")
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--keep", type=Path, default=Path("results/suggest"))
    parser.add_argument("--out", type=Path, help="file for the tables")
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines: list[str] = []
    for name, dataset in data_sets(args.data, args.ucmerced_features):
        found, estimates = run(dataset, name, args)
        rows = np.setdiff1d(np.arange(len(dataset.table)), dataset.table.rows_of("test"))
        truth = dataset.table.truth.take(rows).per_item(1).mean()
        listed = ", ".join(f"{k:.2f}" for k in estimates)
        lines += [
            f"**{name}** ({len(rows)} items, {truth:.2f} labels each, estimated {listed})",
            "",
        ]
        for target in TARGETS:
            lines += [f"Wanted precision {100 * target:.0f} %:", "", *table_of(found, target), ""]
    text = "\n".join(lines)
    print(text)
    if args.out is not None:
        write_text(args.out, text)


if __name__ == "__main__":
    main()
