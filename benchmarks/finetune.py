"""Fine-tuning against the bare backbone: a training step, and an epoch with its loading.

    python benchmarks/finetune.py [--backbones cnn:64 lite0:96 timm/resnet18:96] [--json FILE]

1. Steps: `training_step`, as training calls it, against forward, binary cross-entropy, backward and
   torch's fused Adam on the same backbone, head and batch of bytes. One of each in turn, in
   changing order; the figure is the median of the ratios of neighbours.
2. Epochs: `Training.train_epoch` with everything around the step (order, gathering, flips, labels,
   averages of the losses) on images in memory, the first backbone and short epochs, against a loop
   of bare steps over batches that lie ready. `loading.py` has epochs from files.

Images are made up. Everything runs on one thread and is measured in processor time, so that other
work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from plusone.data.dataset import Dataset
from plusone.inputs.loader import ArrayInputs
from plusone.inputs.task import make_task
from plusone.recipe import Recipe
from plusone.training.closed_fit import fit_for
from plusone.training.step import training_step
from plusone.training.trainer import Training
from plusone.types import Batch, Clock

CLASSES, BATCH, WARM = 20, 16, 3
STEP_GOAL, EPOCH_GOAL = 1.03, 0.95
STEPS = {"cnn": 120, "lite0": 24}
METHODS = ("an", "em", "gr", "wan", "asl", "splc")


def labels(n: int) -> np.ndarray:
    """One positive per item, in turn."""
    return np.eye(CLASSES, dtype=int)[np.arange(n) % CLASSES]


def recipe(method: str, backbone: str, **settings: Any) -> Recipe:
    return Recipe(
        method=method,
        mode="finetune",
        backbone=backbone,
        weights="random",
        batch_size=BATCH,
        expected_positives=1.5,
        **{"epochs": 100} | settings,
    )


def in_memory(n: int, size: int) -> Dataset:
    pixels = np.random.default_rng(0).integers(0, 256, (n, 3, size, size), dtype=np.uint8)
    split = ["train"] * (n - BATCH) + ["val"] * BATCH
    return Dataset.from_arrays(pixels, labels(n), split=split)


class Bare:
    """The same model and batch with nothing of ours around it."""

    def __init__(self, training: Training) -> None:
        self.model: nn.Module = copy.deepcopy(training.model).train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=True)

    def __call__(self, images: Tensor, target: Tensor) -> None:
        self.optimizer.zero_grad()
        features = self.model.backbone(images).mean(dim=(2, 3))
        binary_cross_entropy_with_logits(self.model.head.linear(features), target).backward()
        self.optimizer.step()


def batches(training: Training) -> list[tuple[Tensor, Tensor]]:
    """All training items, batch by batch: images in bytes, and what was seen of their labels."""
    part = training.task.train
    images = part.inputs.batches(torch.arange(len(part)), BATCH, ("plain",), 0)
    seen = torch.from_numpy(part.observed.dense(np.arange(len(part)))).float()
    kept = [view.clone() for (view,) in images]
    return list(zip(kept, torch.split(seen, BATCH), strict=True))


def in_turn(
    first: Callable[[], None], second: Callable[[], None], swap: bool
) -> tuple[float, float]:
    """Seconds of processor time of two acts; which of them goes first may change."""
    seconds = {}
    for act in (second, first) if swap else (first, second):
        started = time.process_time()
        act()
        seconds[act] = time.process_time() - started
    return seconds[first], seconds[second]


def step_ratio(method: str, backbone: str, size: int, count: int) -> dict[str, Any]:
    """Our step over the bare one."""
    settings = recipe(method, backbone)
    training = fit_for(make_task(in_memory(9 * BATCH, size), settings), settings)
    training.model.train()
    bare, data, pairs = Bare(training), batches(training), []
    for number in range(WARM + count):
        images, seen = data[number % len(data)]
        index = torch.arange(BATCH) + BATCH * (number % len(data))
        batch, clock = Batch((images,), seen, index), Clock(0, 0, 100, number, WARM + count)
        target = seen.clamp(min=0)

        def ours(batch: Batch = batch, clock: Clock = clock) -> None:
            model = training.model
            training_step(model, model.head, training.method, training.optimizer, batch, clock)

        def theirs(images: Tensor = images, target: Tensor = target) -> None:
            bare(images, target)

        pairs.append(in_turn(ours, theirs, number % 2 == 1))
    return summary(pairs[WARM:]) | {"method": method, "backbone": backbone, "size": size}


def epoch_ratio(training: Training, repeats: int) -> dict[str, Any]:
    """Our epoch over the loader-free loop."""
    bare, data, pairs = Bare(training), batches(training), []

    def theirs() -> None:
        for images, seen in data:
            bare(images, seen.clamp(min=0))

    for number in range(1 + repeats):

        def ours(epoch: int = number) -> None:
            training.epoch = epoch
            training.train_epoch()

        pairs.append(in_turn(ours, theirs, number % 2 == 1))
    return summary(pairs[1:])


def summary(pairs: list[tuple[float, float]]) -> dict[str, Any]:
    ours, bare = zip(*pairs, strict=True)
    ratio = median(mine / theirs for mine, theirs in pairs)
    return {"ours_s": median(ours), "bare_s": median(bare), "ratio": ratio}


def from_memory(backbone: str, size: int, repeats: int) -> dict[str, Any]:
    settings = recipe("an", backbone)
    training = fit_for(make_task(in_memory(11 * BATCH, size), settings), settings)
    assert isinstance(training.task.train.inputs, ArrayInputs)
    return epoch_ratio(training, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backbones", nargs="+", default=["cnn:64", "lite0:96"])
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--repeats", type=int, default=24, help="epochs")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    ratios, rows = [], []
    print("| | ours, ms | bare, ms | ratio |\n| --- | --- | --- | --- |")

    def show(name: str, row: dict[str, Any], value: float, goal: float, kind: str) -> None:
        print(f"| {name} | {1e3 * row['ours_s']:.1f} | {1e3 * row['bare_s']:.1f} | {value:.3f} |",
              flush=True)  # fmt: skip
        detail = f"{1e3 * row['ours_s']:.1f} ms against {1e3 * row['bare_s']:.1f} ms"
        ratio = {"name": name, "value": value, "goal": goal, "kind": kind, "detail": detail}
        rows.append({"name": name} | row)
        ratios.append(ratio)

    for given in args.backbones:
        backbone, _, side = given.partition(":")
        for method in args.methods:
            row = step_ratio(method, backbone, int(side), STEPS.get(backbone, 24))
            name = f"training step over bare step, {backbone} {side} px, {method}"
            show(name, row, row["ratio"], STEP_GOAL, "at most")
    name = "throughput of an epoch over a loop without loading"
    backbone, _, side = args.backbones[0].partition(":")
    row = from_memory(backbone, int(side), args.repeats)
    show(f"{name}, {backbone} {side} px, cached", row, 1 / row["ratio"], EPOCH_GOAL, "at least")
    if args.json:
        args.json.write_text(json.dumps({"ratios": ratios, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
