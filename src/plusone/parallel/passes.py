"""Passes of a closed form, or of calibration, over items that are divided among the processes."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from plusone.closed_form.vectors import ALONE, Passes, Ranks
from plusone.parallel.processes import (
    all_gather,
    all_gather_values,
    all_sum,
    broadcast_tensors,
    world,
)
from plusone.probabilities.scores import Division


def ranks_of_passes(passes: Passes | None = None) -> Ranks:
    """The processes that share the items; a pass ends with one sum over them.

    Args:
        passes: Keeps what they add up.
    """
    rank, size = world()
    alone = ALONE if passes is None else Ranks(kept=passes)
    if size == 1:
        return alone

    def gather(part: Tensor) -> Tensor:
        return all_gather(part, all_gather_values(len(part)))

    def first(tensor: Tensor) -> Tensor:
        sent = broadcast_tensors({"first": tensor.cpu()})["first"]
        return sent.to(tensor.device)

    return Ranks(rank, size, all_sum, gather, first, alone.kept)


def divided_pass() -> Division:
    """How a pass over scores is divided: each process has a contiguous share of the items."""
    rank, size = world()
    if size == 1:
        return Division()

    def gather(part: npt.NDArray[Any]) -> npt.NDArray[Any]:
        whole = all_gather(torch.from_numpy(part), all_gather_values(len(part)))
        return whole.numpy()

    return Division(rank, size, gather)
