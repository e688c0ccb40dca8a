"""What it is worth that unobserved labels weigh as much as the probability that they are absent.

    python benchmarks/unobserved.py DATA --ucmerced-features FILE [--out FILE] [--draws 3]

Linear heads on the features of UC Merced, one positive per item, 15 epochs of batches of 64 at the
rate 1e-3; the best epoch by all labels of the validation items, k from the truth, default options.
For each way to pick and each method, one Markdown row: test mAP with `unobserved = "full"` and
`"weighted"`, mean over draws; `recovery` in a linear head beside them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from priors import load

from plusone.data.dataset import Dataset
from plusone.inputs.task import make_task
from plusone.io.files import write_text
from plusone.metrics import mean_average_precision
from plusone.recipe import make_recipe
from plusone.training.closed_fit import fit_for

METHODS = ("an", "wan", "em", "gr")
SCHEMES = {"uniform": "single", "frequent": "frequent(1)", "squared": "frequent(2)"}
SETTINGS = {
    "mode": "linear",
    "epochs": 15,
    "batch_size": 64,
    "lr": 1e-3,
    "expected_positives": "truth",
}


def score(dataset: Dataset, settings: dict[str, object]) -> float:
    """Test mAP of a run."""
    recipe = make_recipe(settings)
    task = make_task(dataset, recipe)
    run = fit_for(task, recipe)
    for _ in run.epochs():
        pass
    assert task.test.truth is not None
    truth = torch.from_numpy(task.test.truth.dense())
    return 100 * mean_average_precision(run.log_odds(task.test), truth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the data sets")
    parser.add_argument("--ucmerced-features", type=Path, required=True)
    parser.add_argument("--schemes", nargs="+", default=list(SCHEMES), choices=SCHEMES)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--out", type=Path, help="file for the table")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dataset = load("ucmerced", args.data, args.ucmerced_features)
    lines = ["| picks | method | full | weighted |", "| --- | --- | ---: | ---: |"]
    for scheme in args.schemes:
        found: dict[str, list[list[float]]] = {name: [] for name in (*METHODS, "recovery")}
        for draw in range(args.draws):
            seen = {**SETTINGS, "observe": SCHEMES[scheme], "observe_seed": 1200 + draw}
            for name in METHODS:
                weights = [{"unobserved": weight} for weight in ("full", "weighted")]
                found[name].append([score(dataset, {**seen, "method": name, **w}) for w in weights])
            found["recovery"].append([score(dataset, {**seen, "method": "recovery"})])
        for name, values in found.items():
            cells = [f"{mean:.2f}" for mean in np.mean(values, axis=0)]
            lines.append(f"| {scheme} | `{name}` | " + " | ".join([*cells, "-"][:2]) + " |")
            print(lines[-1], flush=True)
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_text(args.out, "\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
