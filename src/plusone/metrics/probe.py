"""What a model says, at one moment, about the labels that were hidden from it.

Two histograms are kept: of the probabilities of hidden positives and of true negatives, over the
unobserved labels of the training items. The papers' pictures of training all follow from them: the
distribution of unobserved positives (Cole et al. 2021, Fig. 2), the distance and the densities of
GR, Fig. 3, the share of false negatives per confidence (GR, Fig. 5), PPV and NPV (LASD, Fig. 2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from plusone.data.matrix import LabelMatrix
from plusone.results import BINS, Probe

if TYPE_CHECKING:
    from torch import Tensor


FINE = 10_000  # the distance is taken over this many bins, so it is exact to 1e-4
LARGEST = 1 << 26  # labels [N, L] up to which trainings are probed


class Prober:
    """Looks at the unobserved labels of the training items again and again.

    Args:
        truth: All labels.
        observed: What training saw of them.
    """

    def __init__(self, truth: LabelMatrix, observed: LabelMatrix) -> None:
        import torch

        seen = _places(observed, observed.values != 0)
        positive = _places(truth, truth.values == 1)
        hidden = np.setdiff1d(positive, seen, assume_unique=True)
        self._seen, self._hidden = torch.from_numpy(seen), torch.from_numpy(hidden)

    def __call__(self, scores: Tensor) -> Probe:
        """What these probabilities `[N, L]` say."""
        import torch

        bins = scores.flatten().mul(FINE).to(torch.int32).clamp_(0, FINE - 1)
        found = torch.bincount(bins[self._hidden], minlength=FINE)
        seen = torch.bincount(bins[self._seen], minlength=FINE)
        rest = torch.bincount(bins, minlength=FINE) - seen - found
        return Probe(
            positives=_coarse(found), negatives=_coarse(rest), distance=_distance(found, rest)
        )


def prober_for(truth: LabelMatrix | None, observed: LabelMatrix) -> Prober | None:
    """A prober, where labels are hidden, known, and few enough to look at all of them."""
    hides = truth is not None and truth.default == -1 and observed.default == 0
    if truth is None or not hides or len(truth) * truth.n_classes > LARGEST:
        return None
    return Prober(truth, observed)


def _places(labels: LabelMatrix, kept: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Places of some stored labels in the flattened `[N, L]` table."""
    rows = np.repeat(np.arange(len(labels), dtype=np.int64), np.diff(labels.indptr))
    places: npt.NDArray[np.int64] = (rows * labels.n_classes + labels.indices)[kept]
    return places


def _coarse(counts: Tensor) -> tuple[int, ...]:
    return tuple(counts.view(BINS, -1).sum(1).tolist())


def _distance(one: Tensor, other: Tensor) -> float | None:
    """Area between the two distribution functions, on [0, 1]."""
    if not one.any() or not other.any():
        return None
    gap = one.double().cumsum(0) / one.sum() - other.double().cumsum(0) / other.sum()
    return float(gap.abs().sum() / FINE)
