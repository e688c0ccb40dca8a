"""How often the clearest part of a picture holds the label: drawn scenes, whose places are known.

    python benchmarks/clearest.py [--items 700 --first 250 --new 250]

A run is trained on drawn scenes with one label each, by the rules (lite0 with five crops and
recovery), and predicts new scenes. Of each predicted label (above the threshold of its class) the
clearest part is asked for. It is right if it holds at least half of the pixels that show the label;
by chance, a tile drawn at random would be. The rule (`plusone.prediction.clearest`) was chosen on
500 new scenes, those measured by default among them; `--first 500 --new 200` are others.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch

import plusone
from plusone.compare.results_table import markdown
from plusone.data.example import MOST, write_example
from plusone.data.images import CROPS
from plusone.data.scenes import CLASSES, draw_scene, draw_scenes, shares
from plusone.prediction.clearest import clearest
from plusone.prediction.items import find_items
from plusone.prediction.load import load_run
from plusone.prediction.tags import predict_all
from plusone.probabilities.thresholds import read_thresholds


def held(shown: np.ndarray, label: int) -> np.ndarray:
    """Which share of the pixels of a label each tile holds, `[4]`."""
    height, width = shown.shape
    here = shown == label + 1
    tiles = [
        here[round(t * height) : round(b * height), round(l * width) : round(r * width)]
        for l, t, r, b in CROPS["five"][1:]  # noqa: E741
    ]
    return np.array([tile.sum() for tile in tiles]) / here.sum()


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=700)
    parser.add_argument("--first", type=int, default=250, help="new scenes that are passed over")
    parser.add_argument("--new", type=int, default=250)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "clearest")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if not args.folder.exists():
        write_example(args.folder, args.items)
    run, new = args.folder / "run", args.folder / "more"
    if not run.exists():
        plusone.train(args.folder / "photos", out=run)
    new.mkdir(exist_ok=True)
    files, _ = draw_scenes(MOST + args.first, args.new)
    for row, file in enumerate(files):
        (new / f"{row:04d}.jpg").write_bytes(file)
    predictor, cuts = load_run(run), read_thresholds(run, load_run(run).classes).array
    batches = [*predict_all(predictor, find_items(predictor, [str(new)]), args.folder, apart=True)]
    p = torch.cat([batch.probabilities for batch in batches]).numpy()
    crop = np.concatenate([clearest(batch.crops) for batch in batches])
    rows, wrong = [], []
    for row in range(args.new):
        _, shown = draw_scene(MOST + args.first + row)
        there = shares(shown) > 0
        for column in np.flatnonzero(p[row] > cuts):
            label = CLASSES.index(predictor.classes[column])
            if not there[label]:
                wrong.append(crop[row, column] > 0)
                continue
            holds = held(shown, label) >= 0.5
            best = crop[row, column]
            rows.append((label, best > 0, best > 0 and holds[best - 1], holds.mean()))
    found = np.array(rows)
    lines = []
    for name, some in [("all", found)] + [
        (name, found[found[:, 0] == label]) for label, name in enumerate(CLASSES)
    ]:
        named = some[some[:, 1] > 0]
        right, chance = named[:, 2].mean(), named[:, 3].mean()
        lines.append((name, len(some), len(named), f"{100 * right:.1f}", f"{100 * chance:.1f}"))
    print(markdown(("class", "labels", "with an outline", "holds it %", "by chance %"), lines))
    print(f"{len(wrong)} predicted labels are not there; {int(np.sum(wrong))} have an outline")


if __name__ == "__main__":
    main()
