"""A fit in closed form, with the same records and the same run folder as the loop.

A stage on fixed features is one solution for all items instead of epochs of steps. Stages that
train a backbone have no closed form; there, and in them alone, the loop goes on. A run that
fine-tunes a pretrained network is `plusone.training.end_to_end`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plusone.build import plan_of
from plusone.closed_form.folds import fold_of
from plusone.closed_form.recover import with_test
from plusone.closed_form.ridge import Ridge, Solution
from plusone.closed_form.vectors import BLOCK, Passes, Rows
from plusone.data.matrix import LabelMatrix
from plusone.device import CPU
from plusone.inputs.sampling import CALIBRATED_LABELS, RECOVERY_LABELS, sample
from plusone.inputs.task import Task, named_of
from plusone.methods import get_method
from plusone.models.classifier import Classifier
from plusone.models.heads import LinearHead
from plusone.probabilities.answered_k import k_by_answers
from plusone.probabilities.answers import marked_labels, without_answers
from plusone.probabilities.calibration import HeldOut
from plusone.probabilities.k import LabelsPerItem
from plusone.recipe import Recipe
from plusone.training.selection import State, Validation
from plusone.training.trainer import Training


def fit_for(task: Task, recipe: Recipe, *, features: Path | None = None, **rest: Any) -> Training:
    """The fit of a recipe: in closed form where the method has one, by the loop, or by both.

    Args:
        task: The data.
        recipe: The settings.
        features: Folder where features of image files are cached for later runs.
        **rest: Other arguments of `Training`.
    """
    from plusone.training.end_to_end import EndToEnd  # which is made of closed forms

    plan = plan_of(recipe, images=task.images)
    kind = EndToEnd if plan.end_to_end else ClosedFormFit if plan.solves else Training
    return kind(task, recipe, features=features, **rest)


class ClosedFormFit(Training):
    """A run of a method with a closed form.

    Attributes:
        solution: Of the last stage that was solved; None before, and in a run that was resumed.
        left_out: Logits `[s, L]` of items of `learned.parts`, each predicted by a model fitted
            without it and its group; None before a stage was solved. They are those of all items,
            the training items first, or of a sample of the training items (`kept`) and all others.
        estimate: k and how labels are picked, where the method estimates them.
    """

    solution: Solution | None = None
    _x: Rows | None = None  # features of the items of `learned.parts`
    left_out: Tensor | None = None
    estimate: LabelsPerItem | None = None

    def train_epoch(self) -> dict[str, float]:
        if self.solving:
            return self.solve_head()
        self.solution = self.left_out = None  # of another model
        return super().train_epoch()

    @property
    def kept(self) -> Tensor:
        """The training items that `left_out` begins with, int64."""
        labels = self.task.train.observed
        some = sample(len(labels), labels.n_classes, CALIBRATED_LABELS)
        return torch.arange(len(labels)) if some is None else torch.from_numpy(some)

    def solve_head(self) -> dict[str, float]:
        """Fits the head in closed form; returns the mean squared error, leaving each item out."""
        assert self.inputs.space is not None
        assert isinstance(self.model.head, LinearHead)
        learned, space, groups = self.learned, self.inputs.space, self.learned.groups()
        observed = LabelMatrix.concatenate([part.observed for part in learned.parts])
        marked = marked_labels(observed, named_of(learned.parts))
        known = marked if learned.rows is None else marked.take(learned.rows)
        alone = get_method(self.recipe.method).leave_one_out
        folds = None if alone else fold_of(len(known), space.vectors.width, groups)
        with torch.no_grad():
            ridge = Ridge(space.vectors, space.weights, groups, folds)
            estimate = self._by_answers(ridge, known, groups)
            solution = self.method.solve(ridge, known, estimate)
            if self.task.hierarchy is None:  # the test simulates picks of any label
                solution = with_test(solution)
            self.solution, self.estimate = solution, solution.estimate
            self._x, self._map = space.x, space.map
            self.method.after_solving(self.recovered)
            self.model.head.weight.copy_(solution.weight)
            self.model.head.bias.copy_(solution.bias)
            items = torch.arange(len(self.task.train), sum(len(part) for part in learned.parts))
            items = torch.cat([self.kept, items])
            self.left_out = self.predicted(items)
        if self.inputs.passes is not None:
            self.inputs.passes.forget()
        seen = torch.from_numpy(observed.dense(items.numpy())).clamp(min=0)
        return {"left_out_error": float((self.left_out - seen).square().mean())}

    def _by_answers(
        self, ridge: Ridge, known: LabelMatrix, groups: Tensor | None
    ) -> LabelsPerItem | None:
        """The k by answers, from predictions of a solution without them; None without answers."""
        named = without_answers(known)
        blind = None if named is known else self.method.solve(ridge, named)
        if blind is None or blind.estimate is None:
            return None
        some = sample(len(known), known.n_classes, RECOVERY_LABELS)
        rows = torch.arange(len(known)) if some is None else torch.from_numpy(some)
        scores = self.method.probabilities(blind.left_out(rows).double()).numpy()
        numbers = None if groups is None else groups[rows].numpy()
        return k_by_answers(scores, known.take(rows), blind.estimate, numbers)

    def predicted(self, items: Tensor, *, alone: bool = False) -> Tensor:
        """Logits `[s, L]` of items of `learned.parts`, each by a model fitted without it.

        Items without a label are new to the model.

        Args:
            items: Which items, int64 `[s]`.
            alone: Whether each process asks for items of its own choice; else all for the same.
        """
        assert self.solution is not None
        solution = self.solution.alone() if alone else self.solution
        with torch.no_grad():
            return self._of_items(items, solution.left_out, lambda z: z)

    def all_left_out(self) -> Tensor | None:
        """Such logits `[n, L]` of all items of `learned.parts`; None if they are not known."""
        count = sum(len(part) for part in self.learned.parts)
        if self.left_out is None or len(self.left_out) == count:
            return self.left_out
        return None if self.solution is None else self.predicted(torch.arange(count))

    def recovered(self, items: Tensor) -> Tensor:
        """Recovered labels `[s, L]` of items; predictions for those without a label."""
        assert self.solution is not None
        return self._of_items(items, self.solution.recovered, lambda z: z.clamp(0, 1))

    def _of_items(
        self,
        items: Tensor,
        learned: Callable[[Tensor], Tensor],
        new: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """What a solution says of items, and what follows from predictions of those without label.

        Args:
            items: Of `learned.parts`, int64 `[s]`.
            learned: Gives `[b, L]` for items that were learned from, by their place among these.
            new: Gives it from the predictions of the others.
        """
        rows = self.learned.rows
        if rows is None:
            return learned(items)
        assert self.solution is not None
        assert self._x is not None
        place = torch.full((len(self._x),), -1)
        place[rows] = torch.arange(len(rows))
        own = place[items]
        table = torch.empty(len(items), self.task.train.observed.n_classes)
        table[own >= 0] = learned(own[own >= 0])
        for some in torch.split((own < 0).nonzero()[:, 0], BLOCK):
            table[some] = new(self.solution.predict(self._map(self._x.at(items[some])))).to(CPU)
        return table

    def held_out(self) -> HeldOut:
        """Items that were learned from, each left out in turn, and validation items.

        A sample of them where there are very many labels.
        """
        if self.left_out is None:
            return super().held_out()
        z = self.method.log_odds(self.left_out)
        if len(self.learned.parts) == 1:
            z = torch.cat([z, self.log_odds(self.task.val)])
        seen = self.task.train.observed.take(self.kept)
        labels = self.validator.labels.with_default(seen.default)
        known = LabelMatrix.concatenate([seen, labels])
        rows = np.concatenate([self.kept, len(self.task.train) + np.arange(len(self.task.val))])
        some = sample(len(z), known.n_classes, CALIBRATED_LABELS)
        if some is not None:
            z, known, rows = z[torch.from_numpy(some)], known.take(some), rows[some]
        named = named_of((self.task.train, self.task.val))
        named = None if named is None else named.take(rows)
        return HeldOut(z, known, "items that were each left out", named, rows)

    def keep_passes(self, after: Callable[[], None]) -> None:
        self.inputs.passes = Passes(after)

    def other_state(self) -> State:
        if self.left_out is None:
            return {} if self.inputs.passes is None else self.inputs.passes.to_tensors()
        known = {} if self.estimate is None else self.estimate.to_tensors()
        return {"left_out": self.left_out} | known

    def load_other_state(self, tensors: State) -> None:
        self.left_out = tensors.get("left_out")
        self.estimate = LabelsPerItem.from_tensors(tensors)
        if self.inputs.passes is not None:
            self.inputs.passes.load(tensors)

    def _evaluate(self) -> tuple[Validation, str, Classifier]:
        if self.left_out is None or len(self.learned.parts) == 1:
            return super()._evaluate()
        own = self.left_out[-len(self.task.val) :]  # learned from, so each is left out
        return self.validated(own), "raw", self.model
