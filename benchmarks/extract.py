"""Feature extraction against the bare backbone on tensors already in memory, in one run.

    python benchmarks/extract.py labels.csv [--backbone lite0] [--items 192]

Both run the same backbone in the same batches with all threads. Ours also reads, decodes and
resizes the files and writes the result; it folds batch norms into convolutions, which pays for some
of that. The figure is the median ratio of items per second.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch

from plusone.data.dataset import Dataset
from plusone.data.images import decode_all
from plusone.data.source import load_source
from plusone.features.encoder import BATCH
from plusone.features.extraction import extract_to_file
from plusone.models.backbones import backbone_for
from plusone.models.heads import Head

GOAL = 0.95


@torch.inference_mode()
def bare(images: torch.Tensor, net: torch.nn.Module) -> float:
    started = time.perf_counter()
    for batch in torch.split(images, BATCH):
        Head().pool(net(batch.contiguous(memory_format=torch.channels_last)))
    return len(images) / (time.perf_counter() - started)


def ours(dataset: Dataset, backbone: str, workers: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        extract_to_file(dataset, Path(folder) / "x.npz", backbone, workers=workers)
        return len(dataset.table) / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--backbone", default="lite0")
    parser.add_argument("--items", type=int, default=960)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    whole = load_source(args.data)
    dataset = Dataset(whole.table.take(np.arange(args.items)), name=whole.name)
    row = backbone_for(args.backbone)
    net = row.build(3, row.size).eval().to(memory_format=torch.channels_last)
    paths = [dataset.table.path(number) for number in range(args.items)]
    images = decode_all(paths, row.size)
    pairs = []
    for _ in range(args.repeats):
        pairs.append((ours(dataset, args.backbone, args.workers), bare(images, net)))
    result = {
        "backbone": args.backbone,
        "items": args.items,
        "ours_items_per_s": median(pair[0] for pair in pairs),
        "bare_items_per_s": median(pair[1] for pair in pairs),
        "ratio": median(pair[0] / pair[1] for pair in pairs),
    }
    print(
        f"{args.backbone}, {args.items} images at {row.size} px: "
        f"ours {result['ours_items_per_s']:.1f}/s, bare {result['bare_items_per_s']:.1f}/s, "
        f"ratio {result['ratio']:.2f} (goal {GOAL:.2f})"
    )
    ratio = {
        "name": f"feature extraction, share of the bare backbone's speed, {args.backbone}",
        "value": result["ratio"],
        "goal": GOAL,
        "kind": "at least",
        "detail": f"{result['ours_items_per_s']:.1f} against {result['bare_items_per_s']:.1f} "
        f"images per second at {row.size} px",
    }
    if args.json:
        args.json.write_text(json.dumps({"ratios": [ratio]} | result, indent=2) + "\n")


if __name__ == "__main__":
    main()
