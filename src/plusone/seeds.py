"""Seeds and random generators.

Every epoch draws from new generators seeded by (seed, purpose, stage, epoch), so a run that is
resumed after an interruption gives the same results as one that was not interrupted.
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
    """Seeds torch's global generator inside the block and restores its state after it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(*parts))
        yield


@contextmanager
def drawn_again(device: torch.device) -> Iterator[None]:
    """Restores the global generators after the block: what it draws is drawn again after it.

    Args:
        device: Whose generator, besides that of the CPU.
    """
    own = device.type not in ("cpu", "mps")
    kind = device.type if own else None
    with torch.random.fork_rng(devices=[device.index or 0] if own else [], device_type=kind):
        before = torch.mps.get_rng_state() if device.type == "mps" else None
        yield
        if before is not None:  # its functions take no device, as `fork_rng` wants
            torch.mps.set_rng_state(before)
