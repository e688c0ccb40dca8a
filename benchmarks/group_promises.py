"""What is promised and what is true where items belong to groups, over many draws.

    python benchmarks/group_promises.py DATA --ucmerced-features FILE --keep FOLDER

DATA holds VOCdevkit and voc2012_features. A draw takes 300 items of a data set and one label of
each as seen. Each becomes three near copies: noise of 0.3 standard deviations is added to its
features; copies have the same labels, seen and true. The copies are a group, which no fold divides.
60, 100 and 150 groups are audited. Labels are accepted at 90 %, once with answers that know of the
groups and once with answers that do not. The table has the draws with a bound, the true precision
of what is accepted, the mean lower bound, and in how many draws it was true. `--fewest` is the
number of audited groups below which nothing is accepted.

Finished draws stay in FOLDER as JSON lines, and a stopped run goes on with the others; the table is
`FOLDER/table.md`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from picks import picked
from priors import load
from promises import TARGET, percent, scored

from plusone.compare.results_table import markdown
from plusone.data.matrix import LabelMatrix
from plusone.io.files import write_text
from plusone.io.jsonl import append_jsonl, read_jsonl
from plusone.probabilities.accept import accept
from plusone.probabilities.answers import Answers
from plusone.probabilities.unseen_labels import calibrate

NAMES, NOISE = ("ucmerced", "voc"), 0.3
COLUMNS = (
    "data",
    "items",
    "audited groups",
    "bound by",
    "draws with a bound",
    "accepted",
    "true precision",
    "lower bound",
    "bound true",
)


def one_draw(
    x: torch.Tensor, truth: np.ndarray, seed: int, copies: int, audits: list[int]
) -> dict[str, Any]:
    """What is promised and true of one draw, for each audit, with and without groups."""
    rng = np.random.default_rng([seed, len(truth)])
    n_groups = len(truth)
    groups = np.repeat(np.arange(n_groups), copies)
    states, truth = picked("uniform", truth, seed)[groups], truth[groups]
    noise = torch.from_numpy(rng.normal(size=(len(groups), x.shape[1]))).float()
    x = x[groups] + NOISE * x.std(0) * noise
    observed, draw = LabelMatrix.from_dense(states), scored(x, truth, states, groups)
    result: dict[str, Any] = {"items": len(groups)}
    for audited in audits:
        chosen = rng.permutation(n_groups)[:audited]
        rows = np.flatnonzero(np.isin(groups, chosen))
        at, label = np.nonzero(states[rows] == 0)
        row = rows[at]
        for unit, known in (("groups", groups), ("items", None)):
            own = None if known is None else known[row]
            answers = Answers(row, label, truth[row, label], rows, own)
            found = calibrate(draw.scores, observed, k=draw.estimate, answers=answers)
            made = accept(found, TARGET, groups=known)
            right = int(truth[made.row, made.label].sum())
            result[f"{audited} {unit}"] = {
                "accepted": made.count,
                "right": right,
                "low": made.low,
            }
    return result


def draws(name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """All draws of a set, from the file or measured."""
    path = args.keep / f"{name}.jsonl"
    done = list(read_jsonl(path)) if path.exists() else []
    if len(done) >= args.draws:
        return done[: args.draws]
    dataset = load(name, args.data, args.ucmerced_features)
    every = dataset.table.truth.dense() == 1
    usable = np.flatnonzero(every.any(axis=1))
    for seed in range(len(done), args.draws):
        rows = np.random.default_rng([seed, args.items]).permutation(usable)[: args.items]
        x = torch.from_numpy(np.asarray(dataset.features[rows], dtype=np.float32))
        with torch.no_grad():
            x, truth = x.reshape(len(x), -1), every[rows]
            done.append(one_draw(x, truth, seed, args.copies, args.audits))
        append_jsonl(path, done[-1])
        print(name, seed, json.dumps(done[-1]), flush=True)
    return done


def rows_of(name: str, found: list[dict[str, Any]], audits: list[int]) -> list[list[str]]:
    """Rows of the table."""
    rows = []
    for audited in audits:
        for unit in ("groups", "items"):
            runs = [draw[f"{audited} {unit}"] for draw in found]
            some = [run for run in runs if run["low"] is not None]
            true = [run["right"] / run["accepted"] for run in some]
            lows = [run["low"] for run in some]
            kept = sum(share >= low - 1e-12 for share, low in zip(true, lows, strict=True))
            accepted = f"{np.mean([run['accepted'] for run in some]):.0f}" if some else "-"
            counts = f"{len(some)} of {len(runs)}"
            cells = [counts, accepted, percent(true), percent(lows), f"{kept} of {len(some)}"]
            rows.append([name, str(found[0]["items"]), str(audited), unit, *cells])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--names", nargs="+", default=NAMES)
    parser.add_argument("--items", type=int, default=300, help="before copying")
    parser.add_argument("--copies", type=int, default=3)
    parser.add_argument("--audits", nargs="+", type=int, default=[60, 100, 150])
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--keep", type=Path, default=Path("results/group-promises"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.keep.mkdir(parents=True, exist_ok=True)
    rows = [row for name in args.names for row in rows_of(name, draws(name, args), args.audits)]
    table = markdown(COLUMNS, rows)
    write_text(args.keep / "table.md", table)
    print(table)


if __name__ == "__main__":
    main()
