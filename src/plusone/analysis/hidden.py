"""Unobserved labels during training: the papers' figures, computed from the probes of a training.

A probe (`plusone.results.Probe`) holds two histograms of predicted probabilities over the
unobserved labels of the training items: those of hidden positives (FN) and of true negatives (TN).
GR counts on validation items and LASD on test items, with all of their labels; here the training
items are used throughout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plusone.errors import InputError
from plusone.results import BINS, EpochRecord, Probe

__all__ = [
    "Densities",
    "Distances",
    "FalseNegatives",
    "HiddenPositives",
    "KHat",
    "Places",
    "PredictiveValues",
    "densities",
    "distances",
    "false_negatives",
    "gr_k_hat",
    "hidden_positives",
    "posterior",
    "predictive_values",
    "probes_of",
]

Numbers = tuple[float, ...]
Gaps = tuple[float | None, ...]

MIDDLES: Numbers = tuple(round((place + 0.5) / BINS, 4) for place in range(BINS))


@dataclass(frozen=True)
class Places:
    """Which epochs were probed.

    Args:
        epoch: Epochs of the training, from 1, numbered through all stages.
        stage: Stage of each, from 0.
    """

    epoch: tuple[int, ...]
    stage: tuple[int, ...]


@dataclass(frozen=True)
class HiddenPositives:
    """Distribution of the probabilities of hidden positives, per epoch (Cole et al. 2021, Fig. 2).

    Args:
        places: The epochs.
        p: Middles of the 100 bins.
        shares: Share of the hidden positives in each bin, `[epochs][100]`; a row sums to 1.
    """

    places: Places
    p: Numbers
    shares: tuple[Numbers, ...]


@dataclass(frozen=True)
class Distances:
    """Distance between hidden positives and true negatives, per epoch (GR, Fig. 3a; EM).

    Args:
        places: The epochs.
        distance: Wasserstein distance between their probabilities; None where one kind is empty.
    """

    places: Places
    distance: Gaps


@dataclass(frozen=True)
class Densities:
    """Densities of the probabilities in one epoch (GR, Fig. 3b and c; EM).

    Args:
        p: Middles of the 100 bins.
        positives: Density of hidden positives over [0, 1]; its mean is 1.
        negatives: Density of true negatives.
        distance: Wasserstein distance between the two.
    """

    p: Numbers
    positives: Numbers
    negatives: Numbers
    distance: float | None


@dataclass(frozen=True)
class FalseNegatives:
    """Share of positives among unobserved labels, by confidence (GR, Fig. 5).

    Args:
        p: Middles of the 100 bins.
        share: FN / (FN + TN) in each bin, None where the bin is empty.
        labels: FN + TN in each bin.
        overall: FN / (FN + TN) of all bins: the constant of GR's Assumption 1.
    """

    p: Numbers
    share: Gaps
    labels: tuple[int, ...]
    overall: float | None


@dataclass(frozen=True)
class PredictiveValues:
    """Predictive values of a threshold, per epoch (LASD, Fig. 2).

    Args:
        places: The epochs.
        tau: The threshold.
        ppv: TP / (TP + FP), the share of positives above tau; None where nothing is above.
        npv: TN / (TN + FN), the share of negatives below tau; None where nothing is below.
        above: How many labels are above tau.
    """

    places: Places
    tau: float
    ppv: Gaps
    npv: Gaps
    above: tuple[int, ...]


def probes_of(epochs: Iterable[EpochRecord]) -> tuple[Places, list[Probe]]:
    """The probes of a training, and the epochs they are from; epochs without one are left out."""
    numbers: list[int] = []
    stages: list[int] = []
    probes: list[Probe] = []
    for number, epoch in enumerate(epochs, start=1):
        if epoch.probe is not None:
            numbers.append(number)
            stages.append(epoch.stage)
            probes.append(epoch.probe)
    if not probes:
        raise InputError(
            "this training has no probes of its hidden labels: they need data with all labels "
            "known, and on images --set probe=on"
        )
    return Places(tuple(numbers), tuple(stages)), probes


def hidden_positives(epochs: Iterable[EpochRecord]) -> HiddenPositives:
    """Distribution of the hidden positives over the epochs (Cole et al. 2021, Fig. 2)."""
    places, probes = probes_of(epochs)
    return HiddenPositives(places, MIDDLES, tuple(_shares(probe.positives) for probe in probes))


def distances(epochs: Iterable[EpochRecord]) -> Distances:
    """Distance between hidden positives and true negatives over the epochs (GR, Fig. 3a)."""
    places, probes = probes_of(epochs)
    return Distances(places, tuple(probe.distance for probe in probes))


def densities(probe: Probe) -> Densities:
    """Densities of hidden positives and true negatives in one epoch (GR, Fig. 3b and c)."""
    positives, negatives = (
        tuple(share * BINS for share in _shares(counts))
        for counts in (probe.positives, probe.negatives)
    )
    return Densities(MIDDLES, positives, negatives, probe.distance)


def false_negatives(probe: Probe) -> FalseNegatives:
    """FN / (FN + TN) over 100 intervals of confidence (GR, Fig. 5)."""
    labels = tuple(fn + tn for fn, tn in zip(probe.positives, probe.negatives, strict=True))
    return FalseNegatives(
        p=MIDDLES,
        share=tuple(_ratio(fn, n) for fn, n in zip(probe.positives, labels, strict=True)),
        labels=labels,
        overall=_ratio(sum(probe.positives), sum(labels)),
    )


def predictive_values(epochs: Iterable[EpochRecord], tau: float) -> PredictiveValues:
    """PPV and NPV at a threshold over the epochs (LASD, Fig. 2).

    They are exact: the threshold must lie on the edge of a bin. A probability equal to tau counts
    as above it.

    Args:
        epochs: Records of a training's epochs.
        tau: A multiple of 0.01 between 0 and 1.

    Raises:
        InputError: If tau is not on the edge of a bin.
    """
    edge = round(tau * BINS)
    if not 0 < edge < BINS or abs(tau * BINS - edge) > 1e-6:
        raise InputError(
            f"tau = {tau:g} is not a multiple of {1 / BINS:g} between 0 and 1, and probabilities "
            f"are counted in {BINS} bins; the nearest is {min(max(edge, 1), BINS - 1) / BINS:g}"
        )
    places, probes = probes_of(epochs)
    ppv, npv, above = [], [], []
    for probe in probes:
        tp, fp = sum(probe.positives[edge:]), sum(probe.negatives[edge:])
        tn, fn = sum(probe.negatives[:edge]), sum(probe.positives[:edge])
        ppv.append(_ratio(tp, tp + fp))
        npv.append(_ratio(tn, tn + fn))
        above.append(tp + fp)
    return PredictiveValues(places, edge / BINS, tuple(ppv), tuple(npv), tuple(above))


def _shares(counts: Sequence[int]) -> Numbers:
    """Counts as shares of their sum; zeros if that is zero."""
    return tuple(count / max(sum(counts), 1) for count in counts)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


@dataclass(frozen=True)
class KHat:
    """GR's estimate of the probability that an unobserved label is positive (Eq. 7).

    Args:
        p: Predicted probabilities.
        k_hat: sigmoid(w p + b), the estimate that the loss uses in this epoch.
        w: Slope in this epoch.
        b: Intercept in this epoch.
        epoch: The epoch, from 1.
        epochs: How many there are.
    """

    p: tuple[float, ...]
    k_hat: tuple[float, ...]
    w: float
    b: float
    epoch: int
    epochs: int


def gr_k_hat(
    epoch: int,
    epochs: int,
    options: Mapping[str, Any] | None = None,
    p: Sequence[float] = MIDDLES,
) -> KHat:
    """The estimate that `gr` uses in an epoch.

    Args:
        epoch: The epoch, from 1.
        epochs: Epochs of the training.
        options: Options of `gr` that differ from its defaults.
        p: Predicted probabilities to evaluate it at.
    """
    from plusone.data.matrix import LabelMatrix
    from plusone.methods import get_method
    from plusone.methods.gr import Gr
    from plusone.types import Clock, TrainLabels

    if not 1 <= epoch <= epochs:
        raise InputError(f"epoch {epoch} is not one of the epochs 1 to {epochs}")
    info = get_method("gr")
    method = info.build(
        TrainLabels(LabelMatrix.from_dense([[1, 0]])), info.make_options(options or {})
    )
    assert isinstance(method, Gr)
    scheduled = method.schedule(Clock(0, epoch - 1, epochs, 0, 1))
    w, b = float(scheduled["w"]), float(scheduled["b"])
    values = 1 / (1 + np.exp(-(w * np.asarray(p, dtype=np.float64) + b)))
    return KHat(tuple(p), tuple(values.tolist()), w, b, epoch, epochs)


def posterior(p: Sequence[float], k: float) -> tuple[float, ...]:
    """Probability that an unobserved label is positive, for a calibrated model (GR, Eq. 6).

    It is (1 - a) p / (1 - a p) with a = 1 / k: the blue curve of Fig. 5, where k is 1.46 (VOC) and
    2.94 (COCO).

    >>> posterior([0.0, 0.5, 1.0], k=2.0)
    (0.0, 0.3333333333333333, 1.0)
    """
    if k < 1:
        raise InputError(f"k = {k:g}: an item has at least one positive, the seen one")
    a = 1 / k
    return tuple((1 - a) * at / max(1 - a * at, 1e-12) for at in p)
