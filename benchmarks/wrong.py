"""Wrong seen labels: how well they are ranked, and whether the stated upper limit is true.

    python benchmarks/wrong.py DATA --ucmerced-features FILE --keep FOLDER [--out FILE]

DATA holds VOCdevkit, voc2012_features, ucmerced and mulan. One label of each item is seen, picked
uniformly or by class frequency, and of a share of the items it is replaced by a class that the item
does not have, drawn by how often classes are seen. Scores are those of `recovery`, cross-fitted in
5 folds on the seen labels, wrong ones included. Rankings of the same scores are compared:

- `plusone`: the order of `plusone suggest --wrong`;
- self-confidence: the lowest score of the seen label first;
- cleanlab: the same after dividing the scores of an item by their sum, since cleanlab takes
  probabilities of classes that exclude each other (`get_label_quality_scores`, its default);
- normalized margin: cleanlab's other ranking, the lowest difference between the score of the seen
  label and the highest other one first, on scores as they are.

Two Markdown tables are printed: average precision and precision of the first N, where N labels are
wrong; and the upper limit, how many of the listed labels are wrong (those that cleanlab's
`find_label_issues` lists beside them, if cleanlab is installed), and how many of the labels in a
range of plusone's score, which is therefore not called a probability. Finished draws stay in FOLDER
as JSON lines, and a stopped run goes on with the others.
"""

from __future__ import annotations

import argparse
import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from picks import picked
from priors import load
from promises import scored
from sklearn.metrics import average_precision_score

from plusone.data.matrix import LabelMatrix
from plusone.io.files import write_text
from plusone.probabilities.wrong import find_wrong
from plusone.suggestions.wrong_csv import UNLIMITED

NAMES = ("voc", "ucmerced", "yeast", "digits-features")
SHARES = (0.0, 0.02, 0.05, 0.1)
BINS = (0.1, 0.5, 0.8, 1.0)
RANKINGS = ("plusone", "self-confidence", "cleanlab", "normalized margin")
SCHEMES = ("uniform", "frequent")


def swapped(scheme: str, truth: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, ...]:
    """Seen labels, some of them wrong, int8 `[n, L]`; and which items have a wrong one, `[n]`."""
    states, rng = picked(scheme, truth, seed), np.random.default_rng([seed, round(1000 * share)])
    frequency, wrong = states.mean(axis=0), np.zeros(len(truth), dtype=bool)
    for row in rng.permutation(np.flatnonzero(~truth.all(axis=1)))[: round(share * len(truth))]:
        weight = frequency * ~truth[row]
        states[row] = 0
        states[row, rng.choice(len(weight), p=weight / weight.sum())] = 1
        wrong[row] = True
    return states, wrong


def listed_by_cleanlab(label: np.ndarray, scores: np.ndarray) -> np.ndarray | None:
    """Items that `find_label_issues` lists; None if cleanlab is not installed."""
    try:
        from cleanlab.filter import find_label_issues
    except ImportError:
        return None
    classes, own = np.unique(label, return_inverse=True)  # it needs a label of every class
    shares = scores[:, classes] / scores[:, classes].sum(axis=1, keepdims=True)
    return np.asarray(find_label_issues(own, shares, return_indices_ranked_by="self_confidence"))


def one_draw(
    x: torch.Tensor, truth: np.ndarray, scheme: str, share: float, seed: int
) -> dict[str, Any]:
    """The rankings and the upper limit of one draw."""
    states, wrong = swapped(scheme, truth, share, seed)
    draw = scored(x, truth, states)
    scores, k = draw.scores, draw.estimate
    found = find_wrong(scores, LabelMatrix.from_dense(states), k.k, picks=k.picks)
    rows, n = np.arange(len(scores)), int(wrong.sum())
    own, label = scores[rows, found.label], found.label
    others = scores.copy()
    others[rows, label] = -np.inf
    orders = (found.score, -own, -own / scores.sum(axis=1), others.max(axis=1) - own)
    ranked = dict(zip(RANKINGS, orders, strict=True))
    most = math.ceil(UNLIMITED * len(wrong)) if found.most is None else found.most
    theirs = listed_by_cleanlab(label, scores)
    result: dict[str, Any] = {
        "wrong": n,
        "items": len(wrong),
        "at_most": found.most,
        "listed": [most, int(wrong[np.argsort(-found.score, kind="stable")[:most]].sum())],
        "cleanlab": None if theirs is None else [len(theirs), int(wrong[theirs].sum())],
    }
    if n:
        result["ap"] = {
            name: float(average_precision_score(wrong, value)) for name, value in ranked.items()
        }
        result["first"] = {
            name: float(wrong[np.argsort(-value, kind="stable")[:n]].mean())
            for name, value in ranked.items()
        }
    place = np.searchsorted(BINS[:-1], found.score, side="right")
    result["bins"] = [
        [int(inside.sum()), int(wrong[inside].sum())]
        for inside in (place == number for number in range(len(BINS)))
    ]
    return result


def draws(name: str, scheme: str, args: argparse.Namespace) -> dict[float, list[dict[str, Any]]]:
    """All draws of one data set and scheme, from the file or measured."""
    path = args.keep / f"wrong-{name}-{scheme}-{args.size}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    done = {(one["share"], one["seed"]): one for one in map(json.loads, lines)}
    items: tuple[torch.Tensor, np.ndarray] | None = None
    for seed in range(args.draws):
        for share in SHARES:
            if (share, seed) in done:
                continue
            if items is None:
                dataset = load(name, args.data, args.ucmerced_features)
                every = dataset.table.truth.dense() == 1
                usable = np.flatnonzero(every.any(axis=1))
                rows = np.random.default_rng([0, args.size]).permutation(usable)[: args.size]
                x = torch.from_numpy(np.asarray(dataset.features[rows], dtype=np.float32))
                items = (x.reshape(len(x), -1), every[rows])
            one = one_draw(*items, scheme, share, seed) | {"share": share, "seed": seed}
            done[share, seed] = one
            with path.open("a") as file:
                file.write(json.dumps(one) + "\n")
            print(name, scheme, share, seed, flush=True)
    return {share: [done[share, seed] for seed in range(args.draws)] for share in SHARES}


def percent(values: list[float]) -> str:
    return f"{100 * float(np.mean(values)):.1f}"


def ranking(name: str, found: dict[float, list[dict[str, Any]]]) -> list[str]:
    """Rows of the first table."""
    lines = []
    for share, runs in found.items():
        if share:
            cells = [
                percent([run[what][way] for run in runs])
                for what in ("ap", "first")
                for way in RANKINGS
            ]
            lines.append(f"| {name} | {100 * share:g} % | {' | '.join(cells)} |")
    return lines


def limits(name: str, found: dict[float, list[dict[str, Any]]]) -> list[str]:
    """Rows of the second table."""
    lines = []
    for share, runs in found.items():
        told = [run for run in runs if run["at_most"] is not None]
        most = ", ".join("-" if run["at_most"] is None else str(run["at_most"]) for run in runs)
        held = sum(run["wrong"] <= run["at_most"] for run in told)
        cells = [
            "-" if None in (pairs := [run[key] for run in runs]) else of(np.sum(pairs, axis=0))
            for key in ("listed", "cleanlab")
        ]
        for number in range(1, len(BINS)):
            count, true = np.sum([run["bins"][number] for run in runs], axis=0)
            cells.append(f"{100 * true / count:.0f} ({count})" if count else "-")
        lines.append(
            f"| {name} | {100 * share:g} % | {runs[0]['wrong']} | {most} | {held} of {len(told)} | "
            f"{' | '.join(cells)} |"
        )
    return lines


def of(pair: np.ndarray) -> str:
    """How many of the listed labels are wrong."""
    return f"{pair[1]} of {pair[0]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the data sets")
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--names", nargs="+", default=list(NAMES))
    parser.add_argument("--schemes", nargs="+", default=list(SCHEMES))
    parser.add_argument("--size", type=int, default=1000, help="items of each data set")
    parser.add_argument("--draws", type=int, default=2, help="seeds")
    parser.add_argument("--keep", type=Path, default=Path("results/wrong"))
    parser.add_argument("--out", type=Path, help="file for the tables")
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.keep.mkdir(parents=True, exist_ok=True)
    ways = " | ".join(f"AP, {name}" for name in RANKINGS)
    ways += " | " + " | ".join(f"first N, {name}" for name in RANKINGS)
    first = [f"| data, picks | wrong | {ways} |", f"| --- | ---: |{' ---: |' * 2 * len(RANKINGS)}"]
    between = [f"score {a:g} to {b:g}: % wrong (labels)" for a, b in pairwise(BINS)]
    second = [
        "| data, picks | wrong | wrong labels | at most | holds | listed | cleanlab's list | "
        + " | ".join(between)
        + " |",
        f"| --- | ---: | ---: | ---: | ---: |{' ---: |' * (2 + len(between))}",
    ]
    for name in args.names:
        for scheme in args.schemes:
            found = draws(name, scheme, args)
            first += ranking(f"{name}, {scheme}", found)
            second += limits(f"{name}, {scheme}", found)
    text = "\n".join([*first, "", *second, ""])
    print(text)
    if args.out is not None:
        write_text(args.out, text)


if __name__ == "__main__":
    main()
