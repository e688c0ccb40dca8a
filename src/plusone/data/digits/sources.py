"""The handwriting the scenes are made of, and which split may use which digit."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

CLASSES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SPLITS = ("train", "val", "test")
SIZE = 64
SOURCE_SIDE = 8
SPLIT_SEED = 1797  # the assignment of source digits to splits, the same for every scene seed
SHARES = (0.6, 0.15, 0.25)  # of each class's source digits


@lru_cache(maxsize=1)
def source_digits() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """The source digits: float32 [1797, 10, 10] in 0-1 with an empty border, int64 [1797]."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.pad(np.asarray(bunch.images, np.float32) / 16.0, ((0, 0), (1, 1), (1, 1)))
    return images, np.asarray(bunch.target, np.int64)


def source_indices() -> tuple[npt.NDArray[np.int64], ...]:
    """Which of scikit-learn's digits each split may use.

    The assignment is stratified by class and does not depend on the scene seed, so that a test
    digit is never a training digit, whatever two seeds are compared.

    Returns:
        Sorted int64 indices into `sklearn.datasets.load_digits()` for train, val and test,
        disjoint and together complete.
    """
    target = source_digits()[1]
    rng = np.random.default_rng(SPLIT_SEED)
    parts: list[list[npt.NDArray[np.int64]]] = [[], [], []]
    for c in range(len(CLASSES)):
        members = rng.permutation(np.flatnonzero(target == c))
        cuts = np.round(np.cumsum(SHARES[:-1]) * len(members)).astype(int)
        for part, piece in zip(parts, np.split(members, cuts), strict=True):
            part.append(piece)
    return tuple(np.sort(np.concatenate(part)) for part in parts)
