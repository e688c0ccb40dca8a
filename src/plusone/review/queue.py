"""In which order suggestions are put to a person, and which ones if there is no time for all.

With calibrated probabilities an answer is worth most where it is hardest to foretell, at one half:
that is what the order within a class goes by. How the classes share a budget is the other choice,
and all answers to it are turns: the k-th question of a class comes at time k / weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from plusone.errors import InputError
from plusone.suggest.folder import Suggestions

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


def _by_item(found: Suggestions, rng: np.random.Generator) -> Places:
    return np.arange(len(found), dtype=np.int64)


def _at_random(found: Suggestions, rng: np.random.Generator) -> Places:
    return rng.permutation(len(found)).astype(np.int64)


def _likely(found: Suggestions, rng: np.random.Generator) -> Places:
    return np.argsort(-found.probability, kind="stable").astype(np.int64)


def _uncertain(found: Suggestions, rng: np.random.Generator) -> Places:
    return np.argsort(-doubt(found.probability), kind="stable").astype(np.int64)


def _turns(power: float) -> Callable[[Suggestions, np.random.Generator], Places]:
    """Classes take turns, with weights that are a power of the labels they probably miss."""

    def ordered(found: Suggestions, rng: np.random.Generator) -> Places:
        missing = np.bincount(found.label, found.probability, len(found.table.classes))
        best_first = np.lexsort((-doubt(found.probability), found.label))
        label = found.label[best_first]
        turn = np.arange(len(label)) - np.searchsorted(label, label, side="left")
        time = (turn + 0.5) / np.maximum(missing[label], 1e-9) ** power
        by_time = np.lexsort((-doubt(found.probability[best_first]), time))
        return best_first[by_time].astype(np.int64)

    return ordered


ORDERS: Mapping[str, Callable[[Suggestions, np.random.Generator], Places]] = {
    "item": _by_item,
    "worth": _turns(0.5),
    "uncertain": _uncertain,
    "frequent": _turns(1.0),
    "balanced": _turns(0.0),
    "likely": _likely,
    "random": _at_random,
}


def order_questions(
    suggestions: Suggestions, order: str = "item", budget: int | None = None, seed: int = 0
) -> npt.NDArray[np.int64]:
    """The suggestions to ask about, in order, as positions in `suggestions`.

    | order | first come |
    | --- | --- |
    | `item` | the items in their order, each with its most probable labels first |
    | `worth` | the uncertain ones, classes in turn, more turns for classes that miss more labels |
    | `uncertain` | those nearest to one half, of any class |
    | `frequent` | as `worth`, with turns in proportion to the labels a class probably misses |
    | `balanced` | as `worth`, with as many turns for every class |
    | `likely` | the most probable |
    | `random` | any, to compare with |

    Args:
        suggestions: What to ask about.
        order: A name in `ORDERS`.
        budget: How many questions there is time for; None for all.
        seed: Of the order `random`.
    """
    if order not in ORDERS:
        raise InputError(f"unknown order {order!r}; known: {', '.join(ORDERS)}")
    if budget is not None and budget < 1:
        raise InputError(f"the budget must be at least 1 question, not {budget}")
    return ORDERS[order](suggestions, np.random.default_rng(seed))[:budget]


def doubt(probability: npt.NDArray[np.float32]) -> Floats:
    """How uncertain the answer is, in bits.

    >>> doubt(np.array([0.5, 1.0], dtype=np.float32)).tolist()
    [1.0, 0.0]
    """
    p = np.clip(probability.astype(np.float64), 0, 1)
    inner = (p > 0) & (p < 1)
    q = np.where(inner, p, 0.5)
    bits: Floats = np.where(inner, -(q * np.log2(q) + (1 - q) * np.log2(1 - q)), 0.0)
    return bits
