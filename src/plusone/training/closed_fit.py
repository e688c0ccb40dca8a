"""A fit in closed form, with the same records and the same run folder as the loop.

A stage on fixed features is one solution for all items instead of epochs of steps. Stages that
train a backbone have no closed form; there, and in them alone, the loop goes on.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plusone.closed_form.folds import solve
from plusone.closed_form.ridge import Solution
from plusone.data.matrix import LabelMatrix
from plusone.device import CPU
from plusone.errors import InputError
from plusone.inputs.task import Part, Task, labelled_rows, numbered_groups
from plusone.methods import get_method
from plusone.models.classifier import Classifier
from plusone.models.heads import LinearHead
from plusone.probabilities.calibration import HeldOut
from plusone.probabilities.k import LabelsPerItem
from plusone.recipe import Recipe
from plusone.training.selection import State, Validation
from plusone.training.trainer import Training
from plusone.types import Stage


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
        left_out: Logits `[n, L]` of the items of `learned_parts`, each predicted by a model fitted
            without it and its group; None before a stage was solved.
        estimate: k and how labels are picked, where the method estimates them.
    """

    solved = True
    left_out: Tensor | None = None
    estimate: LabelsPerItem | None = None

    @property
    def learned_parts(self) -> tuple[Part, ...]:
        """The parts that are learned from: also validation items, if nothing is chosen by them."""
        solved_alone = all(stage.inputs == "features" for stage in self.stages)
        together = self.recipe.use_validation and solved_alone
        return (self.task.train, self.task.val) if together else (self.task.train,)

    @cached_property
    def learned_rows(self) -> Tensor | None:
        """The items with a seen label: the others would only pull predictions to the mean."""
        return labelled_rows(self.learned_parts)

    @property
    def solves(self) -> bool:
        """Whether the current stage is solved."""
        return self.stages[self.stage].inputs == "features"

    def _stages(self) -> tuple[Stage, ...]:
        stages = tuple(
            replace(stage, epochs=1) if stage.inputs == "features" else stage  # once is enough
            for stage in super()._stages()
        )
        if self.recipe.group_weight and any(stage.inputs == "features" for stage in stages):
            raise InputError(
                f"group_weight is a term of gradient steps, and {self.recipe.method} has a closed "
                "form on fixed features; choose another method, or leave group_weight out"
            )
        return stages

    def train_epoch(self) -> dict[str, float]:
        if self.solves:
            return self.solve_head()
        self.left_out = None  # of another model
        return super().train_epoch()

    def solve_head(self) -> dict[str, float]:
        """Fits the head in closed form; returns the mean squared error, leaving each item out."""
        assert self.inputs.space is not None
        assert isinstance(self.model.head, LinearHead)
        parts, weights, rows = self.learned_parts, self.inputs.item_weights(), self.learned_rows
        observed = torch.cat([torch.from_numpy(part.observed.dense()) for part in parts])
        observed = observed.to(self.device).float()
        vectors = self.inputs.space.fit([part.inputs for part in parts], weights)
        with torch.no_grad():
            groups = numbered_groups(parts)
            if groups is not None and rows is not None:
                groups = torch.unique(groups[rows], return_inverse=True)[1]
            solution = solve(
                self.method.solve,
                vectors,
                observed if rows is None else observed[rows],
                weights,
                groups,
                leave_one_out=get_method(self.recipe.method).leave_one_out,
            )
            if rows is not None:
                solution = self._with_unlabelled(solution, rows)
            self.method.after_solving(solution)
            self.model.head.weight.copy_(solution.weight)
            self.model.head.bias.copy_(solution.bias)
        error = (solution.left_out - observed.clamp(min=0)).square().mean()
        self.left_out, self.estimate = solution.left_out.to(CPU), solution.estimate
        return {"left_out_error": float(error)}

    def _with_unlabelled(self, solution: Solution, rows: Tensor) -> Solution:
        """The solution with predictions of all items; those without a label are new to it.

        Args:
            solution: For the items with a label.
            rows: These items.
        """
        assert self.inputs.space is not None
        inputs = [part.inputs for part in self.learned_parts]
        left_out = self.inputs.space.predict(inputs, solution.weight, solution.bias)
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
        if len(self.learned_parts) == 1:
            z = torch.cat([z, self.log_odds(self.task.val)])
        labels = self.validator.labels.with_default(self.task.train.observed.default)
        known = LabelMatrix.concatenate([self.task.train.observed, labels])
        return HeldOut(z, known, "items that were each left out")

    def other_state(self) -> State:
        if self.left_out is None:
            return {}
        known = {} if self.estimate is None else self.estimate.to_tensors()
        return {"left_out": self.left_out} | known

    def load_other_state(self, tensors: State) -> None:
        self.left_out = tensors.get("left_out")
        self.estimate = LabelsPerItem.from_tensors(tensors)

    def _work(self) -> int | None:
        return None if self.solves else super()._work()

    def _evaluate(self) -> tuple[Validation, str, Classifier]:
        if self.left_out is None or len(self.learned_parts) == 1:
            return super()._evaluate()
        own = self.left_out[len(self.task.train) :]  # learned from, so each is left out
        return self.validated(own), "raw", self.model
