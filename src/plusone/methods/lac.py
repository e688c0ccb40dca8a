"""LAC: label-wise embeddings, confident pseudo labels, and contrast between classes.

Xie et al. 2022, Label-Aware Global Consistency for Multi-Label Learning with Single Positive
Labels, NeurIPS, Eq. 2-7 and section 4.1.

The loss is AN on the weak view, plus `lam_plc` times the consistency of the strong view with
confident predictions on the weak one (PLC), plus `lam_lac` times the contrast of the embeddings of
seen and confident labels with each other and with a queue of past ones (LAC). Training has two
phases, each of the recipe's epochs, the second from the best weights of the first: AN + PLC, then
all three. In the first phase the projection has no term and so does not move.

`variant = "released"` follows the authors' program where it differs, see `losses/contrastive.py`;
all its terms are means where the paper has sums over classes.

Both views of a label give an embedding that takes part. Read literally, Eq. 7 has one embedding for
each label, and the second view only where a label meets itself (k = k'): `second_view="self"`, with
the weak view as the first.

Deviations: the projection belongs to the method, not to the head (it is not needed to predict), so
weight decay does not reach it. The one-cycle schedule moves the learning rate only, not Adam's
momentum. The queue takes embeddings as the projection gives them after the step. On feature vectors
the weak and the strong view are the same, apart from dropout, and all classes attend to the same
single token, so they have the same embedding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from plusone.losses import (
    Reduction,
    Variant,
    assume_negative,
    label_aware_contrast,
    pseudo_label_consistency,
    reduce,
)
from plusone.methods._base import (
    VARIANTS,
    Method,
    MethodInfo,
    Part,
    PublishedFigure,
    Range,
)
from plusone.methods._labelwise import FIXED, LabelwiseOptions
from plusone.methods._papers import XIE, XIE_TABLE_2
from plusone.models.heads import Head, LabelwiseHead
from plusone.types import Batch, Clock, Outputs, TrainLabels

TABLE = 1 << 25  # similarities of a step, 128 MB, where no capacity is given
SecondView = Literal["all", "self"]


@dataclass(frozen=True)
class LacOptions(LabelwiseOptions):
    """Published for COCO: delta_first 0.6, delta 0.9, temperature 0.5, queue 512.

    delta_first is the threshold wherever there is no contrast: in the first phase.

    width, heads, feedforward, encoder_layers, decoder_layers and projection size the model; the
    released program has 2048, 4, 8192, 1, 2 and 128.

    end_to_end trains all three terms in one phase: the comparison of Table 3, published as worse.

    second_view says what Eq. 7 compares, see above. capacity: how many labels of a batch, seen or
    confident, are contrasted, the first ones if there are more, which a run says; None takes as
    many as have their similarities to each other and to the queue in 128 MB, 2,771 with the
    default queue.
    """

    SIZES = (*LabelwiseOptions.SIZES, "projection", "capacity")
    COUNTS = (*LabelwiseOptions.COUNTS, "queue")

    delta_first: float = 0.6
    delta: float = 0.9
    lam_plc: float = 1.0
    lam_lac: float = 1.0
    temperature: float = 0.5
    queue: int = 512
    variant: Variant = "paper"
    projection: int = 128
    end_to_end: bool = False
    second_view: SecondView = "all"
    capacity: int | None = None

    @property
    def one_phase(self) -> bool:
        return self.end_to_end

    @property
    def contrasted(self) -> int:
        """The highest n with 2 n (2 n + queue) similarities in `TABLE`, or the capacity."""
        return self.capacity or int((math.sqrt(self.queue**2 + 4 * TABLE) - self.queue) / 4)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.second_view not in get_args(SecondView):
            raise ValueError(f"second_view must be all or self, got {self.second_view}")
        if self.second_view == "self" and self.variant == "released":
            raise ValueError('second_view = "self" reads the paper; it has no variant "released"')
        if not (0.5 <= self.delta <= 1 and 0.5 <= self.delta_first <= 1):
            raise ValueError("delta and delta_first must lie between 0.5 and 1")
        if self.temperature <= 0:
            raise ValueError(f"temperature must be positive, got {self.temperature}")


class Lac(Method[LacOptions]):
    """Keeps the last `queue` embeddings, the newest at the end."""

    views = ("weak", "strong")
    fixed = ("queue", "projection", *FIXED)

    def __init__(self, labels: TrainLabels, options: LacOptions) -> None:
        o = options.sized(labels.places)
        super().__init__(labels, o)
        assert o.width is not None
        self.projector = nn.Sequential(
            nn.Linear(o.width, o.width), nn.ReLU(), nn.Linear(o.width, o.projection)
        )
        self.register_buffer("queue", torch.zeros(o.queue, o.projection))
        self.register_buffer("queue_classes", torch.full((o.queue,), -1))
        self.queue: Tensor
        self.queue_classes: Tensor  # -1 where the queue is not filled yet
        self.most: Tensor  # seen and confident labels of a batch, so far
        self.register_buffer("most", torch.tensor(0), persistent=False)

    def make_head(self, dim: int) -> Head:
        return LabelwiseHead(dim, self.labels.n_classes, **self._first_options.head)

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        o, (weak, strong), y = self.options, outs, batch.observed
        reduction: Reduction = "mean" if o.variant == "released" else "item"
        terms = {"an": reduce(assume_negative(weak.logits, y), reduction)}
        if o.lam_plc:
            delta = o.delta if o.lam_lac else o.delta_first
            terms["plc"] = o.lam_plc * pseudo_label_consistency(
                strong.logits, weak.logits, y, delta=delta, variant=o.variant
            )
        if o.lam_lac:
            embeddings, classes = self._embeddings(outs, y)
            literal = o.second_view == "self"
            first, second = embeddings.chunk(2) if literal else (embeddings, None)
            terms["lac"] = o.lam_lac * label_aware_contrast(
                first,
                classes[: len(first)],
                second=second,
                queue=self.queue,
                queue_classes=self.queue_classes,
                temperature=o.temperature,
                total=y.numel() if literal else len(outs) * y.numel(),
                variant=o.variant,
            )
        return terms

    def after_step(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> None:
        if not self.options.lam_lac:
            return
        chosen = self._chosen(outs, batch.observed).sum()
        self.most.copy_(torch.maximum(self.most, chosen))
        size = len(self.queue)
        if not size:
            return
        embeddings, classes = self._embeddings(outs, batch.observed)
        if self.options.second_view == "self":
            embeddings, classes = embeddings.chunk(2)[0], classes.chunk(2)[0]
        embeddings = torch.cat((self.queue, embeddings))
        classes = torch.cat((self.queue_classes, classes))
        newest = torch.argsort((classes >= 0).int(), stable=True)[-size:]  # padding comes first
        self.queue.copy_(embeddings[newest])
        self.queue_classes.copy_(classes[newest])

    def remarks(self) -> tuple[str, ...]:
        most, contrasted = int(self.most), self.options.contrasted
        if most <= contrasted:
            return ()
        queue = self.options.queue
        now, then = (2 * n * (2 * n + queue) * 4 / 2**20 for n in (contrasted, most))
        return (
            f"a batch has up to {most:,} seen or confident labels, and lac contrasts the first "
            f"{contrasted:,} of them: options.capacity={most} contrasts all, with similarities of "
            f"{then:,.0f} MB a step instead of {now:,.0f} MB; a smaller batch_size has fewer",
        )

    def _chosen(self, outs: tuple[Outputs, ...], y: Tensor) -> Tensor:
        """Which labels are seen or confident, bool `[B, L]`."""
        likely = outs[0].logits.detach().sigmoid() >= self.options.delta
        return (y == 1) | (likely & (y == 0))

    def _embeddings(self, outs: tuple[Outputs, ...], y: Tensor) -> tuple[Tensor, Tensor]:
        """Projected unit vectors `[n, d]` of the seen and the confident labels, both views.

        Their number is fixed, so that no size is read on the host: the chosen labels come first,
        and padding has the class -1.
        """
        chosen = self._chosen(outs, y).flatten()
        places = torch.argsort(~chosen, stable=True)[: self.options.contrasted]
        classes = torch.where(chosen[places], places % y.shape[-1], -1)
        embeddings = []
        for out in outs:
            assert out.embeddings is not None
            embeddings.append(out.embeddings.flatten(0, 1)[places])
        z = functional.normalize(self.projector(torch.cat(embeddings)), dim=1)
        return z, classes.repeat(len(outs))


INFO = MethodInfo(
    name="lac",
    build=Lac,
    options=LacOptions,
    paper=XIE,
    year=2022,
    summary="one embedding per class; confident labels agree between views and across images",
    phases=({"lam_lac": 0.0}, {}),
    defaults={
        "optimizer": "adamw",
        "weight_decay": 0.01,
        "schedule": "one_cycle",
        "lr": 1e-4,
        "ema": 0.9997,
    },
    has_maps=True,
    alone="its head is not one linear layer",
    no_curve="it compares embeddings, not probabilities alone",
    grid=({"variant": "released"}, {"delta": 0.7}),
    search_space={
        "variant": VARIANTS,
        "delta": Range(0.6, 0.98),
        "lam_lac": Range(0.1, 3.0, log=True),
    },
    ablation=(
        Part(
            "AN",
            {"lam_plc": 0.0, "lam_lac": 0.0},
            paper="LAC Table 3, row 1",
            published={"voc": 87.6, "coco": 72.3},
        ),
        Part(
            "AN + PLC",
            {"lam_lac": 0.0},
            paper="LAC Table 3, row 2",
            published={"voc": 89.0, "coco": 73.7},
        ),
        Part(
            "AN + PLC + LAC, end to end",
            {"end_to_end": True, "queue": 0},
            paper="LAC Table 3, row 3",
            published={"voc": 84.5, "coco": 65.6},
        ),
        Part(
            "AN + PLC + LAC, two stages",
            {"queue": 0},
            paper="LAC Table 3, row 4",
            published={"voc": 89.2, "coco": 74.7},
        ),
        Part(
            "AN + PLC + LAC, two stages, queue",
            paper="LAC Table 3, row 5",
            published={"voc": 89.6, "coco": 75.6},
        ),
    ),
    on_features=(
        "On features the weak and the strong view are the same, apart from dropout: what PLC "
        "and LAC gain from augmentation does not show here."
    ),
    published=(PublishedFigure("finetune", XIE_TABLE_2, 89.6, 75.6, 51.1, 23.3),),
    quick={"width": 8, "heads": 2, "feedforward": 16, "queue": 30, "delta": 0.5},
)
