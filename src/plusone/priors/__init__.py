"""How many labels an item has: k and class priors, from an audit or from single positives alone."""

from plusone.priors.audit import Audit, from_audit
from plusone.priors.estimate import Priors, from_single_positives

__all__ = ["Audit", "Priors", "from_audit", "from_single_positives"]
