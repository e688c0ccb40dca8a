"""Near duplicates with and without a group column: figures on held-out items, and on new ones.

    python benchmarks/groups.py DATA [--method recovery]

DATA holds mulan/emotions.npz and mulan/yeast.npz. Of each set at most 400 training items are
taken. Each becomes three items, with noise of 0.3 standard deviations added
to its features, and with the same seen label (seeds 0, 1, 2 draw items, noise and labels). With
groups, the three are a group. Test items are new to both, and have the same noise.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean

import numpy as np
import torch

from plusone.compare.results_table import markdown
from plusone.data.dataset import Dataset
from plusone.data.source import load_source
from plusone.metrics import mean_average_precision
from plusone.training.api import fit
from plusone.training.closed_fit import ClosedFormFit

ITEMS, COPIES, NOISE, SEEDS = 400, 3, 0.3, (0, 1, 2)
COLUMNS = (
    "set",
    "method",
    "",
    "held-out mAP",
    "test mAP",
    "labels per test item",
    "true",
    "log loss",
)


def measured(data: Dataset, method: str, seed: int, grouped: bool) -> tuple[float, ...]:
    """The mAP of held-out and of test items, labels per test item, log loss."""
    table, rng = data.table, np.random.default_rng(seed)
    assert table.truth is not None
    assert data.features is not None
    x = np.asarray(data.features, dtype=np.float32)
    noise = NOISE * x[table.rows_of("train")].std(0)
    rows = rng.permutation(table.rows_of("train"))
    rows = rows[table.truth.per_item(1)[rows] > 0][:ITEMS]
    truth = table.truth.dense(rows) == 1
    seen = np.zeros_like(truth, dtype=np.int8)
    for row, labels in enumerate(truth):
        seen[row, rng.choice(np.flatnonzero(labels))] = 1

    def noisy(part: np.ndarray) -> np.ndarray:
        return (part + noise * rng.normal(size=part.shape)).astype(np.float32)

    groups = np.repeat(np.arange(len(rows)), COPIES)
    items = Dataset.from_arrays(
        noisy(x[rows][groups]), seen[groups], groups=groups if grouped else None
    )
    fitted = fit(items, method)
    training = fitted.training
    solved = isinstance(training, ClosedFormFit)
    parts = training.learned.parts if solved else (training.task.val,)
    own = np.concatenate([part.ids for part in parts]).astype(int)
    held_out = training.held_out().log_odds
    tests = table.rows_of("test")
    true, p = table.truth.dense(tests) == 1, fitted.predict(noisy(x[tests])).clip(1e-6, 1 - 1e-6)
    return (
        100 * mean_average_precision(held_out, truth[groups][own], empty="skip"),
        100 * mean_average_precision(p, true, empty="skip"),
        float(p.sum(1).mean()),
        float(true.sum(1).mean()),
        float(-np.where(true, np.log(p), np.log(1 - p)).mean()),
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--method", default="recovery")
    args = parser.parse_args()
    folder = args.data / "mulan"
    torch.set_num_threads(1)
    names = {name: str(folder / f"{name}.npz") for name in ("emotions", "yeast")}
    rows = []
    for name, source in names.items():
        data = load_source(source)
        for grouped in (False, True):
            runs = [measured(data, args.method, seed, grouped) for seed in SEEDS]
            means = [fmean(values) for values in zip(*runs, strict=True)]
            shown = [f"{value:.1f}" for value in means[:2]]
            shown += [f"{value:.2f}" for value in means[2:4]] + [f"{means[4]:.3f}"]
            rows.append((name, "groups" if grouped else "no groups", *shown))
            print(*rows[-1], flush=True)
    print(markdown(COLUMNS, rows))


if __name__ == "__main__":
    main()
