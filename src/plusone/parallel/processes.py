"""Work divided among processes, where there are several: all that knows torch.distributed.

Every process holds all items; each works on a share of them, and all get the whole result. With
one process nothing is divided. The process number 0 is the writer: it alone writes files.

All processes must call the functions below that exchange something, in the same order. When one is
gone, the others learn it from the next exchange and stop with `GoneError`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from importlib import import_module
from itertools import count
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

from plusone.errors import InputError, RunError

T = TypeVar("T")
PATIENCE = timedelta(minutes=30)  # with a process that is there and does not answer

_alone: ContextVar[bool] = ContextVar("alone", default=False)


class GoneError(RunError):
    """Another process is gone."""

    def __init__(self) -> None:
        size = max(world()[1], int(os.environ.get("WORLD_SIZE") or 1))
        super().__init__(
            f"another of the {size} processes is gone, or all were told to stop; start the command "
            "again (train goes on with --resume, also with another number of processes)"
        )


def start() -> None:
    """Joins the processes that torchrun started with this one; nothing if it is alone."""
    wanted = int(os.environ.get("WORLD_SIZE") or 1)
    if wanted < 2 or world()[1] > 1:
        return
    try:
        state = import_module("accelerate").PartialState
    except ImportError:
        needed = "several processes need the extra distributed: pip install accelerate"
        raise InputError(needed) from None
    # More threads in all than there are cores make every one of them wait for the others.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    with noticing():
        state(cpu=True, backend="gloo", timeout=PATIENCE)
    if world()[1] != wanted:
        raise RunError(
            f"{wanted} processes were started and {world()[1]} found each other; start them with "
            "torchrun --nproc-per-node"
        )


def world() -> tuple[int, int]:
    """This process's number and how many there are."""
    if distributed.is_available() and distributed.is_initialized() and not _alone.get():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def is_writer() -> bool:
    """Whether this process writes files and talks to the user."""
    return world()[0] == 0


@contextmanager
def alone() -> Iterator[None]:
    """Inside the block this process works as if there were no others."""
    before = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(before)


def lengths(n: int) -> list[int]:
    """How many of `n` rows each process has."""
    _, size = world()
    return [n // size + (rank < n % size) for rank in range(size)]


def share(n: int) -> Tensor:
    """Rows of `n` that this process works on, one after the other: int64 `[n / world]`."""
    rank, size = world()
    return torch.arange(n).tensor_split(size)[rank]


def joined(part: Tensor, n: int) -> Tensor:
    """The results of all processes, in the order of the items.

    Args:
        part: This process's results `[len(share(n)), ...]`.
        n: How many items there are in all.

    Returns:
        `[n, ...]`, the same in every process.
    """
    return part if world()[1] == 1 else _all_rows(part, lengths(n))


class _Gathered(torch.autograd.Function):
    """All rows forward; backward, the gradient of this process's own rows."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, counts: list[int]) -> Tensor:
        before = sum(counts[: world()[0]])
        ctx.own = slice(before, before + len(part))
        return _all_rows(part, counts)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        return slopes[0][ctx.own], None


def gathered(part: Tensor, counts: list[int]) -> Tensor:
    """The rows of all processes on top of each other, differentiable.

    What every process then computes must be the same: each gets the gradient of its own rows from
    its own computation, and nothing is exchanged for it.

    Args:
        part: This process's rows `[counts[rank], ...]`.
        counts: Rows of each process.
    """
    if world()[1] == 1:
        return part
    whole: Tensor = _Gathered.apply(part, counts)  # type: ignore[no-untyped-call]
    return whole


def stacked(part: Tensor) -> Tensor:
    """The tensors of all processes, equally large: `[world, ...]`."""
    if world()[1] == 1:
        return part[None]
    parts = [torch.empty_like(part) for _ in range(world()[1])]
    with noticing():
        distributed.all_gather(parts, part.contiguous())
    return torch.stack(parts)


def summed(tensors: Sequence[Tensor]) -> None:
    """Adds up tensors over all processes, in place and in one exchange."""
    if world()[1] == 1 or not tensors:
        return
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    with noticing():
        distributed.all_reduce(flat)
    parts = torch.split(flat, [each.numel() for each in tensors])
    for tensor, found in zip(tensors, parts, strict=True):
        tensor.copy_(found.view_as(tensor))


def from_writer(find: Callable[[], T]) -> T:
    """What the writer finds, told to all; it must be plain (what JSON can hold)."""
    if world()[1] == 1:
        return find()
    text = json.dumps(find()).encode() if is_writer() else b""
    size = torch.tensor([len(text)])
    with noticing():
        distributed.broadcast(size, 0)
        sent = torch.empty(int(size), dtype=torch.uint8)
        if is_writer():
            sent = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        distributed.broadcast(sent, 0)
    found: T = json.loads(sent.numpy().tobytes())
    return found


def tensors_from_writer(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The writer's named tensors, sent to all; what the others pass is not looked at."""
    if world()[1] == 1:
        return tensors
    kinds: list[Any] = from_writer(
        lambda: [[name, str(x.dtype)[6:], list(x.shape)] for name, x in tensors.items()]
    )
    found = {}
    for name, kind, shape in kinds:
        mine = tensors[name] if is_writer() else torch.empty(shape, dtype=getattr(torch, kind))
        found[name] = mine.contiguous()
        with noticing():
            distributed.broadcast(found[name], 0)
    return found


def from_all(value: T) -> list[T]:
    """The plain values of all processes, by their number."""
    if world()[1] == 1:
        return [value]
    text = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
    counts = stacked(torch.tensor([len(text)]))[:, 0].tolist()
    parts = torch.split(_all_rows(text, counts), counts)
    return [json.loads(part.numpy().tobytes()) for part in parts]


def check_same(value: str, what: str) -> None:
    """Refuses to go on where the processes do not have the same.

    Args:
        value: What must be the same.
        what: Its name, in the plural.
    """
    found = from_all(value)
    other = next((rank for rank, theirs in enumerate(found) if theirs != found[0]), None)
    if other is not None:
        raise RunError(
            f"{what} of process {other} are not those of process 0; all processes need the same "
            "command, data and versions"
        )


def _all_rows(part: Tensor, counts: list[int]) -> Tensor:
    padded = part.new_zeros((max(counts), *part.shape[1:]))  # all must send equally much
    padded[: len(part)] = part
    parts = [torch.empty_like(padded) for _ in counts]
    with noticing():
        distributed.all_gather(parts, padded)
    return torch.cat([each[:count] for each, count in zip(parts, counts, strict=True)])


def store() -> Any:
    """What all processes can write words into and read them from."""
    return distributed.distributed_c10d._get_default_store()


@contextmanager
def noticing() -> Iterator[None]:
    """What torch raises when another process is gone, in words."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, RunError):
            raise
        raise GoneError from error


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
