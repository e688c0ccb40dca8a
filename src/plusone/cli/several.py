"""Commands that torchrun starts in several processes: one of them talks, and all stop together."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plusone.errors import InputError

TOGETHER = ("train", "evaluate", "predict", "features")
INSTEAD = dict.fromkeys(("bench", "sweep", "ablate"), "; its --workers trains several at a time")


class _Stopped(BaseException):
    """Told to stop; under a name that nobody on the way catches."""


def several() -> bool:
    """Whether this process was started together with others."""
    return int(os.environ.get("WORLD_SIZE") or 1) > 1


def leads() -> bool:
    """Whether this process writes files and talks to the user."""
    return not several() or int(os.environ.get("RANK") or 0) == 0


def check_command(name: str | None) -> None:
    """Refuses commands that cannot divide their work."""
    if several() and name is not None and name not in TOGETHER:
        raise InputError(
            f"plusone {name} runs in one process; start it without torchrun{INSTEAD.get(name, '')}"
        )


@contextmanager
def together() -> Iterator[None]:
    """Joins the other processes for the block, if there are any; only one then has a voice."""
    if not several():
        yield
        return
    from plusone.parallel.processes import LostProcessError, start, wait_for_main_process

    signal.signal(signal.SIGTERM, _stop)
    if not leads():
        sys.stdout = sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    try:
        start()
        yield
    except SystemExit as end:
        if not end.code:
            wait_for_main_process()
        raise
    except _Stopped:
        raise LostProcessError from None
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is about to end anyway


def tell(sentence: str) -> None:
    """Says why it ends; of several processes the first to know does, for all of them."""
    if several():
        from plusone.parallel.processes import is_first_to_report

        if not is_first_to_report():
            return
    stream = sys.stderr if leads() else sys.__stderr__  # the others have none of their own
    if stream is not None:
        stream.write(sentence)


def _stop(number: int, frame: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
    raise _Stopped
