"""ROLE's label estimators side by side: memory, time of a step, recovered labels.

    python benchmarks/estimators.py VOCdevkit --features voc2012_features

1. Memory: bytes of what is learned and of the optimizer's state, at the size of VOC 2012 and of
   ImageNet, counted on the real modules without allocating them.
2. Steps: processor time of whole training steps (1,000 classes, batch 16, a linear head on 1,280
   features) for growing numbers of items, median and fastest of 40, and how much the process grew
   at its peak: the head's 20 MB and what torch loads in its first step are included. Every row runs
   in a process of its own; the ImageNet size is really allocated for the factored estimator.
3. Recovery, if data is given: a linear classifier trained with each estimator and learning rate;
   for each estimator the rate with the best validation mAP is shown, and the runs behind it.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import torch
from torch import nn

from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.data.source import load_source
from plusone.inputs.task import make_task
from plusone.methods.role import FactoredEstimator, NetworkEstimator, Role, RoleOptions
from plusone.models.classifier import Classifier
from plusone.recipe import Recipe
from plusone.training.closed_fit import fit_for
from plusone.training.optim import make_optimizer, row_state
from plusone.training.step import training_step
from plusone.training.summary import summarise
from plusone.types import Batch, Clock, Stage, TrainLabels

IMAGENET = (1_281_167, 1000)
VOC = (4574, 20)
DIM, BATCH, WARM, TIMED = 1280, 16, 3, 40
STEPS = [("dense", 10_000), ("dense", 100_000), ("factored", 10_000), ("factored", 100_000),
         ("factored", IMAGENET[0]), ("network", 10_000), ("network", IMAGENET[0])]  # fmt: skip


def labels_of(n: int, n_classes: int) -> TrainLabels:
    """One positive per item, in turn."""
    rows = np.arange(n)
    return TrainLabels(LabelMatrix.from_entries(rows, rows % n_classes, 1, (n, n_classes)), 1.5)


def counted_bytes(name: str, n: int, n_classes: int, options: RoleOptions) -> dict[str, Any]:
    """Bytes of an estimator and of its optimizer state."""
    if name == "dense":  # it reads all labels at once, so this one is not built
        numbers = n * n_classes
        return {"learned": 4 * numbers, "optimizer": 8 * numbers, "noted": 0}
    with torch.device("meta"):
        made: nn.Module
        if name == "factored":
            made = FactoredEstimator(n, n_classes, options.rank, 0)
        else:
            made = NetworkEstimator(DIM, labels_of(n, n_classes), options.hidden)
    tables = {id(m.weight) for m in made.modules() if isinstance(m, nn.Embedding) and m.sparse}
    state = 0
    for weight in made.parameters():
        if id(weight) in tables:
            state += sum(part.nbytes for part in row_state(weight).values())
        else:
            state += 2 * weight.nbytes
    return {
        "learned": sum(weight.nbytes for weight in made.parameters()),
        "optimizer": state,
        "noted": sum(buffer.nbytes for buffer in made.buffers()),
    }


def peak() -> int:
    """Largest resident memory of this process since it was last reset, in bytes (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def timed_steps(name: str, n: int, options: dict[str, Any]) -> dict[str, Any]:
    """Real training steps with one estimator."""
    torch.set_num_threads(1)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = peak()
    n_classes = IMAGENET[1]
    method = Role(labels_of(n, n_classes), RoleOptions(estimator=name, **options))
    model = Classifier(nn.Identity(), method.make_head(DIM))
    stage = Stage(inputs="features", epochs=1, lr=1e-3)
    method.begin_stage(stage)
    optimizer = make_optimizer(model, method, Recipe(method="role"), stage)
    generator, seconds = torch.Generator().manual_seed(0), []
    for step in range(WARM + TIMED):
        index = torch.randint(n, (BATCH,), generator=generator)
        observed = torch.from_numpy(method.labels.observed.dense(index.numpy())).float()
        x = torch.randn(BATCH, DIM, generator=generator)
        clock, batch = Clock(0, 0, 1, step, WARM + TIMED), Batch((x,), observed, index)
        started = time.process_time()
        training_step(model.head, model.head, method, optimizer, batch, clock)
        seconds.append(time.process_time() - started)
    return {
        "estimator": name, "items": n, "growth": peak() - before,
        "median_s": median(seconds[WARM:]), "fastest_s": min(seconds[WARM:]),
    }  # fmt: skip


def trained(dataset: Dataset, settings: dict[str, Any]) -> dict[str, Any]:
    """One linear training; what it scored and recovered."""
    recipe = Recipe(method="role", batch_size=BATCH, expected_positives=1.5, **settings)
    training, started = fit_for(make_task(dataset, recipe), recipe), time.perf_counter()
    for _ in training.epochs():
        pass
    found = summarise(training, None, time.perf_counter() - started).to_json()
    estimates = found["recovery_estimates"]
    return {
        "estimator": recipe.options["estimator"], "lr": recipe.lr, "seed": recipe.seed,
        "val_map": found["val_map"], "test_map": found["test_map"],
        "epoch": found["best_epoch"], "seconds": found["seconds"],
        "predictions": found["recovery"]["recovery_map"],
        "predictions_hidden": found["recovery"]["hidden_map"],
        "estimates": estimates["recovery_map"], "estimates_hidden": estimates["hidden_map"],
    }  # fmt: skip


def print_memory(options: RoleOptions) -> list[dict[str, Any]]:
    rows = []
    print("memory, MB     items x classes      learned   optimizer     noted     total")
    for n, n_classes in (VOC, IMAGENET):
        for name in ("dense", "factored", "network"):
            row = counted_bytes(name, n, n_classes, options)
            parts = [row["learned"], row["optimizer"], row["noted"]]
            values = "".join(f"{part / 1e6:11.2f}" for part in [*parts, sum(parts)])
            print(f"{name:10s}{n:13,d} x {n_classes:5,d}{values}")
            rows.append({"estimator": name, "items": n, "classes": n_classes} | row)
    return rows


def print_steps(options: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    print("\nsteps                 items   ms per step   fastest   peak growth, MB")
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1)
    with pool:
        for name, n in STEPS:
            row = pool.submit(timed_steps, name, n, options).result()
            times = f"{1e3 * row['median_s']:14.2f}{1e3 * row['fastest_s']:10.2f}"
            print(f"{name:10s}{n:17,d}{times}{row['growth'] / 1e6:18.0f}", flush=True)
            rows.append(row)
    return rows


def print_recovery(args: argparse.Namespace) -> list[dict[str, Any]]:
    torch.set_num_threads(1)
    dataset = load_source(args.data, features=args.features)
    print(f"\n{dataset.name}: mAP in per cent; recovered = training items against all their labels")
    print("                               test       val     recovered by: predictions   estimates")
    print(
        "estimator       lr   epoch   mAP   sd     mAP      all   hidden      all   hidden      s"
    )
    rows: list[dict[str, Any]] = []
    for name in args.estimators:
        options = {"estimator": name, "rank": args.rank, "hidden": args.hidden}
        found: dict[float, list[dict[str, Any]]] = {}
        for lr in args.lr:
            settings = {"lr": lr, "epochs": args.epochs, "options": options}
            found[lr] = [trained(dataset, settings | {"seed": seed}) for seed in args.seeds]
            rows += found[lr]
        best = max(found, key=lambda lr: mean(row["val_map"] for row in found[lr]))
        for lr, runs in found.items():
            show = {key: mean(row[key] for row in runs) for key in runs[0] if key != "estimator"}
            spread = float(np.std([row["test_map"] for row in runs], ddof=1)) if runs[1:] else 0.0
            columns = ("val_map", "predictions", "predictions_hidden", "estimates",
                       "estimates_hidden")  # fmt: skip
            print(
                f"{name:10s}{lr:8.0e}{show['epoch']:8.1f}{100 * show['test_map']:6.2f}"
                f"{100 * spread:5.2f}"
                + "".join(f"{100 * show[key]:9.2f}" for key in columns)
                + f"{show['seconds']:7.0f}{'  <- best' if lr == best else ''}",
                flush=True,
            )
    return rows


def ratios_of(memory: list[dict[str, Any]], steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the estimators that do not keep a number per item and class are for."""
    size = {row["estimator"]: row["learned"] + row["optimizer"] + row["noted"]
            for row in memory if row["items"] == IMAGENET[0]}  # fmt: skip
    took = {(row["estimator"], row["items"]): row["fastest_s"] for row in steps}
    ratios = []
    for name in ("factored", "network"):
        less, many = size["dense"] / size[name], took[name, IMAGENET[0]]
        few = took[name, 10_000]
        ratios.append({
            "name": f"ROLE's estimator {name}, times less memory than dense at ImageNet's size",
            "value": less, "goal": 10.0, "kind": "at least",
            "detail": f"{size[name] / 1e6:.0f} MB against {size['dense'] / 1e6:.0f} MB",
        })  # fmt: skip
        ratios.append({
            "name": f"ROLE's estimator {name}, a step at 1,281,167 items over one at 10,000",
            "value": many / few, "goal": 1.5, "kind": "at most",
            "detail": f"{1e3 * many:.2f} ms against {1e3 * few:.2f} ms",
        })  # fmt: skip
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", help="without data, memory and steps only")
    parser.add_argument("--features", action="append", default=[], type=Path)
    parser.add_argument("--lr", nargs="+", type=float, default=[1e-2, 1e-3, 1e-4])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--estimators", nargs="+", default=["dense", "factored", "network"])
    parser.add_argument("--rank", type=int, default=RoleOptions.rank)
    parser.add_argument("--hidden", type=int, default=RoleOptions.hidden)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    sizes = {"rank": args.rank, "hidden": args.hidden}
    memory, steps = print_memory(RoleOptions(**sizes)), print_steps(sizes)
    result = {"ratios": ratios_of(memory, steps), "memory": memory, "steps": steps}
    if args.data:
        result["recovery"] = print_recovery(args)
    if args.json:
        args.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
