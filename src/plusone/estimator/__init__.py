"""`PlusOneClassifier`: the methods as a scikit-learn classifier."""

from plusone.estimator.cross_validation import cross_val_probabilities
from plusone.estimator.plusone_classifier import PlusOneClassifier

__all__ = ["PlusOneClassifier", "cross_val_probabilities"]
