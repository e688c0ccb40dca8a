"""Maxent: where in the data each class was seen, a distribution over items instead of classes.

DeepMaxent (Ryckewaert, Marcos, Botella, Servajean, Bonnet and Joly, Applying the maximum entropy
principle to neural networks enhances multi-species distribution models, arXiv 2412.19217, 2024).
A class is a species, an item a site. With logits z `[B, L]` of a batch of B items,

    P_ic = exp(z_ic) / sum_j exp(z_jc)        softmax over the items j of the batch
    loss = -1 / (B L) sum_c w_c sum_i [y_ic = 1] log P_ic

The formula is that of the authors' released loss; the paper's own equations were not at hand, so
none is numbered here. Items without any seen label are the background: they have no term of their
own and count in every sum over j. So do the items where other classes were seen, which corrects for
places that people visit often.

Deviations: a label is seen or not, where the paper counts records of a species at a site. The loss
is the mean over classes (the released loss has had the sum and the mean). `balanced` is ours: w_c
is 1 by default, as in the paper's formula, and else in inverse proportion to the seen positives of
the class. The loss of a class says nothing about its bias; the bias starts at the log-odds of the
class's share of seen labels and stays there, so that scores of classes can be compared. A seen
negative counts in the sum over j like an unobserved label. The paper has a network of two hidden
layers on environment variables; here the model is whatever the recipe says.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from plusone.losses import reduce
from plusone.methods._base import Choice, Method, MethodInfo, Options
from plusone.models.heads import Head, LinearHead
from plusone.types import Batch, Clock, Outputs, TrainLabels


@dataclass(frozen=True)
class MaxentOptions(Options):
    """Options of `maxent`.

    Args:
        balanced: Whether all classes count the same; else each seen label does.
    """

    balanced: bool = False


class Maxent(Method[MaxentOptions]):
    """Cross-entropy over the items of a batch, for each class."""

    def __init__(self, labels: TrainLabels, options: MaxentOptions) -> None:
        super().__init__(labels, options)
        seen = torch.from_numpy(labels.observed.per_class(1)).float()
        share = (seen + 0.5) / (labels.n_items + 1)
        self.register_buffer("first_bias", torch.logit(share), persistent=False)
        weight = seen.mean() / seen.clamp(min=1)
        self.register_buffer("class_weight", weight, persistent=False)
        self.first_bias: Tensor
        self.class_weight: Tensor

    def make_head(self, dim: int) -> Head:
        head = LinearHead(dim, self.labels.n_classes)
        with torch.no_grad():
            head.bias.copy_(self.first_bias)
        head.bias.requires_grad_(False)  # its gradient is rounding alone, which Adam would follow
        return head

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        logits = outs[0].logits
        losses = torch.where(batch.observed == 1, -torch.log_softmax(logits.float(), dim=-2), 0.0)
        if self.options.balanced:
            losses = losses * self.class_weight
        return {"loss": reduce(losses)}


INFO = MethodInfo(
    name="maxent",
    title="DeepMaxent",
    build=Maxent,
    options=MaxentOptions,
    paper="Ryckewaert et al., DeepMaxent, arXiv 2024",
    year=2024,
    summary="softmax over the items of a batch for each class; unlabelled items are background",
    defaults={"batch_size": 256, "lr": 1e-2},
    no_curve="its probabilities are those of a softmax over the items of a batch",
    alone="its bias stays as it is, which a stack of heads does not know",
    grid=({"balanced": True},),
    search_space={"balanced": Choice((False, True))},
)
