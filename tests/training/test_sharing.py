"""The rows that processes get of each batch make up the batch of one process."""

from __future__ import annotations

import pytest
import torch

from plusone.parallel.sharing import Division, check_equal_weights
from plusone.training.loader import ArrayInputs, FileInputs
from plusone.types import Outputs

VIEWS = ("weak", "strong")


def parts(inputs, order, batch_size, size):
    """Batches put together from what each process gets."""
    shares = [
        list(inputs.batches(order, batch_size, VIEWS, 5, (rank, size))) for rank in range(size)
    ]
    for number in range(max(map(len, shares))):
        there = [share[number] for share in shares if number < len(share)]
        yield tuple(torch.cat(views) for views in zip(*there, strict=True))


@pytest.mark.parametrize(("batch_size", "size"), [(4, 2), (3, 2), (5, 3), (1, 2), (50, 3)])
def test_shares_make_up_the_batches(batch_size, size):
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (13, 1, 6, 6), dtype=torch.uint8, generator=draw)
    inputs, order = ArrayInputs(x, flip=True), torch.randperm(13, generator=draw)
    found = list(parts(inputs, order, batch_size, size))
    whole = list(inputs.batches(order, batch_size, VIEWS, 5))
    assert len(found) == len(whole)
    for mine, theirs in zip(found, whole, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


def test_shares_of_files_make_up_the_batches(pictures):
    inputs, order = FileInputs(pictures, 8, workers=0), torch.tensor([3, 0, 6, 2, 1, 5, 4])
    found = list(parts(inputs, order, 3, 2))
    whole = list(inputs.batches(order, 3, VIEWS, 5))
    assert len(found) == len(whole) == 3
    for mine, theirs in zip(found, whole, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


def test_a_division_of_one_is_the_whole():
    division = Division(items=4, views=2)
    said = Outputs(torch.arange(8.0)[:, None], torch.zeros(8, 3), maps=torch.zeros(8, 1, 2, 2))
    assert division.own.tolist() == division.places.tolist() == list(range(8))
    found = division.whole(said)
    assert torch.equal(found.logits, said.logits)
    assert found.embeddings is None
    assert found.maps.shape == (8, 1, 2, 2)


def test_alone_there_is_nobody_to_differ_from():
    check_equal_weights(torch.nn.Linear(2, 2), torch.nn.Linear(1, 1))
