"""Thresholds with a guarantee: how often the precision and the recall are reached on new items.

    python benchmarks/guarantees.py DATA --ucmerced-features FILE --keep FOLDER [--out FILE]

DATA holds VOCdevkit, voc2012_features, ucmerced and mulan. A draw takes 600 items of a data set,
one label of each as seen, and trains a run; 1,000 other items are new, or as many as there are.
Thresholds are those of `plusone predict`: --precision 0.8 with an audit of 100 and 200 of the
training items, --recall 0.9 without and with the larger audit. The Markdown table has in how many
draws a threshold could be given, in how many of these the new items reached what was promised, and
the true precision and recall on average. Finished draws stay in FOLDER as JSON lines.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from priors import load

from plusone.data.dataset import Dataset
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.inputs.loader import ArrayInputs
from plusone.inputs.task import make_task
from plusone.io.files import write_text
from plusone.prediction.guaranteed_thresholds import guaranteed_thresholds
from plusone.prediction.load import load_run
from plusone.recipe import make_recipe
from plusone.training.run import train

NAMES = ("voc", "ucmerced", "yeast", "digits-features")
TRAINED, NEW = 600, 1000
ASKED: dict[str, tuple[dict[str, float], int]] = {
    "precision 80 %, audit of 100": ({"precision": 0.8}, 100),
    "precision 80 %, audit of 200": ({"precision": 0.8}, 200),
    "recall 90 %": ({"recall": 0.9}, 0),
    "recall 90 %, audit of 200": ({"recall": 0.9}, 200),
}


def one_draw(dataset: Dataset, seed: int) -> dict[str, Any]:
    """What is promised and true of one draw."""
    every = dataset.table.truth.dense() == 1
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.flatnonzero(every.any(axis=1)))[: TRAINED + NEW]
    table = dataset.table.take(rows)
    split = np.where(np.arange(len(rows)) < TRAINED, "train", "test")
    x = np.asarray(dataset.features[rows], dtype=np.float32)
    some = replace(dataset, table=replace(table, split=split, groups=None), features=x)
    recipe = make_recipe({"method": "recovery", "seed": seed, "select_on": "observed"})
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        train(make_task(some, recipe), recipe, run)
        model = load_run(run)
        p = model.probabilities(ArrayInputs(torch.from_numpy(x[TRAINED:]))).double().numpy()
        truth = every[rows[TRAINED:]]
        for name, (wanted, audited) in ASKED.items():
            audit = None
            if audited:
                known = table.take(rng.permutation(TRAINED)[:audited])
                audit = LabelTable(known.ids, known.classes, known.truth)
            try:
                given = guaranteed_thresholds(
                    run, model.calibration, model.classes, **wanted, audit=audit
                )
            except InputError:
                result[name] = None
                continue
            chosen = p > given.thresholds.array
            right = int((chosen & truth).sum())
            result[name] = [right / max(int(chosen.sum()), 1), right / int(truth.sum())]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the data sets")
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--names", nargs="+", default=list(NAMES))
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--keep", type=Path, default=Path("results/guarantees"))
    parser.add_argument("--out", type=Path, help="file for the table")
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.keep.mkdir(parents=True, exist_ok=True)
    lines = [
        "| data | asked for | given | reached | true precision | true recall |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for name in args.names:
        path = args.keep / f"guarantees-{name}.jsonl"
        done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        dataset = load(name, args.data, args.ucmerced_features) if len(done) < args.draws else None
        for seed in range(len(done), args.draws):
            done.append(one_draw(dataset, seed))
            with path.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
            print(name, seed, flush=True)
        for asked, (wanted, _) in ASKED.items():
            given = [one[asked] for one in done[: args.draws] if one[asked] is not None]
            place, target = ("precision" not in wanted) * 1, next(iter(wanted.values()))
            reached = sum(values[place] >= target for values in given)
            means = [f"{100 * float(np.mean(value)):.1f}" for value in zip(*given, strict=True)]
            lines.append(
                f"| {name} | {asked} | {len(given)} of {args.draws} | "
                f"{f'{reached} of {len(given)}' if given else '-'} | "
                f"{' | '.join(means or ['-', '-'])} |"
            )
    text = "\n".join([*lines, ""])
    print(text)
    if args.out is not None:
        write_text(args.out, text)


if __name__ == "__main__":
    main()
