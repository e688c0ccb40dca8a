"""A fit in closed form, with the same records and the same run folder as the loop.

A stage on fixed features is one solution for all items instead of epochs of steps. Stages that
train a backbone have no closed form; there, and in them alone, the loop goes on.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plusone.closed_form.folds import solve
from plusone.closed_form.ridge import Solution
from plusone.data.matrix import LabelMatrix
from plusone.device import CPU
from plusone.inputs.task import Task, named_of
from plusone.methods import get_method
from plusone.models.classifier import Classifier
from plusone.models.heads import LinearHead
from plusone.probabilities.calibration import HeldOut
from plusone.probabilities.k import LabelsPerItem
from plusone.recipe import Recipe
from plusone.training.selection import State, Validation
from plusone.training.trainer import Training


def fit_for(task: Task, recipe: Recipe, *, features: Path | None = None, **rest: Any) -> Training:
    """The fit of a recipe: in closed form where the method has one, else by the loop.

    Args:
        task: The data.
        recipe: The settings.
        features: Folder where features of image files are cached for later runs.
        **rest: Other arguments of `Training`.
    """
    kind = ClosedFormFit if get_method(recipe.method).closed_form else Training
    return kind(task, recipe, features=features, **rest)


class ClosedFormFit(Training):
    """A run of a method with a closed form.

    Attributes:
        left_out: Logits `[n, L]` of the items of `learned.parts`, each predicted by a model fitted
            without it and its group; None before a stage was solved.
        estimate: k and how labels are picked, where the method estimates them.
    """

    left_out: Tensor | None = None
    estimate: LabelsPerItem | None = None

    def train_epoch(self) -> dict[str, float]:
        if self.stages[self.stage].inputs == "features":
            return self.solve_head()
        self.left_out = None  # of another model
        return super().train_epoch()

    def solve_head(self) -> dict[str, float]:
        """Fits the head in closed form; returns the mean squared error, leaving each item out."""
        assert self.inputs.space is not None
        assert isinstance(self.model.head, LinearHead)
        learned, space = self.learned, self.inputs.space
        observed = torch.cat([torch.from_numpy(part.marked()) for part in learned.parts])
        observed = observed.to(self.device).float()
        with torch.no_grad():
            solution = solve(
                self.method.solve,
                space.fitted,
                learned.of(observed),
                space.weights,
                learned.groups(),
                leave_one_out=get_method(self.recipe.method).leave_one_out,
            )
            if learned.rows is not None:
                solution = self._with_unlabelled(solution, learned.rows)
            self.method.after_solving(solution)
            self.model.head.weight.copy_(solution.weight)
            self.model.head.bias.copy_(solution.bias)
        error = (solution.left_out - observed.clamp(0, 1)).square().mean()
        self.left_out, self.estimate = solution.left_out.to(CPU), solution.estimate
        return {"left_out_error": float(error)}

    def _with_unlabelled(self, solution: Solution, rows: Tensor) -> Solution:
        """The solution with predictions of all items; those without a label are new to it.

        Args:
            solution: For the items with a label.
            rows: These items.
        """
        assert self.inputs.space is not None
        left_out = self.inputs.space.predict(solution.weight, solution.bias)
        targets = None if solution.targets is None else left_out.clamp(0, 1)
        if targets is not None and solution.targets is not None:
            targets[rows] = solution.targets
        left_out[rows] = solution.left_out
        return replace(solution, left_out=left_out, targets=targets)

    def held_out(self) -> HeldOut:
        """Every item that was learned from, each left out in turn, and the validation items."""
        if self.left_out is None:
            return super().held_out()
        z = self.method.log_odds(self.left_out)
        if len(self.learned.parts) == 1:
            z = torch.cat([z, self.log_odds(self.task.val)])
        labels = self.validator.labels.with_default(self.task.train.observed.default)
        known = LabelMatrix.concatenate([self.task.train.observed, labels])
        named = named_of((self.task.train, self.task.val))
        return HeldOut(z, known, "items that were each left out", named)

    def other_state(self) -> State:
        if self.left_out is None:
            return {}
        known = {} if self.estimate is None else self.estimate.to_tensors()
        return {"left_out": self.left_out} | known

    def load_other_state(self, tensors: State) -> None:
        self.left_out = tensors.get("left_out")
        self.estimate = LabelsPerItem.from_tensors(tensors)

    def _evaluate(self) -> tuple[Validation, str, Classifier]:
        if self.left_out is None or len(self.learned.parts) == 1:
            return super()._evaluate()
        own = self.left_out[len(self.task.train) :]  # learned from, so each is left out
        return self.validated(own), "raw", self.model
