"""What truthful answers to questions change, for every method.

    python benchmarks/answers.py DATA --ucmerced-features FILE [--keep FOLDER]

DATA is the folder with VOCdevkit and voc2012_features. All but one positive per item are hidden,
`recovery` suggests the missing labels, and the truth answers 100, 500 and 2,000 questions of a
review in three orders. Every method is trained on the labels before and after the answers, with the
same seed, and measured on the test items. Linear heads of all label tables are trained as one
stack; the rate follows the rule for the method, the epoch is chosen on seen labels. k is the true
one. Prints a table for each data set. With `--keep` finished measurements stay in a folder, and a
stopped benchmark resumes.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from plusone.autorecipe import compose, facts_of
from plusone.closed_form.ridge import Ridge
from plusone.compare.loop import Journal, reviewed
from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.data.source import load_source
from plusone.data.table import LabelTable
from plusone.inputs.task import Task, make_task, split_and_observe
from plusone.methods import METHODS, get_method
from plusone.metrics import mean_average_precision
from plusone.metrics.seen_labels import weighted_auc
from plusone.models.heads import LinearHead
from plusone.recipe import Recipe
from plusone.reviewing import apply_answers
from plusone.seeds import generator
from plusone.suggestions.find import suggest
from plusone.training.closed_fit import fit_for
from plusone.training.stack import StackedHead
from plusone.training.step import training_step
from plusone.types import Batch, TrainLabels

SEEDS = (1200, 1, 2)  # of the hidden labels
ORDERS, NUMBERS = ("worth", "balanced", "random"), (100, 500, 2000)
LIGHT = {"head": "auto", "probe": "off", "select_on": "observed"}
SINGLE = [name for name, info in METHODS.items() if info.scheme == "single"]
STACKED = [name for name in SINGLE if METHODS[name].alone is None]
SOLVED = [name for name in SINGLE if METHODS[name].closed_form]
MAIN = ("an", "wan", "em", "gr", "role", "lasd", "epr", "softmax", "splc", "ll_r", "recovery")
# The title, the methods, and items per step and epochs where steps are taken.
PLANS = {
    "voc500": ("VOC 2012, 500 items", [*STACKED, *SOLVED, "role"], 16, 15),
    "ucmerced": ("UC Merced", [*STACKED, *SOLVED, "role"], 32, 15),
    "digits": ("digits", MAIN, 64, 8),
    "voc": ("VOC 2012", MAIN, 64, 8),
}


@dataclass(frozen=True)
class Asked:
    """A data set and its labels before and after answers, the first before any."""

    dataset: Dataset
    task: Task
    tables: Sequence[LabelTable]
    yes: Sequence[int]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--ucmerced-features", type=Path, required=True)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--on", nargs="+", choices=PLANS, default=list(PLANS))
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in args.on:
            measure(name, args, Journal(folder / f"{name}.jsonl", {"data": name}))


def measure(name: str, args: argparse.Namespace, journal: Journal) -> None:
    """Measures on one data set and prints its table."""
    title, methods, size, epochs = PLANS[name]
    sizes = {"batch_size": size, "epochs": epochs}
    gains: dict[str, list[list[float]]] = {}
    plans = [(name, own_weights(name)) for name in methods]
    if name == "voc500":
        plans += [(method, "full") for method in MAIN if method in STACKED]
    yes = []
    for seed in SEEDS:
        made: list[Asked] = []

        def asked(seed: int = seed, made: list[Asked] = made) -> Asked:
            if not made:
                made.append(ask(load(name, args, seed), seed))
            return made[0]

        yes.append(journal.get(f"{seed} yes", lambda: {"yes": list(asked().yes)})["yes"])
        for method, weights in plans:
            value = journal.get(
                f"{seed} {method} {weights}",
                lambda m=method, w=weights: {"maps": maps(asked(), m, w, sizes)},
            )
            gains.setdefault(f"{method} {weights}", []).append(value["maps"])
    show(title, methods, {key: np.array(value) for key, value in gains.items()}, np.mean(yes, 0))


def own_weights(method: str) -> str:
    """What seen negatives weigh by default."""
    return str(METHODS[method].defaults.get("seen_negatives", "weighted"))


def load(name: str, args: argparse.Namespace, seed: int) -> Dataset:
    """The data; of voc500, the items are drawn by the seed."""
    if name == "digits":
        return load_source("digits-features")
    if name == "ucmerced":
        labels = str(args.data / "ucmerced" / "labels.csv")
        return load_source(labels, features=[args.ucmerced_features])
    dataset = load_source(str(args.data / "VOCdevkit"), features=[args.data / "voc2012_features"])
    if name == "voc":
        return dataset
    tested = dataset.table.rows_of("test")
    others = np.setdiff1d(np.arange(len(dataset.table)), tested)
    drawn = np.random.default_rng(seed).permutation(others)[:500]
    rows = np.sort(np.concatenate([drawn, tested]))
    assert dataset.features is not None
    features = np.asarray(dataset.features[rows])
    return replace(dataset, table=dataset.table.take(rows), features=features)


def recipe_for(dataset: Dataset, method: str, **given: object) -> Recipe:
    """The settings by the rules, for labels that are used as they are."""
    return compose(
        lambda share: facts_of(dataset, share), {"method": method, **LIGHT, **given}
    ).recipe


def ask(dataset: Dataset, seed: int) -> Asked:
    """Hides labels, suggests them, and lets the truth answer."""
    single = recipe_for(dataset, "recovery", observe="single", observe_seed=seed)
    before = split_and_observe(dataset.table, single)
    given = single.model_copy(update={"observe": "given"})
    blind = replace(dataset, table=replace(before, truth=None))
    suggestions = suggest(blind, given)
    assert before.truth is not None
    tables, yes = [before], []
    for order in ORDERS:
        for number in NUMBERS:
            chosen = reviewed(suggestions, order, number, 0, before.truth)
            row, label = suggestions.row[chosen], suggestions.label[chosen].astype(np.int64)
            answer = before.truth.dense(row)[np.arange(len(row)), label] == 1
            tables.append(apply_answers(before, row, label, answer))
            yes.append(int(answer.sum()))
    task = make_task(replace(dataset, table=before), given)
    return Asked(dataset, task, tables, yes)


def maps(asked: Asked, method: str, weights: str, sizes: dict[str, int]) -> list[float]:
    """Test mAP in per cent after training on each table."""
    truth = asked.dataset.table.truth
    assert truth is not None
    k = float(truth.take(asked.dataset.table.rows_of("train")).per_item(1).mean())
    given = {"observe": "given", "seen_negatives": weights, "expected_positives": k}
    settings = recipe_for(asked.dataset, method, **given, **sizes)
    how: Callable[[Asked, Recipe], list[Tensor]] = alone
    if method in STACKED:
        how = stacked
    elif method in SOLVED:
        how = solved
    assert asked.task.test is not None
    assert asked.task.test.truth is not None
    labels = asked.task.test.truth.dense() == 1
    return [100 * mean_average_precision(scores, labels) for scores in how(asked, settings)]


def stacked(asked: Asked, settings: Recipe) -> list[Tensor]:
    """Test scores of linear heads, one per table, that are trained as one stack."""
    task = asked.task
    training = fit_for(task, settings)
    first, method, size = training.model.head, training.method, settings.batch_size
    assert isinstance(first, LinearHead)
    head = StackedHead([[copy.deepcopy(first) for _ in asked.tables]])
    optimizer = torch.optim.Adam(head.parameters(), settings.lr, fused=True)
    train, val = (observed(asked, split) for split in ("train", "val"))
    x, x_val, x_test = (part.inputs.x.float() for part in (task.train, task.val, task.test))
    best: list[tuple[float, Tensor, Tensor]] = [(-1.0, first.weight, first.bias)] * len(train)
    for epoch in range(training.stages[0].epochs):
        training.epoch = epoch
        order = torch.randperm(len(x), generator=generator(settings.seed, "order", epoch))
        for step, index in enumerate(torch.split(order, size)):
            views = (x[index].expand(len(train), -1, -1),) * len(method.views)
            batch = Batch(views, train[None, :, index], index.expand(len(train), -1))
            clock, weigh = training.clock(step), settings.seen_negatives == "weighted"
            training_step(head, head, method, optimizer, batch, clock, weigh=weigh)
        with torch.no_grad():
            weight, bias = head.weight[0], head.bias[0]
            for place, seen in enumerate(val):
                p = method.probabilities(x_val @ weight[place].T + bias[place])
                score = weighted_auc(p, seen)
                if score > best[place][0]:
                    best[place] = (score, weight[place].clone(), bias[place].clone())
    with torch.no_grad():
        return [method.probabilities(x_test @ weight.T + bias) for _, weight, bias in best]


def solved(asked: Asked, settings: Recipe) -> list[Tensor]:
    """Test scores of a closed form; all tables share the vectors of the items."""
    training = fit_for(asked.task, settings)
    training.inputs.enter_space()
    assert training.inputs.space is not None
    assert asked.task.test is not None
    ridge, x = (
        Ridge(training.inputs.space.vectors),
        training.inputs.space.of(asked.task.test.inputs).x,
    )
    seen = torch.cat([observed(asked, split) for split in ("train", "val")], 1)
    scores = []
    for table, labels in zip(asked.tables, seen, strict=True):
        own = TrainLabels(table.labels.take(table.rows_of("train")), training.k)
        info = get_method(settings.method)
        with torch.no_grad():
            states = LabelMatrix.from_dense(labels.numpy().astype(np.int8))
            solution = info.build(own, info.make_options({})).solve(ridge, states)
            scores.append(torch.addmm(solution.bias, x, solution.weight.T))
    return scores


def alone(asked: Asked, settings: Recipe) -> list[Tensor]:
    """Test scores of runs one by one."""
    scores = []
    for table in asked.tables:
        training = fit_for(make_task(replace(asked.dataset, table=table), settings), settings)
        list(training.epochs())
        assert training.task.test is not None
        scores.append(training.predict(training.task.test))
    return scores


def observed(asked: Asked, split: str) -> Tensor:
    """Seen labels of a split under each table, `[T, N, L]`."""
    rows = asked.tables[0].rows_of(split)
    return torch.from_numpy(np.stack([table.labels.dense(rows) for table in asked.tables])).float()


def show(title: str, methods: Sequence[str], maps: dict[str, np.ndarray], yes: np.ndarray) -> None:
    """Prints the table of a data set; maps are `[seeds, 1 + orders x numbers]`."""
    shares = yes.reshape(len(ORDERS), len(NUMBERS)) / NUMBERS
    orders = ", ".join(
        f"`{order}` {' / '.join(f'{share:.0%}' for share in row)}"
        for order, row in zip(ORDERS, shares, strict=True)
    )
    compared = any(f"{name} full" in maps and own_weights(name) == "weighted" for name in methods)
    print(f"\n**{title}**; share of answers yes after 100 / 500 / 2,000: {orders}\n")
    last = " least, full weight |" if compared else ""
    print(f"| method | before | 100 | 500 | 2,000 | least | noise |{last}")
    print("| --- |" + " ---: |" * (7 if compared else 6))
    everything = []
    for method in methods:
        values = maps[f"{method} {own_weights(method)}"]
        gains = values[:, 1:] - values[:, :1]
        everything.append(gains.mean(0))
        noise = gains.std(0, ddof=1).mean() / len(gains) ** 0.5
        by_number = gains.mean(0).reshape(len(ORDERS), len(NUMBERS)).mean(0)
        cells = [f"{values[:, 0].mean():.2f}", *(f"{gain:+.2f}" for gain in by_number)]
        cells += [f"{gains.mean(0).min():+.2f}", f"{noise:.2f}"]
        if compared:
            full = maps.get(f"{method} full")
            cells.append(
                "" if full is None else f"{(full[:, 1:] - full[:, :1]).mean(0).min():+.2f}"
            )
        print(f"| `{method}` | {' | '.join(cells)} |")
    whole = np.concatenate(everything)
    print(
        f"\n{len(whole)} gains of {len(methods)} methods: mean {whole.mean():+.2f}, least "
        f"{whole.min():+.2f}; {(whole < -0.3).sum()} below -0.3.",
        flush=True,
    )


if __name__ == "__main__":
    main()
