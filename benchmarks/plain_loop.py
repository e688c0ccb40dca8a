"""The training loop one writes first, for comparison: DataLoader, autograd, Adam, scikit-learn.

A Dataset gives one item at a time; a DataLoader makes batches of them, with worker processes if
wanted; a linear layer, torch's binary cross-entropy, `torch.optim.Adam`; after each epoch the
validation items go through a DataLoader too and scikit-learn gives the mean average precision. The
published training scripts for single positive labels are written this way: one loader per split,
read anew in every epoch, with 4 worker processes. They also evaluate the test items in each epoch,
which is left out here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, Dataset

from plusone.inputs.task import Part, Task


class Items(Dataset[tuple[Tensor, Tensor, int]]):
    """Features, labels and number of one item at a time."""

    def __init__(self, part: Part, positive: np.ndarray) -> None:
        self.x, self.y = part.inputs.x, torch.from_numpy(positive).float()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor, int]:
        return self.x[row], self.y[row], row


def plain_loop(task: Task, batch_size: int, lr: float, workers: int) -> Iterator[float]:
    """Trains with the loss `an`; yields the validation mAP after each epoch, without end."""
    train = Items(task.train, task.train.observed.dense() == 1)
    val = Items(task.val, task.val.truth.dense() == 1)
    train_loader = DataLoader(train, batch_size=batch_size, shuffle=True, num_workers=workers)
    val_loader = DataLoader(val, batch_size=batch_size, num_workers=workers)
    model = nn.Linear(task.shape[0], len(task.classes))
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    while True:
        model.train()
        for x, y, _ in train_loader:
            loss = binary_cross_entropy_with_logits(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        scores, truth = [], []
        with torch.no_grad():
            for x, y, _ in val_loader:
                scores.append(torch.sigmoid(model(x)).numpy())
                truth.append(y.numpy())
        yield float(average_precision_score(np.concatenate(truth), np.concatenate(scores)))
