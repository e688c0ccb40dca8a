"""A second torch device, for machines without an accelerator: `mimic:0` computes on the CPU.

It behaves as a strict accelerator does, and gives the numbers of the CPU:

- an operation on tensors of both devices is an error; scalars, and indices of a tensor on the
  device, may be on the CPU, as with CUDA;
- every read on the host (`.item()`, `bool(t)`, `nonzero`, a copy to the CPU) is written down with
  the line that caused it;
- float64 can be refused, as Apple's MPS does;
- its free memory is whatever a test says, and large tensors may be out of memory.

`torch.accelerator` finds it only inside `with MimicDevice()`: `device = "auto"` means the CPU for
all other tests of the process.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

NAME = "mimic"
DEVICE = torch.device("cpu")  # until it is registered, below

aten = torch.ops.aten
READS = {aten._local_scalar_dense.default, aten.nonzero.default, aten.equal.default}
COPIES = {aten._to_copy.default, aten.copy_.default}
INDEXING = {
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
    aten._unsafe_index.Tensor,
}
OWN_FILES = ("mimic_device.py", "/torch/")


def on_tensors(change: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """The same lists, tuples and dictionaries with other tensors, faster than by `tree_map`."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)([on_tensors(change, part) for part in value])
    if isinstance(value, dict):
        return {name: on_tensors(change, part) for name, part in value.items()}
    return value


def tensors_of(*values: Any) -> list[torch.Tensor]:
    """All tensors in lists, tuples and dictionaries."""
    tensors: list[torch.Tensor] = []
    on_tensors(tensors.append, values)
    return tensors


class Backend:
    """The module `torch.mimic`, which `torch.accelerator` asks about the device."""

    present = False
    free = 1 << 34

    def is_available(self) -> bool:
        return self.present

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """Random numbers come from the CPU's generator."""

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        return torch.empty(0)

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None:
        """As above."""

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        return self.free, 1 << 34

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


BACKEND = Backend()
backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=BACKEND)
DEVICE = torch.device(NAME, 0)
# Autocast is accepted and changes nothing.
AUTOCAST = torch.library.Library("_", "IMPL")
AUTOCAST.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")


class MimicTensor(torch.Tensor):
    """A tensor on the device; `held` is the tensor that computes."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> MimicTensor:
        tensor = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride() if held.layout is torch.strided else None,
            storage_offset=held.storage_offset() if held.layout is torch.strided else 0,
            dtype=held.dtype,
            layout=held.layout,
            device=DEVICE,
        )
        tensor.held = held
        return tensor

    def __repr__(self, **_: Any) -> str:
        return f"mimic({self.held!r})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return STATE.run(func, args, kwargs or {})


class State:
    """What the device allows and what was read from it."""

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.float64 = True
        self.elements: int | None = None

    def note(self, what: object) -> None:
        frames = [
            frame
            for frame in traceback.extract_stack()
            if not any(part in frame.filename for part in OWN_FILES)
        ]
        where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "torch"
        self.reads.append(f"{where}: {what}")

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """One operation, on the tensors that are held."""
        tensors = tensors_of(args, kwargs)
        on = [tensor for tensor in tensors if isinstance(tensor, MimicTensor)]
        off = [tensor for tensor in tensors if not isinstance(tensor, MimicTensor)]
        mixed = on and any(tensor.dim() for tensor in off) and func not in COPIES
        if mixed and (func not in INDEXING or not isinstance(tensors[0], MimicTensor)):
            raise RuntimeError(f"{func}: some tensors are on {DEVICE}, others on the CPU")
        here, kwargs = bool(on), dict(kwargs)
        if on and func in READS:
            self.note(func)
        if kwargs.get("device") is not None:
            here = torch.device(kwargs["device"]).type == NAME
            kwargs["device"] = torch.device("cpu")
            if on and not here:
                self.note("copy to the CPU")
        elif func is aten.copy_.default:
            here = isinstance(args[0], MimicTensor)
            if not here:
                self.note("copy to the CPU")
        for name in ("pin_memory", "non_blocking"):
            if func is aten._to_copy.default or name == "pin_memory":
                kwargs.pop(name, None)
        held_args, held_kwargs = on_tensors(
            lambda tensor: tensor.held if isinstance(tensor, MimicTensor) else tensor,
            (args, kwargs),
        )
        results = func(*held_args, **held_kwargs)
        in_place = {id(tensor.held): tensor for tensor in on}

        def wrapped(result: torch.Tensor) -> torch.Tensor:
            if isinstance(result, MimicTensor) or not here:
                return result
            if result.dtype == torch.float64 and not self.float64:
                raise TypeError(f"{func}: this device has no float64")
            if self.elements is not None and result.numel() > self.elements:
                raise torch.OutOfMemoryError(f"{func}: mimic out of memory")
            return in_place[id(result)] if id(result) in in_place else MimicTensor(result)

        return on_tensors(wrapped, results)


STATE = State()


class MimicDevice(TorchDispatchMode):
    """Inside this block the device is there, and `torch.accelerator` finds it.

    Args:
        float64: False refuses double precision on it.
        free: Its free memory in bytes.
        elements: Tensors of more elements are out of memory; None has room for all.
    """

    def __init__(
        self, *, float64: bool = True, free: int = 1 << 34, elements: int | None = None
    ) -> None:
        super().__init__()
        self.float64, self.free, self.elements = float64, free, elements

    def __enter__(self) -> MimicDevice:
        STATE.float64, BACKEND.present, BACKEND.free = self.float64, True, self.free
        STATE.elements = self.elements
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        STATE.float64, STATE.elements, BACKEND.present = True, None, False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        asked = device is not None and torch.device(device).type == NAME
        if asked or any(isinstance(tensor, MimicTensor) for tensor in tensors_of(args, kwargs)):
            return STATE.run(func, args, kwargs)
        return func(*args, **kwargs)

    @contextlib.contextmanager
    def reads(self) -> Iterator[list[str]]:
        """The reads on the host inside the block, each with its line."""
        start, noted = len(STATE.reads), list[str]()
        yield noted
        noted.extend(STATE.reads[start:])
