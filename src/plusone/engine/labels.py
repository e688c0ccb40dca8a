"""Dense label batches from sparse labels, with the work that can be shared done once an epoch."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from plusone.data.matrix import LabelMatrix


def label_batches(labels: LabelMatrix, order: Tensor, batch_size: int) -> Iterator[Tensor]:
    """Labels of the items `order`, batch by batch, float `[B, L]` in {1, 0, -1}."""
    part = labels.take(order.numpy())
    edges = range(0, len(part) + batch_size, batch_size)
    starts = [int(part.indptr[min(edge, len(part))]) for edge in edges]
    row_in_batch = torch.from_numpy(part.row_of_entry()) % batch_size
    position = row_in_batch * part.n_classes + torch.from_numpy(part.indices)
    values = torch.from_numpy(part.values).float()
    for number, start in enumerate(range(0, len(part), batch_size)):
        size = min(batch_size, len(part) - start)
        entries = slice(starts[number], starts[number + 1])
        batch = torch.full((size * part.n_classes,), float(part.default))
        batch[position[entries]] = values[entries]
        yield batch.view(size, part.n_classes)
