"""How often the test against random picks is right: false findings, and biased picks it finds.

    python benchmarks/pick_test.py DATA --ucmerced-features FILE [--out FILE] [--draws 3]

DATA holds VOCdevkit, voc2012_features and mulan. For each data set, at 300, 500 and 1,500 items,
two Markdown rows: in how many draws picks were found not to be random, for each way to pick of
`benchmarks/picks.py`, by the seen labels alone and by an audit of 100 of the items. The kernel is
chosen on the first draw.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from picks import NAMES, SCHEMES, picked
from priors import load

from plusone.closed_form.gamma import best_kernel
from plusone.closed_form.kernel import KernelMap
from plusone.closed_form.recover import recover_labels, with_test
from plusone.closed_form.ridge import Ridge
from plusone.data.matrix import LabelMatrix
from plusone.io.files import write_text
from plusone.probabilities.picks import SURE, random_picks_p_value

SIZES = (300, 500, 1500)
AUDITED = 100
OTHERS = ("bibtex", "corel5k")  # not looked at when the margin of the test was settled


def two_rows(name: str, n: int, x: np.ndarray, truth: np.ndarray, draws: int) -> list[str]:
    """Rows of the table; none if there are fewer than n items."""
    items = np.flatnonzero(truth.any(axis=1))
    if len(items) < n:
        return []
    found, audited = dict.fromkeys(SCHEMES, 0), dict.fromkeys(SCHEMES, 0)
    kernel, tested = None, 0
    for seed in range(draws):
        rows = np.random.default_rng([seed, 1]).permutation(items)[:n]
        vectors = torch.from_numpy(x[rows])
        seen = {each: LabelMatrix.from_dense(picked(each, truth[rows], seed)) for each in SCHEMES}
        kernel = kernel or best_kernel(vectors, seen["uniform"])
        ridge = Ridge(KernelMap(x.shape[1], n, kernel.gamma, kernel.kind).fit(vectors))
        for scheme, labels in seen.items():
            solution = with_test(recover_labels(ridge, labels))
            assert solution.estimate is not None
            assert solution.estimate.salience is not None
            found[scheme] += solution.estimate.salience.found
            tested += solution.estimate.salience.p_value is not None
            drawn = np.random.default_rng([seed, 2]).permutation(n)[:AUDITED]
            test = random_picks_p_value(truth[rows][drawn], labels.numpy()[drawn] == 1, seed)
            audited[scheme] += test is not None and test <= SURE
    return [
        f"| {name} | {n} | {by} | "
        + " | ".join(f"{counts[each]} of {draws}" for each in SCHEMES)
        + " |"
        for by, counts in (("seen labels", found), ("audit", audited))
        if by == "audit" or tested
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the data sets")
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--names", nargs="+", default=[*NAMES, *OTHERS])
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--out", type=Path, help="file for the table")
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        "| data | items | by | " + " | ".join(SCHEMES) + " |",
        "| --- | ---: | --- |" + " ---: |" * len(SCHEMES),
    ]
    for name in args.names:
        dataset = load(name, args.data, args.ucmerced_features)
        truth = dataset.table.truth.dense() == 1
        x = np.asarray(dataset.features[np.arange(len(truth))], dtype=np.float32)
        for n in args.sizes:
            with torch.no_grad():
                made = two_rows(name, n, x.reshape(len(x), -1), truth, args.draws)
            lines += made
            print(*made, sep="\n", flush=True)
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_text(args.out, "\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
