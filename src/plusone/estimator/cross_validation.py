"""Out-of-sample probabilities for every form of labels.

`sklearn.model_selection.cross_val_predict` works for one class per item and for matrices of 0 and
1. With `method="predict_proba"` it encodes the values of every column of a matrix from 0, so that
-1, 0, 1 become 0, 1, 2; it does not accept lists of labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.utils import _safe_indexing

from plusone.estimator.labels import read_labels


def cross_val_probabilities(
    estimator: Any, X: Any, y: Any, *, folds: int = 5, random_state: int | None = 0
) -> npt.NDArray[np.float32]:
    """Out-of-sample probabilities by cross-validation, `[N, L]`.

    Args:
        estimator: A `PlusOneClassifier`, or a pipeline that ends in one.
        X: Inputs `[N, D]`.
        y: Labels in any form that `PlusOneClassifier.fit` takes.
        folds: Number of folds; each is predicted by a model trained on the others.
        random_state: Seed of the folds.

    Returns:
        Probabilities, columns in the order of `classes_` of a classifier fitted on all items.
    """
    labels = read_labels(y)
    probabilities = np.zeros(labels.matrix.shape, dtype=np.float32)
    splits = KFold(folds, shuffle=True, random_state=random_state)
    for train, test in splits.split(np.arange(len(labels.matrix))):
        model = clone(estimator).fit(_safe_indexing(X, train), labels.matrix.take(train))
        probabilities[test] = model.predict_proba(_safe_indexing(X, test))
    return probabilities
