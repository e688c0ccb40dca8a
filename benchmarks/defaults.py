"""What the default loses to the best method in hindsight, at 300, 1,000 and 4,000 items.

    python benchmarks/defaults.py DATA --ucmerced-features FILE --out DIR

The default is what `plusone.fit` chooses without settings. The other methods are trained with the
linear head and with the kernel head; their learning rate and epoch are chosen by the seen labels of
the validation items, as `plusone.fit` does it. All see one positive per item, and the validation
items' other labels are hidden. The regret is the best test mAP of all minus that of the default, in
points; it is 0 where the default is the best. The items are drawn by the seed, validation items
included. Finished parts are kept in DIR; the table is DIR/defaults.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from recovery import sources

import plusone
from plusone.compare.results_table import markdown
from plusone.data.dataset import Dataset
from plusone.io.files import write_json, write_text

SIZES = (300, 1_000, 4_000)
SETS = ("voc", "ucmerced", "yeast", "digits")
OTHERS = {
    f"{method}, {head}": {"method": method, "head": head}
    for head in ("linear", "kernel")
    for method in ("an", "softmax", "em", "gr")
}
BLIND = {"select_on": "observed", "probe": "off", "threads": 1}


def part_of(dataset: Dataset, size: int, seed: int) -> Dataset | None:
    """As many training and validation items, drawn at random, and all test items."""
    table = dataset.table
    test = table.rows_of("test")
    rest = np.setdiff1d(np.arange(len(table)), test)
    if size > len(rest):
        return None
    chosen = np.random.default_rng(seed).choice(rest, size, replace=False)
    rows = np.sort(np.concatenate([chosen, test]))
    split = np.where(np.isin(rows, test), "test", "train")
    assert dataset.features is not None
    part = replace(table.take(rows), split=split)
    return replace(dataset, table=part, features=np.asarray(dataset.features[rows]))


def measure(dataset: Dataset, seed: int, **settings: object) -> float:
    """Test mAP in per cent."""
    more = BLIND | {"observe_seed": seed, "split_seed": seed}
    return 100 * plusone.fit(dataset, **more, **settings).metrics["test_map"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--out", type=Path, default=Path("defaults"))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    given = parser.parse_args()
    torch.set_num_threads(1)
    known = sources(given.data, given.ucmerced_features)
    (given.out / "parts").mkdir(parents=True, exist_ok=True)

    def once(name: str, make: Callable[[], float]) -> float:
        file = given.out / "parts" / f"{name}.json"
        if not file.exists():
            write_json(file, made := make())
            print(f"{name}: {made:.2f}", flush=True)
        return float(json.loads(file.read_text(encoding="utf-8")))

    lines = []
    for size in SIZES:
        for name in (name for name in SETS if name in known):
            whole = known[name]()
            figures: dict[str, list[float]] = {}
            for seed in given.seeds:
                part = part_of(whole, size, seed)
                if part is None:
                    continue
                for label, settings in ({"default": {}} | OTHERS).items():
                    key = f"{name}-{size}-{seed}-{label.replace(', ', '-')}"
                    value = once(key, lambda p=part, s=seed, more=settings: measure(p, s, **more))
                    figures.setdefault(label, []).append(value)
            if figures:
                means = {label: fmean(values) for label, values in figures.items()}
                best = max(means, key=lambda label: means[label])
                regret = f"{means[best] - means['default']:.2f}"
                cells = [f"{means[label]:.2f}" for label in ("default", *OTHERS)]
                lines.append([name, f"{size:,}", *cells, best, regret])
    text = markdown(["data", "items", "default", *OTHERS, "best", "regret"], lines)
    write_text(given.out / "defaults.md", text)
    print(text)


if __name__ == "__main__":
    main()
