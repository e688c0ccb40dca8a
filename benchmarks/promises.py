"""What is promised and what is true, over many draws of items and seen labels.

    python benchmarks/promises.py DATA --ucmerced-features FILE --keep FOLDER [--out FILE]

DATA holds VOCdevkit, voc2012_features and mulan. A draw takes some items of a data set, and one
label of each as seen. Scores are those of `recovery`, cross-fitted in 5 folds. Two Markdown tables
are printed:

1. labels that are accepted at 90 %, without an audit and with 60, 100 and 200 audited items: in
   how many draws some are accepted, how many, their true precision on average, the mean lower
   bound, and in how many of the draws with a bound it was true;
2. k: the truth, the estimate, its range, and how often the range holds the truth.

Finished draws stay in FOLDER as JSON lines, and a stopped run goes on with the others. From 2,000
items on, ten draws of labels share the draw of their items, whose kernel takes the time.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from priors import load

from plusone.closed_form.kernel import KernelMap, n_landmarks
from plusone.closed_form.ridge import Ridge
from plusone.data.matrix import LabelMatrix
from plusone.io.files import write_text
from plusone.methods import get_method
from plusone.probabilities import labels_per_item
from plusone.probabilities.accept import accept
from plusone.probabilities.answers import Answers
from plusone.probabilities.k import ridge_scores
from plusone.probabilities.unseen_labels import Calibrated, calibrate, correct
from plusone.types import TrainLabels

NAMES = ("voc", "ucmerced", "yeast", "digits-features")
SIZES = (300, 500, 1500, 5000)
AUDITS = (60, 100, 200)
TARGET = 0.9
FOLDS = 5
SHARED, SHARING = 2000, 10  # from so many items on, so many draws share their items


def seen_labels(truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One positive of each item, int8 `[n, L]`."""
    label = (truth * (rng.random(truth.shape) + 1e-9)).argmax(axis=1)
    return np.eye(truth.shape[1], dtype=np.int8)[label]


@dataclass(frozen=True)
class Items:
    """Items of a draw, and what their kernels give.

    Args:
        truth: All labels, `[n, L]`.
        space: Vectors of all items in the space of their kernel.
        folds: For each fold its items, the others, a regression on the others, and the vectors of
            the items in the space of the others.
    """

    truth: np.ndarray
    space: torch.Tensor
    folds: tuple[tuple[np.ndarray, np.ndarray, Ridge, torch.Tensor], ...]

    @classmethod
    def of(cls, x: torch.Tensor, truth: np.ndarray, fold: np.ndarray | None = None) -> Items:
        if fold is None:
            fold = np.random.default_rng(0).permutation(len(x)) % FOLDS
        folds = []
        with torch.no_grad():
            space = KernelMap(x.shape[1], n_landmarks(len(x))).fit(x)
            for number in range(FOLDS):
                own, others = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
                kernel = KernelMap(x.shape[1], n_landmarks(len(others)))
                folds.append((own, others, Ridge(kernel.fit(x[others])), kernel(x[own])))
        return cls(truth, space, tuple(folds))


def recovery_scores(items: Items, observed: LabelMatrix) -> np.ndarray:
    """Cross-fitted scores of `recovery`, `[n, L]`."""
    info = get_method("recovery")
    scores = np.zeros(observed.shape)
    with torch.no_grad():
        for own, others, ridge, vectors in items.folds:
            seen = observed.take(others)
            method = info.build(TrainLabels(seen), info.options())
            solution = method.solve(ridge, torch.from_numpy(seen.dense()).float())
            logits = torch.addmm(solution.bias, vectors, solution.weight.T)
            scores[own] = method.probabilities(logits).numpy()
    return scores


def measure(
    found: Calibrated, observed: np.ndarray, truth: np.ndarray, groups: np.ndarray | None = None
) -> dict[str, Any]:
    made = accept(found, observed, TARGET, groups=groups)
    return {"accepted": made.count, "right": int(truth[made.mask].sum()), "low": made.low}


def one_draw(items: Items, seed: int) -> dict[str, Any]:
    """What is promised and true of one draw of seen labels."""
    truth = items.truth
    rng = np.random.default_rng([seed, len(truth)])
    states = seen_labels(truth, rng)
    observed = LabelMatrix.from_dense(states)
    k = labels_per_item(ridge_scores(Ridge(items.space), observed), observed)
    scores = recovery_scores(items, observed)
    result: dict[str, Any] = {"k": [float(truth.sum(1).mean()), k.k, k.low, k.high]}
    result["hidden"] = int((truth & (states == 0)).sum())
    blind = calibrate(scores, observed, k=k)
    result["0"], before = measure(blind, states, truth), blind.probabilities
    for audited in AUDITS:
        rows = rng.permutation(len(truth))[:audited]
        at, label = np.nonzero(states[rows] == 0)
        answers = Answers(rows[at], label, truth[rows[at], label], rows)
        found = correct(before, states, answers, before[answers.row, label])
        result[str(audited)] = measure(found, states, truth)
    return result


def draws(name: str, size: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """All draws of one size, from the file or measured."""
    path = args.keep / f"{name}-{size}.jsonl"
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if len(done) >= args.draws:
        return done[: args.draws]
    dataset = load(name, args.data, args.ucmerced_features)
    every = dataset.table.truth.dense() == 1
    usable = np.flatnonzero(every.any(axis=1))
    drawn: tuple[int, Items] | None = None
    for seed in range(len(done), args.draws):
        number = seed // SHARING if min(size, len(usable)) >= SHARED else seed
        if drawn is None or drawn[0] != number:
            rows = np.random.default_rng([number, size]).permutation(usable)[:size]
            x = torch.from_numpy(np.asarray(dataset.features[rows], dtype=np.float32))
            drawn = (number, Items.of(x.reshape(len(x), -1), every[rows]))
        done.append(one_draw(drawn[1], seed) | {"items": len(drawn[1].truth)})
        with path.open("a") as file:
            file.write(json.dumps(done[-1]) + "\n")
    print(name, size, flush=True)
    return done


def percent(values: list[float]) -> str:
    return f"{100 * float(np.mean(values)):.1f}" if values else "-"


def promised(name: str, size: int, found: list[dict[str, Any]]) -> list[str]:
    """Rows of the first table."""
    lines = []
    for audit in (0, *AUDITS):
        runs = [(draw[str(audit)], draw["hidden"]) for draw in found]
        some = [(run, hidden) for run, hidden in runs if run["accepted"]]
        precision = [run["right"] / run["accepted"] for run, _ in some]
        bounds = [
            (run["low"], true)
            for (run, _), true in zip(some, precision, strict=True)
            if run["low"] is not None
        ]
        kept = sum(true >= low - 1e-12 for low, true in bounds)
        lines.append(
            f"| {name} | {found[0]['items']} | {audit or 'none'} | {len(some)} of {len(found)} | "
            f"{np.mean([run['accepted'] for run, _ in runs]):.0f} | "
            f"{percent([run['right'] / hidden for run, hidden in runs])} | {percent(precision)} | "
            f"{percent([low for low, _ in bounds])} | "
            f"{f'{kept} of {len(bounds)}' if bounds else '-'} |"
        )
    return lines


def estimated(name: str, found: list[dict[str, Any]]) -> str:
    """A row of the second table."""
    true, k, low, high = np.array([draw["k"] for draw in found]).T
    held = int(((low <= true + 1e-9) & (true <= high + 1e-9)).sum())
    return (
        f"| {name} | {found[0]['items']} | {true.mean():.2f} | {k.mean():.2f} | "
        f"{100 * np.abs(k / true - 1).mean():.0f} % | {low.mean():.2f} to {high.mean():.2f} | "
        f"{held} of {len(found)} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the data sets")
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--names", nargs="+", default=list(NAMES))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--keep", type=Path, default=Path("results/promises"))
    parser.add_argument("--out", type=Path, help="file for the tables")
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.keep.mkdir(parents=True, exist_ok=True)
    first = [
        "| data | items | audited | draws with accepted labels | accepted | missing labels found | "
        "true precision | lower bound | bound true |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    second = [
        "| data | items | true k | estimate | error | range | range holds k |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for size in args.sizes:
        for name in args.names:
            found = draws(name, size, args)
            first += promised(name, size, found)
            second.append(estimated(name, found))
    text = "\n".join([*first, "", *second, ""])
    print(text)
    if args.out is not None:
        write_text(args.out, text)


if __name__ == "__main__":
    main()
