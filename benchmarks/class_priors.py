"""Class priors for CRISP: how far off they are, and what that does to the test mAP.

    python benchmarks/class_priors.py DATA --ucmerced-features FILE [--sets yeast ucmerced voc]

DATA holds mulan/*.npz, VOCdevkit and voc2012_features. For each set and the seeds 0, 1, 2:
`crisp` with the priors of the best bin (estimated after every epoch), of `plusone priors`, and of
the truth. The rate is the best of three by the mAP of the validation items, for each of them. The
error is the mean over classes of |estimate - share of the training items|, in points, and the k
is the sum of the priors. `an`, tuned likewise, is there to compare with.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean

import numpy as np
from priors import load

from plusone.compare.results_table import markdown
from plusone.data.dataset import Dataset
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--sets", nargs="+", default=["yeast", "ucmerced", "corel5k", "voc"])
    given = parser.parse_args()
    table = []
    for name in given.sets:
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
