"""Random numbers that depend on where training is, not on how it got there.

Every epoch draws from generators made anew from (seed, purpose, stage, epoch), so a run that was
stopped between two epochs goes on exactly as if it had not been.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def derive(*parts: int | str) -> int:
    """A seed that depends on all parts, the same on every machine.

    >>> derive(0, "order", 1) == derive(0, "order", 1) != derive(0, "order", 2)
    True
    """
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(*parts: int | str) -> torch.Generator:
    """A CPU generator seeded by `derive`."""
    return torch.Generator().manual_seed(derive(*parts))


@contextmanager
def seeded(*parts: int | str) -> Iterator[None]:
    """Seeds torch's global generator inside the block and puts the old state back after it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(*parts))
        yield
