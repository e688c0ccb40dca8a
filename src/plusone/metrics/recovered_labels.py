"""How well scores of the training items recover the labels that were hidden from training.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR, Table 2, reports the mAP
of training-set predictions against the full truth: `recovery_map` here. It includes the labels
that training has seen, so the other metrics use only the unobserved entries, where the hidden
positives must be distinguished from the true negatives.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from plusone.metrics._inputs import (
    Array,
    Empty,
    mean_over_classes,
    ratio,
    validate,
    validate_labels,
)
from plusone.metrics.ranking import (
    counted_average_precision,
    mean_average_precision,
    sorted_average_precision,
)


def hidden_average_precision(scores: Array, truth: Array, observed: Array) -> Tensor:
    """Average precision of each class over the items where its label was not observed.

    Args:
        scores: `[N, L]`, of the training items; predictions or a method's own estimates.
        truth: `[N, L]`, 1 for a positive, -1 for a negative; beside -1, a 0 is unknown and masked.
        observed: `[N, L]`, what training saw: 1 and -1 for a seen label, 0 for an unobserved one.

    Returns:
        `[L]`, float64 on the CPU; NaN for a class without a hidden positive.

    >>> scores = torch.tensor([[0.9], [0.8], [0.7]])
    >>> truth, observed = torch.tensor([[1], [0], [1]]), torch.tensor([[1], [0], [0]])
    >>> hidden_average_precision(scores, truth, observed)
    tensor([0.5000], dtype=torch.float64)
    """
    values, positive, known = validate(scores, truth)
    unseen = validate_labels(observed, values.shape, "observed") == 0
    counted = unseen if known is None else unseen & known
    return torch.from_numpy(counted_average_precision(values, positive, counted))


def evaluate_recovery(
    scores: Array,
    truth: Array,
    observed: Array,
    *,
    threshold: float = 0.5,
    empty: Empty = "skip",
    ranking: Array | None = None,
) -> dict[str, float]:
    """How well the labels hidden from training are recovered.

    Args:
        scores: `[N, L]`, of the training items; predictions or a method's own estimates.
        truth: `[N, L]`, 1 for a positive, -1 for a negative; beside -1, a 0 is unknown and masked.
        observed: `[N, L]`, what training saw: 1 and -1 for a seen label, 0 for an unobserved one.
        threshold: A hidden positive is found if its score is above it.
        empty: For `recovery_map`: classes without a positive are left out of the mean (`"skip"`) or
            count as 0 (`"zero"`). The `hidden_` values always leave out classes with none hidden.
        ranking: What labels are ranked by, `[N, L]`, if not by the scores: their log-odds, where
            scores round to 1.

    Returns:
        These keys; all but the first concern unobserved entries only, and NaN means that there
        are no hidden positives:

        - `recovery_map`: mAP against the full truth.
        - `hidden_map`: the mean over classes of `hidden_average_precision`.
        - `hidden_ap`: average precision over the entries of all classes pooled.
        - `hidden_recall`: the share of hidden positives found, per class, then the mean.
        - `hidden_found`: the share of hidden positives found, pooled.
        - `hidden_positives`: how many there are.

    >>> scores = torch.tensor([[0.9, 0.2], [0.8, 0.6], [0.7, 0.1]])
    >>> truth = torch.tensor([[1, 0], [0, 1], [1, 1]])
    >>> observed = torch.tensor([[1, 0], [0, 1], [0, 0]])
    >>> {key: round(value, 3) for key, value in evaluate_recovery(scores, truth, observed).items()}
    ... # doctest: +NORMALIZE_WHITESPACE
    {'recovery_map': 0.833, 'hidden_map': 0.5, 'hidden_ap': 0.5, 'hidden_recall': 0.5,
     'hidden_found': 0.5, 'hidden_positives': 2.0}
    """
    values, positive, known = validate(scores, truth)
    unseen = validate_labels(observed, values.shape, "observed") == 0
    unseen = unseen if known is None else unseen & known
    hidden = positive & unseen
    order = values if ranking is None else validate(ranking, truth)[0]
    per_class = counted_average_precision(order, positive, unseen)
    count = np.count_nonzero(hidden, axis=0)
    found = np.count_nonzero(hidden & (values > threshold), axis=0)
    return {
        "recovery_map": mean_average_precision(order, truth, empty),
        "hidden_map": mean_over_classes(per_class, count > 0, "skip"),
        "hidden_ap": sorted_average_precision(np.sort(order[unseen]), order[hidden]),
        "hidden_recall": mean_over_classes(found / np.maximum(count, 1), count > 0, "skip"),
        "hidden_found": ratio(found.sum(), count.sum()),
        "hidden_positives": float(count.sum()),
    }
