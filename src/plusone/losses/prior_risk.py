"""The risk of positive-unlabelled learning with known class priors: CRISP.

Liu et al. 2023, Can Class-Priors Help Single-Positive Multi-Label Learning?,
https://arxiv.org/abs/2309.13886. With the absolute loss |f - y| and the prior pi_j of each class,
the risk of all labels is that of the seen positives, counted twice, plus the difference between
the mean prediction and the prior; an absolute value keeps the second part from being negative:

    sum over j of  2 pi_j mean over seen positives of (1 - p_j)  +  |mean over items of p_j - pi_j|

It looks at a whole batch: the last two dimensions are `[B, L]`, leading ones are independent runs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from plusone.losses._logits import log_probabilities, on_logits


@on_logits
def class_prior_risk(
    z: Tensor, y: Tensor, *, priors: Tensor, mean: Tensor | None = None
) -> dict[str, Tensor]:
    """`crisp`: what the seen positives lack, and how far mean predictions are from the priors.

    Args:
        z: Logits `[..., B, L]`.
        y: Observed labels `[..., B, L]`. A class without a seen positive in the batch has no first
            part. A seen negative also costs -log(1 - p), inside the term "positives".
        priors: pi, the share of items that have each class, `[L]`.
        mean: Compared with the priors instead of the batch mean of p, `[..., L]`; the gradient is
            that of the batch mean, with the sign of this comparison.

    Returns:
        Two terms `[...]` to be added, sums over classes: "positives" and "priors".

    >>> z, y = torch.tensor([[99.0], [-99.0]]), torch.tensor([[1], [0]])
    >>> terms = class_prior_risk(z, y, priors=torch.tensor([0.5]))  # p = y, and the true prior
    >>> terms["positives"].item(), terms["priors"].item()
    (0.0, 0.0)
    """
    y = y.to(z.dtype)
    positive, p = y.relu(), torch.sigmoid(z)
    lacking = (positive * torch.sigmoid(-z)).sum(-2) / positive.sum(-2).clamp(min=1)
    negative = ((-y).relu() * -log_probabilities(z)[1]).mean(-2)
    now = p.mean(-2)
    if mean is not None:
        now = now + (mean - now).detach()
    return {
        "positives": (2 * priors * lacking + negative).sum(-1),
        "priors": (now - priors).abs().sum(-1),
    }
