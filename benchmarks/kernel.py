"""The kernel head: seconds and memory of a fit, the loss by landmarks, and prediction.

    python benchmarks/kernel.py [DATA] [--json FILE] [--items 100000]

1. 5,000 x 1,280 features with 20 classes, and 3,500 x 1,280 with 80: seconds of a fit of
   `recovery` with the predictions that `suggest` needs, of items in folds.
2. 100,000 x 768 features, 100 classes: the same, its peak memory, and seconds of a prediction of
   100,000 items.
3. With DATA (VOCdevkit, voc2012_features): test mAP of ridge regression on the seen labels with
   3,000 landmarks and with all 5,717 items, in points.

The features of 1 and 2 are random: only their sizes matter. Seconds are of the processor.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plusone.closed_form.folds import fold_of
from plusone.closed_form.kernel import KernelMap, n_landmarks
from plusone.closed_form.ridge import Ridge, regression
from plusone.closed_form.vectors import Rows
from plusone.data.matrix import LabelMatrix
from plusone.methods.recovery import Recovery, RecoveryOptions
from plusone.metrics import mean_average_precision
from plusone.models.heads import LinearHead
from plusone.types import TrainLabels


def problem(items: int, dim: int, classes: int) -> tuple[torch.Tensor, LabelMatrix, Recovery]:
    """Random features, labels and the method."""
    torch.manual_seed(0)
    x = torch.randn(items, dim)
    observed = np.zeros((items, classes), dtype=np.int8)
    observed[np.arange(items), np.random.default_rng(0).integers(classes, size=items)] = 1
    labels = LabelMatrix.from_dense(observed)
    return x, labels, Recovery(TrainLabels(labels), RecoveryOptions())


@torch.no_grad()
def fit(items: int, dim: int, classes: int) -> dict[str, float]:
    """Seconds of a fit with predictions of left-out items, and of a prediction of as many items."""
    x, observed, method = problem(items, dim, classes)
    started = time.process_time()
    kernel = KernelMap(dim, n_landmarks(items, classes))
    vectors = kernel.learn(Rows.of(x))
    solution = method.solve(Ridge(vectors, folds=fold_of(items, kernel.rank)), observed)
    solution.left_out()
    measured = {"fit": time.process_time() - started}
    measured["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    head = LinearHead(kernel.rank, classes)
    head.linear.weight.data, head.linear.bias.data = solution.weight, solution.bias
    folded = kernel.folded(head)
    started = time.process_time()
    for rows in x.split(4096):
        folded(rows)
    return measured | {"predict": time.process_time() - started}


@torch.no_grad()
def voc(data: Path) -> dict[str, float]:
    """Test mAP of ridge regression on the seen labels with fewer landmarks and with all items."""
    from plusone.data.source import load_source
    from plusone.inputs.task import make_task
    from plusone.recipe import Recipe

    dataset = load_source(str(data / "VOCdevkit"), features=[data / "voc2012_features"])
    task = make_task(dataset, Recipe(method="ridge", observe="single"))
    assert task.test is not None
    assert task.test.truth is not None
    parts = (task.train, task.val)
    x = torch.cat([part.inputs.x for part in parts]).float()  # type: ignore[attr-defined]
    seen = torch.from_numpy(np.concatenate([part.observed.dense() == 1 for part in parts])).float()
    test = task.test.inputs.x.float()  # type: ignore[attr-defined]
    maps = {}
    for name, landmarks in (("landmarks", n_landmarks(len(x), seen.shape[1])), ("exact", len(x))):
        kernel = KernelMap(x.shape[1], landmarks)
        model, _ = regression(Ridge(kernel.fit(x)), seen, 0.6)
        scores = model.predict(kernel(test))
        maps[name] = 100 * mean_average_precision(scores, task.test.truth.dense(), empty="zero")
    return maps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--items", type=int, default=100_000)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []

    def row(name: str, value: float, goal: float | None, detail: str) -> None:
        rows.append(
            {"name": name, "value": value, "goal": goal, "kind": "at most", "detail": detail}
        )
        print(f"{name}: {value:.2f} (goal {'-' if goal is None else goal}), {detail}")

    for shape, goal in (((5_000, 1_280, 20), 15), ((3_500, 1_280, 80), 20)):
        name = "{:,} x {:,} x {}".format(*shape)
        row(f"processor seconds of a fit, {name}", fit(*shape)["fit"], goal, "with the folds")
    size = f"{given.items:,} x 768 x 100"
    large, landmarks = fit(given.items, 768, 100), n_landmarks(given.items, 100)
    row(f"processor seconds of a fit, {size}", large["fit"], 120, f"{landmarks} landmarks, folds")
    row(f"GB of memory at most, {size}", large["peak_gb"], 4, "of the whole process")
    row(f"seconds to predict {given.items:,} items", large["predict"], 30, "features in memory")
    if given.data is not None:
        maps = voc(given.data)
        detail = f"{maps['exact']:.2f} and {maps['landmarks']:.2f} mAP on VOC"
        ratio = maps["exact"] / maps["landmarks"]
        row("exact over 2,000 landmarks, mAP", ratio, 1.0035, detail)
    if given.json is not None:
        given.json.write_text(json.dumps({"ratios": rows}), encoding="utf-8")


if __name__ == "__main__":
    main()
