"""khat, what GR believes of an unobserved label, beside what it should believe.

Chen et al. 2024, Boosting Single Positive Multi-label Classification with Generalized Robust Loss,
IJCAI: Eq. 6, 7 and Fig. 5. `plusone.analysis.hidden.false_negatives` has the points of that figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from plusone.analysis.hidden import MIDDLES
from plusone.errors import InputError


@dataclass(frozen=True)
class KHat:
    """Chance that an unobserved label is positive, against the model's confidence.

    Args:
        p: Confidences.
        k_hat: sigmoid(w p + b), what the loss takes for it in this epoch (Eq. 7).
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

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def gr_k_hat(
    epoch: int,
    epochs: int,
    options: Mapping[str, Any] | None = None,
    p: Sequence[float] = MIDDLES,
) -> KHat:
    """What `gr` believes in an epoch.

    Args:
        epoch: The epoch, from 1.
        epochs: Epochs of the training.
        options: Options of `gr` that differ from its defaults.
        p: Confidences to give it for.
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
    at = method.schedule(Clock(0, epoch - 1, epochs, 0, 1))
    w, b = float(at["w"]), float(at["b"])
    values = 1 / (1 + np.exp(-(w * np.asarray(p, dtype=np.float64) + b)))
    return KHat(tuple(p), tuple(values.tolist()), w, b, epoch, epochs)


def posterior(p: Sequence[float], k: float) -> tuple[float, ...]:
    """(1 - a) p / (1 - a p) with a = 1 / k: the chance of a well trained model (GR, Eq. 6).

    The blue curve of Fig. 5, where k is 1.46 (VOC) and 2.94 (COCO).

    >>> posterior([0.0, 0.5, 1.0], k=2.0)
    (0.0, 0.3333333333333333, 1.0)
    """
    if k < 1:
        raise InputError(f"k = {k:g}: an item has at least one positive, the seen one")
    share, at = 1 / k, np.asarray(p, dtype=np.float64)
    below = np.maximum(1 - share * at, 1e-12)
    return tuple(((1 - share) * at / below).tolist())
