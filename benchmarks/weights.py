"""Backbones whose weights need no download: test mAP of the default method, and the time.

    python benchmarks/weights.py FOLDER [ucmerced voc-small voc] [--backbones lite0 lite1 lite2]

FOLDER has ucmerced and VOCdevkit (images with a short side of 128 pixels). "ucmerced": every
backbone at its own image size. "voc": all images at 128 pixels. "voc-small": the first 1,000
training and 800 test images of them. Features of whole images are extracted once into `--keep`
with one thread; `recovery` is trained on them from one seen label per item, for every draw of the
seen labels, and from all labels. Speeds are images per second of
processor time on one thread, with decoding, measured in turns: the median of the turns.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import numpy as np
import torch
from crops import SEEDS, features_of, fitted, network, table_of

from plusone.data.table import LabelTable
from plusone.metrics import mean_average_precision
from plusone.models.backbones import BACKBONES

LITE = ["lite0", "lite1", "lite2"]
SIDE = 128
TIMED, TURNS = 20, 5


def sides(name: str, backbone: str) -> list[int]:
    """Image sizes at which a backbone is measured on a data set."""
    return [BACKBONES[backbone].size if name == "ucmerced" else SIDE]


def extracted(table: LabelTable, name: str, backbone: str, side: int, keep: Path) -> np.ndarray:
    """Features `[N, D]` of whole images, kept in a file."""
    path = keep / f"{name}-{backbone}-{side}.npz"
    if not path.exists():
        keep.mkdir(parents=True, exist_ok=True)
        x = features_of(table, range(len(table)), network(backbone, side), side, "one")[:, 0]
        np.savez(path, x=x)
    with np.load(path) as file:
        return file["x"].astype(np.float32)


def speeds(table: LabelTable, cases: list[tuple[str, int]]) -> list[float]:
    """Images per second of each backbone and image size."""
    nets = [network(backbone, side) for backbone, side in cases]
    taken: list[list[float]] = [[] for _ in cases]
    for turn in range(TURNS + 1):
        for (_, side), net, times in zip(cases, nets, taken, strict=True):
            started = time.process_time()
            features_of(table, range(TIMED), net, side, "one")
            if turn:  # the first one warms up
                times.append((time.process_time() - started) / TIMED)
    return [1 / median(times) for times in taken]


def score(table: LabelTable, x: np.ndarray, arm: str, seed: int) -> float:
    """Test mAP in per cent of a head trained on features `[N, D]`."""
    test = table.rows_of("test")
    assert table.truth is not None
    truth = (table.truth.take(test).dense() == 1).astype(np.int8)
    scores = fitted(table, x, arm, seed).predict(x[test])
    return 100 * mean_average_precision(scores, truth, empty="zero")


def measured(folder: Path, name: str, backbones: list[str], keep: Path) -> list[dict[str, Any]]:
    """A row for every backbone and image size."""
    table = table_of(folder, "voc" if name == "voc-small" else name, everything=name == "voc")
    cases = [(backbone, side) for backbone in backbones for side in sides(name, backbone)]
    rows = []
    for (backbone, side), per_second in zip(cases, speeds(table, cases), strict=True):
        x = extracted(table, name, backbone, side, keep)
        draws = [score(table, x, "recovery", seed) for seed in SEEDS]
        rows.append(
            {
                "backbone": backbone, "side": side, "map": mean(draws), "spread": stdev(draws),
                "all": score(table, x, "recovery, all labels", SEEDS[0]), "per_s": per_second,
            }
        )  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("data", nargs="*", default=["ucmerced", "voc-small", "voc"])
    parser.add_argument("--backbones", nargs="+", choices=LITE, default=LITE)
    parser.add_argument("--keep", type=Path, default=Path("weights"))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    results = {name: measured(args.folder, name, args.backbones, args.keep) for name in args.data}
    for name, rows in results.items():
        print(f"\n{name}\n")
        print("| backbone | pixels | one label | all labels | images/s | speed against the first |")
        print("| --- | --- | --- | --- | --- | --- |")
        for row in rows:
            print(
                f"| `{row['backbone']}` | {row['side']} | {row['map']:.2f} ± {row['spread']:.2f} "
                f"| {row['all']:.2f} | {row['per_s']:.1f} | {row['per_s'] / rows[0]['per_s']:.2f} |"
            )
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
