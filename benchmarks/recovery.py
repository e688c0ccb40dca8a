"""Recovery beside every other method in the same kernel head, and what a seen label is worth.

    python benchmarks/recovery.py DATA --ucmerced-features FILE --out DIR [--sets voc ucmerced ...]

DATA holds VOCdevkit, voc2012_features, voc2012_resnet50_features, ucmerced and mulan. One positive
per item is seen (`observe_seed` 1200, 1, 2; protocol of Cole et al. 2021). The other methods are
trained in the kernel head too, with several learning rates; their rate and epoch are chosen on all
labels of the validation items, which recovery never looks at. "recovery, training items" learns
from the training items alone, "recovery" also from the seen labels of the validation items.

Label efficiency: the number of fully labelled items with which ridge regression in the same head
reaches the same test mAP, over n / k (n items with one seen label each, k labels per item).

Ablation: the parts that `plusone ablate` varies, more rounds, and the true k, on training and
validation items.

Finished parts are kept in DIR, so a stopped run goes on. The tables are in DIR/recovery.md.
`--rows` measures some rows only: names of methods, "ablation", "full" and "full + val" (all
labels).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch

from plusone.closed_form.gamma import SAMPLED, best_kernel
from plusone.closed_form.kernel import KernelMap, n_landmarks
from plusone.closed_form.ridge import PENALTIES, Ridge, regression
from plusone.compare.results_table import markdown
from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.data.source import load_source
from plusone.inputs.task import Task, make_task
from plusone.io.files import write_json, write_text
from plusone.methods import get_method
from plusone.metrics import mean_average_precision
from plusone.recipe import Recipe
from plusone.training.closed_fit import fit_for
from plusone.training.stack import AloneError, train_stacked
from plusone.training.trainer import Training
from plusone.types import TrainLabels

SEEDS = (1200, 1, 2)
RATES = (1e-1, 3e-2, 1e-2, 3e-3)
METHODS = ("an", "wan", "softmax", "epr", "role", "en", "lasd", "em", "gr")
LARGE = ("voc", "voc_r50", "bibtex", "corel5k", "digits")  # where each takes minutes
FEWER = dict.fromkeys(LARGE, ("an", "softmax", "em", "gr"))
OWN = {
    "recovery": {}, "recovery, training items": {"use_validation": False},
    "ridge on the seen labels": {"method": "ridge"},
}  # fmt: skip
LINEAR = "recovery, linear head"
FULL = {"full": False, "full + val": True}  # all labels; whether of validation items too
SIZES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0)


def sources(data: Path, ucmerced: Path | None) -> dict[str, Callable[[], Dataset]]:
    """How to load each data set."""

    def voc(name: str) -> Callable[[], Dataset]:
        return lambda: load_source(str(data / "VOCdevkit"), features=[data / name])

    def mulan(name: str) -> Callable[[], Dataset]:
        return lambda: load_source(str(data / "mulan" / f"{name}.npz"))

    made = {name: mulan(name) for name in ("yeast", "emotions", "corel5k", "bibtex")}
    made |= {"voc": voc("voc2012_features"), "voc_r50": voc("voc2012_resnet50_features")}
    made["digits"] = lambda: load_source("digits-features")
    if ucmerced is not None:
        labels = str(data / "ucmerced" / "labels.csv")
        made["ucmerced"] = lambda: load_source(labels, features=[ucmerced])
    return made


def settings(method: str, seed: int, **more: Any) -> Recipe:
    """The recipe of a training."""
    given = {
        "method": method, "head": "kernel", "seed": 0, "observe": "single", "observe_seed": seed,
        "split_seed": 1200, "probe": "off", "threads": 1, "epochs": 20, "batch_size": 64,
    }  # fmt: skip
    return Recipe(**given | more)  # type: ignore[arg-type]


def test_map(training: Training) -> float:
    """Test mAP in per cent."""
    test = training.task.test
    assert test is not None
    assert test.truth is not None
    return 100 * mean_average_precision(training.predict(test), test.truth.dense(), empty="zero")


def trained(task: Task, recipes: list[Recipe]) -> list[Training]:
    """Finished runs, as one stack where possible."""
    if len(recipes) > 1:
        with suppress(AloneError):
            return [training for training, _ in train_stacked(task, recipes)]
    made = [fit_for(task, recipe) for recipe in recipes]
    for training in made:
        for _ in training.epochs():
            pass
    return made


def method_map(dataset: Dataset, method: str, seed: int) -> dict[str, float]:
    """Test mAP of a method; rate and epoch are chosen on all labels of the validation items."""
    recipes = [settings(method, seed, lr=lr, expected_positives="truth") for lr in RATES]
    task = make_task(dataset, recipes[0])
    best = max(trained(task, recipes), key=lambda each: each.best.score if each.best else -1.0)
    return {"map": test_map(best), "lr": best.recipe.lr}


def own_map(dataset: Dataset, more: dict[str, Any], seed: int) -> dict[str, float]:
    """Test mAP of a closed form, which looks at seen labels only."""
    recipe = settings(**{"method": "recovery", "seed": seed, "select_on": "observed"} | more)
    started = time.perf_counter()
    (training,) = trained(make_task(dataset, recipe), [recipe])
    return {"map": test_map(training), "seconds": time.perf_counter() - started}


def ablation_maps(dataset: Dataset, seed: int) -> dict[str, float]:
    """Test mAP of recovery and its variants, all in the same kernel."""
    training = fit_for(task := make_task(dataset, recipe := settings("recovery", seed)), recipe)
    training.inputs.enter_space()
    assert training.inputs.space is not None
    assert task.test is not None
    assert task.test.truth is not None
    ridge, x = Ridge(training.inputs.space.vectors), training.inputs.space.of(task.test.inputs).x
    observed = LabelMatrix.concatenate([task.train.observed, task.val.observed])
    truth, k = task.test.truth.dense(), float(task.train.truth.per_item(1).mean())  # type: ignore[union-attr]
    info = get_method("recovery")
    variants = [(part.name, dict(part.options), None) for part in info.ablation]
    variants += [("eight rounds", {"rounds": 8}, None), ("the true k", {}, k)]
    maps = {}
    for label, options, known in variants:
        method = info.build(TrainLabels(observed, known), info.make_options(options))
        with torch.no_grad():
            solution = method.solve(ridge, observed)
            scores = torch.addmm(solution.bias, x, solution.weight.T)
        maps[label] = 100 * mean_average_precision(scores, truth, empty="zero")
    return maps


def full_maps(dataset: Dataset, *, val: bool) -> dict[str, Any]:
    """Test mAP of ridge regression on all labels of more and more items, in the same head."""
    task = make_task(dataset, settings("an", 1200))
    parts = (task.train, task.val) if val else (task.train,)
    x = torch.cat([part.inputs.x for part in parts]).float()  # type: ignore[attr-defined]
    known = LabelMatrix.concatenate([part.truth for part in parts])  # type: ignore[misc]
    y = torch.from_numpy(known.dense() == 1).float()
    assert task.test is not None
    assert task.test.truth is not None
    test, truth = task.test.inputs.x.float(), task.test.truth.dense()  # type: ignore[attr-defined]
    some = torch.linspace(0, len(x) - 1, min(len(x), SAMPLED)).long()
    kind, gamma = best_kernel(x[some], known.take(some))
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    points = []
    for size in SIZES:
        rows = order[: max(20, round(size * len(x)))]
        kernel = KernelMap(x.shape[1], n_landmarks(len(rows), y.shape[1]), gamma, kind)
        ridge = Ridge(kernel.fit(x[rows]))
        solved = [regression(ridge, y[rows], each) for each in (0.005, 0.01, *PENALTIES)]
        best, _ = min(solved, key=lambda each: float((each[1] - y[rows]).square().sum()))
        scores = torch.cat([best.predict(kernel(part)) for part in test.split(4096)])
        points.append((len(rows), 100 * mean_average_precision(scores, truth, empty="zero")))
    return {"points": points, "k": float(y.sum(1).mean()), "items": len(x)}


def efficiency(full: dict[str, Any], value: float) -> float:
    """Fully labelled items that give this mAP, over n / k."""
    sizes, maps = np.array(full["points"]).T
    maps = np.maximum.accumulate(maps)
    needed = float(np.interp(value, maps, sizes)) if value <= maps[-1] else float(sizes[-1])
    return needed / (full["items"] / full["k"])


def measure(
    name: str, dataset: Dataset, folder: Path, seeds: list[int], rows: list[str] | None
) -> dict[str, list[dict[str, Any]]]:
    """The figures of a data set by row, one for each seed; finished ones are read.

    Args:
        name: Of the data set.
        dataset: The data set.
        folder: Where finished figures are kept.
        seeds: Of the seen labels.
        rows: Which rows; by default all, or fewer methods where each takes minutes.
    """
    own = OWN | {LINEAR: {"head": "linear"}}
    wanted = rows or [*own, "ablation", *FULL, *FEWER.get(name, METHODS)]
    results: dict[str, list[dict[str, Any]]] = {row: [] for row in wanted}
    for seed in seeds:
        for row in wanted:
            if row in FULL and results[row]:
                continue  # there is nothing to draw
            if row in own:
                make = partial(own_map, dataset, own[row], seed)
            elif row == "ablation":
                make = partial(ablation_maps, dataset, seed)
            elif row in FULL:
                make = partial(full_maps, dataset, val=FULL[row])
            else:
                make = partial(method_map, dataset, row, seed)
            part = "".join(c if c.isalnum() or c == "_" else "-" for c in f"{name}-{row}-{seed}")
            file = folder / "parts" / f"{part}.json"
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                started = time.perf_counter()
                write_json(file, made := make())
                seconds = time.perf_counter() - started
                print(f"{part}: {made.get('map', '')} in {seconds:.0f} s", flush=True)
            results[row].append(json.loads(file.read_text(encoding="utf-8")))
    return results


def table(results: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    """Test mAP by method and data set, label efficiency and ablation."""
    names = list(results)

    def row(label: str, cell: Callable[[dict[str, list[dict[str, Any]]]], str]) -> list[str]:
        return [label, *(cell(results[name]) for name in names)]

    def mean(rows: dict[str, list[dict[str, Any]]], label: str, key: str = "map") -> str:
        values = [each[key] for each in rows.get(label, [])]
        spread = f" ± {stdev(values):.2f}" if len(values) > 1 and key == "map" else ""
        return f"{fmean(values):.2f}{spread}" if values else "-"

    def worth(rows: dict[str, list[dict[str, Any]]], label: str, full: str) -> str:
        if not rows.get(label) or not rows.get(full):
            return "-"
        return f"{efficiency(rows[full][0], fmean(each['map'] for each in rows[label])):.2f}"

    def last(rows: dict[str, list[dict[str, Any]]], full: str) -> str:
        return f"{rows[full][0]['points'][-1][1]:.2f}" if rows.get(full) else "-"

    maps = [row(m, lambda rows, m=m: mean(rows, m)) for m in (*OWN, LINEAR, *METHODS)]
    both = (("all labels, training items", "full"), ("all labels", "full + val"))
    maps += [row(label, lambda rows, key=key: last(rows, key)) for label, key in both]
    worths = [
        row(label, lambda rows, label=label, full=full: worth(rows, label, full))
        for label, full in (("recovery, training items", "full"), ("recovery", "full + val"))
    ]
    ablations = [each for rows in results.values() for each in rows.get("ablation", [])]
    cut = [
        row(part, lambda rows, part=part: mean(rows, "ablation", part))
        for part in dict.fromkeys(part for each in ablations for part in each)
    ]
    tables = [("test mAP", maps), ("label efficiency", worths), ("ablation, test mAP", cut)]
    return "\n\n".join(markdown([title, *names], lines) for title, lines in tables) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--out", type=Path, default=Path("recovery"))
    parser.add_argument("--sets", nargs="+", default=None)
    parser.add_argument("--rows", nargs="+", default=None)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    known = sources(given.data, given.ucmerced_features)
    results = {}
    for name in given.sets or list(known):
        results[name] = measure(name, known[name](), given.out, given.seeds, given.rows)
    text = table(results)
    write_text(given.out / "recovery.md", text)
    print(text)


if __name__ == "__main__":
    main()
