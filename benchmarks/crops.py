"""One crop of an image against five: test mAP from seen labels and from all labels, and the time.

    python benchmarks/crops.py FOLDER [ucmerced voc voc-originals]

FOLDER has ucmerced, VOCdevkit, voc2012_features and voc2012_tiles_features. Features of every crop
are extracted once into `--keep` with one thread, then the same head is trained on: the whole image;
the mean and the maximum of the features of five crops; and models of whole images that are shown
five crops when they predict (mean odds, highest score, mean score, mean features), and the other
way round. "voc-originals" compares given feature files, of a centre crop and of the mean of five
crops, on the test items that both have. The mean over draws of the seen labels.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plusone.data.dataset import Dataset
from plusone.data.features import align, read_features
from plusone.data.images import CROPS, Crops, decode_crops
from plusone.data.source import load_source
from plusone.data.table import LabelTable
from plusone.features.fused import fused
from plusone.metrics import mean_average_precision
from plusone.models.backbones import backbone_for
from plusone.training.api import Fitted, fit

BATCH = 10  # crops
TIMED = 20  # images
SIZES = {"ucmerced": (None, None), "voc": (1000, 800)}  # training and test items
BACKBONE = "lite0"
SIDES = {"ucmerced": 224, "voc": 128}  # the images of voc have a short side of 128 pixels
SEEDS = (1200, 1, 2)
Measure = Callable[[str, int], dict[str, float]]
ARMS: dict[str, dict[str, Any]] = {
    "recovery": {"method": "recovery"},
    "recovery, all labels": {"method": "recovery", "observe": "all"},
    "em": {"method": "em"},
}


def table_of(folder: Path, name: str, *, everything: bool = False) -> LabelTable:
    """The items of a data set: all, or the first of each split as `SIZES` says."""
    data = folder / "ucmerced" / "labels.csv" if name == "ucmerced" else folder / "VOCdevkit"
    table = load_source(str(data), check_images=False).table
    train, test = (None, None) if everything else SIZES[name]
    rows = [table.rows_of("train")[:train], table.rows_of("test")[:test]]
    return table.take(np.concatenate(rows))


def network(backbone: str, side: int) -> torch.nn.Module:
    """A backbone for prediction on images of this side."""
    net = backbone_for(backbone).build(3, side).eval()
    return fused(net, torch.zeros(1, 3, side, side, dtype=torch.uint8))


@torch.inference_mode()
def features_of(
    table: LabelTable, rows: range, net: torch.nn.Module, side: int, crops: Crops
) -> np.ndarray:
    """Features `[n, V, D]` of the crops of some images."""
    parts = []
    per_batch = BATCH // len(CROPS[crops])
    for start in range(0, len(rows), per_batch):
        paths = [table.path(row) for row in rows[start : start + per_batch]]
        images = torch.stack([decode_crops(path, side, crops) for path in paths])
        features = net(images.flatten(0, 1)).mean(dim=(2, 3))
        parts.append(features.reshape(*images.shape[:2], -1).half().numpy())
    return np.concatenate(parts)


def extracted(table: LabelTable, name: str, keep: Path) -> np.ndarray:
    """Features `[N, 5, D]` of the crops of all images, kept in a file."""
    path = keep / f"{name}-{BACKBONE}-five.npz"
    if not path.exists():
        keep.mkdir(parents=True, exist_ok=True)
        net, side = network(BACKBONE, SIDES[name]), SIDES[name]
        np.savez(path, x=features_of(table, range(len(table)), net, side, "five"))
    with np.load(path) as file:
        return file["x"].astype(np.float32)


def speed(table: LabelTable, side: int, crops: Crops) -> float:
    """Images per second of processor time, on one thread, with decoding."""
    net = network(BACKBONE, side)
    features_of(table, range(BATCH), net, side, crops)
    started = time.process_time()
    features_of(table, range(TIMED), net, side, crops)
    return TIMED / (time.process_time() - started)


def fitted(table: LabelTable, x: np.ndarray, arm: str, seed: int) -> Fitted:
    """A head trained on features; what the arm leaves open is chosen by the rules."""
    return fit(Dataset(table, x), observe_seed=seed, probe="off", **ARMS[arm])


def rows_of(table: LabelTable, crops: np.ndarray, arm: str, seed: int) -> dict[str, float]:
    """Test mAP of every way to use the crops `[N, 5, D]`."""
    test = table.rows_of("test")
    truth = table.truth.take(test).dense() == 1
    new = crops[test]

    def score(scores: np.ndarray) -> float:
        return 100 * mean_average_precision(scores, truth.astype(np.int8), empty="zero")

    whole = fitted(table, crops[:, 0], arm, seed)
    mean = fitted(table, crops.mean(1), arm, seed)
    highest = fitted(table, crops.max(1), arm, seed)
    shown = np.stack([whole.predict(new[:, crop]) for crop in range(5)]).astype(np.float64)
    shown = shown.clip(1e-7, 1 - 1e-7)
    return {
        "one": score(shown[0]),
        "five, mean of features": score(mean.predict(new.mean(1))),
        "five, maximum of features": score(highest.predict(new.max(1))),
        "trained on one, shown five: mean odds": score((shown / (1 - shown)).mean(0)),
        "trained on one, shown five: highest score": score(shown.max(0)),
        "trained on one, shown five: mean score": score(shown.mean(0)),
        "trained on one, shown five: mean of features": score(whole.predict(new.mean(1))),
        "trained on five (mean), shown one": score(mean.predict(new[:, 0])),
    }


def originals(folder: Path, arm: str, seed: int) -> dict[str, float]:
    """Test mAP on the feature files of the original VOC images."""
    table = load_source(str(folder / "VOCdevkit"), check_images=False).table
    tiles = read_features([folder / "voc2012_tiles_features"])
    centre = read_features([folder / "voc2012_features"])
    stems = {name.rpartition(".")[0] or name for name in tiles.ids.tolist()}
    names = [name.rpartition("/")[2].rpartition(".")[0] or name for name in table.ids.tolist()]
    table = table.take(np.flatnonzero([name in stems for name in names]))
    truth = table.truth.take(table.rows_of("test")).dense().astype(np.int8) == 1
    result = {}
    for what, file in (("one (centre crop)", centre), ("five, mean of features", tiles)):
        x = np.asarray(align(file, table), dtype=np.float32)
        scores = fitted(table, x, arm, seed).predict(x[table.rows_of("test")])
        result[what] = 100 * mean_average_precision(scores, truth.astype(np.int8), empty="zero")
    return result


def averaged(measure: Measure, arms: list[str], draws: int) -> dict[str, dict[str, float]]:
    """For every way the mean over draws of seen labels, by arm."""
    found: dict[str, dict[str, float]] = {}
    for arm in arms:
        seeds = SEEDS[:1] if ARMS[arm].get("observe") == "all" else SEEDS[:draws]
        runs = [measure(arm, seed) for seed in seeds]
        for way in runs[0]:
            found.setdefault(way, {})[arm] = float(np.mean([run[way] for run in runs]))
    return found


def _shown(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("data", nargs="*", default=["ucmerced", "voc", "voc-originals"])
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--draws", type=int, default=len(SEEDS))
    parser.add_argument("--keep", type=Path, default=Path("crops"))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for name in args.data:
        entry: dict[str, Any] = {"data": name, "backbone": BACKBONE}
        if name == "voc-originals":
            measure: Measure = partial(originals, args.folder)
        else:
            table = table_of(args.folder, name)
            entry |= {f"{crops}_per_s": speed(table, SIDES[name], crops) for crops in CROPS}
            measure = partial(rows_of, table, extracted(table, name, args.keep))
        ways = averaged(measure, args.arms, args.draws)
        results.append(entry | {"test_map": ways})
        print(f"\n{', '.join(f'{key} {_shown(entry[key])}' for key in entry)}\n", flush=True)
        print(f"| crops | {' | '.join(args.arms)} |")
        print(f"|{' --- |' * (1 + len(args.arms))}")
        for way, values in ways.items():
            print(f"| {way} | {' | '.join(f'{values[m]:.2f}' for m in args.arms)} |")
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
