"""Histograms of the hidden labels' probabilities, epoch by epoch, where a recipe asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

from plusone.errors import InputError
from plusone.inputs.task import Task
from plusone.metrics.probe import prober_for
from plusone.recipe import Recipe
from plusone.results import EpochRecord, Probe

if TYPE_CHECKING:
    from plusone.training.trainer import Training


class Probing:
    """The items that a run looks at, and what it has seen.

    Attributes:
        part: The items.
        before: Histograms before the first epoch, until a record has them.

    Raises:
        InputError: The data has no such items.
    """

    def __init__(self, task: Task, recipe: Recipe) -> None:
        where = recipe.probe_on
        part = {"training": task.train, "validation": task.val, "test": task.test}[where]
        if part is None:
            raise InputError(f"probe_on = {where}: the data has no such items")
        self.part = part
        self.before: Probe | None = None
        observed = part.observed if part is task.train else None
        self._prober = prober_for(part.truth, observed, by_class=recipe.probe == "full")

    def begin(self, run: Training) -> None:
        """Notes the histograms before the first epoch, if the recipe asks for them."""
        if run.recipe.probe == "full" and (run.stage, run.epoch) == (0, 0):
            self.before = self(run)

    def completed(self, record: EpochRecord) -> EpochRecord:
        """The record of the first epoch with the histograms before it; others as they are."""
        if self.before is None:
            return record
        before, self.before = self.before, None
        return record.model_copy(update={"probe_before": before})

    def __call__(self, run: Training, predict: Callable[[], Tensor] | None = None) -> Probe | None:
        """The histograms of a run as it is now.

        Args:
            run: The run.
            predict: Gives the logits `[N, L]` of the items, where they are known.
        """
        wanted, cheap = run.recipe.probe, run.stages[run.stage].inputs == "features"
        if self._prober is None or wanted == "off" or (wanted == "auto" and not cheap):
            return None
        logits = run.inputs.logits(self.part, run.model) if predict is None else predict()
        return self._prober(run.method.probabilities(logits))
