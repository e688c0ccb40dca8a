"""What learning the annotator is worth: test mAP where the one label is not picked at random.

    python benchmarks/picks.py DATA --ucmerced-features FILE [--out FILE] [--draws 3]

DATA holds VOCdevkit, voc2012_features and mulan; FILE comes from `plusone features
DATA/ucmerced/labels.csv --out FILE`. For each data set and each way to pick, one Markdown row: the
regression on the seen labels (`ridge`), `recovery` with picks taken as random, as it is by default
(saliences learned), and with the true saliences given, on the same kernel.

| scheme | which positive of an item is picked |
| --- | --- |
| uniform | any |
| frequent | in proportion to its class's share of the items |
| squared | in proportion to the square of that share |
| familiar | in proportion to a weight of its class, exp(z), z standard normal |
| order | the class that comes first in an order of all classes, drawn once |
| area | in proportion to its area: its class's weight times exp(e), e normal for each label |

No boxes are at hand, so areas are simulated; the true saliences of `area` are those weights.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from priors import load

from plusone.closed_form.gamma import SAMPLED, best_kernel
from plusone.closed_form.kernel import KernelMap, n_landmarks
from plusone.closed_form.recover import recover_labels
from plusone.closed_form.ridge import Ridge, seen_label_regression
from plusone.data.matrix import LabelMatrix
from plusone.io.files import write_text
from plusone.metrics import mean_average_precision

NAMES = ("voc", "ucmerced", "yeast", "emotions", "digits-features")
SCHEMES = ("uniform", "frequent", "squared", "familiar", "order", "area")
MOST = 3000  # training items
STEEP = 1e3  # how much more salient a class is than the next one in an order


def saliences(scheme: str, truth: np.ndarray, seed: int) -> np.ndarray:
    """How readily each class is named, `[L]`, 1 on average."""
    share, rng = truth.mean(axis=0).clip(1e-4), np.random.default_rng([5, seed])
    n_classes = truth.shape[1]
    e = {
        "uniform": np.ones(n_classes),
        "frequent": share,
        "squared": share**2,
        "familiar": np.exp(rng.normal(size=n_classes)),
        "order": STEEP ** -rng.permutation(n_classes).astype(float),
        "area": np.exp(rng.normal(size=n_classes)),
    }[scheme]
    return np.maximum(e / e.mean(), 1e-200)


def picked(scheme: str, truth: np.ndarray, seed: int) -> np.ndarray:
    """One positive of each item, int8 `[n, L]`."""
    rng = np.random.default_rng([seed, 77])
    log_odds = np.log(saliences(scheme, truth, seed)) + rng.gumbel(size=truth.shape)
    if scheme == "area":
        log_odds += rng.normal(size=truth.shape)
    best = np.where(truth, log_odds, -np.inf).argmax(axis=1)  # Plackett-Luce, by Gumbel noise
    return np.eye(truth.shape[1], dtype=np.int8)[best]


def split(name: str, data: Path, ucmerced: Path | None, seed: int) -> list[np.ndarray]:
    """Features and labels of training items, and of test items."""
    dataset = load(name, data, ucmerced)
    table = dataset.table
    truth, test = table.truth.dense() == 1, table.rows_of("test")
    train = np.setdiff1d(np.flatnonzero(truth.any(axis=1)), test)
    train = np.random.default_rng([seed, 1]).permutation(train)[:MOST]
    x = [np.asarray(dataset.features[rows], dtype=np.float32) for rows in (train, test)]
    return [x[0].reshape(len(train), -1), truth[train], x[1].reshape(len(test), -1), truth[test]]


def one_draw(parts: list[np.ndarray], schemes: list[str], seed: int) -> dict[str, list[float]]:
    """Test mAP of each scheme: ridge, uniform, learned, true saliences; and estimates of k."""
    x, y, new, truth = (torch.from_numpy(part) for part in parts)
    found = {}
    for scheme in schemes:
        seen = LabelMatrix.from_dense(picked(scheme, parts[1], seed))
        some = np.arange(min(len(x), SAMPLED))
        kernel = best_kernel(x[:SAMPLED], seen.take(some))
        space = KernelMap(x.shape[1], n_landmarks(len(x), y.shape[1]), kernel.gamma, kernel.kind)
        ridge = Ridge(space.fit(x))
        vectors = torch.cat([space(rows) for rows in torch.split(new, 1024)])
        e = tuple(saliences(scheme, parts[1], seed).clip(1e-6).tolist())
        solutions = [
            seen_label_regression(ridge, seen),
            recover_labels(ridge, seen, picks="uniform"),
            recover_labels(ridge, seen),
            recover_labels(ridge, seen, salience=e),
        ]
        scores = [torch.addmm(each.bias, vectors, each.weight.T) for each in solutions]
        maps = [100 * mean_average_precision(each, truth.to(torch.int8)) for each in scores]
        found[scheme] = [*maps, float(y.sum(1).float().mean()), solutions[2].estimate.k]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the data sets")
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--names", nargs="+", default=list(NAMES))
    parser.add_argument("--schemes", nargs="+", default=list(SCHEMES), choices=SCHEMES)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--out", type=Path, help="file for the table")
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        "| data | picks | ridge | picks taken as random | learned (default) | true saliences | "
        "true k | k |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in args.names:
        draws = []
        for seed in range(args.draws):
            parts = split(name, args.data, args.ucmerced_features, seed)
            with torch.no_grad():
                draws.append(one_draw(parts, args.schemes, seed))
        for scheme in args.schemes:
            means = np.mean([draw[scheme] for draw in draws], axis=0)
            lines.append(
                f"| {name} | {scheme} | " + " | ".join(f"{value:.2f}" for value in means) + " |"
            )
            print(lines[-1], flush=True)
    text = "\n".join([*lines, ""])
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_text(args.out, text)


if __name__ == "__main__":
    main()
