"""Batches made ahead: the same ones, and nothing is left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from plusone.training.loader import ArrayInputs, ahead


def running() -> int:
    return sum(thread.name == "plusone-ahead" for thread in threading.enumerate())


def test_the_same_batches_in_the_same_order():
    x = torch.randint(0, 256, (37, 3, 8, 8), dtype=torch.uint8)
    order = torch.randperm(37, generator=torch.Generator().manual_seed(0))
    wanted = (order, 8, ("weak", "strong"), 5)
    inputs = ArrayInputs(x, flip=True)
    found = list(ahead(inputs.batches(*wanted)))
    for ours, theirs in zip(found, inputs.batches(*wanted), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert running() == 0


def test_no_more_are_made_than_may_wait():
    made, second = [], threading.Event()

    def items() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            if number == 4:
                second.set()
            yield number

    line = ahead(items(), depth=3)
    assert [next(line), next(line)] == [0, 1]
    assert second.wait(30)  # 2, 3 and 4 are made ahead
    line.close()
    assert len(made) <= 6
    assert running() == 0


def test_an_error_comes_where_the_item_would_have():
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("no more of these")

    line = ahead(items())
    assert next(line) == 1
    with pytest.raises(ValueError, match="no more of these"):
        next(line)
    assert running() == 0


def test_threads_of_torch_are_as_before():
    before = torch.get_num_threads()
    seen = []

    def items() -> Iterator[int]:
        seen.append(torch.get_num_threads())
        yield 1

    assert list(ahead(items())) == [1]
    assert seen == [1]
    later = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert [torch.get_num_threads(), *later] == [before, before]
