"""Predictions of a model, at one moment of training, for the labels that were hidden from it.

Two histograms are computed over the unobserved labels of the training items, or over all labels of
validation or test items: the probabilities of hidden positives and of true negatives. The papers'
figures on training follow from them: the distribution of unobserved positives (Cole et al. 2021,
Fig. 2), the distance and the densities of GR, Fig. 3, the share of false negatives by confidence
(GR, Fig. 5), PPV and NPV (LASD, Fig. 2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from plusone.data.matrix import LabelMatrix
from plusone.results import BINS, Probe

if TYPE_CHECKING:
    from torch import Tensor


FINE = 10_000  # bins for the distance, which is therefore exact to 1e-4
LARGEST = 1 << 26  # largest N x L for which training is probed


class Prober:
    """Computes a `Probe` from the predictions for some items.

    Args:
        truth: All labels.
        observed: The labels that training sees; None if it sees none of them.
        by_class: Whether to make the histograms of each class as well.
    """

    def __init__(
        self, truth: LabelMatrix, observed: LabelMatrix | None, *, by_class: bool = False
    ) -> None:
        import torch

        self._by_class = by_class
        none = np.empty(0, dtype=np.int64)
        seen = none if observed is None else _places(observed, observed.values != 0)
        positive = _places(truth, truth.values == 1)
        hidden = np.setdiff1d(positive, seen, assume_unique=True)
        self._seen, self._hidden = torch.from_numpy(seen), torch.from_numpy(hidden)

    def __call__(self, scores: Tensor) -> Probe:
        """The probe of the predicted probabilities `[N, L]`."""
        import torch

        bins = scores.flatten().mul(FINE).to(torch.int32).clamp_(0, FINE - 1)
        positives = torch.bincount(bins[self._hidden], minlength=FINE)
        seen = torch.bincount(bins[self._seen], minlength=FINE)
        negatives = torch.bincount(bins, minlength=FINE) - seen - positives
        return Probe(
            positives=_coarse(positives),
            negatives=_coarse(negatives),
            distance=_distance(positives, negatives),
            **({"by_class": self._classes(scores)} if self._by_class else {}),
        )

    def _classes(self, scores: Tensor) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
        """Both histograms of each class."""
        import torch

        n_classes = scores.shape[1]
        bins = scores.mul(BINS).to(torch.int64).clamp_(0, BINS - 1)
        bins = (bins + BINS * torch.arange(n_classes)).flatten()
        size = BINS * n_classes
        positives = torch.bincount(bins[self._hidden], minlength=size)
        seen = torch.bincount(bins[self._seen], minlength=size)
        negatives = torch.bincount(bins, minlength=size) - seen - positives
        rows = zip(
            positives.view(-1, BINS).tolist(), negatives.view(-1, BINS).tolist(), strict=True
        )
        return tuple((tuple(ones), tuple(zeros)) for ones, zeros in rows)


def prober_for(
    truth: LabelMatrix | None, observed: LabelMatrix | None, *, by_class: bool = False
) -> Prober | None:
    """A prober, if labels are hidden, their truth is known, and there are not too many of them."""
    if truth is None or truth.default != -1 or (truth.values == 0).any():
        return None
    if observed is not None and observed.default != 0:
        return None
    if len(truth) * truth.n_classes > LARGEST:
        return None
    return Prober(truth, observed, by_class=by_class)


def _places(labels: LabelMatrix, selected: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Positions of the selected stored labels in the flattened `[N, L]` table."""
    rows = np.repeat(np.arange(len(labels), dtype=np.int64), np.diff(labels.indptr))
    return (rows * labels.n_classes + labels.indices)[selected]


def _coarse(counts: Tensor) -> tuple[int, ...]:
    return tuple(counts.view(BINS, -1).sum(1).tolist())


def _distance(one: Tensor, other: Tensor) -> float | None:
    """Area between the two cumulative distribution functions on [0, 1]."""
    if not one.any() or not other.any():
        return None
    gap = one.double().cumsum(0) / one.sum() - other.double().cumsum(0) / other.sum()
    return float(gap.abs().sum() / FINE)
