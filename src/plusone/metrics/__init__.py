"""Metrics: pure functions of scores `[N, L]` and true labels `[N, L]`.

An input with a wrong shape, type or value is a `ValueError` that says where.
"""

from plusone.metrics._inputs import Array, Cut, Unknown
from plusone.metrics.all_metrics import evaluate
from plusone.metrics.calibration_error import brier_score, expected_calibration_error
from plusone.metrics.ranking import (
    average_precision,
    coverage_error,
    mean_average_precision,
    mean_by_level,
    mean_roc_auc,
    one_error,
    ranking_loss,
    roc_auc,
)
from plusone.metrics.recovered_labels import evaluate_recovery, hidden_average_precision
from plusone.metrics.threshold import (
    hamming_loss,
    precision_recall,
    predictive_values,
    thresholds_from,
)

__all__ = [
    "Array",
    "Cut",
    "Unknown",
    "average_precision",
    "brier_score",
    "coverage_error",
    "evaluate",
    "evaluate_recovery",
    "expected_calibration_error",
    "hamming_loss",
    "hidden_average_precision",
    "mean_average_precision",
    "mean_by_level",
    "mean_roc_auc",
    "one_error",
    "precision_recall",
    "predictive_values",
    "ranking_loss",
    "roc_auc",
    "thresholds_from",
]
