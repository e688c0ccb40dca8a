"""One point of `benchmarks/growth.py`, and the synthetic data it is measured on.

The engine's own code does the work: `Training.epochs` is begun at an epoch in which every method
does all it ever does, and stopped after some steps. Times are those of the processor, on one
thread. The peak is the process's resident memory from the moment on at which the data exists.
"""

from __future__ import annotations

import math
import multiprocessing
import re
import resource
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plusone.closed_form import folds, kernel
from plusone.data.dataset import Dataset
from plusone.data.formats import write
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.inputs.task import make_task
from plusone.methods import get_method
from plusone.recipe import make_recipe
from plusone.training.closed_fit import fit_for
from plusone.training.trainer import Training
from plusone.types import Clock

BATCH, EPOCH, EPOCHS = 256, 6, 25
WARM, STEPS, SECONDS = 3, 60, 3.0  # steps that are not counted, most that are, and most seconds
MEMORY, PROCESSOR_SECONDS = 8 << 30, 120  # what a point may take
SOLVING_SECONDS = 900  # the same for a fit in closed form, all of which is measured
POSITIVES, MARKED, BLOCK = 3, 8, 20_000
FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Point:
    """What is measured: a method on N items, L classes, D features."""

    method: str
    n: int
    l: int  # noqa: E741
    d: int
    options: dict[str, Any] = field(default_factory=dict)
    landmarks: int | None = None  # of a closed form, which then has no folds, as at large sizes

    @property
    def sizes(self) -> tuple[int, int, int]:
        """N, L and D."""
        return self.n, self.l, self.d


class _Enough(Exception):  # noqa: N818
    """Raised to stop an epoch."""


def truth_of(n: int, n_classes: int, seed: int = 0) -> LabelMatrix:
    """About three positives per item, some classes far more frequent than others."""
    draw = np.random.default_rng(seed)
    classes = (draw.random((n, POSITIVES)) ** 2 * n_classes).astype(np.int64)
    places = np.unique(np.repeat(np.arange(n), POSITIVES) * n_classes + classes.ravel())
    return LabelMatrix.from_entries(
        places // n_classes, places % n_classes, 1, (n, n_classes), default=-1
    )


def features_into(x: np.ndarray, truth: LabelMatrix, seed: int = 1) -> None:
    """Fills float16 features `[N, D]`: each class raises some of them."""
    draw, dim = np.random.default_rng(seed), x.shape[1]
    for start in range(0, len(x), BLOCK):
        part = truth.take(np.arange(start, min(start + BLOCK, len(x))))
        rows, classes = part.row_of_entry(), part.indices.astype(np.int64)
        block = draw.standard_normal((len(part), dim), dtype=np.float32) * 0.3
        for number in range(MARKED):
            block[rows, (classes * 37 + number * (61 + classes)) % dim] += 1.0
        x[start : start + len(part)] = np.maximum(block, 0)


def synthetic(n: int, n_classes: int, dim: int) -> Dataset:
    """Items with one seen positive each, a tenth of them (at most 5,000) for validation."""
    truth = truth_of(n, n_classes)
    x = np.empty((n, dim), dtype=np.float16)
    features_into(x, truth)
    first = truth.indptr[:-1]  # every item has at least one
    seen = LabelMatrix.from_entries(np.arange(n), truth.indices[first], 1, truth.shape)
    split = np.full(n, "train")
    split[: min(n // 10, 5000)] = "val"
    table = LabelTable(
        np.arange(n).astype(np.str_), _names(n_classes), seen, truth, split.astype("<U5")
    )
    return Dataset(table, x, "synthetic")


def write_data(folder: Path, n: int, n_classes: int, dim: int) -> None:
    """Writes `labels.npz`, `x.npy` (float16) and `x.ids.txt`; a tenth are test items."""
    folder.mkdir(parents=True, exist_ok=True)
    truth = truth_of(n, n_classes)
    ids = np.char.add("item-", np.char.zfill(np.arange(n).astype(np.str_), 7))
    split = np.full(n, "train", dtype="<U5")
    split[-n // 10 :] = "test"
    write(LabelTable.complete(ids, _names(n_classes), truth, split=split), folder / "labels.npz")
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float16, (n, dim))
    features_into(x, truth)
    x.flush()
    (folder / "x.ids.txt").write_text("\n".join(ids.tolist()) + "\n", encoding="utf-8")


def _names(n_classes: int) -> tuple[str, ...]:
    return tuple(f"class-{number:05d}" for number in range(n_classes))


def measure(point: Point) -> dict[str, float]:
    """Seconds of one epoch, of its evaluation, and the peak of memory."""
    torch.set_num_threads(1)
    if point.landmarks is not None:
        kernel.LANDMARKS, folds.PER_COLUMN = point.landmarks, 1
    dataset = synthetic(point.n, point.l, point.d)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    said = {
        "method": point.method,
        "options": point.options,
        "batch_size": BATCH,
        "epochs": EPOCHS,
        "expected_positives": float(POSITIVES),
        "probe": "off",
        "threads": 1,
    }
    recipe = make_recipe(get_method(point.method).defaults, said)
    task = make_task(dataset, recipe)
    ticks: list[float] = []

    def on_step(clock: Clock) -> None:
        ticks.append(time.process_time())
        if len(ticks) > WARM and (len(ticks) > STEPS or ticks[-1] - ticks[WARM] > SECONDS):
            raise _Enough

    training = fit_for(task, recipe, on_step=on_step)
    if training.plan.closed_form:
        return solved(training)
    training.epoch = EPOCH
    try:
        next(training.epochs())
    except _Enough:
        pass
    else:
        training.epoch = EPOCH
    steps = math.ceil(len(task.train) / BATCH)
    step = (ticks[-1] - ticks[WARM]) / (len(ticks) - 1 - WARM)
    clock = Clock(0, EPOCH, EPOCHS, steps - 1, steps)
    started = time.process_time()
    with torch.no_grad():
        logits = partial(training.inputs.logits, training.task.train, training.model)
        training.method.after_epoch(clock, logits)
    ended = time.process_time()
    said_of_val = training.validator(training.predict(task.val))
    judged = time.process_time()
    training.close_epoch({}, (said_of_val, "raw", training.model), None, started)
    status = Path("/proc/self/status").read_text()
    return {
        "epoch_s": step * steps + ended - started,
        "step_s": step,
        "after_epoch_s": ended - started,
        "evaluation_s": judged - ended,
        "measured_steps": len(ticks) - 1 - WARM,
        "steps": steps,
        "peak_mb": int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024,  # type: ignore[index]
    }


def solved(training: Training) -> dict[str, float]:
    """Seconds of a fit in closed form, with its validation, and the peak of memory."""
    started = time.process_time()
    next(training.epochs())
    seconds = time.process_time() - started
    status = Path("/proc/self/status").read_text()
    peak = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]
    return {"epoch_s": seconds, "step_s": seconds, "steps": 1, "peak_mb": peak}


def measure_apart(point: Point) -> dict[str, Any]:
    """Measures a point in a process of its own; the limit it meets, if it meets one."""
    receive, send = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_child, args=(point, send))
    process.start()
    send.close()
    try:
        found: dict[str, Any] = receive.recv()
    except EOFError:
        found = {"limit": f"needs more than {PROCESSOR_SECONDS} s for a few steps"}
    process.join()
    if "error" in found:
        raise SystemExit(f"{point}: {found['error']}")
    return found


def _child(point: Point, send: Any) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    seconds = SOLVING_SECONDS if get_method(point.method).closed_form else PROCESSOR_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    try:
        send.send(measure(point))
    except Exception as error:
        short = isinstance(error, MemoryError) or "memory" in str(error)
        limit = f"needs more than {MEMORY >> 30} GB"
        send.send({"limit": limit} if short else {"error": repr(error)})
