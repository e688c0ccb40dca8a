"""One crop of an image against five: test mAP from seen labels and from all labels, and the time.

    python benchmarks/crops.py FOLDER [ucmerced voc voc-originals] [--backbones lite0 lite2]

FOLDER has ucmerced, VOCdevkit, voc2012_features and voc2012_tiles_features. Features of every crop
are extracted once into `--keep` with one thread, then the same head is trained on: the whole image;
the mean and the maximum of the features of five crops; and models of whole images that are shown
five crops when they predict (the highest score, the mean score, the mean features), and the other
way round. "voc-originals" compares given feature files, of a centre crop and of the mean of five
crops, on the test items that both have. The mean over draws of the seen labels.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from plusone.data.dataset import Dataset
from plusone.data.features import align, read_features
from plusone.data.images import decode_crops
from plusone.data.source import load_source
from plusone.data.table import LabelTable
from plusone.methods import METHODS
from plusone.metrics import mean_average_precision
from plusone.models.backbones import backbone_for
from plusone.models.fused import fused
from plusone.training.api import Fitted, fit

AT_ONCE = 2  # images
SIZES = {"ucmerced": (None, None), "voc": (1000, 800)}  # training and test items
SEEDS = (1200, 1, 2)


def table_of(folder: Path, name: str) -> LabelTable:
    """The items of a data set: all, or the first of each split."""
    data = folder / "ucmerced" / "labels.csv" if name == "ucmerced" else folder / "VOCdevkit"
    table = load_source(str(data), check_images=False).table
    train, test = SIZES[name]
    rows = [table.rows_of("train")[:train], table.rows_of("test")[:test]]
    return table.take(np.concatenate(rows))


@torch.inference_mode()
def extracted(table: LabelTable, name: str, backbone: str, keep: Path) -> tuple[np.ndarray, float]:
    """Features `[N, 5, D]` of the crops of all images, and images per second with five crops."""
    path = keep / f"{name}-{backbone}.npz"
    if path.exists():
        with np.load(path) as file:
            return file["x"].astype(np.float32), float(file["rate"])
    row = backbone_for(backbone)
    net = row.build(3, row.size).eval()
    net = fused(net, torch.zeros(1, 3, row.size, row.size, dtype=torch.uint8))
    parts, started = [], time.perf_counter()
    for start in range(0, len(table), AT_ONCE):
        rows = range(start, min(start + AT_ONCE, len(table)))
        crops = torch.stack([decode_crops(table.path(row_), row.size, "five") for row_ in rows])
        features = net(crops.flatten(0, 1)).mean(dim=(2, 3))
        parts.append(features.reshape(len(crops), 5, -1).half().numpy())
    x, rate = np.concatenate(parts), len(table) / (time.perf_counter() - started)
    keep.mkdir(parents=True, exist_ok=True)
    np.savez(path, x=x, rate=rate)
    return x.astype(np.float32), rate


def fitted(table: LabelTable, x: np.ndarray, method: str, seed: int) -> Fitted:
    """A head trained on features, its settings chosen by the rules."""
    return fit(Dataset(table, x), method, observe_seed=seed, probe="off")


def rows_of(table: LabelTable, crops: np.ndarray, method: str, seed: int) -> dict[str, float]:
    """Test mAP of every way to use the crops `[N, 5, D]`."""
    test = table.rows_of("test")
    truth = table.truth.take(test).dense() == 1
    new = crops[test]

    def score(scores: np.ndarray) -> float:
        return 100 * mean_average_precision(scores, truth.astype(np.int8), empty="zero")

    whole = fitted(table, crops[:, 0], method, seed)
    mean = fitted(table, crops.mean(1), method, seed)
    highest = fitted(table, crops.max(1), method, seed)
    shown = np.stack([whole.predict(new[:, crop]) for crop in range(5)])
    return {
        "one": score(shown[0]),
        "five, mean of features": score(mean.predict(new.mean(1))),
        "five, maximum of features": score(highest.predict(new.max(1))),
        "trained on one, shown five: highest score": score(shown.max(0)),
        "trained on one, shown five: mean score": score(shown.mean(0)),
        "trained on one, shown five: mean of features": score(whole.predict(new.mean(1))),
        "trained on five (mean), shown one": score(mean.predict(new[:, 0])),
    }


def originals(folder: Path, method: str, seed: int) -> dict[str, float]:
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
        scores = fitted(table, x, method, seed).predict(x[table.rows_of("test")])
        result[what] = 100 * mean_average_precision(scores, truth.astype(np.int8), empty="zero")
    return result


def averaged(measure: Callable[[str, int], dict[str, float]], methods: list[str]) -> dict:
    """For every way the mean over draws of seen labels, by method."""
    found: dict[str, dict[str, float]] = {}
    for method in methods:
        seeds = SEEDS if METHODS[method].scheme == "single" else SEEDS[:1]
        runs = [measure(method, seed) for seed in seeds]
        for way in runs[0]:
            found.setdefault(way, {})[method] = float(np.mean([run[way] for run in runs]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("data", nargs="*", default=["ucmerced", "voc", "voc-originals"])
    parser.add_argument("--backbones", nargs="+", default=["lite0"])
    parser.add_argument("--methods", nargs="+", default=["em", "gr", "bce"])
    parser.add_argument("--keep", type=Path, default=Path("crops"))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for name in args.data:
        for backbone in args.backbones if name != "voc-originals" else ["lite0"]:
            entry: dict[str, object] = {"data": name, "backbone": backbone}
            if name == "voc-originals":
                ways = averaged(lambda m, s: originals(args.folder, m, s), args.methods)
            else:
                table = table_of(args.folder, name)
                crops, rate = extracted(table, name, backbone, args.keep)
                entry["images_per_s"] = rate
                ways = averaged(lambda m, s, t=table, c=crops: rows_of(t, c, m, s), args.methods)
            results.append(entry | {"test_map": ways})
            speed = f", {entry['images_per_s']:.1f} images/s" if "images_per_s" in entry else ""
            print(f"\n{name}, {backbone}{speed}\n", flush=True)
            print(f"| crops | {' | '.join(args.methods)} |")
            print(f"|{' --- |' * (1 + len(args.methods))}")
            for way, values in ways.items():
                print(f"| {way} | {' | '.join(f'{values[m]:.2f}' for m in args.methods)} |")
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
