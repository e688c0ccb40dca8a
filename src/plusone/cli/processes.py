"""Commands started by torchrun in several processes: rank 0 prints, and all stop together."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

from plusone.errors import InputError
from plusone.io.text import printable
from plusone.parallel import environment

TOGETHER = ("train", "suggest", "evaluate", "predict", "features")
ALTERNATIVES = dict.fromkeys(
    ("bench", "sweep", "ablate", "reproduce"), "; its --workers trains several at a time"
)


class _Stopped(BaseException):
    """SIGTERM was received; a class of its own, so that nothing catches it on the way."""


class Terminated(KeyboardInterrupt):
    """SIGTERM to a single process, which ends as by Ctrl-C: files whole, with a hint."""


@contextmanager
def terminated_like_ctrl_c() -> Iterator[None]:
    """Makes SIGTERM raise `Terminated` in the block; processes that it forks die of it as usual."""
    if several() or current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: Any) -> None:
    raise Terminated


def _die_as_usual() -> None:
    if signal.getsignal(signal.SIGTERM) is _terminate:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_die_as_usual)


def several() -> bool:
    """Whether this process was started together with others."""
    return environment.world_size() > 1


def leads() -> bool:
    """Whether this process is rank 0, which writes files and prints."""
    return environment.rank() == 0


def check_command(name: str | None) -> None:
    """Refuses commands that cannot run in several processes."""
    if several() and name is not None and name not in TOGETHER:
        raise InputError(
            f"plusone {name} runs in one process; start it without torchrun"
            f"{ALTERNATIVES.get(name, '')}"
        )


@contextmanager
def together() -> Iterator[None]:
    """Joins the other processes for the block, if there are any; only rank 0 then prints."""
    if not several():
        yield
        return
    from plusone.parallel.processes import LostProcessError, leave, start, wait_for_main_process

    signal.signal(signal.SIGTERM, _stop)
    if not leads():
        sys.stdout = sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    try:
        start()
        yield
    except SystemExit as end:
        if not end.code:
            wait_for_main_process()
            atexit.register(leave)  # other commands may follow in this process
        raise
    except _Stopped:
        raise LostProcessError from None
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the process is ending already


def print_error(sentence: str) -> None:
    """Prints why the program ends; of several processes only the first that fails prints."""
    stream = sys.stderr
    with suppress(InputError):  # of the environment itself, which is what the sentence then says
        if several():
            from plusone.parallel.processes import is_first_to_report

            if not is_first_to_report():
                return
            stream = sys.stderr if leads() else sys.__stderr__  # the other ranks' is redirected
    if stream is not None:
        stream.write(printable(sentence))


def _stop(number: int, frame: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # ignore further signals
    raise _Stopped
