"""Loss functions of single-positive multi-label learning: the papers' formulas in plain torch.

Most take logits z `[..., L]` and observed labels y `[..., L]` (1 seen positive, 0 unobserved, -1
seen negative) and return unreduced losses `[..., L]`; `reduce` sums or averages them. A seen
negative is a real negative in every loss: it costs -log(1 - p) with full weight (each function says
so, and names its exception if it has one). A label between 0 and -1 is a seen negative of less
weight: -w costs w times a seen negative and 1 - w times an unobserved label (`weigh_negatives`).

Losses that look at a whole batch read the last two dimensions as `[B, L]`. Leading dimensions are
independent runs everywhere: a stack `[R, B, L]` gives the same values as R separate calls. No loss
reads a tensor's value on the host, half precision is computed in float32 and returned in its own
type, and autograd differentiates.
"""

from plusone.losses.baselines import (
    l1_penalty,
    pairwise_ranking,
    softmax_cross_entropy,
    squared_l2_penalty,
)
from plusone.losses.contrastive import label_aware_contrast, pseudo_label_consistency
from plusone.losses.correcting import large_loss, large_losses, self_corrected
from plusone.losses.counting import (
    expected_positive_penalty,
    expected_positives,
    online_estimation,
)
from plusone.losses.entropy import (
    entropy_maximization,
    entropy_minimization,
    entropy_with_pseudo_labels,
)
from plusone.losses.focusing import asymmetric, focal, hill
from plusone.losses.leveraged import balanced_lambda, consistency, leveraged_asymmetric
from plusone.losses.negatives import (
    assume_negative,
    assume_negative_smoothed,
    observed_bce,
    sample_negative,
    sampled_negative,
    weak_negative,
)
from plusone.losses.prior_risk import class_prior_risk
from plusone.losses.reduction import Reduction, reduce
from plusone.losses.robust import (
    UnifiedLoss,
    confidence_weight,
    false_negative_probability,
    generalized_cross_entropy,
    generalized_pseudo_robust,
    generalized_robust,
)
from plusone.losses.variant import Variant
from plusone.losses.weighting import weigh_negatives, weigh_unobserved

__all__ = [
    "Reduction",
    "UnifiedLoss",
    "Variant",
    "assume_negative",
    "assume_negative_smoothed",
    "asymmetric",
    "balanced_lambda",
    "class_prior_risk",
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
    "generalized_pseudo_robust",
    "generalized_robust",
    "hill",
    "l1_penalty",
    "label_aware_contrast",
    "large_loss",
    "large_losses",
    "leveraged_asymmetric",
    "observed_bce",
    "online_estimation",
    "pairwise_ranking",
    "pseudo_label_consistency",
    "reduce",
    "sample_negative",
    "sampled_negative",
    "self_corrected",
    "softmax_cross_entropy",
    "squared_l2_penalty",
    "weak_negative",
    "weigh_negatives",
    "weigh_unobserved",
]
