"""How many threads torch should use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

SMALL_STEP = 1 << 24  # multiplications


@contextmanager
def suitable_threads(work: int | None, wanted: int | None) -> Iterator[None]:
    """Sets torch's threads inside the block and puts the old number back after it.

    Steps with little arithmetic (a linear layer on a small batch) run on one thread: handing such
    work between threads costs more than it brings, and far more when other processes want the
    cores.

    Args:
        work: Multiplications of one step, roughly; None where they are many.
        wanted: The number the recipe asks for; it wins.
    """
    before = torch.get_num_threads()
    threads = wanted or (1 if work is not None and work < SMALL_STEP else before)
    try:
        if threads != before:
            torch.set_num_threads(threads)
        yield
    finally:
        if threads != before:
            torch.set_num_threads(before)
