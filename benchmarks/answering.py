"""What truthful answers change in a run: its ranking, its tags, k and its probabilities.

    python benchmarks/answering.py DATA --ucmerced-features FILE [--sets ...] [--draws 3]

DATA holds VOCdevkit, voc2012_features and mulan; FILE comes from `plusone features
DATA/ucmerced/labels.csv --size 128 --out FILE`. Of each data set 800 items are drawn, and one label
of each is picked as people may pick it (benchmarks/picks.py). The default method is trained, a
review asks in its default order, the truth answers, and runs with 60 and 600 answers follow, and
one with all labels. Prints one Markdown row for each: on new items with known truth test mAP, the
recall, precision and number of tags at the thresholds of the run, and the calibration error; k of
the run, its range and the truth; and the share of what is left to all labels that answers close.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from picks import picked
from priors import load

from plusone.autorecipe import compose, facts_of
from plusone.compare.loop import reviewed
from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.inputs.task import make_task
from plusone.metrics import mean_average_precision
from plusone.metrics.calibration_error import expected_calibration_error
from plusone.reviewing import apply_answers
from plusone.reviewing.questions import WORTH
from plusone.suggestions.find import find
from plusone.training.closed_fit import fit_for
from plusone.training.summary import calibrate

SETS = ("voc", "ucmerced", "yeast", "digits-features")
SCHEMES = ("uniform", "area", "frequent", "squared")
ITEMS, TESTED = 800, 2000
ANSWERS = (60, 600)
COLUMNS = ("map", "recall", "precision", "tags", "true", "ece", "k", "low", "high", "true k")


def drawn(name: str, scheme: str, seed: int, args: argparse.Namespace) -> Dataset:
    """Items with one seen label each and all labels as truth, and test items."""
    dataset = load(name, args.data, args.ucmerced_features)
    truth, test = dataset.table.truth.dense() == 1, dataset.table.rows_of("test")
    rng, labelled = np.random.default_rng([seed, 9]), np.flatnonzero(truth.any(axis=1))
    train = np.sort(rng.permutation(np.setdiff1d(labelled, test))[:ITEMS])
    test = np.sort(rng.permutation(np.intersect1d(labelled, test))[:TESTED])
    rows = np.concatenate([train, test])
    states = np.zeros((len(rows), truth.shape[1]), dtype=np.int8)
    states[: len(train)] = picked(scheme, truth[train], seed)
    x = np.asarray(dataset.features[rows], dtype=np.float32).reshape(len(rows), -1)
    split = np.repeat(["train", "test"], [len(train), len(test)])
    made = Dataset.from_arrays(x, states, split=split)
    return replace(
        made, table=replace(made.table, truth=LabelMatrix.from_dense(truth[rows], default=-1))
    )


def blind(dataset: Dataset, labels: LabelTable) -> Dataset:
    """The data set with these labels, and without the truth."""
    return replace(dataset, table=replace(labels, truth=None))


def measured(dataset: Dataset, labels: LabelTable) -> dict[str, float]:
    """What a run with these labels gives on the test items."""
    data = blind(dataset, labels)
    recipe = compose(lambda share: facts_of(data, share), {"method": "recovery"}).recipe
    training = fit_for(make_task(data, recipe), recipe)
    for _ in training.epochs():
        pass
    calibration, thresholds = calibrate(training)
    assert dataset.table.truth is not None
    truth = dataset.table.truth.dense() == 1
    learned, tested = (dataset.table.rows_of(split) for split in ("train", "test"))
    z, y = training.log_odds(training.task.test), truth[tested]
    p = torch.sigmoid(calibration(z.double())).numpy()
    tags = p >= thresholds.array
    low, high = calibration.k_range or (0.0, 0.0)
    return {
        "map": 100 * mean_average_precision(z, torch.from_numpy(y.astype(np.int8))),
        "recall": 100 * (tags & y).sum() / y.sum(),
        "precision": 100 * (tags & y).sum() / max(tags.sum(), 1),
        "tags": tags.sum(axis=1).mean(),
        "true": y.sum(axis=1).mean(),
        "ece": float(expected_calibration_error(p, y.astype(int))),
        "k": calibration.k or float("nan"),
        "low": low,
        "high": high,
        "true k": truth[learned].sum(axis=1).mean(),
    }


def one_draw(dataset: Dataset) -> dict[str, dict[str, float]]:
    """Figures without answers, after some, and with all labels."""
    table = dataset.table
    data = blind(dataset, table)
    recipe = compose(lambda share: facts_of(data, share), {"method": "recovery"}).recipe
    suggestions = find(data, recipe).suggestions()
    asked = reviewed(suggestions, "worth", max(ANSWERS), 0, table.truth, WORTH)
    row, label = suggestions.row[asked], suggestions.label[asked].astype(np.int64)
    yes = table.truth.dense(row)[np.arange(len(row)), label] == 1
    every = table.truth.dense()
    every[table.rows_of("test")] = 0
    found = {"0": measured(dataset, table)}
    for number in ANSWERS:
        after = apply_answers(table, row[:number], label[:number], yes[:number])
        found[str(number)] = measured(dataset, after) | {"asked": len(yes[:number])}
    found["all"] = measured(dataset, replace(table, labels=LabelMatrix.from_dense(every)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--schemes", nargs="+", default=list(SCHEMES))
    parser.add_argument("--draws", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(
        "| data | picks | answers | mAP | recall | precision | tags (true) | calibration error | "
        "k (true) | range | gap closed |\n| --- | --- | ---: |" + " ---: |" * 8
    )
    for name in args.sets:
        for scheme in args.schemes:
            draws = [one_draw(drawn(name, scheme, seed, args)) for seed in range(args.draws)]
            means = {
                key: {what: float(np.mean([draw[key][what] for draw in draws])) for what in COLUMNS}
                for key in draws[0]
            }
            left = means["all"]["map"] - means["0"]["map"]
            for key, m in means.items():
                own, known = [draw[key] for draw in draws], key != "all"
                holds = [one["low"] <= one["true k"] <= one["high"] for one in own]
                some = "asked" in own[0]
                asked = f"{np.mean([one['asked'] for one in own]):.0f}" if some else key
                closed = f"{100 * (m['map'] - means['0']['map']) / left:.0f} %" if some else ""
                cells = [
                    f"{m['map']:.2f}", f"{m['recall']:.1f}", f"{m['precision']:.1f}",
                    f"{m['tags']:.2f} ({m['true']:.2f})", f"{m['ece']:.3f}",
                    f"{m['k']:.2f} ({m['true k']:.2f})" if known else "-",
                    f"{m['low']:.2f} to {m['high']:.2f}, true in {sum(holds)}" if known else "-",
                    closed,
                ]  # fmt: skip
                print(f"| {name} | {scheme} | {asked} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
