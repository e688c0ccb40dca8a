"""Scores on seen labels, for selecting a model where no item is fully labelled; higher is better.

Some compare the items of a class (`weighted_auc`, `seen_auc`, `log_rank`, `corrected_map`,
`seen_map`), others the classes of an item (`reciprocal_rank`, `top_recall`, `pick_likelihood`).
`SCORES` is the table of all of them.

All take probabilities `[N, L]` and observed labels `[N, L]`: 1 seen positive, 0 unobserved, -1 seen
negative. A `ValueError` says what is wrong with a shape or a value, or that no label is a seen
positive. Means are over the classes with a seen positive, or over the seen positives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from plusone.errors import InputError
from plusone.metrics._inputs import Array, Bools, Floats, validate
from plusone.metrics.ranking import mean_average_precision

Float64 = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST = 1e-6  # probabilities are clipped to [LEAST, 1 - LEAST], so that no single item dominates
NODES = 64


def seen_positives(probabilities: Array, observed: Array) -> tuple[Floats, Bools]:
    """Probabilities and seen positives, `[N, L]` each, as numpy arrays."""
    values, positive, _ = validate(probabilities, observed)
    if not positive.any():
        raise ValueError("no label is a seen positive, so nothing can be scored.")
    return values, positive


def items_above(values: Floats, positive: Bools) -> Iterator[tuple[int, Float64]]:
    """For each class with a seen positive: how many items rank above each of its seen positives.

    A tied item counts half. The item itself is not counted, other seen positives are. Yields the
    class, and the counts `[n]` of its n seen positives, ascending.
    """
    for label in np.flatnonzero(positive.any(axis=0)).tolist():
        column = np.sort(values[:, label])
        own = np.sort(values[positive[:, label], label])[::-1]
        below, upto = (np.searchsorted(column, own, side=side) for side in ("left", "right"))
        yield label, len(column) - upto + (upto - below - 1) / 2


def ranks_in_item(values: Floats, positive: Bools) -> tuple[Ints, Ints, Float64]:
    """Row, class and rank (from 1, ties in the middle) of every seen positive within its item."""
    rows, labels = np.nonzero(positive)
    item_scores, seen_score = values[rows], values[rows, labels][:, None]
    rank = (
        1
        + (item_scores > seen_score).sum(axis=1)
        + ((item_scores == seen_score).sum(axis=1) - 1) / 2
    )
    return rows, labels, rank


def seen_map(probabilities: Array, observed: Array) -> float:
    """The mAP with every label that is not a seen positive counted as negative.

    >>> seen_map(np.array([[0.9], [0.8], [0.7]]), np.array([[0], [1], [0]]))
    0.5
    """
    values, positive = seen_positives(probabilities, observed)
    return mean_average_precision(values, positive, empty="skip")


def seen_auc(probabilities: Array, observed: Array) -> float:
    """Mean over classes of the area under the ROC curve of seen positives against all other items.

    With a share h of hidden positives among the others it is `(1 - h) AUC + h / 2` if positives are
    seen at random: of two models, the one with the higher true AUC of a class scores higher.

    A class whose items are all seen positives counts 0.5.

    >>> seen_auc(np.array([[0.9], [0.8], [0.7]]), np.array([[0], [1], [0]]))
    0.5
    """
    areas, _ = _areas(probabilities, observed)
    return float(areas.mean())


def weighted_auc(probabilities: Array, observed: Array) -> float:
    """As `seen_auc`, with classes weighted by the square root of their number of seen positives.

    The AUC of a class with few seen positives is noisy, and many such classes would dominate an
    unweighted mean. Weights in proportion to the number would count only the frequent classes.

    >>> scores, seen = np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([[1, 1], [0, 0]])
    >>> weighted_auc(scores, seen)
    0.5
    """
    areas, counts = _areas(probabilities, observed)
    return float(np.average(areas, weights=np.sqrt(counts)))


def _areas(probabilities: Array, observed: Array) -> tuple[Float64, Float64]:
    """AUC of each class with a seen positive, and its number of seen positives."""
    values, positive = seen_positives(probabilities, observed)
    areas, counts = [], []
    for _, above in items_above(values, positive):
        n, others = len(above), len(values) - len(above)
        wrong = above.sum() - n * (n - 1) / 2  # pairs, without those among the seen positives
        areas.append(1 - wrong / (n * others) if others else 0.5)
        counts.append(n)
    return np.array(areas), np.array(counts, dtype=float)


def log_rank(probabilities: Array, observed: Array) -> float:
    """Mean over classes and their seen positives of `-log` of the share of items not below.

    It puts more weight on the top of the ranking than the area under the ROC curve does.

    >>> round(log_rank(np.array([[0.9], [0.8], [0.7]]), np.array([[1], [0], [0]])), 3)
    1.099
    """
    values, positive = seen_positives(probabilities, observed)
    by_class = [
        -np.log((above + 1) / len(values)).mean() for _, above in items_above(values, positive)
    ]
    return float(np.mean(by_class))


def corrected_map(probabilities: Array, observed: Array, k: float = 2.0) -> float:
    """The mAP with precision estimated from positive and unlabelled data.

    Precision at a threshold is prior times recall over the share of items above it. Recall is that
    of the seen positives, and the prior of a class is k times its share of seen positives, with k
    true positives per seen one; a precision above 1 counts as 1. Without that limit it would be k
    times `seen_map`.

    >>> corrected_map(np.array([[0.9], [0.8], [0.7]]), np.array([[0], [1], [0]]))
    1.0
    """
    values, positive = seen_positives(probabilities, observed)
    by_class = []
    for _, above in items_above(values, positive):
        recalled = np.arange(1, len(above) + 1)
        by_class.append(np.minimum(k * recalled / (above + 1), 1).mean())
    return float(np.mean(by_class))


def reciprocal_rank(probabilities: Array, observed: Array) -> float:
    """Mean of one over the rank of the seen label within its item.

    >>> reciprocal_rank(np.array([[0.9, 0.8, 0.1]]), np.array([[0, 1, 0]]))
    0.5
    """
    _, _, rank = ranks_in_item(*seen_positives(probabilities, observed))
    return float((1 / rank).mean())


def top_recall(probabilities: Array, observed: Array, k: int = 3) -> float:
    """Share of seen labels that are among the k most probable labels of their item.

    >>> top_recall(np.array([[0.9, 0.8, 0.1]]), np.array([[0, 1, 0]]), k=1)
    0.0
    """
    _, _, rank = ranks_in_item(*seen_positives(probabilities, observed))
    return float((rank <= k).mean())


def pick_likelihood(probabilities: Array, observed: Array) -> float:
    """Mean log-likelihood of the seen label if one of the item's labels is picked uniformly.

    The labels Y of an item are assumed to be independent, with the given probabilities, and one of
    them is picked, so the label l is seen with probability

        E[y_l / |Y|] / P(Y is not empty),  E[y_l / |Y|] = ∫ p_l Π_{j≠l} (1 - p_j + p_j t) dt

    over t from 0 to 1.

    >>> round(pick_likelihood(np.array([[0.5, 0.5]]), np.array([[0, 1]])), 3)
    -0.693
    """
    values, positive = seen_positives(probabilities, observed)
    rows, labels = np.nonzero(positive)
    p = np.clip(values.astype(np.float64), LEAST, 1 - LEAST)
    own = p[rows, labels]
    # A polynomial of degree L - 1: this many nodes integrate it exactly, up to a limit.
    nodes, weights = np.polynomial.legendre.leggauss(min(NODES, p.shape[1] // 2 + 1))
    picked = np.zeros(len(rows))
    for t, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        others = np.log1p(p * (t - 1)).sum(axis=1)[rows] - np.log1p(own * (t - 1))
        picked += weight * own * np.exp(others)
    some = -np.expm1(np.log1p(-p).sum(axis=1))[rows]
    return float(np.log(picked / some).mean())


@dataclass(frozen=True)
class SelectionScore:
    """One row of the table of scores.

    Args:
        function: Takes probabilities `[N, L]` and observed labels `[N, L]` (1 seen positive, 0
            unobserved, -1 seen negative) and returns the score; higher is better.
        description: One line for help texts.
        of_ranks: Whether only the order of the values counts, so that log-odds can take the place
            of probabilities, which tie where they round to 1.
    """

    function: Callable[[Array, Array], float]
    description: str
    of_ranks: bool = True


SCORES: dict[str, SelectionScore] = {
    "weighted_auc": SelectionScore(
        weighted_auc,
        "AUC of seen positives against all other items, classes weighted by the root of their "
        "number of seen positives",
    ),
    "seen_auc": SelectionScore(
        seen_auc, "AUC of seen positives against all other items, mean over classes"
    ),
    "log_rank": SelectionScore(
        log_rank, "minus the log of the share of items above a seen positive, mean over classes"
    ),
    "corrected_map": SelectionScore(
        corrected_map, "mAP with precision corrected for hidden positives, two per seen one"
    ),
    "seen_map": SelectionScore(seen_map, "mAP with every label that was not seen a negative"),
    "reciprocal_rank": SelectionScore(
        reciprocal_rank, "one over the rank of the seen label within its item"
    ),
    "top_recall": SelectionScore(
        top_recall, "share of seen labels among the three most probable of their item"
    ),
    "pick_likelihood": SelectionScore(
        pick_likelihood,
        "log-likelihood of the seen label if one label is picked uniformly",
        of_ranks=False,
    ),
}
DEFAULT = "weighted_auc"


def score_name(name: str) -> str:
    """The name of a score, "auto" being the default; unknown names are refused."""
    name = DEFAULT if name == "auto" else name
    if name not in SCORES:
        near = get_close_matches(name.lower().replace("-", "_"), SCORES, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"unknown selection score {name!r}; {hint}known: auto, {', '.join(SCORES)}"
        )
    return name
