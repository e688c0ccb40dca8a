"""Fits the cost model of `plusone.training.cost`, and says how well it predicts.

    python benchmarks/cost.py --measure           measures all points, resuming where it was stopped
    python benchmarks/cost.py --measure --again   measures them again; the quicker of both counts
    python benchmarks/cost.py --fit               prints the coefficients, for the cost model
    python benchmarks/cost.py --check             the points that were left out, as a table
    python benchmarks/cost.py --paper             costs at sizes that no machine here can hold

Every point is a process of its own: some steps of the training loop or a whole closed form, on one
thread, in processor time, and a probe of the machine before and after it. The quickest window of
steps and the better probe count, because other work on the machine only ever makes them slower.
Most methods are measured at a few sizes, with the probes of those that were measured there before.
Points are kept in `benchmarks/results/cost.json`. A third of them are left out of the fit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import re
import resource
import time
from dataclasses import asdict, dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import torch
from growth_point import FORK, synthetic
from scipy.optimize import nnls

from plusone.closed_form.kernel import n_landmarks
from plusone.data.dataset import Dataset
from plusone.inputs.loader import GATHERED
from plusone.inputs.task import make_task
from plusone.methods import METHODS as ALL
from plusone.methods import get_method
from plusone.recipe import make_recipe
from plusone.training import cost
from plusone.training.closed_fit import fit_for
from plusone.training.probe import Speeds, measure_speeds
from plusone.types import Clock

POINTS = Path(__file__).resolve().parent / "results" / "cost.json"
EPOCH, EPOCHS = 6, 25
SECONDS, MOST, WINDOWS = 0.4, 5, 6  # of measuring steps; more seconds, if there are few windows
MEMORY = 9 << 30
PROBE = 0.4  # seconds, before a point and again after it
SHORT = 4.0  # seconds; a closed form that takes less is solved twice


@dataclass(frozen=True)
class Point:
    """A method at some sizes: N items, L classes, D features, batches of B."""

    method: str
    n: int
    l: int  # noqa: E741
    d: int
    batch: int = 256
    options: dict[str, Any] = field(default_factory=dict)
    left_out: bool = False


# N, L, D, B. Sizes of the fit span the corners; those left out lie between them and beyond.
FITTED = (
    (10_000, 20, 64, 256),
    (10_000, 100, 64, 64),
    (10_000, 1_000, 64, 256),
    (10_000, 100, 1_024, 256),
    (100_000, 100, 256, 1_024),
    (1_000_000, 100, 64, 256),
    (10_000, 5_000, 64, 256),
    (10_000, 1_000, 768, 64),
)
LEFT_OUT = (
    (20_000, 50, 512, 128),
    (10_000, 400, 256, 256),
    (200_000, 80, 128, 512),
    (1_000_000, 40, 128, 1_024),
)
METHODS = ("an", "gr", "ll_cp", "en", "em_apl", "role", "lac", "mime")
# Most labels of a point, for methods that need much time or memory for each.
MOST_LABELS = {
    "en": 20_000_000,
    "em_apl": 20_000_000,
    "role": 20_000_000,
    "lac": 2_000_000,
    "mime": 2_000_000,
}
# All other methods of gradient steps, at fewer sizes.
OTHERS = tuple(
    sorted(name for name, info in ALL.items() if not info.closed_form and name not in METHODS)
)
OTHERS_FITTED = FITTED[1:3]
CLOSED = (
    ("ridge", 800, 50, 256),
    ("recovery", 800, 50, 256),
    ("ridge", 2_000, 20, 256),
    ("recovery", 2_000, 20, 256),
    ("ridge", 3_500, 200, 64),
    ("recovery", 3_500, 200, 64),
    ("recovery", 1_000, 4_000, 64),
    ("ridge", 10_000, 20, 64),
    ("recovery", 10_000, 20, 64),
    ("ridge", 300_000, 20, 64),
    ("ridge", 1_000_000, 20, 64),
    ("recovery", 1_000_000, 20, 64),
)
CLOSED_LEFT_OUT = (
    ("ridge", 1_500, 100, 1_280),
    ("recovery", 1_500, 100, 1_280),
    ("ridge", 3_000, 20, 128),
    ("recovery", 3_000, 20, 128),
    ("ridge", 20_000, 50, 128),
    ("recovery", 6_000, 20, 128),
    ("ridge", 600_000, 20, 64),
    ("recovery", 600_000, 20, 64),
)


def points() -> list[Point]:
    """All points."""
    every = []
    for left_out, sizes in ((True, LEFT_OUT), (False, FITTED)):
        for n, l, d, batch in sizes:  # noqa: E741
            for method in METHODS:
                if n * l > MOST_LABELS.get(method, math.inf):
                    continue
                options = {"end_to_end": True} if method == "lac" else {}
                every.append(Point(method, n, l, d, batch, options, left_out))
    for left_out, sizes in ((True, LEFT_OUT[:2]), (False, OTHERS_FITTED)):
        every += [
            Point(method, n, l, d, batch, left_out=left_out)
            for n, l, d, batch in sizes  # noqa: E741
            for method in OTHERS
            if n * l <= MOST_LABELS.get(method, math.inf)
        ]
    for left_out, closed in ((False, CLOSED), (True, CLOSED_LEFT_OUT)):
        every += [Point(method, n, l, d, left_out=left_out) for method, n, l, d in closed]  # noqa: E741
    return every


def measure(point: Point, dataset: Dataset, known: Speeds | None = None) -> dict[str, Any]:
    """Seconds and bytes of a point, and the speeds of the machine at that moment.

    Args:
        point: The point.
        dataset: Its data.
        known: The speeds, where they need not be measured.
    """
    torch.set_num_threads(1)
    speeds = known or measure_speeds(seconds=PROBE, clock=time.process_time)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    given = {
        "method": point.method,
        "options": point.options,
        "batch_size": point.batch,
        "epochs": EPOCHS,
        "expected_positives": 3.0,
        "probe": "off",
        "threads": 1,
        "device": "cpu",
    }
    recipe = make_recipe(get_method(point.method).defaults, given)
    task = make_task(dataset, recipe)
    solves = get_method(point.method).closed_form
    measured = _solve(task, recipe) if solves else _steps(task, recipe)
    status = Path("/proc/self/status").read_text()
    peak = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024  # type: ignore[index]
    again = known or measure_speeds(seconds=PROBE, clock=time.process_time)
    return {
        **asdict(point),
        "items": len(task.train) + (len(task.val) if solves else 0),
        "held_out": 0 if solves else len(task.val),
        "speeds": asdict(quickest(speeds, again)),
        **measured,
        "bytes": peak,
    }


def quickest(one: Speeds, other: Speeds) -> Speeds:
    """The better of two probes: other work on the machine only ever makes them slower."""
    pairs = {name: (value, getattr(other, name)) for name, value in asdict(one).items()}
    return Speeds(
        **{name: min(pair) if name == "call" else max(pair) for name, pair in pairs.items()}
    )


def _solve(task: Any, recipe: Any) -> dict[str, float]:
    """A closed form: the map with the choice of gamma, and the solution with its folds."""
    runs = []
    while not runs or (len(runs) < 2 and runs[0]["seconds"] < SHORT):
        training, parts = fit_for(task, recipe), {}

        def timed(name: str, act: Any, parts: dict[str, float] = parts) -> Any:
            def run() -> Any:
                started = time.process_time()
                result = act()
                parts[name] = time.process_time() - started
                return result

            return run

        training.enter_space = timed("map", training.enter_space)  # type: ignore[method-assign]
        training.solve_head = timed("solution", training.solve_head)  # type: ignore[method-assign]
        timed("seconds", lambda training=training: next(training.epochs()))()
        runs.append(parts)
    return min(runs, key=lambda parts: parts["seconds"])


class _Enough(Exception):  # noqa: N818
    """Raised to stop an epoch."""


def _steps(task: Any, recipe: Any) -> dict[str, float]:
    """An epoch, from some of its steps, what follows it, and the evaluation."""
    block = max(1, GATHERED // (recipe.batch_size * task.shape[-1]))  # steps gathered at once
    steps = math.ceil(len(task.train) / recipe.batch_size)
    windows: list[float] = []  # seconds of a step, over a block of steps or an epoch
    first: list[float] = []  # seconds until the first step is done
    before = began = time.process_time()

    def on_step(clock: Clock) -> None:
        nonlocal before
        now, number = time.process_time(), clock.step
        late = now - began > MOST * SECONDS  # a few long steps
        if number == 0:
            first.append(now - before)
            before = now
        elif number % block == 0 or number == steps - 1 or late:
            windows.append((now - before) / ((number - 1) % block + 1))
            before = now
            if late or (now - began > SECONDS and len(windows) >= WINDOWS):
                raise _Enough

    training = fit_for(task, recipe, on_step=on_step)
    began = time.process_time()
    with contextlib.suppress(_Enough):
        while True:
            training.epoch = EPOCH
            before = time.process_time()
            training.train_epoch()
    # The quickest window, as the probe is the quickest repeat: other work disturbs both.
    step = min(windows)
    evaluation, result = _least(training._evaluate)
    training.close_epoch({}, result, None, time.perf_counter())  # keeps the best weights
    training.epoch = EPOCH
    clock = Clock(0, EPOCH, EPOCHS, steps - 1, steps)

    def after_epoch() -> None:
        with torch.no_grad():
            training.method.after_epoch(clock, training.train_logits)

    after, _ = _least(after_epoch)
    begin = max(0.0, min(first) - step)
    return {
        "seconds": begin + step * steps + after,
        "begin": begin,
        "step": step,
        "after": after,
        "evaluation": evaluation,
    }


def _least(run: Any) -> tuple[float, Any]:
    """The least processor time of up to three calls, and what the last gave."""
    times: list[float] = []
    while len(times) < 3 and sum(times) < SECONDS / 2:
        started = time.process_time()
        result = run()
        times.append(time.process_time() - started)
    return min(times), result


def measure_apart(point: Point, dataset: Dataset, known: Speeds | None) -> dict[str, Any]:
    """Measures a point in a process of its own."""
    receive, send = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_child, args=(point, dataset, known, send))
    process.start()
    send.close()
    try:
        result: dict[str, Any] = receive.recv()
    except EOFError:
        result = {**asdict(point), "failed": "the process was killed"}
    process.join()
    return result


def _child(point: Point, dataset: Dataset, known: Speeds | None, send: Any) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    try:
        send.send(measure(point, dataset, known))
    except Exception as error:
        send.send({**asdict(point), "failed": repr(error)[:300]})


def measure_all(path: Path, methods: list[str], again: bool = False) -> None:
    """Measures what is missing, and writes after each point.

    Args:
        path: The file of the points.
        methods: Which; all if there are none.
        again: Whether to measure what is there a second time; the quicker one is kept.
    """
    rows = json.loads(path.read_text()) if path.exists() else []
    shape, dataset = (0, 0, 0), None
    for point in sorted(points(), key=lambda point: point.n * point.l):
        key = _key(asdict(point))
        known = next((row for row in rows if _key(row) == key), None)
        if point.method not in (methods or [point.method]) or (known is not None) != again:
            continue
        if (point.n, point.l, point.d) != shape:
            dataset, shape = None, (point.n, point.l, point.d)  # one at a time
            dataset = synthetic(*shape)
        speeds = None
        same = [row for row in rows if _key(row)[1:] == key[1:] and "speeds" in row]
        if point.method in OTHERS and same:  # of the methods measured before
            speeds = reduce(quickest, map(speeds_of, same))
        row = measure_apart(point, dataset, speeds)
        what = f"{row['seconds']:9.3f} s {row['bytes'] / 1e6:8.0f} MB" if "bytes" in row else row
        print(
            f"{point.method:9} {point.n:>9,} {point.l:>6,} {point.d:>5,} {point.batch:>5} {what}",
            flush=True,
        )
        if known is not None:
            if not row.get("seconds", math.inf) < known.get("seconds", math.inf):
                continue
            rows.remove(known)
        rows.append(row)
        path.write_text(json.dumps(rows, indent=0) + "\n", encoding="utf-8")


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("method", "n", "l", "d", "batch"))


# Terms that all methods share, and those that a method has coefficients of its own for.
SHARED = ("products", "weights", "inputs")
USUAL = ("calls", "labels")
OWN = {
    "role": (*USUAL, "estimate", "fresh"),
    "lac": ("contrast", "embeddings"),
    "mime": ("networks", "network_weights", "network_outputs", "network_fresh"),
}
# What methods do with all labels after an epoch; some do the same as another.
OWN_AFTER = {
    "en": ("tables", "sorting", "fresh"),
    "em_apl": ("tables", "predictions", "fresh"),
    "crisp": ("tables", "predictions"),
    "mime": ("networks", "network_outputs"),
}
SAME_AFTER = {"en_cl": "en", "en_scl": "en"}
OWN_BYTES = {
    "en": ("memory",),
    "em_apl": ("memory",),
    "lac": ("embeddings", "contrast"),
    "mime": ("network_outputs",),
}


def sizes_of(row: dict[str, Any]) -> cost.Sizes:
    return cost.Sizes(
        items=row["items"],
        classes=row["l"],
        width=row["d"],
        batch=row["batch"],
        held_out=row["held_out"],
        number=2,
        rounds=5 if row["method"] == "recovery" else 0,
        folds=row["method"] == "recovery",
    )


def speeds_of(row: dict[str, Any]) -> Speeds:
    return Speeds(**row["speeds"])


# What coefficients are at least, because the code does it: no product is quicker than the probe;
# features, vectors and logits are there. No measured closed form has tables large enough to count
# them by their bytes; the code holds seven: labels, targets, predictions and recovered labels, of
# all items and of a fold.
LEAST = {
    "products": 1.0,
    "weights": 1.0,
    "inputs": 1.0,
    "role.fresh": 1.0,
    "mime.networks": 1.0,
    "mime.network_weights": 1.0,
}
LEAST_BYTES = {"features": 1.0, "logits": 2.0, "evaluation": 1.0, "vectors": 1.0}
TABLES = {"tables": 7.0}


def solve(
    rows: list[dict[str, float]], values: list[float], least: dict[str, float]
) -> dict[str, float]:
    """Coefficients of least relative error, none below what is known or 0.

    Args:
        rows: The terms of each point.
        values: What was measured.
        least: Lower limits.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    terms = np.array([[row.get(name, 0.0) for name in names] for row in rows])
    terms /= np.array(values)[:, None]
    known = np.array([least.get(name, 0.0) for name in names])
    scale = terms.max(0)  # nnls is sensitive to the scale of its columns
    scale[scale == 0] = 1.0
    more = nnls(terms / scale, 1 - terms @ known)[0] / scale
    return {name: float(f"{x:.4g}") for name, x in zip(names, known + more, strict=True)}


def fit(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """All coefficients, by the name that they have in `plusone.training.cost`."""
    rows = [row for row in rows if "seconds" in row and not row["left_out"]]
    heads = [row for row in rows if not get_method(row["method"]).closed_form]
    linear = [row for row in heads if row["method"] not in ("lac", "mime")]
    closed = [row for row in rows if get_method(row["method"]).closed_form]
    methods = sorted({row["method"] for row in heads})
    own = {method: OWN.get(method, USUAL) for method in methods}

    def parts(row: dict[str, Any], terms: dict[str, float], own: Any, shared: Any = ()) -> Any:
        named = {name: terms[name] for name in shared}
        return named | {f"{row['method']}.{name}": terms[name] for name in own}

    def by_method(found: dict[str, float], names: dict[str, tuple[str, ...]]) -> dict[str, Any]:
        return {
            method: {name: found[f"{method}.{name}"] for name in own}
            for method, own in names.items()
            if f"{method}.{own[0]}" in found
        }

    time_of = solve(
        [
            parts(row, cost.step_terms(sizes_of(row), speeds_of(row)), own[row["method"]], SHARED)
            for row in heads
        ],
        [row["seconds"] - row["after"] for row in heads],
        LEAST,
    )
    after = [
        row | {"method": SAME_AFTER.get(row["method"], row["method"])}
        for row in heads
        if row["method"] in OWN_AFTER.keys() | SAME_AFTER.keys()
    ]
    after_of = solve(
        [
            parts(row, cost.after_terms(sizes_of(row), speeds_of(row)), OWN_AFTER[row["method"]])
            for row in after
        ],
        [row["after"] for row in after],
        {},
    )
    after_time = by_method(after_of, OWN_AFTER)
    shared_bytes = ("process", "items", "features", "logits", "evaluation")
    measured = [row for row in heads if row["method"] in METHODS or row["method"] in OWN_BYTES]
    bytes_of = solve(
        [
            parts(
                row,
                cost.memory_terms(sizes_of(row)),
                OWN_BYTES.get(row["method"], ()),
                shared_bytes,
            )
            for row in measured
        ],
        [row["bytes"] - state(row) for row in measured],
        LEAST_BYTES,
    )
    known = {name: bytes_of[name] for name in ("process", "items", "features")}

    def closed_bytes(method: str, known: dict[str, float], own: Any) -> dict[str, float]:
        """Bytes of a part of a closed form, beside those that every training has."""
        rows = [row for row in closed if row["method"] == method]
        terms = [cost.memory_terms(sizes_of(row), closed_form=True) for row in rows]
        beside = [
            row["bytes"] - cost.total(each, known) for row, each in zip(rows, terms, strict=True)
        ]
        return solve([{name: each[name] for name in own} for each in terms], beside, LEAST_BYTES)

    return {
        "SHARED": {name: time_of[name] for name in SHARED},
        "TIME": by_method(time_of, own),
        "AFTER_TIME": after_time | {name: after_time[like] for name, like in SAME_AFTER.items()},
        "EVALUATION_TIME": solve(
            [cost.evaluation_terms(sizes_of(row), speeds_of(row)) for row in linear],
            [row["evaluation"] for row in linear],
            LEAST,
        ),
        "CLOSED_FORM_TIME": solve(
            [
                terms(sizes_of(row), speeds_of(row))
                for terms in (cost.map_terms, cost.solution_terms)
                for row in closed
            ],
            [row[part] for part in ("map", "solution") for row in closed],
            LEAST,
        ),
        "MEMORY": {name: bytes_of[name] for name in shared_bytes},
        "OWN_MEMORY": by_method(bytes_of, OWN_BYTES),
        "CLOSED_FORM_MEMORY": {
            part: known | counted | closed_bytes(method, known | counted, own)
            for part, method, counted, own in (
                ("map", "ridge", {}, ("vectors", "squares", "doubles")),
                ("solution", "recovery", TABLES, ("vectors", "folds", "fold_squares")),
            )
        },
    }


def state(row: dict[str, Any]) -> float:
    return cost.state_bytes(row["method"], row["options"], sizes_of(row))


def predicted(row: dict[str, Any]) -> tuple[float, float]:
    """Seconds and bytes of a point, by the formulas and the speeds of its moment."""
    sizes, speeds = sizes_of(row), speeds_of(row)
    if get_method(row["method"]).closed_form:
        seconds = cost.closed_form_seconds(sizes, speeds)
    else:
        seconds = cost.epoch_seconds(row["method"], sizes, speeds)
    return seconds, cost.head_bytes(row["method"], row["options"], sizes)


FAMILIES = {
    "pointwise loss": ("an", "gr"),
    "memory per item": ("ll_cp", "en", "em_apl"),
    "`role`, dense estimate": ("role",),
    "label-wise head (`lac`)": ("lac",),
    "a network for each class (`mime`)": ("mime",),
    "closed form": ("ridge", "recovery"),
    "other methods": OTHERS,
}
NEAR = 0.25  # relative error


def check(rows: list[dict[str, Any]]) -> str:
    """Markdown: how many points are predicted within 25 %, by family, fitted and left out."""
    lines = [
        "| family | points | time within 25 % | worst | memory within 25 % | worst |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    rows = [row for row in rows if "seconds" in row]
    for left_out in (True, False):
        whole: list[tuple[float, float]] = []
        for family, methods in FAMILIES.items():
            own = [row for row in rows if row["method"] in methods and row["left_out"] == left_out]
            errors = [
                (guess[0] / row["seconds"], guess[1] / row["bytes"])
                for row in own
                for guess in [predicted(row)]
            ]
            if errors:
                lines.append(_line(family, errors, left_out))
                whole += errors
        if whole:
            lines.append(_line("all", whole, left_out))
    return "\n".join(lines)


def _line(family: str, ratios: list[tuple[float, float]], left_out: bool) -> str:
    cells = [family, "left out" if left_out else "fitted"]
    for place in (0, 1):
        own = [ratio[place] for ratio in ratios]
        near = sum(abs(ratio - 1) <= NEAR for ratio in own)
        worst = max(own, key=lambda ratio: abs(math.log(ratio)))
        cells += [f"{near} of {len(own)}", f"x {worst:.2f}"]
    return "| " + " | ".join(cells) + " |"


def listed(rows: list[dict[str, Any]]) -> str:
    """Markdown: every point that was left out."""
    lines = [
        "| method | N | L | D | B | seconds | predicted | MB | predicted |",
        "| --- |" + " ---: |" * 8,
    ]
    for row in rows:
        if row["left_out"] and "seconds" in row:
            seconds, size = predicted(row)
            sizes = [f"{row[name]:,}" for name in ("n", "l", "d", "batch")]
            cells = [f"{row['seconds']:.3g}", f"{seconds:.3g}"]
            cells += [f"{row['bytes'] / 1e6:,.0f}", f"{size / 1e6:,.0f}"]
            lines.append("| " + " | ".join([f"`{row['method']}`", *sizes, *cells]) + " |")
    return "\n".join(lines)


@dataclass(frozen=True)
class Case:
    """A training that no machine here can hold: its sizes, and what is assumed."""

    name: str
    sizes: cost.Sizes
    ranks: int = 1
    weights: int = 0  # of the backbone


CASES = (
    Case("ImageNet-21k, features", cost.Sizes(14_000_000, 21_841, 1_280, 1_024, 3_072, 2)),
    Case("100 M embeddings", cost.Sizes(100_000_000, 1_000, 768, 1_024, 67_108, 2)),
    Case(
        "1,000 cards, images",
        cost.Sizes(1_000_000_000, 21_841, 2_048, 64_000, 3_072, 2),
        ranks=1_000,
        weights=25_600_000,
    ),
)
GB = 1e9


def paper(rows: list[dict[str, Any]]) -> str:
    """Markdown: bytes and hours of the cases, by the formulas."""
    middle = {
        name: float(np.median([row["speeds"][name] for row in rows if "speeds" in row]))
        for name in ("product", "copy", "table", "call", "fresh")
    }
    speeds = Speeds(**middle)
    quantities = {
        "items N, classes L, width D, batch B": lambda c: (
            f"{c.sizes.items:.3g}, {c.sizes.classes:,}, {c.sizes.width:,}, {c.sizes.batch:,}"
        ),
        "ids, splits and sparse labels, in every process": lambda c: _gb(
            cost.MEMORY["items"] * c.sizes.items
        ),
        "features in float16": lambda c: _gb(2 * c.sizes.items * c.sizes.width),
        "head: weights, gradient, moments, best epoch": lambda c: _gb(
            cost.LEARNED * 4 * c.sizes.classes * c.sizes.width
        ),
        "logits of a batch, in every process": lambda c: _gb(4 * c.sizes.batch * c.sizes.classes),
        "a float table `[N, L]`": lambda c: _gb(4 * c.sizes.items * c.sizes.classes),
        "`ll_cp`: its state": lambda c: _gb(_state("ll_cp", c)),
        "`role`, dense: its state": lambda c: _gb(_state("role", c)),
        "`role`, factored: its state": lambda c: _gb(_state("role", c, estimator="factored")),
        "closed form: vectors `[n, m]`": lambda c: _gb(
            4 * c.sizes.items * n_landmarks(c.sizes.items)
        ),
        "closed form: peak": lambda c: _gb(cost.head_bytes("recovery", {}, c.sizes)),
        "received by a rank in a step: gradients": lambda c: _exchange(c, "gradients"),
        "received by a rank in a step: outputs": lambda c: _exchange(c, "outputs"),
        "an epoch of the head (`gr`), one thread of this machine": lambda c: _days(
            cost.epoch_seconds("gr", c.sizes, speeds)
        ),
    }
    lines = [
        "| | " + " | ".join(case.name for case in CASES) + " |",
        "| --- |" + " ---: |" * len(CASES),
    ]
    for name, quantity in quantities.items():
        lines.append(f"| {name} | " + " | ".join(quantity(case) for case in CASES) + " |")
    return "\n".join(lines)


def _state(method: str, case: Case, **options: Any) -> float:
    """Bytes of the state of a method alone, without the head."""
    alone = cost.state_bytes(method, options, case.sizes)
    return alone - cost.state_bytes("gr", {}, case.sizes)


def _gb(size: float) -> str:
    return f"{size / GB:,.3g} GB" if size < 1000 * GB else f"{size / GB / 1000:,.3g} TB"


def _days(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:,.0f} days"


def _exchange(case: Case, name: str) -> str:
    if case.ranks == 1:
        return "-"
    head = case.sizes.classes * case.sizes.width
    return _gb(cost.communication_bytes(case.weights + head, case.sizes, case.ranks)[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--methods", nargs="*", default=[], help="measure these alone")
    parser.add_argument("--again", action="store_true", help="measure a second time")
    parser.add_argument("--points", type=Path, default=POINTS)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--points-table", action="store_true", help="with --check: every point")
    args = parser.parse_args()
    if args.measure:
        measure_all(args.points, args.methods, args.again)
    rows = json.loads(args.points.read_text(encoding="utf-8"))
    if args.fit:
        for name, value in fit(rows).items():
            nested = any(isinstance(entry, dict) for entry in value.values())
            kind = "Mapping[str, Mapping[str, float]]" if nested else "Mapping[str, float]"
            print(f"{name}: {kind} = {json.dumps(value)}")
    if args.check:
        print(check(rows))
        if args.points_table:
            print(f"\n{listed(rows)}")
    if args.paper:
        print(paper(rows))


if __name__ == "__main__":
    main()
