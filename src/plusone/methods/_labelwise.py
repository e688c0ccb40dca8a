"""The sizes of a label-wise head: options of `lac` and `mime`, and `head_options` of a recipe."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from plusone.methods._base import Options


@dataclass(frozen=True)
class LabelwiseOptions(Options):
    """None: 256, 1024 and 2 for inputs with places, and 64, 128 and 1 for feature vectors.

    Attention has nothing to choose from on vectors.
    """

    SIZES: ClassVar[tuple[str, ...]] = ("width", "heads", "feedforward", "decoder_layers")
    COUNTS: ClassVar[tuple[str, ...]] = ("encoder_layers",)

    width: int | None = None
    heads: int = 4
    feedforward: int | None = None
    encoder_layers: int = 1
    decoder_layers: int | None = None
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name in (*self.SIZES, *self.COUNTS):
            value, least = getattr(self, name), 1 if name in self.SIZES else 0
            if not isinstance(value, int | None):
                raise ValueError(f"{name} must be a whole number, got {value}")
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        if self.width is not None and self.width % self.heads:
            raise ValueError(f"width {self.width} cannot be split among {self.heads} heads")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), got {self.dropout}")

    def sized(self, places: bool) -> Self:
        """The same with sizes for inputs with or without places, where none are given."""
        width, feedforward, layers = (256, 1024, 2) if places else (64, 128, 1)
        return replace(
            self,
            width=self.width or width,
            feedforward=self.feedforward or feedforward,
            decoder_layers=self.decoder_layers or layers,
        )

    @property
    def head(self) -> dict[str, Any]:
        """Arguments of `LabelwiseHead`."""
        names = ("width", "heads", "feedforward", "encoder_layers", "decoder_layers", "dropout")
        return {name: getattr(self, name) for name in names}


FIXED = ("width", "heads", "feedforward", "encoder_layers", "decoder_layers", "dropout")
