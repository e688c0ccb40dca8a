"""Expected positive regularisation: cost on seen labels, and a right number of positives.

Cole et al. 2021, Multi-Label Learning from Single Positive Labels, CVPR,
https://arxiv.org/abs/2106.09708, Section 5.3 (Eq. 10 and the formula of L_EPR above it).

Deviation in the authors' program, kept as `variant="released"`: the seen labels' cost is divided
by L too, and lambda is 1. Their 1e-5 inside the logarithm is not kept.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from plusone.losses.binary import observed_bce
from plusone.losses.closed_form import (
    flip,
    less,
    many_blocks,
    row_blocks,
    same_shape,
    softplus,
    working_dtype,
)
from plusone.losses.variant import Variant, is_released


class Counts(NamedTuple):
    """What EPR and ROLE need of a table of logits; scalars.

    Args:
        seen: Cost of the seen labels, added up.
        mean: Mean probability.
        agreement: Mean cross-entropy to the probabilities of the other table; 0 if there is none.
    """

    seen: Tensor
    mean: Tensor
    agreement: Tensor


def counts(y: Tensor, *logits: Tensor) -> tuple[Counts, ...]:
    """Goes once through one table of logits, or through two that are compared with each other.

    No gradient of a table's numbers reaches the other table. Nothing of the size of a table is
    kept for the backward pass but the arguments themselves.

    Args:
        y: Observed labels `[B, L]`; a seen negative costs -log(1 - p).
        *logits: One or two tables `[B, L]`.

    Returns:
        The numbers of each table, differentiable once.

    >>> one, other = counts(torch.tensor([[1, 0]]), torch.zeros(1, 2), torch.zeros(1, 2))
    >>> one.seen.item(), other.mean.item()
    (0.6931471824645996, 0.5)
    """
    for z in logits:
        same_shape(z, y)
    if len(logits) == 1 and not many_blocks(y):  # nothing to be gained
        z = logits[0].to(working_dtype(logits[0]))
        p = torch.sigmoid(z)
        return (Counts(observed_bce(z, y).sum(), p.mean(), p.new_zeros(())),)
    found = _Counts.apply(y, *logits)  # type: ignore[no-untyped-call]
    return tuple(Counts(*found[3 * place : 3 * place + 3]) for place in range(len(logits)))


class _Counts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, *logits: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(y, *logits)
        ctx.set_materialize_grads(False)
        sums = [
            torch.stack(_sums(y_, [z.to(working_dtype(z)) for z in zs]))
            for y_, *zs in row_blocks(y, *logits)
        ]
        numbers = torch.stack(sums).sum(0).view(len(logits), 3)
        numbers[:, 1:] /= max(y.numel(), 1)
        return numbers.flatten().unbind()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        y, *logits = ctx.saved_tensors
        found = [torch.empty_like(z) for z in logits]
        parts = [0.0 if grad is None else grad.item() for grad in grads]
        asked = [any(g is not None for g in grads[3 * n : 3 * n + 3]) for n in range(len(logits))]
        share = 1 / max(y.numel(), 1)
        for y_, *blocks in row_blocks(y, *logits, *found):
            zs, outs = blocks[: len(logits)], blocks[len(logits) :]
            p = [torch.sigmoid(z.to(working_dtype(z))) for z in zs]
            t, seen = y_.to(p[0].dtype).relu(), y_.to(p[0].dtype).abs()
            for place, own in enumerate(p):
                at_seen, mean, agreement = parts[3 * place : 3 * place + 3]
                slope = less(own, own).mul_(mean * share)
                slope.addcmul_(own - t, seen, value=at_seen)
                if len(p) > 1:
                    slope.add_(own - p[1 - place], alpha=agreement * share)
                outs[place].copy_(slope)
        return None, *(
            slope if wanted else None for slope, wanted in zip(found, asked, strict=True)
        )


def _sums(y: Tensor, logits: list[Tensor]) -> list[Tensor]:
    """Of each table: cost of the seen labels, probabilities, cross-entropy to the other table."""
    y = y.to(logits[0].dtype)
    t, seen = y.relu(), y.abs()
    p = [torch.sigmoid(z) for z in logits]
    found = []
    for place, z in enumerate(logits):
        cost = softplus(flip(z, t))
        agreement = z.new_zeros(())
        if len(p) > 1:  # softplus(z) - p z, where the cost of a seen positive is softplus(z) - z
            agreement = cost.sum() + _product(z, t) - _product(z, p[1 - place])
        found += [_product(cost, seen), p[place].sum(), agreement]
    return found


def _product(a: Tensor, b: Tensor) -> Tensor:
    return torch.dot(a.reshape(-1), b.reshape(-1))


def expected_positive_penalty(z: Tensor, k: float) -> Tensor:
    """((khat - k) / L)^2, khat being the batch mean of the row sums of p (Cole Eq. 10).

    Args:
        z: Logits `[B, L]`. No labels enter, so seen negatives change nothing.
        k: Expected number of positives of an item.

    Returns:
        A scalar.

    >>> expected_positive_penalty(torch.zeros(4, 2), k=1.0).item()
    0.0
    """
    # (khat - k) / L is the mean of p over the batch minus k / L.
    p = torch.sigmoid(z.to(working_dtype(z)))
    return (p.mean() - k / z.shape[1]).square().to(z.dtype)


def expected_positives(
    z: Tensor, y: Tensor, *, k: float, lam: float = 1.0, variant: Variant = "paper"
) -> dict[str, Tensor]:
    """`epr`: the cost of the seen labels plus lambda times the count's penalty (Cole Sec. 5.3).

    Args:
        z: Logits `[B, L]`.
        y: Observed labels `[B, L]`. A seen negative costs -log(1 - p) with full weight, inside the
            term "positives".
        k: Expected number of positives of an item; VOC 1.5, COCO 2.9, NUS 1.9, CUB 31.4.
        lam: Weight of the penalty; 1 in the authors' program.
        variant: "paper" sums the seen labels of an item and averages over items, "released"
            divides that by L too.

    Returns:
        Two scalars to be added: "positives" and "expected_positives".

    >>> sorted(expected_positives(torch.zeros(1, 2), torch.tensor([[1, 0]]), k=1.0))
    ['expected_positives', 'positives']
    """
    (found,) = counts(y, z)
    terms = counted(found, z.shape, k=k, lam=lam, variant=variant)
    return {name: term.to(z.dtype) for name, term in terms.items()}


def counted(
    found: Counts, shape: torch.Size, *, k: float, lam: float, variant: Variant
) -> dict[str, Tensor]:
    """The terms of `expected_positives` from the numbers of a table of a shape `[B, L]`.

    >>> found = Counts(torch.tensor(2.0), torch.tensor(0.5), torch.tensor(0.0))
    >>> counted(found, torch.Size((2, 4)), k=2.0, lam=1.0, variant="paper")["positives"].item()
    1.0
    """
    penalty = (found.mean - k / shape[1]).square()
    size = math.prod(shape) if is_released(variant) else shape[0]
    return {
        "positives": found.seen / max(size, 1),
        "expected_positives": penalty if lam == 1 else lam * penalty,
    }
