"""Which kernel leave-one-out chooses, and what the choice gives on test items.

    python benchmarks/kernel_choice.py DATA --sets yeast emotions [--ucmerced-features FILE]

DATA is as for `benchmarks/recovery.py`. One positive per item is seen; at most 1,500 training and
validation items are learned from. Test labels are used for the printed mAP alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from recovery import SEEDS, settings, sources

from plusone.closed_form.gamma import KINDS, SAMPLED, best_kernel
from plusone.closed_form.kernel import KernelMap, Kind
from plusone.closed_form.ridge import Ridge
from plusone.compare.results_table import markdown
from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.inputs.task import make_task
from plusone.methods import get_method
from plusone.metrics import mean_average_precision
from plusone.types import TrainLabels


def row(name: str, dataset: Dataset, seed: int) -> list[str]:
    """The chosen kernel, and test mAP of recovery in the best kernel of each kind."""
    task = make_task(dataset, settings("recovery", seed))
    assert task.test is not None
    assert task.test.truth is not None
    x = torch.cat([part.inputs.x for part in (task.train, task.val)]).float()  # type: ignore[attr-defined]
    seen = LabelMatrix.concatenate([task.train.observed, task.val.observed])
    some = torch.linspace(0, len(x) - 1, min(len(x), SAMPLED)).long()
    some = some[torch.from_numpy(seen.per_item(1)[some.numpy()] > 0)]
    x, seen = x[some], seen.take(some.numpy())
    info = get_method("recovery")
    test, truth = task.test.inputs.x.float(), task.test.truth.dense()  # type: ignore[attr-defined]

    def test_map(kind: Kind) -> float:
        kernel = best_kernel(x, seen, kind=kind)
        mapped = KernelMap(x.shape[1], len(x), kernel.gamma, kind)
        method = info.build(TrainLabels(seen, None), info.make_options({}))
        solution = method.solve(Ridge(mapped.fit(x)), seen)
        scores = [mapped(part) @ solution.weight.T for part in test.split(4096)]
        return 100 * mean_average_precision(torch.cat(scores) + solution.bias, truth, empty="zero")

    with torch.no_grad():
        chosen, maps = best_kernel(x, seen), [test_map(kind) for kind in KINDS]
    return [
        name,
        str(seed),
        f"{chosen.kind}, {chosen.gamma:g}",
        *(f"{value:.2f}" for value in maps),
    ]


def main() -> None:
    """Prints a row for each data set and draw of the seen labels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--sets", nargs="+", default=["yeast", "emotions", "voc", "voc_r50"])
    given = parser.parse_args()
    torch.set_num_threads(1)
    made = sources(given.data, given.ucmerced_features)
    rows = [row(name, made[name](), seed) for name in given.sets for seed in SEEDS]
    print(markdown(["data", "seed", "chosen", *KINDS], rows))


if __name__ == "__main__":
    main()
