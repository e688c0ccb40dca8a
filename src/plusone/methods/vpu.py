"""VPU: variational positive-unlabelled learning, which needs no class prior.

PU-MLC (Positive Label Is All You Need for Multi-Label Classification, arXiv 2306.16016, 2023),
which uses the variational loss of Chen et al. 2020 (A Variational Approach for Learning from
Positive and Unlabeled Data, NeurIPS) for each class, by the formula of its released program, as the
paper's own equations were not at hand: with E the mean over all items of a batch and E+ that over
its seen positives,

    sum over classes of  (E p)^gamma log E p  -  E+ log p,       p = sigmoid(z / s),
    s = min(1, alpha sd),  sd the standard deviation of the logits of the class over the batch

The factor and s have no gradient. The loss does not change when all p of a class are multiplied by
the same number, which s is there to fix.

Deviations: the released program has no defaults for alpha and gamma; gamma = 0 (Chen et al.) and
alpha = 1 are ours. s is at least 0.001. A class without a seen positive in the batch has no term:
there the first part alone has no minimum. Left out: the regularisation by mixed images, the
adaptive network branches. A seen negative costs -log(1 - p).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import logsigmoid

from plusone.methods._base import Method, MethodInfo, Options, Range
from plusone.types import Batch, Clock, Outputs

LEAST = 1e-3  # s


@dataclass(frozen=True)
class VpuOptions(Options):
    """Options of `vpu`.

    Args:
        alpha: Standard deviations of the logits that they are divided by, at most 1.
        gamma: Power of the mean probability that weighs the unlabelled part.
    """

    alpha: float = 1.0
    gamma: float = 0.0

    def __post_init__(self) -> None:
        if not self.alpha > 0 or self.gamma < 0:
            raise ValueError(f"need alpha > 0 and gamma >= 0, got {self.alpha}, {self.gamma}")


class Vpu(Method[VpuOptions]):
    """The variational loss of every class that has a seen positive in the batch."""

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        z, o = outs[0].logits.float(), self.options
        y = batch.observed.to(z.dtype)
        seen, absent = (y > 0).to(z.dtype), (-y).relu()
        fixed = z.detach()
        spread = (fixed - fixed.mean(-2, keepdim=True)).square().mean(-2, keepdim=True).sqrt()
        log_p = logsigmoid(z / (o.alpha * spread).clamp(LEAST, 1.0))
        count = seen.sum(-2)
        log_mean = log_p.logsumexp(-2) - math.log(z.shape[-2])
        unlabelled = (o.gamma * log_mean.detach()).exp() * log_mean
        positive = (seen * log_p).sum(-2) / count.clamp(min=1)
        terms = (unlabelled - positive) * (count > 0)
        return {"loss": (terms + (absent * -logsigmoid(-z)).mean(-2)).sum(-1)}


INFO = MethodInfo(
    name="vpu",
    build=Vpu,
    options=VpuOptions,
    paper="Yuan et al., Positive Label Is All You Need for Multi-Label Classification, arXiv",
    year=2023,
    summary="variational positive-unlabelled loss of each class, without a prior",
    defaults={"batch_size": 128},
    summed=True,
    no_curve="its loss of a label depends on the other items of the batch",
    grid=({"gamma": 1.0}, {"alpha": 0.5}),
    search_space={"alpha": Range(0.1, 2.0), "gamma": Range(0.0, 4.0)},
)
