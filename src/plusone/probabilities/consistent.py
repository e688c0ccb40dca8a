"""Probabilities that agree with a hierarchy: a class is at least as probable as those below it.

Nothing in a model says so, but an item cannot have a class without the classes above it. Each class
gets the largest probability among its own and those of the classes below it, so classes without
children keep theirs. docs/hierarchies.md compares this with other projections.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.data.hierarchy import Hierarchy
from plusone.probabilities.curve import Curve

__all__ = ["as_predicted", "consistent", "consistent_array"]


def consistent(scores: Tensor, hierarchy: Hierarchy | None) -> Tensor:
    """Scores `[..., L]` of which each is at least as large as those of the classes below it.

    Only their order counts, so log-odds and probabilities give the same.

    >>> consistent(torch.tensor([[0.9, 0.2, 0.4]]), Hierarchy((1, 2, None)))
    tensor([[0.9000, 0.9000, 0.9000]])
    """
    if hierarchy is None:
        return scores
    own = range(len(hierarchy.parent))
    above = [label if up is None else up for label, up in zip(own, hierarchy.parent, strict=True)]
    index = torch.tensor(above, device=scores.device).expand_as(scores)
    for _ in range(hierarchy.depth - 1):
        scores = scores.scatter_reduce(-1, index, scores, "amax")
    return scores


def as_predicted(log_odds: Tensor, curve: Curve, hierarchy: Hierarchy | None) -> Tensor:
    """Log-odds of scores `[N, L]` whose calibrated probabilities agree with the hierarchy."""
    if hierarchy is None:
        return log_odds
    scores = curve.inverse(consistent(curve(log_odds.double()), hierarchy).numpy())
    return torch.from_numpy(scores).to(log_odds.dtype)


def consistent_array(
    scores: npt.NDArray[np.float64], hierarchy: Hierarchy | None
) -> npt.NDArray[np.float64]:
    """The same for an array."""
    return np.asarray(consistent(torch.from_numpy(scores), hierarchy).numpy())
