"""How many labels an item has: k and class priors, from an audit or from single positives alone."""

from plusone.priors.audit import Audit, from_audit
from plusone.priors.estimate import Priors, from_single_positives
from plusone.priors.features import from_features, usable_rows
from plusone.priors.intervals import interval_of, k_intervals

__all__ = [
    "Audit",
    "Priors",
    "from_audit",
    "from_features",
    "from_single_positives",
    "interval_of",
    "k_intervals",
    "usable_rows",
]
