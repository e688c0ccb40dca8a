"""Linear training on features: ours, alone and stacked, against a plain loop, in one run.

    python benchmarks/linear.py VOCdevkit --features voc2012_features

The plain loop is that of `benchmarks/plain_loop.py`, with its loss `an`: without worker processes,
which suits features in memory best, with two, and with four, as the published training scripts are
set up. Ours is one training by itself (`Training`), and twelve at once (`train_stacked`: lr 1e-2,
1e-3, 1e-4, 1e-5 with three seeds), of which the time is divided by twelve. All use one thread,
batch 16, and evaluate the validation items after each epoch; our probe of the hidden labels, which
the plain loop has no counterpart for, is off, and one more row tells what it costs.

The contenders take turns. A figure is the median of seconds per epoch on the clock; a ratio is
plain / ours. With fewer epochs than the 25 of a whole training the figures are noisier, but mean
the same: an epoch costs what any other costs.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from statistics import median

import torch
from plain_loop import plain_loop

from plusone.data.source import load_source
from plusone.inputs.task import Task, make_task
from plusone.recipe import Recipe
from plusone.training.closed_fit import fit_for
from plusone.training.stack import AloneError, train_stacked

METHODS = ("an", "em", "gr", "epr", "splc", "lasd")
WORKERS = (0, 2, 4)
RATES, SEEDS = (1e-3, 1e-2, 1e-4, 1e-5), (0, 1, 2)
GOAL = 1.3  # times the plain loop without workers
GOAL_SECONDS = 0.2  # per epoch, on a quiet machine

Times = dict[tuple[str, str], list[float]]


def seconds(epochs: Iterator[object], count: int) -> tuple[list[float], object]:
    """Seconds of each of the next epochs, and what the last one gave."""
    found = []
    for _ in range(count):
        started = time.perf_counter()
        last = next(epochs)
        found.append(time.perf_counter() - started)
    return found, last


def stacked_seconds(task: Task, recipes: list[Recipe]) -> list[float]:
    """Seconds of each epoch of a stack, per training; the first one begins with its making."""
    ends = [time.perf_counter()]
    train_stacked(task, recipes, lambda epoch: ends.append(time.perf_counter()))
    return [(end - start) / len(recipes) for start, end in pairwise(ends)]


def measure(
    task: Task, methods: list[str], epochs: int, rounds: int
) -> tuple[Times, dict[str, float]]:
    """Seconds per epoch by what was trained and how, and validation mAP at the end.

    The contenders take turns.
    """
    times: Times = defaultdict(list)
    maps: dict[str, float] = {}
    next(plain_loop(task, 16, 1e-3, 0))  # what is slow only once must not count
    plain = {workers: plain_loop(task, 16, 1e-3, workers) for workers in WORKERS}
    for _ in range(rounds):
        for workers, loop in plain.items():
            found, maps["plain"] = seconds(loop, -(-epochs // rounds))
            times["plain", f"{workers} workers"] += found
        for method in methods:
            recipe = Recipe(method=method, batch_size=16, lr=1e-3, epochs=epochs, probe="off")
            found, record = seconds(fit_for(task, recipe).epochs(), epochs)
            times[method, "alone"] += found
            maps[method] = record.val_map
            probed = recipe.model_copy(update={"probe": "on"})
            times[method, "alone, probed"] += seconds(fit_for(task, probed).epochs(), epochs)[0]
            runs = [{"lr": lr, "seed": seed} for seed in SEEDS for lr in RATES]
            recipes = [recipe.model_copy(update=run) for run in runs]
            with suppress(AloneError):
                times[method, "stacked"] += stacked_seconds(task, recipes)
    return times, maps


def ratios(medians: dict[tuple[str, str], float]) -> list[dict[str, object]]:
    """The table's rows: `an`, whose loss the plain loop has too, against each plain loop."""
    alone = medians["an", "alone"]
    rows: list[dict[str, object]] = [
        {
            "name": "linear training, seconds per epoch",
            "value": alone,
            "goal": GOAL_SECONDS,
            "kind": "at most",
            "detail": "an, batch 16, validation included",
        }
    ]
    for workers in WORKERS:
        plain = medians["plain", f"{workers} workers"]
        for way, name in (("alone", "alone"), ("stacked", "one of 12 stacked")):
            ours = medians["an", way]
            rows.append(
                {
                    "name": f"linear training, times a plain loop ({workers} workers), {name}",
                    "value": plain / ours,
                    "goal": GOAL if workers == 0 and way == "alone" else None,
                    "kind": "at least",
                    "detail": f"{1000 * ours:.1f} ms and {1000 * plain:.0f} ms per epoch",
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--features", action="append", default=[], type=Path)
    parser.add_argument("--epochs", type=int, default=6, help="epochs of each contender")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    dataset = load_source(args.data, features=args.features)
    task = make_task(dataset, Recipe(method="an"))
    methods = ["an", *(method for method in args.methods if method != "an")]
    times, maps = measure(task, methods, args.epochs, args.rounds)
    medians = {key: median(values) for key, values in times.items()}
    print(
        f"{dataset.name}: {len(task.train)} train and {len(task.val)} val items, "
        f"{task.shape[0]} features, batch 16"
    )
    print("milliseconds per epoch, and plain / ours for 0, 2 and 4 workers")
    for (what, how), value in medians.items():
        against = [medians["plain", f"{workers} workers"] / value for workers in WORKERS]
        cells = "".join(f"{ratio:8.1f}" for ratio in against) if what != "plain" else ""
        print(f"{what:8s}{how:16s}{1000 * value:8.1f}{cells}")
    print(
        "validation mAP after as many epochs: "
        + ", ".join(f"{name} {100 * value:.1f}" for name, value in maps.items())
    )
    rows = ratios(medians)
    for row in rows:
        goal = "" if row["goal"] is None else f" (goal {row['goal']:g})"
        print(f"{row['name']}: {row['value']:.2f}{goal}")
    if args.json:
        listed = [
            {"what": what, "how": how, "seconds": value} for (what, how), value in medians.items()
        ]
        args.json.write_text(json.dumps({"ratios": rows, "rows": listed}, indent=2) + "\n")


if __name__ == "__main__":
    main()
