"""Collectives over the processes that torchrun started; in a single process they do nothing.

Each process works on a share of the rows, and all get the whole result. The main process (rank 0)
alone writes files and prints. Tensors may be on the CPU or on the device of the process: torch
picks the backend by the tensor, see `BACKENDS`.

All processes must call the collectives in the same order. When a process is lost, the others
notice at their next collective and stop with `LostProcessError`.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from itertools import count
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

from plusone.device import accelerator
from plusone.errors import InputError, RunError
from plusone.parallel import environment

T = TypeVar("T")
BACKENDS = {"cpu": "gloo", "cuda": "nccl", "xpu": "xccl"}  # of torch, by the type of a device
TIMEOUT = timedelta(minutes=30)  # of a collective
POLL = 0.1  # seconds between looks at the store

_alone: ContextVar[bool] = ContextVar("alone", default=False)
_barriers = count(1)  # every barrier has a key of its own


class LostProcessError(RunError):
    """Another process was lost."""

    def __init__(self) -> None:
        size = max(world()[1], environment.world_size())
        super().__init__(
            f"another of the {size} processes was lost, or all were stopped; start the "
            "command again (train resumes with --resume, also with another number of processes)"
        )


def start() -> None:
    """Joins the process group that torchrun started; does nothing in a single process.

    Raises:
        InputError: The environment is not that of torchrun.
    """
    if environment.world_size() < 2 or world()[1] > 1:
        return
    environment.check()
    # More threads than cores slow all processes down.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    found, backends = accelerator(), f"cpu:{BACKENDS['cpu']}"
    if found is not None and found.type in BACKENDS:
        # Before anything is on it: otherwise every process also takes memory of the first card.
        own = environment.local_rank() % torch.accelerator.device_count()
        torch.accelerator.set_device_index(own)
        backends += f",{found.type}:{BACKENDS[found.type]}"
    with lost_process_errors():
        distributed.init_process_group(backends, timeout=TIMEOUT)


def leave() -> None:
    """Ends the threads and connections of the process group, before the process ends."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def check_device(device: torch.device) -> None:
    """Refuses devices on which several processes cannot train together.

    Args:
        device: That of this process.

    Raises:
        InputError: torch has no backend for it, or two processes have the same.
    """
    if world()[1] == 1:
        return
    if device.type not in BACKENDS:
        raise InputError(
            f"several processes cannot exchange tensors on {device.type}; use device = "
            f"{', '.join(BACKENDS)}, or one process"
        )
    # A process that is shown some cards alone numbers them from 0.
    visible = [os.environ.get(name, "") for name in ("CUDA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")]
    taken: dict[tuple[str, ...], int] = {}
    for rank, own in enumerate(all_gather_values([platform.node(), str(device), *visible])):
        machine, name, *_ = own
        first = taken.setdefault(tuple(own), rank)
        if device.type != "cpu" and first != rank:
            raise InputError(
                f"ranks {first} and {rank} both have {name} of {machine}, and each needs its own: "
                f"give torchrun as many --nproc-per-node as there are, and the device without a "
                "number"
            )


def world() -> tuple[int, int]:
    """The rank of this process and the number of processes."""
    if distributed.is_available() and distributed.is_initialized() and not _alone.get():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def is_main_process() -> bool:
    """Whether this process writes files and prints: rank 0."""
    return world()[0] == 0


@contextmanager
def single_process() -> Iterator[None]:
    """Inside the block this process works as if it were the only one."""
    before = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(before)


def row_counts(n: int) -> list[int]:
    """How many of `n` rows each rank works on."""
    _, size = world()
    return [n // size + (rank < n % size) for rank in range(size)]


def own_rows(n: int) -> Tensor:
    """The contiguous rows of `n` that this process works on, int64 `[n / world]`."""
    rank, size = world()
    return torch.arange(n).tensor_split(size)[rank]


class _Gathered(torch.autograd.Function):
    """Forward: the rows of all ranks. Backward: the gradients of all ranks for these rows, summed.

    Every rank computes the same from the rows, so the sum is `world` times this rank's own.
    """

    @staticmethod
    def forward(ctx: Any, part: Tensor, counts: list[int]) -> Tensor:
        before = sum(counts[: world()[0]])
        ctx.own = slice(before, before + len(part))
        return _all_gather_rows(part, counts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return world()[1] * grads[0][ctx.own], None


def all_gather(part: Tensor, counts: list[int]) -> Tensor:
    """Concatenates the rows of all ranks, differentiably.

    Every process must then compute the same loss, and average its gradients with the others, as
    `DistributedDataParallel` does. The average then is the gradient of that loss: what comes
    through the rows of one process is counted `world` times there, and not in the others; what all
    compute alike, such as a penalty on the weights, is counted once. The backward pass needs no
    communication.

    Args:
        part: This process's rows `[counts[rank], ...]`.
        counts: Rows of each process.
    """
    if world()[1] == 1:
        return part
    whole: Tensor = _Gathered.apply(part, counts)  # type: ignore[no-untyped-call]
    return whole


class _Summed(torch.autograd.Function):
    """Forward: the sum over all ranks. Backward: the gradient of the sum, which all compute."""

    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        total = part.contiguous().clone()
        numbers = total.view(torch.uint8) if total.dtype == torch.bool else total
        with lost_process_errors():
            distributed.all_reduce(numbers)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0]


def all_sum(part: Tensor) -> Tensor:
    """Sums the equally shaped tensors of all ranks, differentiably.

    Every process must then compute the same loss: the gradient of its part is that of the sum.
    """
    if world()[1] == 1:
        return part
    total: Tensor = _Summed.apply(part)  # type: ignore[no-untyped-call]
    return total


def gather_rows(part: Tensor, counts: list[int]) -> Tensor | None:
    """Concatenates the rows of all ranks in rank 0; None in the others.

    Args:
        part: This process's rows `[counts[rank], ...]`.
        counts: Rows of each process.
    """
    if world()[1] == 1:
        return part
    padded = _padded(part, counts)
    parts = [torch.empty_like(padded) for _ in counts] if is_main_process() else None
    with lost_process_errors():
        distributed.gather(padded, parts)
    return None if parts is None else _joined(parts, counts)


def all_gather_equal(part: Tensor) -> Tensor:
    """Stacks the equally shaped tensors of all ranks: `[world, ...]`."""
    if world()[1] == 1:
        return part[None]
    parts = [torch.empty_like(part) for _ in range(world()[1])]
    with lost_process_errors():
        distributed.all_gather(parts, part.contiguous())
    return torch.stack(parts)


def broadcast(find: Callable[[], T]) -> T:
    """Broadcasts the value of a function that rank 0 calls; it must be plain (JSON)."""
    if world()[1] == 1:
        return find()
    text = json.dumps(find()).encode() if is_main_process() else b""
    size = torch.tensor([len(text)])
    with lost_process_errors():
        distributed.broadcast(size, 0)
        sent = torch.empty(int(size), dtype=torch.uint8)
        if is_main_process():
            sent = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        distributed.broadcast(sent, 0)
    value: T = json.loads(sent.numpy().tobytes())
    return value


def broadcast_tensors(
    tensors: dict[str, Tensor], kept: Callable[[str, Tensor], Tensor] = lambda _, x: x
) -> dict[str, Tensor]:
    """Broadcasts the named tensors of rank 0; those of other ranks are ignored.

    Args:
        tensors: The tensors.
        kept: Gives what this process keeps of each, as soon as it is there.
    """
    if world()[1] == 1:
        return tensors
    kinds: list[Any] = broadcast(
        lambda: [[name, str(x.dtype)[6:], list(x.shape)] for name, x in tensors.items()]
    )
    received = {}
    for name, kind, shape in kinds:
        own = tensors[name] if is_main_process() else torch.empty(shape, dtype=getattr(torch, kind))
        whole = own.contiguous()
        with lost_process_errors():
            distributed.broadcast(whole, 0)
        received[name] = kept(name, whole)
    return received


def all_gather_values(value: T) -> list[T]:
    """All-gathers plain values, by rank."""
    if world()[1] == 1:
        return [value]
    text = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
    counts = all_gather_equal(torch.tensor([len(text)]))[:, 0].tolist()
    parts = torch.split(_all_gather_rows(text, counts), counts)
    return [json.loads(part.numpy().tobytes()) for part in parts]


def check_same(value: str, what: str) -> None:
    """Raises an error where the processes differ.

    Args:
        value: What must be the same.
        what: Its name, in the plural.
    """
    values = all_gather_values(value)
    other = next((rank for rank, each in enumerate(values) if each != values[0]), None)
    if other is not None:
        raise RunError(
            f"{what} of process {other} are not those of process 0; all processes need the same "
            "command, data and versions"
        )


def _all_gather_rows(part: Tensor, counts: list[int]) -> Tensor:
    padded = _padded(part, counts)
    parts = [torch.empty_like(padded) for _ in counts]
    with lost_process_errors():
        distributed.all_gather(parts, padded)
    return _joined(parts, counts)


def _padded(part: Tensor, counts: list[int]) -> Tensor:
    """The rows of this rank and as many zeros as all need to send equally much."""
    padded = part.new_zeros((max(counts), *part.shape[1:]))
    padded[: len(part)] = part
    return padded


def _joined(parts: list[Tensor], counts: list[int]) -> Tensor:
    return torch.cat([each[:count] for each, count in zip(parts, counts, strict=True)])


def store() -> Any:
    """The key-value store that all processes share."""
    return distributed.distributed_c10d._get_default_store()


@contextmanager
def lost_process_errors(*, of_collectives: bool = False) -> Iterator[None]:
    """Turns the error that torch raises when another process was lost into a sentence.

    Args:
        of_collectives: The block does more than exchange tensors, so that only errors that come
            from a backend of torch are meant.
    """
    try:
        yield
    except RuntimeError as error:
        backend = isinstance(error, distributed.DistError) or "gloo" in str(error).lower()
        if isinstance(error, RunError) or (of_collectives and not backend):
            raise
        raise LostProcessError from error


def is_first_to_report() -> bool:
    """Whether this process is the first to ask: it alone reports an error to the user."""
    if world()[1] == 1:
        return True
    try:
        return bool(store().add("reporter", 1) == 1)
    except (RuntimeError, ValueError):  # the store ended with its process
        return True


@contextmanager
def main_process_first() -> Iterator[None]:
    """The main process runs the block first, the others after it.

    For work whose result the others then find on disk; there is no timeout.
    """
    if world()[1] == 1:
        yield
        return
    key = f"barrier {next(_barriers)}"
    if is_main_process():
        yield
        _set(key)
    else:
        _wait_for(key)
        yield


def barrier() -> None:
    """Waits until all processes are here, without a timeout."""
    rank, size = world()
    if size > 1:
        key = f"barrier {next(_barriers)} rank"
        _set(f"{key} {rank}")
        for other in range(size):
            _wait_for(f"{key} {other}")


def wait_for_main_process() -> None:
    """Waits until the main process is done, so that no process leaves before it."""
    with (
        suppress(LostProcessError),
        main_process_first(),
    ):  # the store may end with the main process
        pass


def _set(key: str) -> None:
    with lost_process_errors():
        store().set(key, "")


def _wait_for(key: str) -> None:
    with lost_process_errors():
        while not store().check([key]):
            time.sleep(POLL)
