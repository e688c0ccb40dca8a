"""`PlusOneClassifier`: the methods as a scikit-learn classifier."""

from plusone.estimator.classifier import PlusOneClassifier
from plusone.estimator.cross_validation import cross_val_probabilities

__all__ = ["PlusOneClassifier", "cross_val_probabilities"]
