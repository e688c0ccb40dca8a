"""The method table: every way to learn from incomplete labels, by its short name."""

from __future__ import annotations

from difflib import get_close_matches

from plusone import losses
from plusone.errors import InputError
from plusone.methods.base import Method, MethodInfo, Options
from plusone.methods.em_apl import EmApl, EmAplOptions
from plusone.methods.en import En, EnConsistencyOptions, EnConsistent, EnOptions, EnSpatial
from plusone.methods.epr import Epr, EprOptions
from plusone.methods.gr import Gr, GrOptions
from plusone.methods.gr_learned import GrLearned, GrLearnedOptions
from plusone.methods.lac import PHASES as LAC_PHASES
from plusone.methods.lac import Lac, LacOptions
from plusone.methods.large_loss import (
    LargeLossOptions,
    LargeLossPermanent,
    LargeLossRejection,
    LargeLossTemporary,
)
from plusone.methods.lasd import Las, Lasd, LasdOptions, LasOptions
from plusone.methods.pointwise import (
    Asymmetric,
    AsymmetricSmoothing,
    Entropy,
    EntropyMinimization,
    Focal,
    Hill,
    NegativeSmoothing,
    ShiftedAsymmetric,
    Smoothing,
    Weak,
    pointwise,
    smoothed_assume_negative,
)
from plusone.methods.role import Role, RoleOptions
from plusone.methods.sampled import SampledNegative
from plusone.methods.softmax import Softmax
from plusone.methods.splc import Splc, SplcOptions
from plusone.methods.weight_norm import L1Options, L1Regularized, L2Options, L2Regularized

__all__ = ["METHODS", "Method", "MethodInfo", "Options", "get_method"]

COLE = "Cole et al., Multi-Label Learning from Single Positive Labels, CVPR"
ZHOU = "Zhou et al., Acknowledging the Unknown, ECCV"
CHEN = "Chen et al., Generalized Robust Loss, IJCAI"
LIN = "Lin et al., Focal Loss for Dense Object Detection, ICCV"
RIDNIK = "Ridnik et al., Asymmetric Loss for Multi-Label Classification, ICCV"
ZHANG = "Zhang et al., Simple and Robust Loss Design with Missing Labels, arXiv"

KIM = "Kim et al., Large Loss Matters in Weakly Supervised Multi-Label Classification, CVPR"
VERELST = "Verelst et al., Spatial Consistency Loss, WACV"
XIE = "Xie et al., Label-Aware Global Consistency, NeurIPS"
LASD = "Leveraged Asymmetric Loss with Disambiguation, submitted to ICLR"

METHODS: dict[str, MethodInfo] = {
    "bce": MethodInfo(
        pointwise(losses.observed_bce), Options, COLE, 2021,
        "reference: cross-entropy with all labels seen", scheme="all",
    ),
    "bce_ls": MethodInfo(
        pointwise(losses.observed_bce), Smoothing, COLE, 2021,
        "reference: all labels seen, with label smoothing", scheme="all",
    ),
    "iun": MethodInfo(
        pointwise(losses.observed_bce), Options, COLE, 2021,
        "reference: one positive and all true negatives seen",
        scheme="positives_and_negatives(1, None)",
    ),
    "iu": MethodInfo(
        pointwise(losses.observed_bce), Options, COLE, 2021,
        "reference: one positive and one negative seen, the rest ignored",
        scheme="positives_and_negatives(1, 1)",
    ),
    "an": MethodInfo(
        pointwise(losses.assume_negative), Options, COLE, 2021,
        "assume negative: whatever was not seen is a negative",
    ),
    "an_ls": MethodInfo(
        pointwise(smoothed_assume_negative), Smoothing, COLE, 2021,
        "assume negative with label smoothing",
    ),
    "an_als": MethodInfo(
        pointwise(losses.assume_negative_smoothed), AsymmetricSmoothing, COLE, 2021,
        "assume negative, seen and assumed labels smoothed apart",
    ),
    "n_ls": MethodInfo(
        pointwise(losses.assume_negative_smoothed), NegativeSmoothing, COLE, 2021,
        "assume negative, only the assumed negatives smoothed",
    ),
    "wan": MethodInfo(
        pointwise(losses.weak_negative), Weak, COLE, 2021,
        "weak assume negative: all assumed negatives weigh as much as one positive",
    ),
    "wan_sampled": MethodInfo(
        SampledNegative, Options, COLE, 2021,
        "one random unobserved label per visit counts as a negative",
    ),
    "l1r": MethodInfo(
        L1Regularized, L1Options, ZHOU, 2022, "assume negative plus the L1 norm of the weights"
    ),
    "l2r": MethodInfo(
        L2Regularized, L2Options, ZHOU, 2022, "assume negative plus the L2 norm of the weights"
    ),
    "focal": MethodInfo(
        pointwise(losses.focal), Focal, LIN, 2017,
        "assume negative, labels that are already right weigh less",
    ),
    "asl": MethodInfo(
        pointwise(losses.asymmetric), Asymmetric, RIDNIK, 2021,
        "assume negative, easy negatives weigh much less than positives",
    ),
    "asl_ps": MethodInfo(
        pointwise(losses.asymmetric), ShiftedAsymmetric, RIDNIK, 2021,
        "asl that also drops the easiest negatives (probability shift)",
    ),
    "hill": MethodInfo(
        pointwise(losses.hill), Hill, ZHANG, 2021,
        "assume negative, but confident predictions are left alone (hill shape)",
    ),
    "pr": MethodInfo(
        pointwise(losses.pairwise_ranking), Options, COLE, 2021,
        "rank the seen positive above every unobserved label",
    ),
    "softmax": MethodInfo(
        Softmax, Options, "no paper: the multi-class baseline", 2021,
        "multi-class cross-entropy on the seen label",
    ),
    "epr": MethodInfo(
        Epr, EprOptions, COLE, 2021,
        "only seen labels cost, and the mean number of positives must be right", needs_k=True,
    ),
    "role": MethodInfo(
        Role, RoleOptions, COLE, 2021,
        "the labels of every training item are estimated while learning", needs_k=True,
    ),
    "ll_r": MethodInfo(
        LargeLossRejection, LargeLossOptions, KIM, 2022,
        "assume negative, the largest losses of unobserved labels are dropped",
    ),
    "ll_ct": MethodInfo(
        LargeLossTemporary, LargeLossOptions, KIM, 2022,
        "assume negative, the largest losses are charged as positives for this step",
    ),
    "ll_cp": MethodInfo(
        LargeLossPermanent, LargeLossOptions, KIM, 2022,
        "assume negative, the largest losses are charged as positives for good",
    ),
    "splc": MethodInfo(
        Splc, SplcOptions, ZHANG, 2021,
        "confident unobserved labels count as positives from the second epoch on",
    ),
    "en": MethodInfo(
        En, EnOptions, VERELST, 2023,
        "each class's lowest predictions are negatives, as many as expected; others are ignored",
        needs_k=True,
    ),
    "en_cl": MethodInfo(
        EnConsistent, EnConsistencyOptions, VERELST, 2023,
        "en, and predictions agree with those of the model's moving average", needs_k=True,
    ),
    "en_scl": MethodInfo(
        EnSpatial, EnConsistencyOptions, VERELST, 2023,
        "en, and class maps agree with those of the model's moving average", needs_k=True,
    ),
    "las": MethodInfo(
        Las, LasOptions, LASD, 2023, "asl with leveraged (down-weighted) unobserved labels"
    ),
    "lasd": MethodInfo(
        Lasd, LasdOptions, LASD, 2023,
        "las, confident labels change sides, and predictions agree between views", needs_k=True,
    ),
    "em": MethodInfo(
        pointwise(losses.entropy_maximization), Entropy, ZHOU, 2022,
        "unobserved labels are unknown: keep their entropy high",
    ),
    "em_apl": MethodInfo(
        EmApl, EmAplOptions, ZHOU, 2022,
        "em, and the lowest predictions of each class become soft negatives",
    ),
    "entmin": MethodInfo(
        pointwise(losses.entropy_minimization), EntropyMinimization, ZHOU, 2022,
        "the opposite of em; published as a failure, kept as one",
    ),
    "gr": MethodInfo(
        Gr, GrOptions, CHEN, 2024,
        "robust losses and growing trust in the model's own guesses",
    ),
    "gr_learned": MethodInfo(
        GrLearned, GrLearnedOptions, CHEN, 2024,
        "gr with its trust and weights learned; published as worse, kept as that comparison",
    ),
    "lac": MethodInfo(
        Lac, LacOptions, XIE, 2022,
        "one embedding per class; confident labels agree between views and across images",
        phases=LAC_PHASES,
        defaults={
            "optimizer": "adamw", "weight_decay": 0.01, "schedule": "one_cycle", "lr": 1e-4,
            "ema": 0.9997,
        },
    ),
}  # fmt: skip


def get_method(name: str) -> MethodInfo:
    """Looks a method up, refusing unknown names."""
    if name not in METHODS:
        near = get_close_matches(name.lower().replace("-", "_"), METHODS, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"unknown method {name!r}; {hint}known: {', '.join(METHODS)}")
    return METHODS[name]
