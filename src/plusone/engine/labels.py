"""Dense label batches from sparse labels, made for many small batches at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from plusone.data.matrix import LabelMatrix

BLOCK = 1 << 18  # labels that are made dense at once, unless one batch has more


def label_batches(labels: LabelMatrix, order: Tensor, batch_size: int) -> Iterator[Tensor]:
    """Labels of the items `order`, batch by batch, float `[B, L]` in {1, 0, -1}."""
    part = labels.take(order.numpy())
    block = max(1, BLOCK // (batch_size * part.n_classes)) * batch_size
    for start in range(0, len(part), block):
        yield from torch.split(_dense(part, start, min(start + block, len(part))), batch_size)


def _dense(labels: LabelMatrix, start: int, stop: int) -> Tensor:
    """Rows `start:stop` as floats `[stop - start, L]`."""
    entries = slice(int(labels.indptr[start]), int(labels.indptr[stop]))
    rows = np.repeat(np.arange(stop - start), np.diff(labels.indptr[start : stop + 1]))
    dense = np.full((stop - start, labels.n_classes), labels.default, dtype=np.float32)
    dense[rows, labels.indices[entries]] = labels.values[entries]
    return torch.from_numpy(dense)
