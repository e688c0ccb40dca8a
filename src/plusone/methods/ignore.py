"""IGNORE: labels whose evidence is outside the place of the seen label are not made negatives.

Song, Kim, Lee and Lee 2024, IGNORE: Information Gap-Based False Negative Loss Rejection for Single
Positive Multi-Label Learning, ECCV, and the authors' program. The model gives class maps and sees
each image three times in a step: a weak view (logits z), a strong one (z_s), and the weak view
without everything outside the place of the seen label (z_m). A label whose logit changes much, when
the rest of the image is hidden, is elsewhere in it.

- The map of the seen class is scaled to [0, 1] and resized to the image; places above `cut` are
  kept. An image that does not have exactly one seen positive is kept whole.
- gap = |z - z_m|. After each step G becomes `decay` G + (1 - `decay`) (mean gap of the seen
  positives), and A_c the same with the batch mean of z_c. Both start at 0.
- After `warmup` epochs an unobserved label with gap > G and z > A_c is rejected: it costs nothing.

The loss is the mean of AN on the strong view over all labels not rejected, plus `seen_weight` times
the mean of lp of the seen positives on the weak view, plus `agreement` times the mean of
(z_s - z)^2. Gaps and thresholds have no gradient. As in the program, the three have a forward pass
each: batch norm normalises a version of the images by that version alone, so that the gap of images
that are all kept whole is 0.

How it differs from the program:

- `scale`: the program scales a map by its lowest and highest value at the same place in the other
  images of the batch, (m - min) / max; that is "batch". By default it is scaled by its own lowest
  and highest value, (m - min) / (max - min), so that each image keeps its best place.
- Hidden places are grey in images of bytes, which networks normalise to about 0, the value of the
  program; in inputs of other types they are 0.
- The running statistics of batch norms do not count the masked images; in the program they do.
- The `warmup` is that of the first stage alone.
- Query2Label's head, which the program has too, is not here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from plusone.errors import InputError
from plusone.losses import assume_negative
from plusone.methods._base import Choice, Method, MethodInfo, Options, Part, Range
from plusone.models.heads import Head, SpatialHead
from plusone.types import Batch, Clock, Outputs, TrainLabels

GREY = 115  # 0.45 of white


@dataclass(frozen=True)
class IgnoreOptions(Options):
    """The settings of the program for ResNet-50."""

    cut: float = 0.8
    decay: float = 0.999
    warmup: int = 3
    seen_weight: float = 0.1
    agreement: float = 0.5
    scale: str = "image"

    def __post_init__(self) -> None:
        if self.scale not in ("image", "batch"):
            raise ValueError(f"scale must be image or batch, got {self.scale}")
        if not 0 <= self.cut < 1:
            raise ValueError(f"cut must lie in [0, 1), got {self.cut}")
        if not 0 <= self.decay < 1 or self.warmup < 0:
            got = f"{self.decay} and {self.warmup}"
            raise ValueError(f"need 0 <= decay < 1 and warmup >= 0, got {got}")
        if self.seen_weight < 0 or self.agreement < 0:
            raise ValueError("seen_weight and agreement must not be negative")


class Ignore(Method[IgnoreOptions]):
    """Remembers G (`gap`) and A (`level`), means over the steps so far."""

    views = ("weak", "strong")
    looks_again = True

    def __init__(self, labels: TrainLabels, options: IgnoreOptions) -> None:
        super().__init__(labels, options)
        self.gap: Tensor
        self.level: Tensor
        self.register_buffer("gap", torch.zeros(()))
        self.register_buffer("level", torch.zeros(labels.n_classes))

    def make_head(self, dim: int) -> Head:
        return SpatialHead(dim, self.labels.n_classes)

    def look_again(
        self, inputs: Tensor, out: Outputs, observed: Tensor, rows: Tensor | slice
    ) -> Tensor:
        if out.maps is None or out.features.ndim != 4:
            raise InputError(
                "the method ignore hides parts of images by their class maps, and this backbone "
                "gives no map of places; use a convolutional one"
            )
        o, size = self.options, inputs.shape[-2:]
        kept = places_kept(out.maps, observed, size, rows, cut=o.cut, scale=o.scale)
        hidden = GREY if inputs.dtype == torch.uint8 else 0
        return torch.where(kept[:, None], inputs, torch.full_like(inputs, hidden))

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        o, y, z, strong = self.options, batch.observed, outs[0].logits, outs[1].logits
        counted = 1 - self.rejected(z, batch, clock).to(z.dtype)
        seen = (y == 1).to(z.dtype)
        positive = (seen * assume_negative(z, y)).sum() / seen.sum().clamp(min=1)
        return {
            "an": (counted * assume_negative(strong, y)).sum() / counted.sum().clamp(min=1),
            "seen": o.seen_weight * positive,
            "agreement": o.agreement * (strong - z).square().mean(),
        }

    def after_step(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> None:
        gap, level = self._thresholds(outs[0].logits, batch)
        self.gap.copy_(gap)
        self.level.copy_(level)

    def rejected(self, z: Tensor, batch: Batch, clock: Clock) -> Tensor:
        """Which labels cost nothing, bool `[B, L]`."""
        if clock.stage == 0 and clock.epoch < self.options.warmup:
            return torch.zeros_like(batch.observed, dtype=torch.bool)
        assert batch.again is not None
        gap, level = self._thresholds(z, batch)
        large = (z.detach() - batch.again.logits).abs() > gap
        return large & (z.detach() > level) & (batch.observed == 0)

    def _thresholds(self, z: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """G and A `[L]` with this batch."""
        assert batch.again is not None
        z, o = z.detach(), self.options
        seen = (batch.observed == 1).to(z.dtype)
        count = seen.sum()
        gaps = (seen * (z - batch.again.logits).abs()).sum() / count.clamp(min=1)
        gap = torch.lerp(torch.where(count > 0, gaps, self.gap), self.gap, o.decay)
        return gap, torch.lerp(z.mean(0), self.level, o.decay)


def places_kept(
    maps: Tensor,
    observed: Tensor,
    size: torch.Size,
    rows: Tensor | slice = slice(None),
    *,
    cut: float,
    scale: str,
) -> Tensor:
    """Which places of images show the seen label, bool `[n, H, W]`.

    Args:
        maps: Class maps `[B, L, h, w]`.
        observed: Labels `[B, L]`.
        size: H and W.
        rows: Which images of the batch.
        cut: Places are kept where the scaled map is higher.
        scale: "image" or "batch", see above.
    """
    seen = (observed == 1).to(maps.dtype)
    one = seen.sum(1) == 1
    own = torch.einsum("bl,blhw->bhw", seen, maps)  # the map of the seen class, if it is one
    if scale == "batch":
        others = ~one[:, None, None]
        low = own.masked_fill(others, torch.inf).amin(0)
        high = own.masked_fill(others, -torch.inf).amax(0)
        scaled = (own - low) / high
    else:
        low, high = own.amin((1, 2), keepdim=True), own.amax((1, 2), keepdim=True)
        flat = high == low  # it hides nothing
        scaled = torch.where(flat, 1.0, (own - low) / (high - low))
    if isinstance(rows, Tensor):
        rows = rows.to(maps.device)
    scaled, one = scaled[rows], one[rows]
    resized = interpolate(scaled[:, None], list(size), mode="bilinear", align_corners=False)
    return (resized[:, 0] > cut) | ~one[:, None, None]


INFO = MethodInfo(
    name="ignore",
    title="Ignore",
    build=Ignore,
    options=IgnoreOptions,
    paper="Song et al., IGNORE: Information Gap-Based False Negative Loss Rejection, ECCV",
    year=2024,
    summary="labels whose logits fall when all but the seen label is hidden are no negatives",
    inputs="images",
    has_maps=True,
    alone="its head gives class maps, and it remembers thresholds of its own",
    no_curve="it compares two versions of an image",
    grid=({"seen_weight": 0.5}, {"scale": "batch"}),
    search_space={
        "cut": Range(0.4, 0.95),
        "seen_weight": Range(0.03, 3.0, log=True),
        "agreement": Range(0.03, 3.0, log=True),
        "scale": Choice(("image", "batch")),
        "warmup": Choice((1, 2, 3, 5)),
    },
    ablation=(
        Part("none: AN", method="an"),
        Part("AN on strong views + seen labels + agreement", {"warmup": 1_000_000}),
        Part("AN on strong views + seen labels + agreement + rejection"),
    ),
    quick={"warmup": 0, "decay": 0.5},
)
