"""Class priors: how far off they are, near one label per item too, and what they do to CRISP.

    python benchmarks/class_priors.py DATA --ucmerced-features FILE [--sets yeast ucmerced voc]
    python benchmarks/class_priors.py DATA --ucmerced-features FILE --near-one [--draws 3]

DATA holds mulan/*.npz, VOCdevkit and voc2012_features. For each set and the seeds 0, 1, 2:
`crisp` with the priors of the best bin (estimated after every epoch), of `plusone priors`, and of
the truth. The rate is the best of three by the mAP of the validation items, for each of them. The
error is the mean over classes of |estimate - share of the training items|, in points, and the k
is the sum of the priors. `an`, tuned likewise, is there to compare with.

With `--near-one` there is no training. Of each set, items with one label, and as many with two as
give 1.07 labels per item, or 1.2, or all items; 300, 500 and 1,500 of them where there are so many
(yeast with seven of its classes, because few of its items have one label). One label of each is
seen, picked at random, by frequency, or in an order of all classes. One row for each: the true k,
the estimate, how often the range holds it, and the mean error of class priors in points: as if k
were believed, the seen share, and the priors of `plusone priors`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from picks import picked
from priors import load

from plusone.closed_form import from_features
from plusone.compare.results_table import markdown
from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.probabilities.k import NEAR_ONE
from plusone.training.api import fit

RATES, SEEDS, EPOCHS = (1e-2, 1e-3, 1e-4), (0, 1, 2), 25
ROWS = {
    "best bin": {"method": "crisp"},
    "best bin, running mean": {"method": "crisp", "options": {"decay": 0.9}},
    "plusone priors": {"method": "crisp", "class_priors": "estimate"},
    "truth": {"method": "crisp", "class_priors": "truth"},
    "none: an": {"method": "an"},
}
COLUMNS = ("set", "priors", "test mAP", "error", "error where rare", "k", "true k")
RARE = 0.05  # classes that fewer items have
SETS = ("voc", "ucmerced", "yeast", "emotions", "digits-features")
SIZES, PICKS = (300, 500, 1500), ("uniform", "frequent", "order")
SECOND = {"1.07 labels": 0.07, "1.2 labels": 0.2, "all items": None}  # share with two labels
FEW_LABELS = {"yeast": [0, 1, 6, 8, 9, 10, 13]}  # classes that few of its items share


def measured(data: Dataset, settings: dict[str, object], seed: int) -> tuple[float, ...]:
    """Test mAP, both errors of the priors, k and the true k; the best rate on validation items."""
    runs = [
        fit(data, **settings, epochs=EPOCHS, lr=lr, seed=seed, batch_size=64, rules=False)
        for lr in RATES
    ]
    best = max(runs, key=lambda run: run.metrics["val_map"])
    train = best.training.task.train
    assert train.truth is not None
    truth = train.truth.per_class(1) / len(train)
    score = 100 * best.metrics["test_map"]
    priors = getattr(best.training.method, "priors", None)
    if priors is None:
        return score, float("nan"), float("nan"), float("nan"), float(truth.sum())
    error = np.abs(priors.numpy() - truth)
    rare = error[truth < RARE].mean() if (truth < RARE).any() else float("nan")
    return score, 100 * error.mean(), 100 * rare, float(priors.sum()), float(truth.sum())


def near_one(truth: np.ndarray, second: float | None, size: int, seed: int) -> np.ndarray:
    """Rows of a set with few items of two labels."""
    rng, count = np.random.default_rng([seed, size, 3]), truth.sum(axis=1)
    if second is None:
        return rng.permutation(np.flatnonzero(count))[:size]
    one, two = (rng.permutation(np.flatnonzero(count == number)) for number in (1, 2))
    size = min(size, int(len(one) / (1 - second)))
    more = round(second * size)
    return rng.permutation(np.concatenate([one[: size - more], two[:more]]))


def errors(x: np.ndarray, truth: np.ndarray, scheme: str, seed: int) -> list[float]:
    """True k, estimate, whether the range holds, and three errors of class priors."""
    seen = LabelMatrix.from_dense(picked(scheme, truth, seed))
    found = from_features(torch.from_numpy(x).reshape(len(x), -1), seen)
    share, true, k = found.seen_share, truth.mean(axis=0), float(truth.sum(axis=1).mean())
    hidden = found.k - float(share.sum())
    factor = (hidden**2 + NEAR_ONE**2) / max(hidden**2, 1e-12)
    believed = np.clip(share + (found.priors - share) * factor, share, 1.0)
    means = [100 * float(np.abs(p - true).mean()) for p in (believed, share, found.priors)]
    return [k, found.k, float(found.low - 1e-9 <= k <= found.high + 1e-9), *means]


def print_near_one(given: argparse.Namespace) -> None:
    """The table of `--near-one`."""
    columns = ("set", "items", "true k", "estimate", "range holds k", "k believed", "seen share",
               "priors")  # fmt: skip
    table = []
    for kind, second in SECOND.items():
        for name in given.sets or SETS:
            data = load(name, given.data, given.ucmerced_features)
            truth = data.table.truth.dense() == 1
            if second is not None and name in FEW_LABELS:
                truth = truth[:, FEW_LABELS[name]]
            sizes = {len(near_one(truth, second, size, 0)) for size in given.sizes}
            for size in sorted(sizes):
                found = []
                for seed in range(given.draws):
                    rows = near_one(truth, second, size, seed)
                    x = np.asarray(data.features[rows], dtype=np.float32)
                    found += [errors(x, truth[rows], scheme, seed) for scheme in PICKS]
                k, estimate, held, *means = np.mean(found, axis=0)
                cells = [f"{k:.2f}", f"{estimate:.2f}", f"{round(held * len(found))} of "
                         f"{len(found)}", *(f"{value:.2f}" for value in means)]  # fmt: skip
                table.append([f"{name}, {kind}", str(size), *cells])
                print("\t".join(table[-1]), flush=True)
    print(markdown(columns, table))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--near-one", action="store_true")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--draws", type=int, default=3)
    given = parser.parse_args()
    if given.near_one:
        print_near_one(given)
        return
    table = []
    for name in given.sets or ("yeast", "ucmerced", "corel5k", "voc"):
        data = load(name, given.data, given.ucmerced_features)
        for label, settings in ROWS.items():
            means = [
                fmean(column)
                for column in zip(*(measured(data, settings, s) for s in SEEDS), strict=True)
            ]
            shown = ["-" if np.isnan(value) else f"{value:.2f}" for value in means]
            table.append([name, label, *shown])
            print("\t".join(table[-1]), flush=True)
    print(markdown(COLUMNS, table))


if __name__ == "__main__":
    main()
