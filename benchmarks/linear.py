"""Linear training on features: ours against a plain DataLoader loop, side by side in one run.

    python benchmarks/linear.py VOCdevkit --features voc2012_features

The plain loop is what one writes first: a Dataset that gives one item at a time, a DataLoader, a
linear layer, autograd, Adam, scikit-learn's average precision on validation after each epoch. It
is run without worker processes, which suits features in memory, and with two, as the published
training scripts are set up. All use one thread, batch 16, the same labels and the loss `an`. The
figure is seconds per epoch including evaluation, the ratio is the median over interleaved epochs.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, Dataset

from plusone.data.source import load_source
from plusone.engine.task import Part, Task, make_task
from plusone.engine.training import Training
from plusone.recipe import Recipe


class Items(Dataset[tuple[Tensor, Tensor, int]]):
    """One item at a time, as image data sets are written."""

    def __init__(self, part: Part, labels: np.ndarray) -> None:
        self.x, self.y = part.inputs.x, torch.from_numpy(labels).float()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor, int]:
        return self.x[row], self.y[row], row


def plain_loop(task: Task, batch_size: int, lr: float, workers: int) -> Iterator[float]:
    """Yields the validation mAP after each epoch."""
    train = Items(task.train, task.train.observed.dense() == 1)
    val = Items(task.val, task.val.truth.dense() == 1)
    model = nn.Linear(task.shape[0], len(task.classes))
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    while True:
        model.train()
        for x, y, _ in DataLoader(train, batch_size=batch_size, shuffle=True, num_workers=workers):
            loss = binary_cross_entropy_with_logits(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        scores, truth = [], []
        with torch.no_grad():
            for x, y, _ in DataLoader(val, batch_size=batch_size, num_workers=workers):
                scores.append(torch.sigmoid(model(x)).numpy())
                truth.append(y.numpy())
        yield float(average_precision_score(np.concatenate(truth), np.concatenate(scores)))


def timed(epochs: Iterator[object]) -> tuple[float, object]:
    """Seconds of the next epoch, and what it gave."""
    started = time.perf_counter()
    result = next(epochs)
    return time.perf_counter() - started, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--features", action="append", default=[], type=Path)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dataset = load_source(args.data, features=args.features)
    rows = []
    for method, workers in (("an", 0), ("an", 2), ("gr", 0)):
        recipe = Recipe(method=method, batch_size=16, lr=1e-3, epochs=args.epochs)
        task = make_task(dataset, recipe)
        ours, plain = Training(task, recipe).epochs(), plain_loop(task, 16, 1e-3, workers)
        pairs = [(timed(ours), timed(plain)) for _ in range(args.epochs)]
        rows.append(
            {
                "method": method,
                "plain_workers": workers,
                "ours_s": median(pair[0][0] for pair in pairs),
                "plain_an_s": median(pair[1][0] for pair in pairs),
                "ratio": median(pair[1][0] / pair[0][0] for pair in pairs),
                "ours_val_map": pairs[-1][0][1].val_map,
                "plain_val_map": pairs[-1][1][1],
            }
        )
    print(f"{dataset.name}: {len(task.train)} train and {len(task.val)} val items, batch 16")
    print("ours   s/epoch   plain (an)      s/epoch   plain / ours   val mAP ours   plain")
    for row in rows:
        print(
            f"{row['method']:5s}{row['ours_s']:9.3f}   {row['plain_workers']} workers"
            f"{row['plain_an_s']:16.3f}{row['ratio']:15.1f}"
            f"{100 * row['ours_val_map']:15.2f}{100 * row['plain_val_map']:8.2f}"
        )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
