"""What a run will take: a few real steps of the real recipe are timed, the rest is extrapolated.

Nothing here knows a method by name, so plug-ins are estimated like any other. Measured are:

- the first epoch of each stage and its last, with a few steps each, and all else that an epoch
  does: what the method does after it, the evaluation, the copy of the best weights;
- runs that are trained as one stack to choose a learning rate, by some of their epochs;
- features of some images, where the run extracts features;
- a closed form by solving it for two samples of the items, see `plusone.closed_form.growth`;
- what follows the last epoch: calibration, thresholds and metrics.

Runs on images are measured on a sample of the items; what is done for each item is multiplied.
"""

from __future__ import annotations

import math
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from plusone.build import plan_of
from plusone.closed_form.gamma import kernels_tried
from plusone.closed_form.growth import Growth
from plusone.data.dataset import Dataset
from plusone.data.lazy import rows_of
from plusone.data.matrix import LabelMatrix
from plusone.device import host_memory, resolve
from plusone.errors import InputError
from plusone.features.extraction import FeatureCache, fresh_model
from plusone.inputs.loader import FileInputs
from plusone.inputs.task import Task, dataset_inputs, input_shape, make_task
from plusone.inputs.workers import ImageWorkers
from plusone.methods import get_method
from plusone.parallel.processes import world
from plusone.recipe import Recipe
from plusone.training.closed_fit import fit_for
from plusone.training.rates import pick_rate
from plusone.training.summary import calibrate, summarise
from plusone.training.trainer import Training
from plusone.types import Clock, TrainLabels

STEPS = 4  # of a measured epoch: one to warm up, three that are timed
LAST_STEPS = 2  # of the last epoch
SECONDS = 1.0  # faster steps are repeated for so long
IMAGES = 32  # whose features are extracted
EVALUATED = 16  # validation images, at least
SOLVED = 500, 1500  # items of the samples that a closed form is solved for
MARGIN = 1.25  # by which the spread of what was measured is widened
UNSURE = 2.0  # an extrapolated closed form may take so many times more or less
FLOAT = 4  # bytes
LEARNED, REMEMBERED = 5, 2  # copies of a weight (gradient, two moments, best epoch) and of a buffer
FEW, SOME = 8, 16  # items that a method is built with to see how its tables grow
FREE = 0.7  # share of the free memory that the tables of a measured run may take
STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class RunPart:
    """A part of a run.

    Args:
        what: Its name.
        seconds: How long it takes, about.
        low: The least, by the spread of what was measured, widened by `MARGIN`.
        high: The most.
        measured: What of it was measured; the rest is extrapolated.
        epoch: Seconds of one epoch, if it has epochs.
    """

    what: str
    seconds: float
    low: float
    high: float
    measured: str
    epoch: float | None = None


@dataclass(frozen=True)
class RunEstimate:
    """Time and memory of a run.

    Args:
        method: Its method.
        items: Items of each split.
        classes: How many classes there are.
        parts: Its parts, in their order.
        peak_bytes: The measured peak of this process; None where the system does not say.
        more_bytes: What the run needs beyond that, by the shapes of its tables.
        device_bytes: The measured peak of an accelerator; None without one.
        seconds: Of all parts.
        low: The least.
        high: The most.
    """

    method: str
    items: dict[str, int]
    classes: int
    parts: tuple[RunPart, ...]
    peak_bytes: int | None
    more_bytes: int
    device_bytes: int | None
    seconds: float = field(init=False)
    low: float = field(init=False)
    high: float = field(init=False)

    def __post_init__(self) -> None:
        for name in ("seconds", "low", "high"):
            object.__setattr__(self, name, sum(getattr(part, name) for part in self.parts))

    @property
    def bytes(self) -> int | None:
        """The peak of the run's process."""
        return None if self.peak_bytes is None else self.peak_bytes + self.more_bytes


def estimate_run(dataset: Dataset, recipe: Recipe, *, rate_open: bool = False) -> RunEstimate:
    """Time and memory of a run, by doing a little of it; writes nothing.

    Reading the data and writing the report are not counted.

    Args:
        dataset: The data.
        recipe: All settings.
        rate_open: Whether the learning rate is chosen by trying several.

    Raises:
        InputError: The run itself would be refused, or several processes share it.
    """
    if world()[1] > 1:
        raise InputError("an estimate measures one process; leave out torchrun")
    images = len(input_shape(dataset, recipe)) == 3
    parts: list[RunPart] = []
    plan = plan_of(recipe, images=images)
    if images and plan.on_features:
        extraction, dataset = _extraction(dataset, recipe)
        parts.append(extraction)
        recipe, images = recipe.model_copy(update={"crops": "one"}), False
    if plan.end_to_end:
        once, _ = _extraction(dataset, recipe)
        what = "features of the images, before and after the steps"
        seconds = {name: 2 * getattr(once, name) for name in ("seconds", "low", "high")}
        parts.append(replace(once, what=what, **seconds))
    if plan_of(recipe, images=images).closed_form:
        measured = _closed_form(dataset, recipe)
    else:
        measured = _steps(dataset, recipe, images=images, rate_open=rate_open)
    table = dataset.table
    device = resolve(recipe.device)
    module = None if device.type == "cpu" else torch.get_device_module(device)
    return RunEstimate(
        method=recipe.method,
        items=measured.items,
        classes=len(table.classes),
        parts=tuple(
            replace(part, low=part.low / MARGIN, high=part.high * MARGIN)
            for part in (*parts, *measured.parts)
        ),
        peak_bytes=peak_bytes(),
        more_bytes=int(measured.more_bytes),
        device_bytes=(
            int(module.max_memory_allocated(device))
            if module is not None and hasattr(module, "max_memory_allocated")
            else None
        ),
    )


@dataclass(frozen=True)
class _Measured:
    """Parts of a run, the items of its splits, and bytes that it needs beyond the measured."""

    parts: tuple[RunPart, ...]
    items: dict[str, int]
    more_bytes: float


def peak_bytes() -> int | None:
    """The largest memory that this process had so far; None where the system does not say."""
    if STATUS.exists():
        for line in STATUS.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    try:
        import resource
        import sys
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _extraction(dataset: Dataset, recipe: Recipe) -> tuple[RunPart, Dataset]:
    """The cost of extracting features, and the data with features of some images repeated."""
    table, shape = dataset.table, input_shape(dataset, recipe)
    model = fresh_model(recipe, table.labels, shape)
    workers = ImageWorkers(recipe.workers, recipe.device)
    inputs = dataset_inputs(dataset, recipe, shape, workers=workers)
    ticks: list[tuple[float, int]] = []
    rows = _spread(len(table), IMAGES)
    with closing(workers):
        FeatureCache().of(model, inputs(rows[:2]))  # starts workers, and is slower
        cache = FeatureCache(lambda count: ticks.append((time.perf_counter(), count)))
        started = time.perf_counter()
        x = cache.of(model, inputs(rows)).x.numpy()
    if len(ticks) > 1:  # the first batch waits for its images, later ones do not
        started, first = ticks[0]
        count = len(rows) - first
    else:
        count = len(rows)
    each = (ticks[-1][0] - started) / count
    some = [(after - before) / n for (before, _), (after, n) in pairwise(ticks)]
    part = RunPart(
        what="features of the images",
        seconds=len(table) * each,
        low=len(table) * min(some, default=each),
        high=len(table) * max(some, default=each),
        measured=f"{len(rows):,} of {len(table):,} images",
    )
    draw = np.random.default_rng(0)
    repeated = x[np.arange(len(table)) % len(x)]
    repeated *= 1 + 0.01 * draw.standard_normal(repeated.shape, dtype=np.float32)  # none are equal
    return part, replace(dataset, features=repeated)


def _spread(n: int, count: int) -> npt.NDArray[np.int64]:
    """Some of n rows at equal distances."""
    return np.unique(np.linspace(0, n - 1, min(n, count)).astype(np.int64))


def _sample(dataset: Dataset, share: float) -> Dataset:
    """A share of the items of each split, at equal distances."""
    table = dataset.table
    splits = np.full(len(table), "") if table.split is None else table.split
    rows = np.sort(
        np.concatenate(
            [
                own[_spread(len(own), math.ceil(share * len(own)))]
                for own in (np.flatnonzero(splits == name) for name in np.unique(splits))
            ]
        )
    )
    x = dataset.features
    features = None if x is None else np.asarray(rows_of(x, rows)[np.arange(len(rows))])
    return replace(dataset, table=table.take(rows), features=features)


@dataclass(frozen=True)
class _Epoch:
    """A measured epoch with a few steps, in seconds.

    Args:
        lead: Until the end of its first step: features and maps, if it is the first epoch.
        steps: The other steps, in up to three blocks: the mean of each; none in a closed form.
        count: How many steps were timed.
        rest: After the last step.
    """

    lead: float
    steps: tuple[float, ...]
    count: int
    rest: float


class _Watch:
    """Times the epochs of a run, and ends each after a few steps.

    Forward passes of a backbone that is not being trained are predictions: there are as many times
    more of them as the run has more items than the sample.

    Args:
        times: How many times more.
    """

    def __init__(self, times: float) -> None:
        self.times, self.loading = times, 0.0
        self._seconds, self._images = 0.0, 0  # of predictions
        self._forward = self._started = self._before = 0.0
        self._ticks: list[float] = []
        self._limit = STEPS

    def follow(self, training: Training) -> None:
        """Watches a run that was made with `step` as its `on_step`."""
        self._training, self.loading = training, _loading(training)
        training.model.backbone.register_forward_pre_hook(self._before_forward)
        training.model.backbone.register_forward_hook(self._after_forward)

    def __deepcopy__(self, memo: object) -> _Watch:
        return self  # averaged models are copies of the model, and watched too

    def _before_forward(self, backbone: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self._forward = time.perf_counter()

    def _after_forward(self, backbone: nn.Module, inputs: tuple[Tensor, ...], out: object) -> None:
        if not backbone.training:
            self._seconds += time.perf_counter() - self._forward
            self._images += len(inputs[0])

    def more(self) -> float:
        """Seconds that the predictions since the last call would take longer for all items."""
        seconds = (self.times - 1) * max(self._seconds, self.loading * self._images)
        self._seconds, self._images = 0.0, 0
        return seconds

    def begin(self, steps: int) -> None:
        """Begins an epoch that ends after so many steps, or after `SECONDS` on features."""
        self._limit, self._ticks, self._before = steps, [], 0.0
        self._started = time.perf_counter()

    def step(self, clock: Clock) -> bool:
        """Notes that a step has ended; whether the epoch ends."""
        device = self._training.device
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
        on_features = self._training.stages[clock.stage].inputs == "features"
        more = self.more()  # of a teacher, in each step as it is
        if not self._ticks and on_features:
            self._before = more
        self._ticks.append(time.perf_counter())
        long_enough = not on_features or self._ticks[-1] - self._ticks[0] > SECONDS
        return len(self._ticks) >= self._limit and long_enough

    def end(self) -> _Epoch:
        """The epoch that has just ended."""
        ended, ticks = time.perf_counter() + self.more(), self._ticks
        if not ticks:  # solved in closed form
            return _Epoch(0.0, (), 0, ended - self._started)
        times = np.diff(ticks) if len(ticks) > 1 else np.array([ticks[0] - self._started])
        lead = ticks[0] - self._started + self._before
        return _Epoch(lead, _blocks(times), len(times), ended - ticks[-1])


def _blocks(times: npt.NDArray[np.float64]) -> tuple[float, ...]:
    """Means of up to three parts of some times, whose spread says how sure they are."""
    return tuple(float(part.mean()) for part in np.array_split(times, min(3, len(times))))


def _steps(dataset: Dataset, recipe: Recipe, *, images: bool, rate_open: bool) -> _Measured:
    """A run by gradient steps, measured on all items or on a sample."""
    share = _share_of_images(dataset, recipe) if images else _share_by_memory(dataset, recipe)
    sample = dataset if share == 1 else _sample(dataset, share)
    if images:
        recipe = recipe.model_copy(update=_without_estimates(dataset, recipe))
    times = 1 / share
    started = time.perf_counter()
    task = make_task(sample, recipe)
    with closing(task.workers):
        decoded = dataset.features is None and not isinstance(task.train.inputs, FileInputs)
        prepared = (time.perf_counter() - started) * (times if decoded else 1)
        started = time.perf_counter()
        watch = _Watch(times)
        training = fit_for(task, recipe, on_step=watch.step)
        prepared += time.perf_counter() - started
        watch.follow(training)
        stages = _stages(training, watch)
        stacked = _stacked(task, recipe) if rate_open and not images else None
        watch.more()
        started = time.perf_counter()
        summarise(training, None, 0.0, (), calibrate(training))
        finished = time.perf_counter() - started + watch.more()
    whole = _items(task, share)
    parts = [
        RunPart("preparation", *3 * (prepared,), _of(share)),
        *((stacked,) if stacked is not None else stages),
        RunPart("calibration and metrics", *3 * (finished,), _of(share)),
    ]
    more_bytes = (whole["train"] - len(task.train)) * table_bytes(recipe, len(task.classes))
    if not isinstance(task.train.inputs, FileInputs):  # inputs in memory
        each = math.prod(task.shape) * (1 if images else FLOAT)
        more_bytes += each * (sum(whole.values()) - len(sample.table))
    return _Measured(tuple(parts), whole, more_bytes)


def _without_estimates(dataset: Dataset, recipe: Recipe) -> dict[str, Any]:
    """Settings for a sample of images: nothing is estimated from features of all images."""
    k, priors = recipe.expected_positives, recipe.class_priors
    in_memory = len(dataset.table) * math.prod(input_shape(dataset, recipe))
    return {
        "expected_positives": k if isinstance(k, float) else 1.0,
        "class_priors": None if isinstance(priors, str) else priors,
        "cache_mb": recipe.cache_mb if in_memory <= recipe.cache_mb * 1_000_000 else 0,
    }


def _of(share: float) -> str:
    return "all of it" if share == 1 else f"{100 * share:.2g} % of the items"


def _items(task: Task, share: float) -> dict[str, int]:
    """Items of each split of all the data, from those of a share of it."""
    parts = {"train": task.train, "val": task.val, "test": task.test or ()}
    return {name: round(len(part) / share) for name, part in parts.items()}


def _share_of_images(dataset: Dataset, recipe: Recipe) -> float:
    """Share of the images that a few batches and a short evaluation need."""
    table = dataset.table
    train, val = (len(table.rows_of(split)) for split in ("train", "val"))
    val = val or round(recipe.val_share * train)
    needed = STEPS * recipe.batch_size / max(train, 1), EVALUATED / max(val, 1)
    return min(1.0, max(needed))


def _share_by_memory(dataset: Dataset, recipe: Recipe) -> float:
    """1, or the share of the items whose tables fit into the free memory."""
    _, free = host_memory()
    needed = len(dataset.table) * table_bytes(recipe, len(dataset.table.classes))
    return 1.0 if free is None or needed <= FREE * free else FREE * free / needed


def table_bytes(recipe: Recipe, classes: int) -> float:
    """Bytes per training item of what a method learns and remembers for each of them.

    The method is built for a few items and for a few more. Weights count with gradient, moments and
    the best epoch, buffers with the best epoch.
    """
    info = get_method(recipe.method)

    def built(items: int) -> nn.Module:
        seen = LabelMatrix.from_entries([0], [0], 1, (items, classes))
        return info.build(TrainLabels(seen, 1.0, places=False), info.make_options(recipe.options))

    def size(method: nn.Module) -> int:
        learned = sum(weight.nbytes for weight in method.parameters())
        return LEARNED * learned + REMEMBERED * sum(one.nbytes for one in method.buffers())

    return (size(built(SOME)) - size(built(FEW))) / (SOME - FEW)


def _stages(training: Training, watch: _Watch) -> list[RunPart]:
    """The stages of a run, by the first and the last epoch of each; the run is finished then."""
    parts = []
    total, epochs, size = len(training.stages), training.epochs(), training.recipe.batch_size
    steps = math.ceil(watch.times * len(training.task.train) / size)
    while not training.done:
        number, stage = training.stage, training.stages[training.stage]
        name = f"stage {number + 1}: " if total > 1 else ""
        measured: list[_Epoch] = []
        for limit in (STEPS, LAST_STEPS):
            watch.begin(limit)
            next(epochs)
            measured.append(watch.end())
            if training.done or training.stage > number:
                break
            training.epoch = stage.epochs - 1
        first, last = measured[0], measured[-1]
        if not first.steps:
            each = watch.times * first.rest
            parts.append(RunPart(f"{name}closed form", *3 * (each,), "a sample of the items"))
            continue
        wait = size * watch.loading if stage.inputs == "images" else 0.0
        usual = fmean(last.steps)
        once = max(0.0, first.lead - (last.lead if last is not first else usual))
        begins = max(0.0, last.lead - usual) if last is not first else 0.0  # each epoch
        rests = [epoch.rest + begins for epoch in measured]
        blocks = [max(step, wait) for epoch in measured for step in epoch.steps]
        seconds = [
            steps * max(fmean(epoch.steps), wait) + rest
            for epoch, rest in zip(measured, rests, strict=True)
        ]
        low = min(*seconds, steps * min(blocks) + min(rests))
        high = max(*seconds, steps * (max(blocks) + wait) + max(rests))
        each, count = fmean(seconds), stage.epochs
        timed = sum(epoch.count for epoch in measured)
        parts.append(
            RunPart(
                what=f"{name}{count} epochs",
                seconds=once + count * each,
                low=once + count * low,
                high=once + count * high,
                measured=f"{timed:,} of {count * steps:,} steps",
                epoch=each,
            )
        )
    return parts


def _loading(training: Training) -> float:
    """Seconds that workers need to load an image; 0 where images are in memory."""
    inputs, size = training.task.train.inputs, training.recipe.batch_size
    if not isinstance(inputs, FileInputs):
        return 0.0
    order = torch.arange(len(inputs))
    ticks = [time.perf_counter() for _ in inputs.batches(order, size, training.method.views, 0)]
    count = len(order) - min(size, len(order))  # workers start with the first batch
    return (ticks[-1] - ticks[0]) / count if count else 0.0


class _EnoughError(Exception):
    """Enough was measured."""


def _stacked(task: Task, recipe: Recipe) -> RunPart | None:
    """Runs with several learning rates that are trained as one; None where they cannot be."""
    ticks: list[float] = []
    started = time.perf_counter()

    def on_epoch(epoch: int) -> None:
        ticks.append(time.perf_counter())
        if len(ticks) > 2 and ticks[-1] - ticks[0] > SECONDS:
            raise _EnoughError

    try:
        if pick_rate(task, recipe, on_epoch) is None:
            return None
    except _EnoughError:
        pass
    times = np.diff(ticks) if len(ticks) > 1 else np.array([ticks[0] - started])
    blocks = _blocks(times)
    (stage,) = plan_of(recipe, images=False).stages
    return RunPart(
        what=f"{stage.epochs} epochs with several learning rates",
        seconds=stage.epochs * float(times.mean()),
        low=stage.epochs * min(blocks),
        high=stage.epochs * max(blocks),
        measured=f"{len(times):,} of {stage.epochs:,} epochs",
        epoch=float(times.mean()),
    )


def _closed_form(dataset: Dataset, recipe: Recipe) -> _Measured:
    """A run that is solved in closed form: all of it where that is quick, else for two samples."""
    size = len(dataset.table) - len(dataset.table.rows_of("test"))
    shares = [1.0] if size <= SOLVED[-1] else [count / size for count in SOLVED]
    solved: list[tuple[int, float]] = []
    for share in shares:
        task = make_task(dataset if share == 1 else _sample(dataset, share), recipe)
        training = fit_for(task, recipe)
        started = time.perf_counter()
        next(training.epochs())
        n = sum(len(part) for part in training.learned.parts)
        solved.append((n, time.perf_counter() - started))
    started = time.perf_counter()
    summarise(training, None, 0.0, (), calibrate(training))
    finished = (time.perf_counter() - started) / share
    (n, seconds), unsure, more_bytes, measured = solved[-1], 1.0, 0, "all of it"
    if share < 1:
        kernel = training.plan.kernel
        growth = Growth(
            width=math.prod(task.shape),
            classes=len(task.classes),
            kernel=kernel,
            folds=not get_method(recipe.method).leave_one_out,
            tried=kernels_tried(recipe.kernel, recipe.gamma) if kernel else 0,
        )
        whole, unsure = round(n / share), UNSURE
        seconds, more_bytes = growth.seconds(whole, solved), growth.bytes(whole) - growth.bytes(n)
        measured = f"{' and '.join(f'{count:,}' for count, _ in solved)} of {whole:,} items"
    parts = (
        RunPart("closed form", seconds, seconds / unsure, seconds * unsure, measured),
        RunPart(
            "calibration and metrics", finished, finished / unsure, finished * unsure, _of(share)
        ),
    )
    return _Measured(parts, _items(task, share), more_bytes)
