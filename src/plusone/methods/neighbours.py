"""Labels of neighbours: what people named on the nearest items may be missing on this one.

Kim, Gowda, Mac Aodha and Sevilla-Lara 2022, An Action Is Worth Multiple Words: Handling Ambiguity
in Action Recognition, BMVC, by the facts of its released program, as the paper's own equations were
not at hand. A class is a verb, of which annotators name one. The candidates of an item are the
classes that were seen on more than `share` of its 15 nearest neighbours by the features of a fixed
model. Candidates that were not seen on the item itself are left out of the loss (`use = "mask"`,
"Mask" there) or count as positives (`use = "add"`, "Pseudo+Single"). Other unobserved labels are
negatives, as in `an`.

Deviations: the paper has features of videos; here they are what the head gets before training, by
Euclidean distance, so the method learns from fixed features. The loss is the binary cross-entropy,
mean over all labels, as in `an`. A seen negative is never a candidate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from plusone.losses import assume_negative, reduce
from plusone.methods._base import Choice, Method, MethodInfo, Options, Part, Range
from plusone.methods._tables import rows_of
from plusone.methods.smile import nearest
from plusone.types import Batch, Clock, Outputs, TrainLabels

Use = Literal["mask", "add"]


@dataclass(frozen=True)
class NeighboursOptions(Options):
    """Options of `neighbours`.

    Args:
        neighbours: How many of each item.
        share: Of them that must have a class to make it a candidate.
        use: What becomes of candidates: left out of the loss, or positives.
    """

    neighbours: int = 15
    share: float = 0.1
    use: Use = "mask"

    def __post_init__(self) -> None:
        if self.neighbours < 1 or not 0 <= self.share < 1:
            got = f"{self.neighbours}, {self.share}"
            raise ValueError(f"need neighbours >= 1 and 0 <= share < 1, got {got}")
        if self.use not in get_args(Use):
            raise ValueError(f"use must be one of {', '.join(get_args(Use))}, got {self.use}")


class Neighbours(Method[NeighboursOptions]):
    """Holds the candidates of each item, bool `[N, L]`."""

    fixed = ("neighbours", "share")
    per_item = ("candidates",)

    def __init__(self, labels: TrainLabels, options: NeighboursOptions) -> None:
        super().__init__(labels, options)
        self.candidates: Tensor | None
        self.register_buffer("candidates", None, persistent=False)

    def begin_training(self, vectors: Callable[[], Tensor]) -> None:
        graph = nearest(vectors(), self.options.neighbours)
        seen = torch.from_numpy(self.labels.observed.dense() == 1)
        count = torch.zeros(seen.shape, dtype=torch.uint8)
        for column in graph.T:
            count += seen[column]
        self.candidates = count > self.options.share * graph.shape[1]

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        if self.candidates is None:
            raise ValueError("there are no candidates; begin_training must be called first")
        y = batch.observed
        candidate = rows_of(self.candidates, batch.index) & (y == 0)
        if self.options.use == "add":
            return {"loss": reduce(assume_negative(outs[0].logits, torch.where(candidate, 1, y)))}
        losses = assume_negative(outs[0].logits, y)
        return {"loss": reduce(losses.masked_fill(candidate, 0.0))}


INFO = MethodInfo(
    name="neighbours",
    title="Neighbours",
    build=Neighbours,
    options=NeighboursOptions,
    paper="Kim et al., An Action Is Worth Multiple Words, BMVC",
    year=2022,
    summary="labels seen on the nearest items are no negatives, or are positives",
    inputs="vectors",
    alone="it has candidates of its own",
    no_curve="its loss of a label depends on the labels of neighbours",
    grid=({"use": "add"}, {"share": 0.2}),
    search_space={"share": Range(0.0, 0.5), "use": Choice(get_args(Use))},
    ablation=(Part("none: AN", method="an"), Part("candidates are left out")),
)
