"""The training loop: one for images and arrays, for every method, naming none of them.

A recipe's stages run one after the other; every epoch trains (`plusone.training.step`), evaluates
the validation items, and keeps the best weights. `Training` is a generator of epoch records:
logging, checkpoints and early stops belong to whoever iterates. What is forwarded, which batches,
which weights are kept and what is saved have files of their own beside it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from plusone.build import build, plan_of
from plusone.closed_form.kernel import n_landmarks
from plusone.device import resolve
from plusone.errors import InputError
from plusone.features.extraction import FeatureCache
from plusone.inputs.task import Part, Task, learned_items
from plusone.methods import get_method
from plusone.models.backbones import freeze_statistics, freeze_weights
from plusone.models.classifier import Classifier
from plusone.models.ema import Ema
from plusone.parallel.ddp import Ranks
from plusone.parallel.processes import world
from plusone.probabilities.calibration import HeldOut
from plusone.recipe import Recipe
from plusone.results import EpochRecord, Probe
from plusone.seeds import seeded
from plusone.training.expected import class_priors, expected, missed_labels
from plusone.training.group_consistency import group_consistency
from plusone.training.guards import (
    check_finite,
    check_settings,
    compiler_problem,
    computing,
    restoring_best,
)
from plusone.training.optim import make_optimizer, set_rates
from plusone.training.probing import Probing
from plusone.training.selection import Best, State, Validation, Validator
from plusone.training.stage_inputs import Begun, StageInputs, batches_of, begin
from plusone.training.state import copy_of, load_state, state
from plusone.training.step import Gradients, Loss, LossMeter, refusing_options, training_step
from plusone.types import Clock, TrainLabels


class Training:
    """A model, a method and where they are in their run.

    Iterate `epochs()` to train, as far as you like. A run that takes over the `state()` of another
    ends with the same result. `closed_fit.fit_for` makes the one that a recipe needs.

    Args:
        task: The data.
        recipe: The settings.
        backbone: A module to use instead of the recipe's backbone; needs an attribute `dim`.
        on_step: Called after every step; the epoch ends where it returns True.
        on_extract: Called with the number of items whose features were just extracted.
        features: Folder where features of image files are cached for later runs.
    """

    def __init__(
        self,
        task: Task,
        recipe: Recipe,
        *,
        backbone: nn.Module | None = None,
        on_step: Callable[[Clock], bool | None] | None = None,
        on_extract: Callable[[int], None] | None = None,
        features: Path | None = None,
    ) -> None:
        self.task, self.recipe, self.on_step = task, recipe, on_step
        self.plan = plan_of(recipe, images=task.images)
        self.stages, self.learned = self.plan.stages, learned_items(task, recipe, self.plan)
        self.expected = expected(recipe, task, features, on_extract)
        self.k = self.expected.k
        weighs = (
            recipe.seen_negatives == "weighted" and get_method(recipe.method).scheme == "single"
        )
        self.weighs = weighs and bool(task.train.observed.per_class(-1).any())
        labels = train_labels(task, recipe, self.k, class_priors(recipe, task, features))
        self.model, self.method = build(
            recipe,
            labels,
            task.shape,
            images=task.images,
            backbone=backbone,
            landmarks=n_landmarks(len(self.learned), len(task.classes)),
        )
        self.device = resolve(recipe.device)
        missed = missed_labels(recipe, task, features)
        self.missed = None if missed is None else missed.to(self.device)
        check_settings(recipe, self.device, self.model, images=task.images)
        with computing(self):
            self.model.place(self.device)
            self.ranks = Ranks(self.model, self.method) if world()[1] > 1 else None
            self.method.move(self.device, memory=recipe.memory)
        self.groups = None
        if recipe.group_weight:
            self.groups = group_consistency(task, recipe, labels).to(self.device)
        cache = FeatureCache(on_extract, features)
        self.inputs = StageInputs(
            task, recipe, self.plan, self.learned, self.model, self.device, cache
        )
        self.loss: Loss = self.method.loss
        if recipe.compile and compiler_problem(recipe.device) is None:
            self.loss = torch.compile(self.loss)
            if task.images:
                self.model.backbone.compile()
        self.validator = Validator(task.val, recipe)
        self.probing = Probing(task, recipe)
        # Parameters that a backbone of the user's own keeps fixed stay fixed.
        self._trainable = [w for w in self.model.backbone.parameters() if w.requires_grad]
        self.stage = self.epoch = 0
        self._begun: Begun | None = None  # the next epoch
        self._knows_items = False  # whether the method was given the training items
        self.best: Best | None = None
        self.before: Best | None = None  # of the previous stage
        self.stage_maps: list[float] = []
        self._remarked: set[str] = set()
        self.begin_stage()

    @property
    def done(self) -> bool:
        """Whether all stages are finished."""
        return self.stage == len(self.stages)

    @property
    def solving(self) -> bool:
        """Whether the current stage is a solution in closed form, without steps."""
        return self.plan.solves and self.stages[self.stage].inputs == "features"

    def epochs(self) -> Iterator[EpochRecord]:
        """Trains, one record per epoch, until all stages are finished.

        Raises:
            DivergedError: A loss term or a weight is not finite. The best weights so far, if there
                are any, are in place again.
        """
        while not self.done:
            started = time.perf_counter()
            with computing(self):
                self.inputs.enter_space()
                for part in (self.task.train, self.task.val):  # extracts features
                    self.inputs.forward(part, self.model)
                self.begin_training()
                self.probing.begin(self)
            steps = not self.solving and self.stages[self.stage].inputs == "features"
            with computing(self, self.model.head if steps else None):
                with restoring_best(self):
                    losses = self.train_epoch()
                    check_finite(self)
                evaluated = self._evaluate()
                probe = self.probing(self)
            yield self.close_epoch(losses, evaluated, probe, started)

    def begin_training(self) -> None:
        """Lets the method see the vectors of the training items, if that was not done yet."""
        if not self._knows_items:
            self._knows_items = True
            self.method.begin_training(self.inputs.head_vectors)
            if self.ranks:
                self.ranks.tables.divide(self.method)
            self.method.move(self.device, memory=self.recipe.memory)

    def clock(self, step: int = 0) -> Clock:
        """Where training is, at a step of the current epoch."""
        steps = math.ceil(len(self.task.train) / self.recipe.batch_size)
        return Clock(self.stage, self.epoch, self.stages[self.stage].epochs, step, steps)

    def train_epoch(self) -> dict[str, float]:
        """Trains for one epoch; returns the mean of each loss term."""
        recipe, method, model, optimizer = self.recipe, self.method, self.model, self.optimizer
        assert optimizer is not None, "a stage of steps"
        model.train()
        if self.keeps_backbone:
            model.backbone.eval()
        if self.task.images:
            freeze_statistics(model.backbone, recipe.freeze, norm=recipe.freeze_norm)
        inputs, train = self.inputs, self.task.train
        _, _, forward = inputs.forward(train, model)
        meter = LossMeter([method.name or type(method).__name__], self.epoch + 1)
        rank = [self.ranks.rank] if self.ranks and self.ranks.rank else []
        with seeded(recipe.seed, "dropout", self.stage, self.epoch, *rank):
            begun, self._begun = self._begun, None
            for step, batch in enumerate(batches_of(self, begun)):
                clock = self.clock(step)
                set_rates(optimizer, recipe.schedule, clock)
                with refusing_options(recipe.method, clock):
                    terms = training_step(
                        forward,
                        model.head,
                        method,
                        optimizer,
                        batch,
                        clock,
                        loss=self.loss,
                        ranks=self.ranks,
                        weigh=self.weighs,
                        missed=self.missed,
                        groups=self.groups,
                        gradients=self.gradients,
                    )
                meter.add(terms)
                for average in self.averages.values():
                    average.update(model)
                if self.on_step is not None and self.on_step(clock) is True:
                    break
        if self.ranks:
            averages = [average.model for average in self.averages.values()]
            self.ranks.broadcast_buffers([model, *averages])
        stage = self.stages[self.stage]
        if stage.inputs == "images" and self.epoch + 1 < stage.epochs:
            self._begun = begin(self, self.epoch + 1)  # before the evaluation of this one
        (means,) = meter.means()
        with torch.no_grad():
            method.after_epoch(clock, lambda: inputs.logits(train, model).to(self.device))
        return means

    def close_epoch(
        self,
        losses: dict[str, float],
        evaluated: tuple[Validation, str, Classifier],
        probe: Probe | None,
        started: float,
    ) -> EpochRecord:
        """Counts an epoch: keeps the best weights, and moves to the next stage after the last.

        Args:
            losses: Mean of each loss term.
            evaluated: The validation, of which weights ("raw" or "ema"), and the model.
            probe: What `probing` gave.
            started: When the epoch began, by `time.perf_counter`.
        """
        validation, weights, model = evaluated
        stage, self.epoch = self.stage, self.epoch + 1
        best = self.best is None or validation.score > self.best.score
        if self.best is None or best:
            states = [{} if x is None else copy_of(x) for x in (model, self.method, self.groups)]
            self.best = Best(validation.score, validation.val_map, self.epoch, weights, *states)
        record = EpochRecord(
            stage=stage,
            epoch=self.epoch,
            losses=losses,
            val_map=validation.val_map,
            selected_on=self.validator.selected_on,
            best=best,
            weights=weights,
            seconds=time.perf_counter() - started,
            probe=probe,
            val_score=validation.score,
            selected_by=self.validator.selected_by,
        )
        if remarks := self._new_remarks():
            record = record.model_copy(update={"remarks": remarks})
        record = self.probing.completed(record)
        waited, patience = self.epoch - self.best.epoch, self.recipe.patience
        if self.epoch == self.stages[stage].epochs or waited >= (patience or math.inf):
            self._next_stage()
        return record

    def _new_remarks(self) -> tuple[str, ...]:
        """What a user should know of settings and method, each sentence once."""
        known = dict.fromkeys((*self.plan.remarks, *self.method.remarks()))
        new = tuple(text for text in known if text not in self._remarked)
        self._remarked.update(new)
        return new

    def predict(self, part: Part, rows: Tensor | None = None) -> Tensor:
        """Scores in [0, 1] `[N, L]` under the current weights of a part's items, all or `rows`."""
        return torch.sigmoid(self.log_odds(part, rows))

    def log_odds(self, part: Part, rows: Tensor | None = None) -> Tensor:
        """Log-odds of these scores, what items and labels are ranked by, `[N, L]`."""
        with computing(self):
            return self.method.log_odds(self.inputs.logits(part, self.model, rows))

    def held_out(self) -> HeldOut:
        """Scores of items that the model was not trained on, and the labels that may be used."""
        return HeldOut(
            self.log_odds(self.task.val), self.validator.labels, named=self.task.val.named
        )

    def _evaluate(self) -> tuple[Validation, str, Classifier]:
        """The validation of the better of raw and averaged weights, and that model."""
        models = {"raw": self.model}
        if "ema" in self.averages:
            models["ema"] = self.averages["ema"].model
        evaluated = [
            (self.validated(self.inputs.logits(self.task.val, model)), name, model)
            for name, model in models.items()
        ]
        return max(evaluated, key=lambda entry: entry[0].score)

    def validated(self, logits: Tensor) -> Validation:
        """The validation of logits `[N, L]` of the validation items."""
        return self.validator(self.method.log_odds(logits))

    def begin_stage(self) -> None:
        """Prepares method, optimizer and averages for the current stage."""
        stage = self.stages[self.stage]
        self._begun = None
        self.inputs.begin(stage)
        self.keeps_backbone = stage.freeze_backbone or stage.inputs == "features"
        for weight in self._trainable:
            weight.requires_grad_(not self.keeps_backbone)
        if self.task.images:
            freeze_weights(self.model.backbone, self.recipe.freeze, norm=self.recipe.freeze_norm)
        self.method.begin_stage(stage)
        if self.ranks:
            self.ranks.begin_stage()
        # With its first optimizer torch imports its compiler, a second of work.
        trained = (self.model, self.method, self.recipe, stage)
        self.optimizer = None if self.solving else make_optimizer(*trained)
        of_backbone = self.task.images and not self.keeps_backbone
        self.gradients = Gradients.of(self.recipe, stage, self.device, of_backbone=of_backbone)
        decays = {"ema": self.recipe.ema, "teacher": self.method.teacher}
        self.averages = {name: Ema(self.model, decay) for name, decay in decays.items() if decay}

    def _next_stage(self) -> None:
        """Moves to the next stage; after the last one the best weights are put in place."""
        assert self.best is not None
        self._begun = None  # patience may end a stage early
        if self.ranks:
            self.ranks.check_equal_weights(self.method)
        self.stage_maps.append(self.best.val_map)
        self.stage += 1
        if self.done or self.stages[self.stage].start_from == "best":
            self.best.restore(self.model, self.method, self.groups)
        space = self.inputs.space
        if space is not None and (self.done or not self.inputs.mapped):
            self.model.head, self.inputs.space = space.map.folded(self.model.head), None
            self.best = replace(self.best, model=copy_of(self.model))
        if not self.done:
            self.epoch, self.before, self.best = 0, self.best, None
            self.begin_stage()

    def state(self) -> tuple[State, dict[str, Any]]:
        """Everything that changes, see `plusone.training.state`; all ranks must call it."""
        return state(self)

    def load_state(self, tensors: State, plain: dict[str, Any]) -> None:
        """Takes over what `state()` gave; of several processes, what rank 0 is given."""
        load_state(self, tensors, plain)
        if (self.stage, self.epoch) != (0, 0):
            self._new_remarks()  # said after the epochs before

    def keep_passes(self, after: Callable[[], None]) -> None:
        """Keeps what passes over all items add up, where a kind of fit makes some, to resume from.

        Args:
            after: Called after each pass, by all processes.
        """

    def other_state(self) -> State:
        """Tensors of a kind of fit of its own."""
        return {}

    def load_other_state(self, tensors: State) -> None:
        """Takes over what `other_state` gave, among others."""


def train_labels(
    task: Task, recipe: Recipe, k: float | None, priors: tuple[float, ...] | None
) -> TrainLabels:
    """What the method knows before training; refuses data without the hints that it needs."""
    hints = None if task.train.hints is None else torch.from_numpy(task.train.hints)
    missing = hints is None or bool(hints.isnan().all())
    if get_method(recipe.method).needs_hints and missing:
        raise InputError(
            f"the method {recipe.method} learns from hints, and {task.name} has none for its "
            "training items; give them with --hints FILE (plusone hints makes such a file)"
        )
    places = len(task.shape) > 1
    seen, classes = task.train.observed, task.classes
    picks, hierarchy = recipe.picks, task.hierarchy
    return TrainLabels(seen, k, recipe.seed, places, hints, priors, picks, classes, hierarchy)
