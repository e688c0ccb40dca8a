"""Who goes first, where there are several processes: words left for the others in their store.

Unlike an exchange, a turn may take as long as it likes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count

from plusone.engine.processes import GoneError, is_writer, noticing, store, world

BETWEEN_LOOKS = 0.1  # seconds

_turns = count(1)  # so that all mean the same one


def speaks() -> bool:
    """Whether this process is the first to ask this: one of them tells the user what happened."""
    if world()[1] == 1:
        return True
    try:
        return bool(store().add("speaker", 1) == 1)
    except (RuntimeError, ValueError):  # the store went with its process
        return True


@contextmanager
def writer_first() -> Iterator[None]:
    """The writer does what is in the block first; the others when it is done.

    For work whose result the others find on the disk, however long it takes.
    """
    if world()[1] == 1:
        yield
        return
    turn = f"turn {next(_turns)}"
    if is_writer():
        yield
        _leave(turn)
    else:
        _wait_for(turn)
        yield


def wait_for_all() -> None:
    """Returns when all processes are here, however long that takes."""
    rank, size = world()
    if size > 1:
        turn = f"turn {next(_turns)} of"
        _leave(f"{turn} {rank}")
        for other in range(size):
            _wait_for(f"{turn} {other}")


def finish() -> None:
    """Waits until the writer is done: nobody leaves before it has what it needs of the others."""
    with suppress(GoneError), writer_first():  # the store may go with the writer
        pass


def _leave(key: str) -> None:
    with noticing():
        store().set(key, "")


def _wait_for(key: str) -> None:
    with noticing():
        while not store().check([key]):
            time.sleep(BETWEEN_LOOKS)
