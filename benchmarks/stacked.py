"""All learning rates and seeds at once: twelve stacked runs against one, side by side.

    python benchmarks/stacked.py VOCdevkit --features voc2012_features

The grid is lr 1e-2, 1e-3, 1e-4, 1e-5 with three seeds. One training is ours as well (`Training`),
with lr 1e-3; see `benchmarks/linear.py` for how that compares with a plain loop. Both use one
thread, batch 16 and evaluate after each epoch. They take turns; the figure of each is its smallest
processor time, which other programs on the machine disturb less than the time on the clock. The
difference is the largest one in validation mAP, over the epochs, between the training that was
timed alone and the same training in the stack.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from plusone.data.source import load_source
from plusone.inputs.task import Task, make_task
from plusone.recipe import Recipe
from plusone.training.closed_fit import fit_for
from plusone.training.stack import AloneError, check_settings, train_stacked

RATES, SEEDS = (1e-3, 1e-2, 1e-4, 1e-5), (0, 1, 2)
GOAL = 3.0
METHODS = ("an", "em", "gr", "wan", "asl", "hill", "pr", "las", "splc", "softmax", "em_apl", "en")
METHODS += ("wan_sampled", "l2r", "lasd", "epr", "ll_r", "ll_cp", "role", "lac")


def measure(task: Task, recipes: list[Recipe], rounds: int) -> dict[str, object]:
    """Seconds of one training and of all, and how far the first of these is from the one."""
    alone, together = [], []
    for _ in range(rounds):
        started = time.process_time()
        one = list(fit_for(task, recipes[0]).epochs())
        alone.append(time.process_time() - started)
        started = time.process_time()
        stack = train_stacked(task, recipes)
        together.append(time.process_time() - started)
    pairs = zip(one, stack[0][1], strict=True)
    return {
        "one_s": min(alone),
        "all_s": min(together),
        "ratio": min(together) / min(alone),
        "difference": max(abs(mine.val_map - theirs.val_map) for mine, theirs in pairs),
    }


def ratios(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """What all stacked runs cost beside one alone, for each method that stacks."""
    count = len(RATES) * len(SEEDS)
    return [
        {
            "name": f"{row['method']}: {count} stacked runs / one alone",
            "value": row["ratio"],
            "goal": GOAL,
            "kind": "at most",
            "detail": f"{row['all_s']:.2f} s for all, {row['one_s']:.2f} s for one alone",
        }
        for row in rows
        if "ratio" in row
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--features", action="append", default=[], type=Path)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dataset = load_source(args.data, features=args.features)
    rows: list[dict[str, object]] = []
    print(f"{dataset.name}: {len(RATES) * len(SEEDS)} runs, {args.epochs} epochs, batch 16")
    print("method        one s    all s   all / one   val mAP off by")
    for method in args.methods:
        recipes = [
            Recipe(method=method, seed=seed, lr=lr, epochs=args.epochs)
            for seed in SEEDS
            for lr in RATES
        ]
        task = make_task(dataset, recipes[0])
        try:
            check_settings(task, recipes[0])
            row = measure(task, recipes, args.rounds)
        except AloneError as reason:
            rows.append({"method": method, "alone": str(reason)})
            print(f"{method:12s}{'':41s}alone: {reason}")
            continue
        rows.append({"method": method} | row)
        print(
            f"{method:12s}{row['one_s']:7.2f}{row['all_s']:9.2f}{row['ratio']:12.2f}"
            f"{row['difference']:17.1e}"
        )
    if args.json:
        found = {"ratios": ratios(rows), "rows": rows}
        args.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
