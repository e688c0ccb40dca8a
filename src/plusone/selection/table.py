"""The table of selection scores: higher is better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from plusone.errors import InputError
from plusone.metrics.inputs import Array
from plusone.selection.by_class import corrected_map, log_rank, seen_auc, seen_map, weighted_auc
from plusone.selection.by_item import pick_likelihood, reciprocal_rank, top_recall


@dataclass(frozen=True)
class SelectionScore:
    """A row of the table.

    Args:
        function: From probabilities `[N, L]` and observed labels `[N, L]` (1 seen positive, 0
            unobserved, -1 seen negative) to a figure; higher is better.
        description: What it is, in a line.
    """

    function: Callable[[Array, Array], float]
    description: str


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
        pick_likelihood, "log-likelihood of the seen label if one label is picked uniformly"
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


def get_score(name: str) -> SelectionScore:
    """Looks a score up, "auto" being the default, and refuses unknown names."""
    return SCORES[score_name(name)]
