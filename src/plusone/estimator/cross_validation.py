"""Out-of-sample probabilities for every form of labels.

`sklearn.model_selection.cross_val_predict` works for one class per item and for matrices of 0 and
1. With `method="predict_proba"` it counts the values of every column of a matrix anew from 0, so
that -1, 0, 1 become 0, 1, 2; lists of labels it refuses.
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
    """What models that have not seen an item say about it, `[N, L]`.

    Args:
        estimator: A `PlusOneClassifier`, or a pipeline that ends in one.
        X: Inputs `[N, D]`.
        y: Labels in any form that `PlusOneClassifier.fit` takes.
        folds: Number of folds; each is predicted by a model trained on the others.
        random_state: Decides which items are in which fold.

    Returns:
        Probabilities, columns in the order of `classes_` of a classifier fitted on all items.
    """
    labels = read_labels(y)
    found = np.zeros(labels.matrix.shape, dtype=np.float32)
    splits = KFold(folds, shuffle=True, random_state=random_state)
    for train, test in splits.split(np.arange(len(labels.matrix))):
        model = clone(estimator).fit(_safe_indexing(X, train), labels.matrix.take(train))
        found[test] = model.predict_proba(_safe_indexing(X, test))
    return found
