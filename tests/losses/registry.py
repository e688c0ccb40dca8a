"""Every loss once: how to call it and a slow oracle of one row in plain Python numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from plusone import losses

Row = list[float]


def lp(z: float) -> float:
    """-log sigmoid(z)."""
    return max(-z, 0.0) + math.log1p(math.exp(-abs(z)))


def ln(z: float) -> float:
    return lp(-z)


def sig(z: float) -> float:
    return math.exp(-lp(z))


def entropy(z: float) -> float:
    return sig(z) * lp(z) + sig(-z) * ln(z)


def gce(z: float, q: float) -> float:
    return (1 - sig(z) ** q) / q if q else lp(z)


def each(
    positive: Callable[[float], float],
    unobserved: Callable[[float], float],
    negative: Callable[[float], float] = ln,
) -> Callable[[Row, Row], Row]:
    """The oracle of a loss that treats each label by itself."""
    costs = {1: positive, 0: unobserved, -1: negative}
    return lambda z, y: [costs[int(label)](logit) for logit, label in zip(z, y, strict=True)]


def mix(e: float) -> Callable[[float], float]:
    return lambda z: e * lp(z) + (1 - e) * ln(z)


def shifted(z: float, m: float, gamma: float) -> float:
    pm = max(sig(z) - m, 0.0)
    return pm**gamma * -math.log(1 - pm)


def gr(
    w: float, b: float, mu: float, sigma: float, q: tuple[float, float, float]
) -> Callable[[Row, Row], Row]:
    def unobserved(z: float) -> float:
        p = sig(z)
        khat = 1 / (1 + math.exp(-(w * p + b)))
        v = math.exp(-((p - mu) ** 2) / (2 * sigma**2))
        return v * (khat * gce(z, q[1]) + (1 - khat) * gce(-z, q[2]))

    return each(lambda z: gce(z, q[0]), unobserved)


def wan(z: Row, y: Row) -> Row:
    gamma = 1 / max(len(z) - 1, 1)
    return each(lp, lambda x: gamma * ln(x))(z, y)


def pairs(z: Row, y: Row) -> Row:
    p = [sig(x) for x in z]
    row = [0.0] * len(z)
    for i in range(len(z)):
        for j in range(len(z)):
            if y[i] == 1 and y[j] != 1:
                row[j] += max(0.0, 1 - p[i] + p[j])
    return row


def categorical(z: Row, y: Row) -> Row:
    def log_sum(values: Row) -> float:
        top = max(values, default=0.0)
        return top + math.log(sum(math.exp(x - top) for x in values)) if values else 0.0

    count, total = sum(label == 1 for label in y), log_sum(z)
    rest = [log_sum([*z[:place], *z[place + 1 :]]) for place in range(len(z))]
    negative = [total - x if len(z) > 1 else 0.0 for x in rest]
    costs = {1: [(total - x) / max(count, 1) for x in z], -1: negative}
    return [costs[label][place] if label else 0.0 for place, label in enumerate(y)]


@dataclass(frozen=True)
class Case:
    name: str
    call: Callable[[Tensor, Tensor], Tensor]
    oracle: Callable[[Row, Row], Row]
    negative_is_ln: bool = True
    stopped: bool = False  # part of the formula has its gradient stopped


def _gr(q: tuple[float, float, float], **options: object) -> Case:
    return Case(
        f"gr {q} {sorted(options)}",
        lambda z, y: losses.generalized_robust(
            z, y, w=3.0, b=-2.0, mu=0.7, sigma=0.5, q1=q[0], q2=q[1], q3=q[2], **options
        ),
        gr(3.0, -2.0, 0.7, 0.5, (0.0 if options else q[0], q[1], q[2])),
        stopped=True,
    )


def _gpr(pseudo: int) -> Case:
    """GPR where every unobserved label has this pseudo-label."""

    def unobserved(z: float) -> float:
        v = math.exp(-((sig(z) - 0.7) ** 2) / (2 * 0.5**2))
        weight = min(max(1 - v, 0.2), 0.6)
        return weight * (0.8 * lp(z) + 0.2 * ln(z)) if pseudo > 0 else v * ln(z)

    return Case(
        f"gpr {pseudo:+d}",
        lambda z, y: losses.generalized_pseudo_robust(
            z, y, torch.full_like(z, pseudo), w=3.0, b=-2.0, mu=0.7, sigma=0.5, lam1=0.6, lam2=0.2,
            rho=0.8,
        ),
        each(lp, unobserved),
        stopped=True,
    )  # fmt: skip


CASES = [
    _gpr(1),
    _gpr(-1),
    Case(
        "gpr without pseudo-labels",
        lambda z, y: losses.generalized_pseudo_robust(
            z, y, torch.zeros_like(z), w=3.0, b=-2.0, mu=0.7, sigma=0.5, variant="paper"
        ),
        gr(3.0, -2.0, 0.7, 0.5, (0.01, 0.01, 1.0)),
        stopped=True,
    ),
    Case("bce", losses.observed_bce, each(lp, lambda z: 0.0)),
    Case(
        "bce_ls",
        lambda z, y: losses.observed_bce(z, y, eps=0.1),
        each(mix(0.95), lambda z: 0.0, mix(0.05)),
        False,
    ),
    Case("an", losses.assume_negative, each(lp, ln)),
    Case(
        "an_ls",
        losses.assume_negative_smoothed,
        each(mix(0.95), mix(0.05), mix(0.05)),
        False,
    ),
    Case(
        "an_ls released",
        lambda z, y: losses.assume_negative_smoothed(z, y, variant="released"),
        each(mix(0.9), mix(0.1), mix(0.1)),
        False,
    ),
    Case(
        "an_als",
        lambda z, y: losses.assume_negative_smoothed(z, y, eps_p=0.2, eps_n=0.3),
        each(mix(0.9), mix(0.15), mix(0.1)),
        False,
    ),
    Case(
        "n_ls",
        lambda z, y: losses.assume_negative_smoothed(z, y, eps_p=0.0, eps_n=0.1),
        each(lp, mix(0.05)),
    ),
    Case("wan", losses.weak_negative, wan),
    Case(
        "focal",
        losses.focal,
        each(lambda z: sig(-z) ** 2 * lp(z), lambda z: sig(z) ** 2 * ln(z)),
    ),
    Case(
        "focal 0.5",
        lambda z, y: losses.focal(z, y, gamma=0.5),
        each(lambda z: sig(-z) ** 0.5 * lp(z), lambda z: sig(z) ** 0.5 * ln(z)),
    ),
    Case("asl", losses.asymmetric, each(lp, lambda z: sig(z) ** 4 * ln(z))),
    Case(
        "asl 3 1",
        lambda z, y: losses.asymmetric(z, y, gamma_neg=3.0, gamma_pos=1.0),
        each(lambda z: sig(-z) * lp(z), lambda z: sig(z) ** 3 * ln(z)),
    ),
    Case(
        "asl_ps",
        lambda z, y: losses.asymmetric(z, y, shift=0.05),
        each(lp, lambda z: shifted(z, 0.05, 4.0)),
    ),
    Case(
        "asl_ps 1.5 1",
        lambda z, y: losses.asymmetric(z, y, gamma_neg=1.5, gamma_pos=1.0, shift=0.1),
        each(lambda z: sig(-z) * lp(z), lambda z: shifted(z, 0.1, 1.5)),
    ),
    Case(
        "asl_ps 0 0",
        lambda z, y: losses.asymmetric(z, y, gamma_neg=0.0, shift=0.1),
        each(lp, lambda z: shifted(z, 0.1, 0.0)),
    ),
    Case(
        "hill",
        losses.hill,
        each(lambda z: sig(1 - z) ** 2 * lp(z - 1), lambda z: (1.5 - sig(z)) * sig(z) ** 2),
    ),
    Case("pr", losses.pairwise_ranking, pairs, False),
    Case("softmax", losses.softmax_cross_entropy, categorical, False),
    Case(
        "em",
        lambda z, y: losses.entropy_maximization(z, y, alpha=0.2),
        each(lp, lambda z: -0.2 * entropy(z)),
    ),
    Case(
        "entmin",
        lambda z, y: losses.entropy_minimization(z, y, alpha=0.2),
        each(lp, lambda z: 0.2 * entropy(z)),
    ),
    Case(
        "entmin with negatives",
        lambda z, y: losses.entropy_minimization(z, y, alpha=0.2, negatives=True),
        each(lp, lambda z: ln(z) + 0.2 * entropy(z)),
    ),
    _gr((0.01, 0.01, 1.0)),
    _gr((0.01, 0.01, 1.0), variant="released"),
    _gr((0.3, 0.0, 1.5)),
    _gr((0.7, 0.7, 0.0)),
    Case(
        "unified en",
        losses.UnifiedLoss.en(0.6),
        each(lp, lambda z: ln(z) if sig(z) <= 0.6 else 0.0),
    ),
    Case("unified em", losses.UnifiedLoss.em(0.2), each(lp, lambda z: -0.2 * entropy(z))),
    Case(
        "unified em with apl",
        losses.UnifiedLoss.em(0.2, beta=0.9, tau=0.4),
        each(lp, lambda z: 0.9 * entropy(z) if sig(z) <= 0.4 else -0.2 * entropy(z)),
        stopped=True,
    ),
    Case(
        "unified hill",
        losses.UnifiedLoss.hill(),
        each(lp, lambda z: (1.5 - sig(z)) * sig(z) ** 2),
    ),
    Case(
        "unified splc",
        losses.UnifiedLoss.splc(0.6),
        each(
            lambda z: sig(1 - z) ** 2 * lp(z - 1),
            lambda z: sig(1 - z) ** 2 * lp(z - 1) if sig(z) > 0.6 else (1.5 - sig(z)) * sig(z) ** 2,
        ),
    ),
    Case(
        "unified gr",
        losses.UnifiedLoss.gr(w=3.0, b=-2.0, mu=0.7, sigma=0.5, q1=0.3, q2=0.0, q3=1.5),
        gr(3.0, -2.0, 0.7, 0.5, (0.3, 0.0, 1.5)),
        stopped=True,
    ),
    Case(
        "gr learned",
        lambda z, y: losses.generalized_robust(
            z, y, w=torch.tensor(3.0, dtype=z.dtype), b=-2.0, mu=0.7, sigma=0.5
        ),
        gr(3.0, -2.0, 0.7, 0.5, (0.01, 0.01, 1.0)),
        stopped=True,
    ),
]


def _contrast(z: Tensor, other: Tensor, y: Tensor, variant: losses.Variant) -> Tensor:
    classes = torch.arange(z.shape[-2], device=z.device) % 3 + y[..., 0].clamp(max=0)
    return losses.label_aware_contrast(
        normalize(z, dim=-1),
        classes,
        queue=normalize(other, dim=-1),
        queue_classes=classes.flip(-1),
        variant=variant,
    )


# Every loss as a function of two tables of logits and the labels, `[..., B, L]` each.
LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor | dict[str, Tensor]]] = {
    case.name: lambda z, other, y, call=case.call: call(z, y) for case in CASES
} | {
    "sampled": lambda z, other, y: losses.sampled_negative(z, y),
    "sample": lambda z, other, y: losses.sample_negative(y),
    "ll_r": lambda z, other, y: losses.large_loss(z, y, share=0.2),
    "ll_ct": lambda z, other, y: losses.large_loss(z, y, share=0.2, rule="correct"),
    "ll, none": lambda z, other, y: losses.large_loss(z, y, share=0.0),
    "ll, all": lambda z, other, y: losses.large_loss(z, y, share=1.0),
    "ll_cp": lambda z, other, y: losses.large_losses(z, y, share=0.1),
    "splc": lambda z, other, y: losses.self_corrected(z, y),
    "splc, first epoch": lambda z, other, y: losses.self_corrected(z, y, correct=False),
    "lasd": lambda z, other, y: losses.leveraged_asymmetric(z, y, lam_plus=0.1, lam_minus=0.2),
    "consistency": lambda z, other, y: losses.consistency(z, other, z + other),
    "em_apl": lambda z, other, y: losses.entropy_with_pseudo_labels(z, y, other.clamp(-1, 1)),
    "gce": lambda z, other, y: losses.generalized_cross_entropy(z, q=0.7),
    "khat": lambda z, other, y: losses.false_negative_probability(z.sigmoid(), w=2.0, b=-1.0),
    "v": lambda z, other, y: losses.confidence_weight(z.sigmoid(), mu=0.8, sigma=0.5),
    "count": lambda z, other, y: losses.expected_positive_penalty(z, 2.0),
    "epr": lambda z, other, y: losses.expected_positives(z, y, k=2.0),
    "epr released": lambda z, other, y: losses.expected_positives(z, y, k=2.0, variant="released"),
    "role": lambda z, other, y: losses.online_estimation(z, other, y, k=2.0),
    "crisp": lambda z, other, y: losses.class_prior_risk(
        z, y, priors=torch.linspace(0.1, 0.9, z.shape[-1], dtype=z.dtype, device=z.device)
    ),
    "plc": lambda z, other, y: losses.pseudo_label_consistency(z, other, y),
    "plc released": lambda z, other, y: losses.pseudo_label_consistency(
        z, other, y, variant="released"
    ),
    "lac": lambda z, other, y: _contrast(z, other, y, "paper"),
    "lac released": lambda z, other, y: _contrast(z, other, y, "released"),
    "l1": lambda z, other, y: losses.l1_penalty([z, other]),
    "l2": lambda z, other, y: losses.squared_l2_penalty(z),
    "mean": lambda z, other, y: losses.reduce(z),
    "item": lambda z, other, y: losses.reduce(z, "item"),
    "sum": lambda z, other, y: losses.reduce(z, "sum"),
    "none": lambda z, other, y: losses.reduce(z, "none"),
}
