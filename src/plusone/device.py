"""The device that training and prediction compute on: a CPU, a GPU, an Apple or Intel chip.

`device = "auto"` is the accelerator that torch finds (`torch.accelerator`), and the CPU where there
is none; the environment variable `PLUSONE_DEVICE` overrides it. Random numbers are drawn on the CPU
and moved, so that a seed means the same everywhere.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from plusone.errors import InputError

__all__ = [
    "AUTOCAST",
    "CPU",
    "accelerator",
    "allowing_tf32",
    "autocasts",
    "cores",
    "describe",
    "device_of",
    "devices",
    "free_memory",
    "host_memory",
    "is_out_of_memory",
    "resolve",
]

CPU = torch.device("cpu")
MEMINFO = Path("/proc/meminfo")
LIMIT, USED = (Path("/sys/fs/cgroup") / name for name in ("memory.max", "memory.current"))
AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}  # by the name of a precision


def accelerator() -> torch.device | None:
    """The accelerator of this machine, if torch finds one that can be used."""
    if not torch.accelerator.is_available():
        return None
    return torch.accelerator.current_accelerator()


def resolve(name: str | torch.device = "auto") -> torch.device:
    """The device of a name; where torchrun started several processes, each has its own.

    Args:
        name: "auto", "cpu", or a device of torch such as "cuda", "cuda:1", "mps" or "xpu".

    Raises:
        InputError: There is no such device on this machine.

    >>> resolve("cpu")
    device(type='cpu')
    """
    found = accelerator()
    if str(name) == "auto":
        name = os.environ.get("PLUSONE_DEVICE") or "auto"
    if str(name) == "auto":
        device = found or CPU
    else:
        try:
            device = torch.device(name)
        except (RuntimeError, TypeError):
            raise InputError(f"device = {str(name)!r} is not known; {_choices(found)}") from None
    if device.type == "cpu":
        return CPU
    if found is None or device.type != found.type:
        raise InputError(f"device = {str(name)!r} is not on this machine; {_choices(found)}")
    count = torch.accelerator.device_count()
    if device.index is None and os.environ.get("LOCAL_RANK", "").isdigit():
        return torch.device(device.type, int(os.environ["LOCAL_RANK"]) % max(count, 1))
    if (device.index or 0) >= count:
        raise InputError(f"device = {str(name)!r}: this machine has {count} of type {device.type}")
    return device


def _choices(found: torch.device | None) -> str:
    """What the user can set on this machine."""
    own = f"auto, cpu or {found.type}" if found is not None else "auto or cpu"
    return f"here it can be {own} (plusone doctor shows the devices)"


def describe(device: torch.device) -> str:
    """A device in words, such as "cuda:0 (NVIDIA A100, 79 GB free)"."""
    if device.type == "cpu":
        return f"cpu ({torch.get_num_threads()} threads)"
    facts = []
    if device.type in ("cuda", "xpu"):
        facts.append(str(getattr(torch, device.type).get_device_name(device)))
    if (free := free_memory(device)) is not None:
        facts.append(f"{free / 1e9:.0f} GB free")
    return f"{device} ({', '.join(facts)})" if facts else str(device)


def free_memory(device: torch.device) -> int | None:
    """Free bytes of an accelerator; None for the CPU, or where torch cannot tell."""
    if device.type == "cpu":
        return None
    if device.type == "mps":
        limit = torch.mps.recommended_max_memory()
        return max(0, int(limit) - int(torch.mps.driver_allocated_memory()))
    module = torch.get_device_module(device)
    return int(module.mem_get_info(device)[0]) if hasattr(module, "mem_get_info") else None


def device_of(module: nn.Module) -> torch.device:
    """Where the weights of a module are; the CPU if it has none."""
    tensors = itertools.chain(module.parameters(), module.buffers())
    return next((tensor.device for tensor in tensors), CPU)


def devices() -> list[torch.device]:
    """All devices of this machine, the CPU first."""
    found = accelerator()
    if found is None:
        return [CPU]
    return [CPU, *(torch.device(found.type, n) for n in range(torch.accelerator.device_count()))]


def cores() -> int:
    """Processor cores that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def host_memory() -> tuple[int | None, int | None]:
    """Bytes of memory of the machine, or of the container if it has less, and how many are free.

    Returns:
        None where the system does not say.
    """
    total: int | None = None
    free: int | None = None
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):  # not on Windows
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if MEMINFO.exists():
        for line in MEMINFO.read_text(encoding="utf-8").splitlines():
            if line.startswith("MemAvailable:"):
                free = 1024 * int(line.split()[1])
    if LIMIT.exists() and (limit := LIMIT.read_text(encoding="utf-8").strip()).isdigit():
        total = int(limit) if total is None else min(total, int(limit))
        left = total - int(USED.read_text(encoding="utf-8"))
        free = left if free is None else min(free, left)
    return total, free


def autocasts(device: torch.device, precision: str) -> bool:
    """Whether a device computes in a precision of the recipe."""
    if precision not in AUTOCAST:
        return True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns, and computes in float32
        try:
            with torch.autocast(device.type, dtype=AUTOCAST[precision]):
                return torch.is_autocast_enabled(device.type)
        except RuntimeError:
            return False


@contextmanager
def allowing_tf32(device: torch.device, allowed: bool) -> Iterator[None]:
    """Inside the block CUDA may round the factors of float32 matrix products to TF32.

    Args:
        device: What computes; others than CUDA do not change.
        allowed: Whether it may; if not, torch's setting stays as it is.
    """
    before = torch.get_float32_matmul_precision()
    try:
        if allowed and device.type == "cuda":
            torch.set_float32_matmul_precision("high")
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch says that a device has no memory left."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    # Apple's chips, errors of CUDA outside torch's allocator, and the CPU have no class for it.
    texts = ("out of memory", "can't allocate memory")
    return isinstance(error, RuntimeError) and any(text in str(error) for text in texts)
