"""A bound on the memory that building a model may take, for runs that a stranger made."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from plusone.errors import InputError

FACTOR = 16  # a network's first weights, their copies and what is computed for them
SPARE = 2**28
MAKERS = ("empty", "zeros", "ones", "full", "rand", "randn", "new_")


class Allotted(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside it tensors may be made up to so many numbers in all; more is an `InputError`.

    A recipe of a few bytes can ask for a network of any size. What a run really holds is the size
    of its weights file.

    Args:
        size: Bytes of the weights file.
        what: What to name in the message.
    """

    def __init__(self, size: int, what: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.left = FACTOR * size + SPARE
        self.what = what

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[Any],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func.__name__.startswith(MAKERS):
            self._take(next((arg for arg in args if isinstance(arg, (list, tuple))), ()))
        return func(*args, **(kwargs or {}))

    def _take(self, shape: Sequence[int]) -> None:
        self.left -= 4 * math.prod(shape)
        if self.left < 0:
            raise InputError(
                f"{self.what}: describes a far larger model than its weights file holds"
            )
