"""The environment of processes: what torchrun says in it, and what those that we start get."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from plusone.errors import InputError

SAFE_PATH = "PYTHONSAFEPATH"


@contextmanager
def children_import_nothing_from_here() -> Iterator[None]:
    """Processes that the block starts do not import from the working folder.

    Python puts it first for `python -c` and `python -m`, which is how the worker processes and the
    resource tracker of `multiprocessing` start: a `struct.py` in a stranger's folder would run.
    """
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(SAFE_PATH, None)
        else:
            os.environ[SAFE_PATH] = before


def world_size() -> int:
    """How many processes were started together; 1 without torchrun.

    Raises:
        InputError: The value in the environment cannot be.
    """
    return _number("WORLD_SIZE", 1, least=1)


def check() -> None:
    """Refuses the environment of several processes if something is missing in it."""
    size = world_size()
    names = ("RANK", "MASTER_ADDR", "MASTER_PORT")
    if missing := [name for name in names if not os.environ.get(name)]:
        raise InputError(
            f"WORLD_SIZE is {size} in the environment, but there is no {missing[0]}; start several "
            "processes with torchrun, or unset WORLD_SIZE"
        )
    if rank() >= size:
        raise InputError(
            f"RANK is {rank()} in the environment, but WORLD_SIZE is {size}; ranks begin at 0"
        )


def rank() -> int:
    """Which of the processes this is, from 0."""
    return _number("RANK", 0) if world_size() > 1 else 0


def local_rank() -> int:
    """Which of the processes of this machine this is, from 0."""
    return _number("LOCAL_RANK", 0) if world_size() > 1 else 0


def _number(name: str, default: int, *, least: int = 0) -> int:
    given = os.environ.get(name, "").strip()
    if not given:
        return default
    if not given.isdecimal() or int(given) < least:
        raise InputError(
            f"{name} = {given!r} in the environment is not a whole number of at least {least}; "
            "torchrun sets it, and without torchrun it should not be set"
        )
    return int(given)
