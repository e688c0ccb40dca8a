"""Worker processes that end when this process ends, however it ends.

The executors of the standard library wait for running work when they are stopped, and cannot say
which item a process was working on when it died. Runs take minutes, so both matter here.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from plusone.errors import InputError, RunError
from plusone.parallel.environment import children_import_nothing_from_here

Item = TypeVar("Item")
Result = TypeVar("Result")

SECONDS_TO_END = 2.0


@dataclass(frozen=True)
class _Worker:
    process: BaseProcess
    pipe: Connection


def in_processes(
    work: Callable[[Item], Result],
    waiting: deque[Item],
    workers: int,
    name: Callable[[Item], str],
) -> Generator[Result, None, None]:
    """Yields results of `work(item)` as they finish, from processes with one torch thread each.

    Args:
        work: A function at the top of a module; it and the items are pickled.
        waiting: Items to work on, taken from the left; the caller may add to it between results.
        workers: How many processes.
        name: What to call an item in a message.

    Raises:
        InputError: `work` raised one.
        RunError: `work` raised anything else, or its process died.
    """
    crew: list[_Worker] = []
    idle: list[Connection] = []
    busy: dict[Connection, Item] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                if not idle:
                    crew.append(_start(work, len(crew)))
                    idle.append(crew[-1].pipe)
                pipe = idle.pop()
                busy[pipe] = waiting.popleft()
                _send(pipe, busy[pipe])
            pipe = next(ready for ready in wait(list(busy)) if isinstance(ready, Connection))
            item = busy.pop(pipe)
            idle.append(pipe)
            worker = next(worker for worker in crew if worker.pipe is pipe)
            yield _receive(worker, name(item))
    finally:
        _stop(crew)


def _send(pipe: Connection, item: object) -> None:
    try:
        pipe.send(item)
    except OSError:  # the process died; reading from the pipe raises the error
        return


def _receive(worker: _Worker, name: str) -> Any:
    try:
        kind, value = worker.pipe.recv()
    except (EOFError, OSError):
        worker.process.join(SECONDS_TO_END)
        raise RunError(
            f"{name}: its process died, {_cause(worker.process.exitcode)}; what is finished is "
            "kept, run the same command again to continue"
        ) from None
    if kind == "input":
        raise InputError(value)
    if kind == "failed":
        raise RunError(f"{name}: {value}")
    return value


def _cause(code: int | None) -> str:
    """What ended a process, by its exit code.

    >>> _cause(-9)
    'killed by SIGKILL (out of memory, perhaps: fewer --workers need less)'
    """
    if code is None:
        return "for a reason that is not known"
    if code >= 0:
        return f"with exit code {code} and its own message above, if it had one"
    names = {number.value: number.name for number in signal.Signals}
    by = f"killed by {names.get(-code, f'signal {-code}')}"
    memory = " (out of memory, perhaps: fewer --workers need less)"
    return by + (memory if by.endswith("SIGKILL") else "")


def _start(work: Callable[[Item], Result], number: int) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    # As bytes: an import that fails, such as one of a plug-in, is an answer of the new process.
    process = context.Process(target=_serve, args=(pickle.dumps(work), theirs, number))
    with _ctrl_c_ignored(), children_import_nothing_from_here():  # the new process inherits both
        process.start()
    theirs.close()
    return _Worker(process, ours)


def _stop(crew: Sequence[_Worker]) -> None:
    for worker in crew:
        worker.pipe.close()
        worker.process.terminate()
    for worker in crew:
        worker.process.join(SECONDS_TO_END)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(pickled: bytes, pipe: Connection, number: int) -> None:
    """The loop of a worker process: items in, results out, until the parent closes the pipe."""
    os.environ["LOCAL_RANK"] = str(number)  # each takes a card of its own, where there are several
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = "1"
    if "torch" in sys.modules:  # too late for the variable
        sys.modules["torch"].set_num_threads(1)
    work: Callable[[Any], Any] | None = None
    while True:
        try:
            item = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        answer: tuple[str, object]
        try:
            work = work or pickle.loads(pickled)
            answer = "done", work(pickle.loads(item))
        except InputError as error:
            answer = "input", str(error)
        except RunError as error:
            answer = "failed", str(error)
        except Exception as error:
            answer = "failed", f"{type(error).__name__}: {error}"
        pipe.send(answer)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        _end()


def _end(*_: object) -> None:
    """Ends this process at once, together with the processes that decode images for it."""
    for child in multiprocessing.active_children():
        child.terminate()
    os._exit(1)
