"""What is promised and what is true, over many draws of items and seen labels.

    python benchmarks/promises.py DATA --ucmerced-features FILE --keep FOLDER [--out FILE]

DATA holds VOCdevkit, voc2012_features and mulan. A draw takes some items of a data set, and one
label of each as seen. Scores are the leave-one-out predictions of `recovery`. Two Markdown tables
are printed:

1. labels that are accepted at 90 %, without an audit and with 60, 100 and 200 audited items: in
   how many draws some are accepted, how many, their true precision on average, the mean lower
   bound, and in how many of the draws with a bound it was true;
2. k: the truth, the estimate, its range, and how often the range holds the truth.

Finished draws stay in FOLDER as JSON lines, and a stopped run goes on with the others. From 2,000
items on, five draws of labels share the draw of their items, whose kernel takes the time.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plusone.data.matrix import LabelMatrix
from plusone.io.files import write_text
from plusone.methods import get_method
from plusone.models.kernel import KernelMap, n_landmarks
from plusone.models.ridge import Ridge
from plusone.priors import labels_per_item
from plusone.priors.features import ridge_scores
from plusone.suggest.accept import accept
from plusone.suggest.answers import Answers
from plusone.suggest.calibration import Calibrated, calibrate, correct
from plusone.types import TrainLabels
from priors import load

NAMES = ("voc", "ucmerced", "yeast", "digits-features")
SIZES = (300, 500, 1500, 5000)
AUDITS = (60, 100, 200)
TARGET = 0.9
SHARED, SHARING = 2000, 5  # from so many items on, so many draws share their items


def seen_labels(truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One positive of each item, int8 `[n, L]`."""
    label = (truth * (rng.random(truth.shape) + 1e-9)).argmax(axis=1)
    return np.eye(truth.shape[1], dtype=np.int8)[label]


def recovery_scores(ridge: Ridge, observed: LabelMatrix) -> np.ndarray:
    """Leave-one-out scores of `recovery`, `[n, L]`."""
    info = get_method("recovery")
    method = info.build(TrainLabels(observed), info.options())
    with torch.no_grad():
        solution = method.solve(ridge, torch.from_numpy(observed.dense()).float())
        return method.probabilities(solution.left_out).double().numpy()


def measure(found: Calibrated, observed: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    made = accept(found, observed, TARGET)
    return {"accepted": made.count, "right": int(truth[made.mask].sum()), "low": made.low}


def one_draw(ridge: Ridge, truth: np.ndarray, seed: int) -> dict[str, Any]:
    """What is promised and true of one draw of seen labels."""
    rng = np.random.default_rng([seed, len(truth)])
    states = seen_labels(truth, rng)
    observed = LabelMatrix.from_dense(states)
    k = labels_per_item(ridge_scores(ridge, observed), observed)
    scores = recovery_scores(ridge, observed)
    result: dict[str, Any] = {"k": [float(truth.sum(1).mean()), k.k, k.low, k.high]}
    result["hidden"] = int((truth & (states == 0)).sum())
    blind = calibrate(scores, observed, k=k.cautious, origin="cautious")
    result["0"] = measure(blind, states, truth)
    before = calibrate(scores, observed, k=k.k, origin="estimated").probabilities
    for items in AUDITS:
        rows = rng.permutation(len(truth))[:items]
        at, label = np.nonzero(states[rows] == 0)
        answers = Answers(rows[at], label, truth[rows[at], label], rows)
        found = correct(before, states, answers, before[answers.row, label])
        result[str(items)] = measure(found, states, truth)
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
    fitted: tuple[int, Ridge, np.ndarray] | None = None
    for seed in range(len(done), args.draws):
        items = seed // SHARING if min(size, len(usable)) >= SHARED else seed
        if fitted is None or fitted[0] != items:
            rows = np.random.default_rng([items, size]).permutation(usable)[:size]
            x = torch.from_numpy(np.asarray(dataset.features[rows], dtype=np.float32))
            x = x.reshape(len(x), -1)
            with torch.no_grad():
                ridge = Ridge(KernelMap(x.shape[1], n_landmarks(len(x))).fit(x))
            fitted = (items, ridge, every[rows])
        done.append(one_draw(fitted[1], fitted[2], seed) | {"items": len(fitted[2])})
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
