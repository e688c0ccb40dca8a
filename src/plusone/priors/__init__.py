"""How many labels an item has: k and class priors, from an audit or from single positives alone."""

from plusone.priors.audit import Audit, from_audit
from plusone.priors.estimate import (
    LabelsPerItem,
    Priors,
    from_single_positives,
    labels_per_item,
)
from plusone.priors.features import (
    from_features,
    k_from_features,
    seen_label_scores,
    usable_rows,
)
from plusone.priors.intervals import interval_of, k_intervals

__all__ = [
    "Audit",
    "LabelsPerItem",
    "Priors",
    "from_audit",
    "from_features",
    "from_single_positives",
    "interval_of",
    "k_from_features",
    "k_intervals",
    "labels_per_item",
    "seen_label_scores",
    "usable_rows",
]
