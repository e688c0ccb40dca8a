"""Loading image files: how fast a worker decodes, and whether an epoch hides it.

    python benchmarks/loading.py labels.csv [--backbone lite0:96] [--items 640] [--workers auto]

1. Decoding: images per second of processor time that one process on one thread reads, decodes,
   resizes and augments (plain, weak and strong views). Images per second of a training over this
   figure are the workers that it needs.
2. Epochs: `Training.epochs` on the files, with persistent workers, against a loop of bare steps
   and bare predictions over the same training and validation images, which lie ready in memory;
   one epoch of each in turn, in changing order. The first epoch, in which the workers start, is a
   figure of its own. "waiting" is the share of training in which the model has no batch yet, and
   "first batch" what of it is spent on the first one. The model runs on the threads that
   `--threads` says (1), so that workers have cores of their own if there are any.

Workers begin the next epoch while this one is evaluated. They are done with that before the
evaluation ends, so that the bare loop, which comes next, is not disturbed, and the time of the next
epoch has nothing that a training without a bare loop in between would not have; where the
evaluation is too short for it, the script ends with an error.

The ratio of epochs is measured by the clock. On a machine with other work, or with fewer cores than
workers and threads, epochs take longer than the bare loop whatever the loader does. Two figures are
less disturbed: "waiting", and the processor time of this process, bare loop over epoch, which has
what loading costs the training process itself.
"""

from __future__ import annotations

import argparse
import itertools
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
from plusone.inputs.forward import ROWS
from plusone.inputs.loader import FileInputs
from plusone.inputs.task import make_task
from plusone.inputs.workers import PREFETCHED
from plusone.training.closed_fit import fit_for
from plusone.training.trainer import Training

GOAL = 0.95
VIEWS = {"plain": ("plain",), "weak": ("weak",), "weak and strong": ("weak", "strong")}
DECODED, ROUNDS = 96, 3


class Timed(FileInputs):
    """The same inputs; adds up how long they were waited for."""

    seconds = first = 0.0  # of all batches, and of the first alone

    def batches(self, *arguments: Any, **named: Any) -> Iterator[tuple[Tensor, ...]]:
        return self._timed(super().batches(*arguments, **named))  # workers begin at once

    def _timed(self, passing: Iterator[tuple[Tensor, ...]]) -> Iterator[tuple[Tensor, ...]]:
        Timed.seconds = Timed.first = 0.0
        for number in itertools.count():
            started = time.perf_counter()
            batch = next(passing, None)
            Timed.seconds += time.perf_counter() - started
            if number == 0:
                Timed.first = Timed.seconds
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


def epochs(training: Training, decoded: float) -> dict[str, float]:
    """Seconds of our epochs and of the bare loop, their ratio, and the share that ours waited.

    Args:
        training: Not begun yet; all of its epochs are run.
        decoded: Images per second that one worker prepares.
    """
    bare, steps, kept = Bare(training), batches(training), []
    for (view,) in training.task.val.inputs.batches(
        torch.arange(len(training.task.val)), ROWS["images"], ("plain",), 0
    ):
        kept.append(view.clone())
    training.task.workers.close()  # these two passes started them
    records = training.epochs()

    def theirs() -> float:
        bare.model.train()
        for images, seen in steps:
            bare(images, seen.clamp(min=0))
        trained = time.perf_counter()
        bare.model.eval()
        with torch.no_grad():
            torch.cat([bare.model(images).logits for images in kept])
        return trained

    def ours() -> float:
        next(records)
        return trained_at[-1]

    trained_at, train_epoch = [], training.train_epoch

    def timed() -> dict[str, float]:
        losses = train_epoch()
        trained_at.append(time.perf_counter())
        return losses

    training.train_epoch = timed  # type: ignore[method-assign]
    acts, rows = (("ours", ours), ("bare", theirs)), []
    for number in range(training.stages[0].epochs):
        seconds = {}
        for name, act in acts[:: -1 if number % 2 else 1]:
            started, busy = time.perf_counter(), time.process_time()
            trained = act()
            ended = time.perf_counter()
            cpu = time.process_time() - busy
            seconds[name] = ended - started, cpu, trained - started, ended - trained
        (whole, our_cpu, our_train, evaluation), (loop, loop_cpu, loop_train, _) = (
            seconds["ours"],
            seconds["bare"],
        )
        if evaluation < PREFETCHED * BATCH / decoded:
            raise SystemExit(
                f"the evaluation takes {evaluation:.2f} s, too short for the first batches of the "
                "next epoch to be ready; give more --items"
            )
        rows.append(
            {
                "ours_s": whole,
                "bare_s": loop,
                "ratio": loop / whole,
                "train_ratio": loop_train / our_train,
                "cpu_ratio": loop_cpu / our_cpu,
                "waiting": Timed.seconds / our_train,
                "first_batch_s": Timed.first,
            }
        )
    later = {name: median(row[name] for row in rows[1:]) for name in rows[0]}
    return later | {f"first_{name}": value for name, value in rows[0].items()}


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
        "an",
        backbone,
        image_size=size,
        cache_mb=0,
        workers=count,
        threads=args.threads,
        epochs=1 + args.repeats,
    )
    torch.set_num_threads(args.threads)
    task = make_task(dataset, settings)
    own = task.train.inputs
    assert isinstance(own, FileInputs)
    timed = Timed(own.paths, own.size, own.flip, own.workers, own.aspect, own.crops)
    object.__setattr__(task.train, "inputs", timed)
    training = fit_for(task, settings)
    row = epochs(training, speeds["weak"])
    workers = task.workers.count
    print(
        f"{backbone} {size} px, {len(task.train)} + {len(task.val)} items, {workers} workers: "
        f"{row['ours_s']:.2f} s per epoch, bare loop {row['bare_s']:.2f} s, "
        f"ratio {row['ratio']:.3f} (goal {GOAL}), without validation {row['train_ratio']:.3f}, "
        f"of processor time {row['cpu_ratio']:.3f}; waiting {row['waiting']:.1%}, "
        f"first batch {1e3 * row['first_batch_s']:.0f} ms; "
        f"first epoch {row['first_ratio']:.3f}, waiting {row['first_waiting']:.1%}, "
        f"first batch {1e3 * row['first_first_batch_s']:.0f} ms"
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
            "detail": f"{seconds}; without validation {row['train_ratio']:.3f}, "
            f"first epoch {row['first_ratio']:.3f}",
        },
        {
            "name": f"the same in processor time of the training process, {backbone} {side} px",
            "value": row["cpu_ratio"],
            "goal": GOAL,
            "kind": "at least",
            "detail": f"{row['waiting']:.1%} of the epoch is waiting for images, "
            f"{1e3 * row['first_batch_s']:.0f} ms for the first batch",
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
