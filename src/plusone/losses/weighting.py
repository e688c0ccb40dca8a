"""What seen negatives and unobserved labels weigh where most labels are unobserved.

Not from a paper. *Seen negatives.* The methods are made for one seen positive and no seen negative
per item. With answers to questions there are seen negatives, and they are a sample that the
questions chose: items that look as if they had the class. Most methods keep unobserved labels away
from p = 0 (`em` holds them near one half, others charge them little), so the full -log(1 - p)
pushes those items, and with them the positives that look alike, below all items that nobody asked
about: truthful answers make the ranking worse.

What a "no" says is that the item belongs among those without the class. So a seen negative weighs
as much as its probability exceeds that of the unobserved labels of its class,

    w = max(p - mean of p over the unobserved labels of the class in the batch, LEAST)

and it costs w times what a seen negative costs in the method plus 1 - w times what an unobserved
label costs there. Where all labels of a class are seen the mean is 0 and w = p. Methods that charge
both the same (`an`) do not change.

*Unobserved labels.* Most methods push them towards 0, or hold them somewhere in between, whether or
not the label may well be there. Where its probability of being there is known from elsewhere
(`plusone.closed_form.estimates.missed_labels`), an unobserved label may weigh as much as the
probability that it is absent: labels of classes that people seldom name are then not unlearned.
"""

from __future__ import annotations

import torch
from torch import Tensor

LEAST = 1e-3  # not 0, which is the state of an unobserved label


def weigh_negatives(p: Tensor, y: Tensor) -> Tensor:
    """Observed labels in which a seen negative is -w instead of -1.

    Args:
        p: Probabilities `[..., B, L]`, without gradients.
        y: Observed labels `[..., B, L]`.

    Returns:
        Observed labels `[..., B, L]` for any loss of this package: they are linear in y between
        0 and -1.

    >>> p, y = torch.tensor([[0.9], [0.2], [0.4]]), torch.tensor([[-1.0], [0.0], [0.0]])
    >>> weigh_negatives(p, y).flatten()
    tensor([-0.6000,  0.0000,  0.0000])
    """
    unobserved = (y == 0).to(p.dtype)
    level = (unobserved * p).sum(-2, keepdim=True) / unobserved.sum(-2, keepdim=True).clamp(min=1)
    return torch.where(y < 0, -(p - level).clamp(min=LEAST), y.to(p.dtype))


def weigh_unobserved(z: Tensor, y: Tensor, missed: Tensor) -> Tensor:
    """Logits whose gradients are 1 - `missed` times as large where a label is unobserved.

    Their values stay. A cost that is a sum over labels then has the gradients of one in which the
    cost of each unobserved label is multiplied by 1 - `missed`, so it serves any loss.

    Args:
        z: Logits `[..., B, L]`.
        y: Observed labels `[..., B, L]`.
        missed: Probability that the label is there although it was not named, `[..., B, L]`.

    >>> z, y = torch.zeros(1, 2, requires_grad=True), torch.tensor([[1.0, 0.0]])
    >>> weigh_unobserved(z, y, torch.tensor([[0.9, 0.9]])).sum().backward()
    >>> z.grad
    tensor([[1.0000, 0.1000]])
    """
    weight = torch.where(y == 0, 1 - missed, 1.0)
    return torch.lerp(z.detach(), z, weight)
