"""Loading image files: how fast a worker decodes, and whether an epoch hides it.

    python benchmarks/loading.py labels.csv [--backbone lite0:96] [--items 640] [--workers auto]

1. Decoding: images per second of processor time that one process on one thread reads, decodes,
   resizes and augments (plain, weak and strong views). Images per second of a training over this
   figure are the workers that it needs.
2. Epochs: `Training.train_epoch` on the files, with persistent workers, against a loop of bare
   steps over the same images, which lie ready in memory; in turn, in changing order. The first
   epoch, in which the workers start, is a figure of its own. "waiting" is the share of the epoch
   in which the model has no batch yet. The model runs on the threads that `--threads` says (1), so
   that workers have cores of their own if there are any.

The ratio of epochs is measured by the clock. On a machine with other work, or with fewer cores than
workers and threads, epochs take longer than the bare loop whatever the loader does. Two figures are
less disturbed: "waiting", and the processor time of this process, bare loop over epoch, which has
what loading costs the training process itself.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from finetune import BATCH, Bare, batches, recipe
from torch import Tensor

from plusone.data.dataset import Dataset
from plusone.data.source import load_source
from plusone.training.loader import FileInputs
from plusone.training.task import make_task
from plusone.training.trainer import Training

GOAL = 0.95
VIEWS = {"plain": ("plain",), "weak": ("weak",), "weak and strong": ("weak", "strong")}
DECODED, ROUNDS = 96, 3


class Timed(FileInputs):
    """The same inputs; adds up how long they were waited for."""

    seconds = 0.0

    def batches(self, *arguments: Any, **named: Any) -> Iterator[tuple[Tensor, ...]]:
        passing = super().batches(*arguments, **named)
        while True:
            started = time.perf_counter()
            batch = next(passing, None)
            Timed.seconds += time.perf_counter() - started
            if batch is None:
                return
            yield batch


def decoding(paths: tuple[Path, ...], size: int) -> dict[str, float]:
    """Images per second in this process, for the views of a method; the best of a few rounds."""
    inputs, order = FileInputs(paths[:DECODED], size), torch.arange(min(DECODED, len(paths)))
    speeds = dict.fromkeys(VIEWS, 0.0)
    for _ in range(1 + ROUNDS):  # the first round reads the files from the disk
        for name, views in VIEWS.items():
            started = time.process_time()
            for _ in inputs.batches(order, BATCH, views, 0):
                pass
            speeds[name] = max(speeds[name], len(order) / (time.process_time() - started))
    return speeds


def epochs(training: Training, repeats: int) -> dict[str, float]:
    """Seconds of our epochs and of the bare loop, their ratio, and the share that ours waited."""
    bare, data = Bare(training), batches(training)

    def theirs() -> None:
        for images, seen in data:
            bare(images, seen.clamp(min=0))

    training.task.workers.close()  # `batches` started them
    acts, rows = (("ours", training.train_epoch), ("bare", theirs)), []
    for number in range(1 + repeats):
        training.epoch, Timed.seconds = number, 0.0
        seconds = {}
        for name, act in acts[:: -1 if number % 2 else 1]:
            started, busy = time.perf_counter(), time.process_time()
            act()
            seconds[name] = time.perf_counter() - started, time.process_time() - busy
        (ours, our_cpu), (loop, loop_cpu) = seconds["ours"], seconds["bare"]
        rows.append((ours, loop, loop / ours, loop_cpu / our_cpu, Timed.seconds / ours))
    names = ("ours_s", "bare_s", "ratio", "cpu_ratio", "waiting")
    medians = dict(zip(names, map(median, zip(*rows[1:], strict=True)), strict=True))
    return medians | {f"first_{name}": value for name, value in zip(names, rows[0], strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--backbone", default="lite0:96")
    parser.add_argument("--items", type=int, default=640)
    parser.add_argument("--workers", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    whole = load_source(args.data)
    rows = np.random.default_rng(0).permutation(len(whole.table))[: args.items]
    dataset = Dataset(whole.table.take(np.sort(rows)), name=whole.name)
    backbone, _, side = args.backbone.partition(":")
    size = int(side)
    paths = tuple(dataset.table.path(row) for row in range(args.items))
    speeds = decoding(paths, size)
    for name, speed in speeds.items():
        print(f"decoding to {size} px, {name}: {speed:.0f} images/s per worker", flush=True)
    count = args.workers if args.workers == "auto" else int(args.workers)
    settings = recipe(
        "an", backbone, image_size=size, cache_mb=0, workers=count, threads=args.threads
    )
    torch.set_num_threads(args.threads)
    task = make_task(dataset, settings)
    own = task.train.inputs
    assert isinstance(own, FileInputs)
    timed = Timed(own.paths, own.size, own.flip, own.workers, own.aspect, own.crops)
    object.__setattr__(task.train, "inputs", timed)
    training = Training(task, settings)
    row = epochs(training, args.repeats)
    workers = task.workers.count
    print(
        f"{backbone} {size} px, {len(task.train)} items, {workers} workers: "
        f"{row['ours_s']:.2f} s per epoch, bare loop {row['bare_s']:.2f} s, "
        f"ratio {row['ratio']:.3f} (goal {GOAL}), of processor time {row['cpu_ratio']:.3f}, "
        f"waiting {row['waiting']:.1%}; "
        f"first epoch {row['first_ratio']:.3f}, waiting {row['first_waiting']:.1%}"
    )
    name = (
        f"throughput of an epoch from JPEG files over a loop without loading, {backbone} {side} px"
    )
    seconds = f"{row['ours_s']:.2f} s against {row['bare_s']:.2f} s, {workers} workers"
    ratios: list[dict[str, Any]] = [
        {
            "name": name,
            "value": row["ratio"],
            "goal": GOAL,
            "kind": "at least",
            "detail": f"{seconds}; first epoch {row['first_ratio']:.3f}",
        },
        {
            "name": f"the same in processor time of the training process, {backbone} {side} px",
            "value": row["cpu_ratio"],
            "goal": GOAL,
            "kind": "at least",
            "detail": f"{row['waiting']:.1%} of the epoch is waiting for images",
        },
    ]
    ratios += [
        {
            "name": f"decoding to {side} px, {views}, images per second and worker",
            "value": speed,
            "goal": None,
            "kind": "at least",
            "detail": f"{len(paths[:DECODED])} files",
        }
        for views, speed in speeds.items()
    ]
    if args.json:
        written = {"ratios": ratios, "epochs": row, "decoding": speeds, "workers": workers}
        args.json.write_text(json.dumps(written, indent=2) + "\n")


if __name__ == "__main__":
    main()
