"""Wrong seen labels: how well they are ranked, and whether the stated probabilities are true.

    python benchmarks/wrong.py DATA --ucmerced-features FILE --keep FOLDER [--out FILE]

DATA holds VOCdevkit, voc2012_features, ucmerced and mulan. One label of each item is seen, and of a
share of the items it is replaced by a class that the item does not have, drawn by how often classes
are seen. Scores are those of `recovery`, cross-fitted in 5 folds on the seen labels, wrong ones
included. Three rankings of the same scores are compared:

- `plusone`: the probability of `plusone suggest --wrong`;
- self-confidence: the lowest score of the seen label first;
- normalized margin: the lowest difference between the score of the seen label and the highest other
  score first (both as cleanlab defines them, for one label per item).

Two Markdown tables are printed: average precision and precision of the first N, where N labels are
wrong; and the stated number with its range, and how many of the labels in a range of probabilities
are wrong. Finished draws stay in FOLDER as JSON lines, and a stopped run goes on with the others.
"""

from __future__ import annotations

import argparse
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from picks import picked
from priors import load
from promises import scored
from sklearn.metrics import average_precision_score

from plusone.io.files import write_text
from plusone.probabilities.wrong import find_wrong

NAMES = ("voc", "ucmerced", "yeast", "digits-features")
SHARES = (0.0, 0.02, 0.05, 0.1)
BINS = (0.1, 0.5, 0.8, 1.0)
RANKINGS = ("plusone", "self-confidence", "normalized margin")


def swapped(truth: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, ...]:
    """Seen labels, some of them wrong, int8 `[n, L]`; and which items have a wrong one, `[n]`."""
    states, rng = picked("uniform", truth, seed), np.random.default_rng([seed, round(1000 * share)])
    frequency, wrong = states.mean(axis=0), np.zeros(len(truth), dtype=bool)
    for row in rng.permutation(np.flatnonzero(~truth.all(axis=1)))[: round(share * len(truth))]:
        weight = frequency * ~truth[row]
        states[row] = 0
        states[row, rng.choice(len(weight), p=weight / weight.sum())] = 1
        wrong[row] = True
    return states, wrong


def one_draw(x: torch.Tensor, truth: np.ndarray, share: float, seed: int) -> dict[str, Any]:
    """The rankings and the stated probabilities of one draw."""
    states, wrong = swapped(truth, share, seed)
    draw = scored(x, truth, states)
    scores, k = draw.scores, draw.estimate
    found = find_wrong(scores, states, k.k, picks=k.picks)
    rows, n = np.arange(len(scores)), int(wrong.sum())
    own, label = scores[rows, found.label], found.label
    others = scores.copy()
    others[rows, label] = -np.inf
    ranked = dict(zip(RANKINGS, (found.probability, -own, others.max(axis=1) - own), strict=True))
    result: dict[str, Any] = {"wrong": n, "items": len(wrong)} | found.to_dict()
    result.pop("sentence")
    if n:
        result["ap"] = {
            name: float(average_precision_score(wrong, value)) for name, value in ranked.items()
        }
        result["first"] = {
            name: float(wrong[np.argsort(-value, kind="stable")[:n]].mean())
            for name, value in ranked.items()
        }
    place = np.searchsorted(BINS[:-1], found.probability, side="right")
    result["bins"] = [
        [int(inside.sum()), float(found.probability[inside].sum()), int(wrong[inside].sum())]
        for inside in (place == number for number in range(len(BINS)))
    ]
    return result


def draws(name: str, args: argparse.Namespace) -> dict[float, list[dict[str, Any]]]:
    """All draws of one data set, from the file or measured."""
    path = args.keep / f"wrong-{name}-{args.size}.jsonl"
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
            one = one_draw(*items, share, seed) | {"share": share, "seed": seed}
            done[share, seed] = one
            with path.open("a") as file:
                file.write(json.dumps(one) + "\n")
            print(name, share, seed, flush=True)
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


def stated(name: str, found: dict[float, list[dict[str, Any]]]) -> list[str]:
    """Rows of the second table."""
    lines = []
    for share, runs in found.items():
        held = sum(run["range"][0] <= run["wrong"] <= run["range"][1] for run in runs)
        mean = [float(np.mean([run[key] for run in runs])) for key in ("wrong", "expected")]
        low, high = np.mean([run["range"] for run in runs], axis=0)
        cells = []
        for number in range(1, len(BINS)):
            count, sure, true = np.sum([run["bins"][number] for run in runs], axis=0)
            cells.append(
                f"{100 * sure / count:.0f} / {100 * true / count:.0f} ({count:.0f})"
                if count
                else "-"
            )
        lines.append(
            f"| {name} | {100 * share:g} % | {mean[0]:.0f} | {mean[1]:.0f} | {low:.0f} to "
            f"{high:.0f} | {held} of {len(runs)} | {' | '.join(cells)} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the data sets")
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--names", nargs="+", default=list(NAMES))
    parser.add_argument("--size", type=int, default=1000, help="items of each data set")
    parser.add_argument("--draws", type=int, default=2, help="seeds")
    parser.add_argument("--keep", type=Path, default=Path("results/wrong"))
    parser.add_argument("--out", type=Path, help="file for the tables")
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.keep.mkdir(parents=True, exist_ok=True)
    ways = " | ".join(f"AP, {name}" for name in RANKINGS)
    ways += " | " + " | ".join(f"first N, {name}" for name in RANKINGS)
    first = [f"| data | wrong | {ways} |", f"| --- | ---: |{' ---: |' * 2 * len(RANKINGS)}"]
    between = [f"{100 * a:.0f} to {100 * b:.0f} %" for a, b in pairwise(BINS)]
    second = [
        "| data | wrong | wrong labels | stated | range | range holds it | "
        + " | ".join(f"{one}: stated / true (labels)" for one in between)
        + " |",
        f"| --- | ---: | ---: | ---: | --- | ---: |{' ---: |' * len(between)}",
    ]
    for name in args.names:
        found = draws(name, args)
        first += ranking(name, found)
        second += stated(name, found)
    text = "\n".join([*first, "", *second, ""])
    print(text)
    if args.out is not None:
        write_text(args.out, text)


if __name__ == "__main__":
    main()
