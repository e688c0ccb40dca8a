"""An epoch of `PlusOneClassifier.fit` against its bare matrix products, side by side in one run.

    python benchmarks/classifier.py [--items 100000] [--features 768] [--classes 1000]

The bare products are what no linear model can do without: for each batch the logits X W and the
gradient G' X of the weights, with the same batches, written into the same memory every time, and
nothing else: no loss, no optimizer, no validation. They are run over as many items as `fit` learns
from. An epoch of `fit` has all of these; it is the difference between a fit of several epochs and
one of a single epoch, so that what is done once does not count. Both are times of the processor on
one thread, so that other work on the machine disturbs less, and take turns: the products before,
between and after the two fits. The goal is a ratio of 2.

The last column is by how much the peak memory of the process grew: mostly the copy of the inputs,
split into training and validation items, and the scores of the latter.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from statistics import mean

import numpy as np
import torch

from plusone import PlusOneClassifier
from plusone.autorecipe import linear_batch_size
from plusone.estimator.plusone_classifier import suitable_fraction

METHODS = ("an", "wan", "em", "gr", "asl", "splc", "epr", "softmax")
GOAL = 2.0


def bare_epoch(x: torch.Tensor, n_classes: int, batch_size: int) -> float:
    """Seconds of the matrix products of one epoch."""
    n, dim = x.shape
    weight, slope = torch.randn(n_classes, dim) * 0.01, torch.randn(batch_size, n_classes)
    logits, grad = torch.empty(batch_size, n_classes), torch.empty(n_classes, dim)
    started = time.process_time()
    for start in range(0, n, batch_size):
        rows = x[start : start + batch_size]
        torch.mm(rows, weight.t(), out=logits[: len(rows)])
        torch.mm(slope[: len(rows)].t(), rows, out=grad)
    return time.process_time() - started


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fit_seconds(x: torch.Tensor, y: np.ndarray, method: str, epochs: int) -> float:
    """Seconds of a whole call of `fit`."""
    k = 2.0 if method == "epr" else None
    model = PlusOneClassifier(method, epochs=epochs, expected_positives=k, random_state=0)
    started = time.process_time()
    model.fit(x, y)
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=768)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    chance = np.random.default_rng(0)
    y = chance.integers(args.classes, size=args.items)
    middles = chance.standard_normal((args.classes, args.features), dtype=np.float32)
    x = torch.from_numpy(chance.standard_normal((args.items, args.features), dtype=np.float32))
    x.mul_(4)
    for number in range(args.items):
        x[number] += torch.from_numpy(middles[y[number]])
    fit_seconds(x[:2000], y[:2000], "an", 1)  # what is slow only once must not count
    learned = args.items - round(suitable_fraction(args.items) * args.items)
    table, before = args.items * args.classes * 4 / 1e6, peak_mb()
    print(f"{args.items:,} items x {args.features} features, {args.classes} classes")
    print("| method | batch | fit, s per epoch | bare products, s | ratio | memory, MB |")
    print("| --- | --- | --- | --- | --- | --- |")
    rows = []
    for method in args.methods.split(","):
        size = linear_batch_size(learned, args.features * args.classes)
        bare = [bare_epoch(x[:learned], args.classes, size)]
        once = fit_seconds(x, y, method, 1)
        bare.append(bare_epoch(x[:learned], args.classes, size))
        ours = (fit_seconds(x, y, method, 1 + args.epochs) - once) / args.epochs
        bare.append(bare_epoch(x[:learned], args.classes, size))
        row = {
            "method": method,
            "batch_size": size,
            "fit_s": ours,
            "bare_s": mean(bare),
            "ratio": ours / mean(bare),
            "grown_mb": peak_mb() - before,
        }
        rows.append(row)
        print(
            f"| `{method}` | {row['batch_size']} | {row['fit_s']:.2f} | {row['bare_s']:.2f} "
            f"| {row['ratio']:.2f} | {row['grown_mb']:.0f} |",
            flush=True,
        )
    over = sum(row["ratio"] > GOAL for row in rows)
    print(f"\nAbove {GOAL:g}: {over} of {len(rows)}. A dense table of all labels: {table:.0f} MB.")
    ratios = [
        {
            "name": f"an epoch of PlusOneClassifier over its bare products, {row['method']}",
            "value": row["ratio"],
            "goal": GOAL,
            "kind": "at most",
            "detail": f"{row['fit_s']:.2f} s against {row['bare_s']:.2f} s, {args.items:,} items",
        }
        for row in rows
    ]
    if args.json:
        args.json.write_text(json.dumps({"ratios": ratios, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
