"""Dense batches from sparse labels."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plusone.data.matrix import LabelMatrix
from plusone.training import loader as module
from plusone.training.loader import label_batches


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_batches_are_the_dense_rows(data):
    n, n_classes = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 6))
    seed, default = data.draw(st.integers(0, 999)), data.draw(st.sampled_from([0, 1, -1]))
    dense = np.random.default_rng(seed).integers(-1, 2, (n, n_classes)).astype(np.int8)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(n))
    batch_size = data.draw(st.integers(1, n + 2))
    matrix = LabelMatrix.from_dense(dense).with_default(default)
    batches = list(label_batches(matrix, order, batch_size))
    assert [len(batch) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
    assert torch.cat(batches).dtype == torch.float32
    assert torch.cat(batches).tolist() == dense[order.numpy()].tolist()


@pytest.mark.parametrize("block", [1, 7, 12, 1 << 18])
def test_blocks_do_not_show(block, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", block)
    dense = np.random.default_rng(0).integers(-1, 2, (11, 3)).astype(np.int8)
    dense[[0, 4, 10]] = 0
    batches = list(label_batches(LabelMatrix.from_dense(dense), torch.arange(11), 4))
    assert [len(batch) for batch in batches] == [4, 4, 3]
    assert torch.cat(batches).tolist() == dense.tolist()


def test_a_part_of_the_rows_and_a_row_twice():
    matrix = LabelMatrix.from_dense([[1, 0], [0, -1], [0, 0]])
    (batch,) = label_batches(matrix, torch.tensor([2, 0, 0]), 8)
    assert batch.tolist() == [[0, 0], [1, 0], [1, 0]]
