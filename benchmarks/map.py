"""Average precision: ours beside scikit-learn, interleaved in one run.

    python benchmarks/map.py [--repeats 5] [--threads 1 2] [--json FILE]

Scores are random float32 with the share of positives of COCO (2.9 of 80); before any time is
taken, both must agree to 1e-12, also on scores rounded to two decimals. A time is the median of the
repeats. `threads` sets torch's threads and the BLAS and OpenMP pools; neither side's sort is
parallel, so the two rows of a size should be alike.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from pathlib import Path

import numpy as np
import sklearn
import torch
from sklearn.metrics import average_precision_score
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from plusone.metrics import average_precision

SIZES = ((40137, 80), (1143, 20))
POSITIVES = 2.9 / 80
GOAL = 4.0


def measure(items: int, labels: int, repeats: int) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    scores = rng.random((items, labels), dtype=np.float32)
    truth = rng.random((items, labels)) < POSITIVES
    for checked in (scores, scores.round(2)):
        gap = average_precision(checked, truth).numpy() - average_precision_score(
            truth, checked, average=None
        )
        if not np.abs(gap).max() < 1e-12:
            raise SystemExit(f"ours and scikit-learn differ by {np.abs(gap).max()}")
    tensors = torch.from_numpy(scores), torch.from_numpy(truth)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        average_precision(*tensors)
        middle = time.perf_counter()
        average_precision_score(truth, scores, average=None)
        end = time.perf_counter()
        ours.append(1e3 * (middle - start))
        theirs.append(1e3 * (end - middle))
    return statistics.median(ours), statistics.median(theirs)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    args = parser.parse_args()
    rows = []
    print(f"{'size':>12} {'threads':>8} {'ours ms':>9} {'sklearn ms':>11} {'ratio':>6}")
    for items, labels in SIZES:
        for threads in args.threads:
            torch.set_num_threads(threads)
            with threadpool_limits(threads):
                ours, theirs = measure(items, labels, args.repeats)
            print(
                f"{f'{items} x {labels}':>12} {threads:>8} {ours:>9.2f} {theirs:>11.1f} "
                f"{theirs / ours:>6.1f}"
            )
            row: dict[str, float] = {"items": items, "labels": labels, "threads": threads}
            rows.append(row | {"ours_ms": ours, "sklearn_ms": theirs, "ratio": theirs / ours})
    first = rows[0]
    ratio = {
        "name": f"mAP, times as fast as scikit-learn, {SIZES[0][0]:,} x {SIZES[0][1]}",
        "value": first["ratio"],
        "goal": GOAL,
        "kind": "at least",
        "detail": f"{first['ours_ms']:.0f} ms against {first['sklearn_ms']:.0f} ms, "
        f"threads: {args.threads[0]}",
    }
    if args.json:
        versions = {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
            "scikit-learn": sklearn.__version__,
        }
        result = {"ratios": [ratio], "versions": versions, "rows": rows}
        args.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
