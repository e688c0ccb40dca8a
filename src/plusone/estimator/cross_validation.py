"""Out-of-sample probabilities for every form of labels.

`sklearn.model_selection.cross_val_predict` works for one class per item and for matrices of 0 and
1. With `method="predict_proba"` it encodes the values of every column of a matrix from 0, so that
-1, 0, 1 become 0, 1, 2; it does not accept lists of labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from plusone.data.groups import Ints, random_folds
from plusone.errors import InputError
from plusone.estimator.labels import read_labels


def cross_val_probabilities(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: npt.ArrayLike | None = None,
    folds: int = 5,
    random_state: int | None = 0,
) -> npt.NDArray[np.float32]:
    """Out-of-sample probabilities by cross-validation, `[N, L]`.

    Args:
        estimator: A `PlusOneClassifier`, or a pipeline that ends in one.
        X: Inputs `[N, D]`.
        y: Labels in any form that `PlusOneClassifier.fit` takes.
        groups: The group of each item, `[N]`: items of a group are in one fold, and are held out
            together where the classifier holds out items of its own.
        folds: Number of folds; each is predicted by a model trained on the others.
        random_state: Seed of the folds.

    Returns:
        Probabilities, columns in the order of `classes_` of a classifier fitted on all items.
    """
    labels = read_labels(y)
    probabilities = np.zeros(labels.matrix.shape, dtype=np.float32)
    for train, test in _splits(len(labels.matrix), folds, random_state, groups):
        extra = {} if groups is None else {_name_of_groups(estimator): np.asarray(groups)[train]}
        model = clone(estimator).fit(_safe_indexing(X, train), labels.matrix.take(train), **extra)
        probabilities[test] = model.predict_proba(_safe_indexing(X, test))
    return probabilities


def _splits(
    n_items: int, folds: int, seed: int | None, groups: npt.ArrayLike | None
) -> Iterator[tuple[Ints, Ints]]:
    """Training and test rows of each fold."""
    from sklearn.model_selection import KFold  # slow to import

    if groups is None:
        yield from KFold(folds, shuffle=True, random_state=seed).split(np.arange(n_items))
        return
    most = len(np.unique(np.asarray(groups)))
    if not 2 <= folds <= most:
        raise InputError(f"folds must be 2 to {most}, as many as there are groups, not {folds}")
    fold = random_folds(n_items, folds, np.random.default_rng(seed).permutation, groups)
    for number in range(folds):
        yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


def _name_of_groups(estimator: Any) -> str:
    """The name under which `fit` of a classifier, or of a pipeline, takes groups."""
    from sklearn.pipeline import Pipeline

    if not isinstance(estimator, Pipeline):
        return "groups"
    name, last = estimator.steps[-1]
    return f"{name}__{_name_of_groups(last)}"
