"""Values of loss terms, looked at many steps at a time.

Adding up one small table and reading the sum costs more than making the table. So tables are kept
until there are enough of them, and then added up in one call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from plusone.errors import DivergedError

BLOCK = 1 << 18  # entries that are kept


class Ledger:
    """Adds up the loss terms of an epoch, of one training or of several that step together.

    Args:
        trainings: The name of each, for messages.
        epoch: The epoch, from 1, for messages.
        at_once: Look at every step by itself, for methods whose memory must stay finite.
    """

    def __init__(self, trainings: Sequence[str], epoch: int, *, at_once: bool = False) -> None:
        self.trainings, self.epoch = trainings, epoch
        self.steps = 0  # that were looked at
        self._largest = 0 if at_once else BLOCK
        self._sums: dict[str, list[float]] = {}
        self._kept: list[tuple[Mapping[str, Tensor], Mapping[str, float]]] = []
        self._entries = 0

    def add(self, terms: Mapping[str, Tensor], factors: Mapping[str, float]) -> None:
        """Enters the terms of the next step.

        Args:
            terms: Of one training a table `[B, L]` or a scalar each; of several that have S orders
                of the items `[S, B, trainings / S, L]` or `[trainings]`. Tables are added up.
            factors: What each term is multiplied with; 1 where none is given.

        Raises:
            DivergedError: A term of this or an earlier step is not finite.
        """
        self._kept.append((terms, factors))
        self._entries += sum(term.numel() for term in terms.values())
        if self._entries >= self._largest:
            self._look()

    def means(self) -> list[dict[str, float]]:
        """The mean of each term over the steps, for each training.

        Raises:
            DivergedError: A term of a step is not finite.
        """
        self._look()
        return [
            {name: sums[place] / self.steps for name, sums in self._sums.items()}
            for place in range(len(self.trainings))
        ]

    def _look(self) -> None:
        """Adds up what was kept."""
        if not self._kept:
            return
        found = {name: self._values(name) for name in self._kept[0][0]}
        if not all(bool(values.isfinite().all()) for values in found.values()):
            self._blame(found)
        for name, values in found.items():
            old = self._sums.get(name, [0.0] * len(self.trainings))
            new = values.sum(0).tolist()
            self._sums[name] = [one + other for one, other in zip(old, new, strict=True)]
        self.steps += len(self._kept)
        self._kept, self._entries = [], 0

    def _values(self, name: str) -> Tensor:
        """Values of a term, a row per kept step: float64 `[n, trainings]`."""
        tables = [terms[name] for terms, _ in self._kept]
        factors = [factors.get(name, 1.0) for _, factors in self._kept]
        # Only the last batch of an epoch can be smaller than the others.
        same = len(tables) - (tables[-1].shape != tables[0].shape)
        parts = [part for part in (tables[:same], tables[same:]) if part]
        sums = torch.cat([_added_up(torch.stack(part)) for part in parts]).double()
        return sums * torch.tensor(factors, dtype=torch.float64).unsqueeze(1)

    def _blame(self, found: Mapping[str, Tensor]) -> None:
        """Names the first step, and a training in it, that is not finite."""
        bad = torch.stack([~values.isfinite() for values in found.values()]).any(0)
        step, training = bad.nonzero()[0].tolist()
        values = {name: values[step, training].item() for name, values in found.items()}
        raise DivergedError(
            f"a loss term of {self.trainings[training]} is not finite in epoch {self.epoch}, "
            f"batch {self.steps + step + 1}: {values}"
        )


def _added_up(terms: Tensor) -> Tensor:
    """The terms of n steps, as `Ledger.add` takes them, per training: `[n, trainings]`."""
    if terms.ndim == 5:
        return terms.sum((2, 4)).flatten(1)
    return terms.sum((1, 2)).unsqueeze(1) if terms.ndim == 3 else terms.reshape(len(terms), -1)
