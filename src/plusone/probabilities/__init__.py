"""Probabilities: how labels are picked, calibration, k and class priors, thresholds, acceptance.

The public names are those of `__all__`; each is imported when it is first used, because some need
torch and the review page does not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plusone.probabilities.audit import Audit, from_audit
    from plusone.probabilities.intervals import interval_of, k_intervals
    from plusone.probabilities.k import (
        LabelsPerItem,
        Priors,
        from_single_positives,
        labels_per_item,
    )

__all__ = [
    "Audit",
    "LabelsPerItem",
    "Priors",
    "from_audit",
    "from_single_positives",
    "interval_of",
    "k_intervals",
    "labels_per_item",
]

_HOMES = {
    "audit": ("Audit", "from_audit"),
    "intervals": ("interval_of", "k_intervals"),
    "k": (
        "LabelsPerItem",
        "Priors",
        "from_single_positives",
        "labels_per_item",
    ),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"plusone.probabilities.{module}"), name)
    raise AttributeError(f"module 'plusone.probabilities' has no attribute {name!r}")
