"""The vectors that a head is trained on where a map lies between features and head."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from plusone.closed_form.kernel import BLOCK, FeatureMap
from plusone.device import device_of
from plusone.inputs.loader import ArrayInputs, Inputs


class Space:
    """Vectors of inputs under a map, in memory, which is fitted on `rows`, or all items."""

    def __init__(
        self, map: FeatureMap, features: Callable[[Inputs], Tensor], rows: Tensor | None = None
    ) -> None:
        self.map, self.features, self.rows = map, features, rows
        self.fitted: Tensor | None = None
        self._held: dict[int, tuple[Inputs, ArrayInputs]] = {}

    def fit(self, parts: Sequence[Inputs], weights: Tensor | None = None) -> Tensor:
        """Fits the map, unless that was done; returns the vectors `[n, r]` of the fitted items."""
        if self.fitted is None:
            features = [self.features(part) for part in parts]
            whole = features[0] if len(features) == 1 else torch.cat(features)
            with torch.no_grad():
                self.fitted = self.map.fit(
                    whole if self.rows is None else whole[self.rows], weights
                )
            if self.rows is not None:
                return self.fitted
            vectors = torch.split(self.fitted, [len(part) for part in parts])
            for part, own in zip(parts, vectors, strict=True):
                self._held[id(part)] = (part, ArrayInputs(own))
        return self.fitted

    def of(self, inputs: Inputs) -> ArrayInputs:
        """The vectors of inputs."""
        if id(inputs) not in self._held:
            with torch.no_grad():
                x, device = self.features(inputs), device_of(self.map)
                vectors = [self.map(rows.to(device)) for rows in torch.split(x, BLOCK)]
                self._held[id(inputs)] = (inputs, ArrayInputs(torch.cat(vectors)))
        return self._held[id(inputs)][1]

    def predict(self, parts: Sequence[Inputs], weight: Tensor, bias: Tensor) -> Tensor:
        """What a linear model `[L, r]` predicts for all parts, `[N, L]`; no vectors are kept."""
        device = device_of(self.map)
        with torch.no_grad():
            return torch.cat(
                [
                    torch.addmm(bias, self.map(rows.to(device)), weight.T)
                    for part in parts
                    for rows in torch.split(self.features(part), BLOCK)
                ]
            )
