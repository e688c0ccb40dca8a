"""Full weighted loss: presences and pseudo-absences of a class weigh the same, common or rare.

Zbinden, van Tiel, Kellenberger, Hughes and Tuia 2024, On the Selection and Effectiveness of
Pseudo-Absences for Species Distribution Modeling with Deep Learning, Ecological Informatics 81, and
Imbalance-Aware Presence-Only Loss Function, https://arxiv.org/abs/2403.07472. For an item x with a
record, and x' an item of the random background,

    mean over classes of   lambda1 w lp(x) if seen,  else lambda2 w / (w - 1) ln(x)
                         + (1 - lambda2) ln(x'),                  lp = -log p, ln = -log(1 - p)

with w = n / n_c, the items with records over those where class c was seen. Other classes' records
are the target-group background. lambda1 = 1 and lambda2 = 0.8 are those of the released program.

Deviations: x' are the items without labels of the same batch; a batch without any has no such
part. A class that was never seen has weight 1 in the target group, one that was seen in every item
has weight n. A seen negative costs -log(1 - p). The model is whatever the recipe says.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from plusone.losses._logits import log_probabilities
from plusone.methods._base import Method, MethodInfo, Options, Range
from plusone.types import Batch, Clock, Outputs, TrainLabels


@dataclass(frozen=True)
class FullWeightedOptions(Options):
    """Options of `full_weighted`.

    Args:
        lambda1: Weight of presences.
        lambda2: Share of the target group in the pseudo-absences; the rest is random background.
    """

    lambda1: float = 1.0
    lambda2: float = 0.8

    def __post_init__(self) -> None:
        if self.lambda1 <= 0 or not 0 <= self.lambda2 <= 1:
            got = f"{self.lambda1}, {self.lambda2}"
            raise ValueError(f"need lambda1 > 0 and 0 <= lambda2 <= 1, got {got}")


class FullWeighted(Method[FullWeightedOptions]):
    """Weighted presences, target group and random background."""

    def __init__(self, labels: TrainLabels, options: FullWeightedOptions) -> None:
        super().__init__(labels, options)
        seen = torch.from_numpy(labels.observed.per_class(1)).float()
        with_records = max(int((labels.observed.per_item(0) < labels.n_classes).sum()), 1)
        w = with_records / seen.clamp(min=1)
        self.register_buffer("presence", w, persistent=False)
        group = torch.where(seen > 0, w / (w - 1).clamp(min=1 / with_records), 1.0)
        self.register_buffer("group", group, persistent=False)
        self.presence: Tensor
        self.group: Tensor

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        log_p, log_not_p = log_probabilities(outs[0].logits.float())
        y, o = batch.observed.to(log_p.dtype), self.options
        seen, absent = (y > 0).to(y.dtype), (-y).relu()
        record = (y != 0).any(-1, keepdim=True).to(y.dtype)
        records, places = record.sum((-2, -1)), (1 - record).sum((-2, -1))

        def mean(table: Tensor, rows: Tensor, count: Tensor) -> Tensor:
            return (rows * table).sum((-2, -1)) / count.clamp(min=1) / y.shape[-1]

        unobserved = o.lambda2 * self.group * (1 - seen) * (1 - absent) + absent
        return {
            "presences": mean(o.lambda1 * self.presence * seen * -log_p, record, records),
            "target_group": mean(unobserved * -log_not_p, record, records),
            "background": mean((1 - o.lambda2) * -log_not_p, 1 - record, places),
        }


INFO = MethodInfo(
    name="full_weighted",
    title="Full weighted",
    build=FullWeighted,
    options=FullWeightedOptions,
    paper="Zbinden et al., On the Selection and Effectiveness of Pseudo-Absences, Ecol. Inform.",
    year=2024,
    summary="presences and pseudo-absences of each class weigh the same, common or rare",
    defaults={"batch_size": 256},
    alone="it keeps weights for each class",
    no_curve="its loss depends on the class and on which items of the batch have labels",
    grid=({"lambda2": 1.0}, {"lambda2": 0.5}),
    search_space={"lambda1": Range(0.1, 4.0, log=True), "lambda2": Range(0.0, 1.0)},
)
