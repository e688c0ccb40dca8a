"""How time and memory of a closed form grow with the number of items.

With n items, m landmarks (`n_landmarks`; D without a kernel), features of length D, L classes and s
models (one of all items, one without each fold), a closed form computes one decomposition of
`[m, m]`, one more for each kernel that is tried on some items and a faster one for each fold,
about four products of `[n, m]` and `[m, m]` and one more for each model, and products of `[n, m]`
with features and, about `ROUNDS` for each model, with labels:

    seconds = a (r (m³ + g min(n, 1500)³) + s m³ + (4 + s) n m²) + b n m (D + 20 s L)

r, how many times longer a decomposition takes than a product, is measured; a and b follow from the
seconds of two smaller numbers of items.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import nnls

from plusone.closed_form.folds import n_folds
from plusone.closed_form.gamma import SAMPLED
from plusone.closed_form.kernel import n_landmarks
from plusone.closed_form.recover import LEARNED
from plusone.closed_form.vectors import HELD

SIDE = 700  # of the matrices by which a decomposition and a product are compared
PRODUCTS = 4
ROUNDS = 20
REPEATS = 3
# Tables at the peak: of labels that are learned from or calibrated on, and squares [m, m].
TABLES, SQUARES = 7, 9
FLOAT = 4  # bytes


@dataclass(frozen=True)
class Growth:
    """A closed form, by what its cost depends on beside the number of items.

    Args:
        width: D, length of a feature vector.
        classes: L.
        kernel: Whether its vectors are those of a kernel.
        folds: Whether folds are solved too.
        tried: How many kernels are tried on some items.
    """

    width: int
    classes: int
    kernel: bool
    folds: bool
    tried: int

    def bytes(self, n: int) -> int:
        """Bytes of its tables for n items."""
        m, labels = self._rank(n), min(n * self.classes, LEARNED)
        squares = (SQUARES + self._models(n)) * m * m
        held = min(FLOAT * n * m, HELD)
        return FLOAT * (TABLES * labels + squares + n * self.width) + held

    def seconds(self, n: int, measured: Sequence[tuple[int, float]]) -> float:
        """Seconds for n items, from smaller numbers of items and their seconds."""
        ratio = decomposition_over_product()
        terms = np.array([self._terms(items, ratio) for items in (n, *(m for m, _ in measured))])
        terms /= terms.max(axis=0)
        factors, _ = nnls(terms[1:], np.array([seconds for _, seconds in measured]))
        return float(terms[0] @ factors)

    def _terms(self, n: int, ratio: float) -> tuple[float, float]:
        """What a and b are multiplied with."""
        m, models = self._rank(n), self._models(n)
        large = ratio * (m**3 + self.tried * min(n, SAMPLED) ** 3) + models * m**3
        large += (PRODUCTS + models) * n * m**2
        return large, n * m * (self.width + ROUNDS * models * self.classes)

    def _models(self, n: int) -> int:
        return 1 + (n_folds(n, self._rank(n)) if self.folds else 0)

    def _rank(self, n: int) -> int:
        return n_landmarks(n, self.classes) if self.kernel else self.width


def decomposition_over_product() -> float:
    """How many times longer a decomposition takes than a product of matrices of that size."""
    square = torch.randn(SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    square = square @ square.T

    def best(run: Callable[[], object]) -> float:
        times = []
        for _ in range(REPEATS):
            started = time.perf_counter()
            run()
            times.append(time.perf_counter() - started)
        return min(times)

    return best(lambda: torch.linalg.eigh(square)) / best(lambda: square @ square)
