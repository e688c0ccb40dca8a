"""Loss functions of single-positive multi-label learning: pure functions of logits and labels.

Each takes logits z `[B, L]` and observed labels y `[B, L]` (1 seen positive, 0 unobserved, -1 seen
negative) and returns unreduced losses `[B, L]`; `reduce` makes a number of them. A seen negative
is a real negative in every loss: it costs -log(1 - p) with full weight (each function says so, and
names its exception if it has one).
"""

from plusone.losses.binary import (
    assume_negative,
    assume_negative_smoothed,
    observed_bce,
)
from plusone.losses.categorical import softmax_cross_entropy
from plusone.losses.contrastive import label_aware_contrast
from plusone.losses.correcting import (
    large_loss,
    large_loss_from,
    large_loss_level,
    large_losses,
    self_corrected,
)
from plusone.losses.counting import expected_positive_penalty, expected_positives
from plusone.losses.entropy import entropy_maximization, entropy_minimization
from plusone.losses.estimating import online_estimation
from plusone.losses.focal import asymmetric, focal
from plusone.losses.fused import reduced, reduced_terms
from plusone.losses.generalized import generalized_robust
from plusone.losses.leveraged import balanced_lambda, consistency, leveraged_asymmetric
from plusone.losses.margin import hill
from plusone.losses.penalties import l1_penalty, squared_l2_penalty
from plusone.losses.pseudo import entropy_with_pseudo_labels
from plusone.losses.pseudo_consistency import pseudo_label_consistency
from plusone.losses.ranking import pairwise_ranking
from plusone.losses.reduction import Reduction, reduce
from plusone.losses.robust import (
    confidence_weight,
    false_negative_probability,
    generalized_cross_entropy,
)
from plusone.losses.unified import UnifiedLoss
from plusone.losses.variant import Variant
from plusone.losses.weak import sample_negative, sampled_negative, weak_negative

__all__ = [
    "Reduction",
    "UnifiedLoss",
    "Variant",
    "assume_negative",
    "assume_negative_smoothed",
    "asymmetric",
    "balanced_lambda",
    "confidence_weight",
    "consistency",
    "entropy_maximization",
    "entropy_minimization",
    "entropy_with_pseudo_labels",
    "expected_positive_penalty",
    "expected_positives",
    "false_negative_probability",
    "focal",
    "generalized_cross_entropy",
    "generalized_robust",
    "hill",
    "l1_penalty",
    "label_aware_contrast",
    "large_loss",
    "large_loss_from",
    "large_loss_level",
    "large_losses",
    "leveraged_asymmetric",
    "observed_bce",
    "online_estimation",
    "pairwise_ranking",
    "pseudo_label_consistency",
    "reduce",
    "reduced",
    "reduced_terms",
    "sample_negative",
    "sampled_negative",
    "self_corrected",
    "softmax_cross_entropy",
    "squared_l2_penalty",
    "weak_negative",
]
