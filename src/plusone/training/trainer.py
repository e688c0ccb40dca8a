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
from torch.amp import GradScaler

from plusone.build import build
from plusone.closed_form.kernel import n_landmarks
from plusone.device import resolve
from plusone.errors import DivergedError, InputError
from plusone.features.extraction import FeatureCache
from plusone.inputs.forward import predict
from plusone.inputs.loader import Inputs, SomeInputs
from plusone.inputs.task import Part, Task, numbered_groups
from plusone.methods import get_method
from plusone.methods._base import Method
from plusone.methods._groups import GroupConsistency
from plusone.metrics.probe import prober_for
from plusone.models.backbones import freeze_statistics, freeze_weights
from plusone.models.classifier import Classifier
from plusone.models.ema import Ema
from plusone.parallel.processes import world
from plusone.parallel.sharing import Sharing, check_equal_weights
from plusone.parallel.tables import DividedTables
from plusone.probabilities.calibration import HeldOut
from plusone.recipe import Recipe
from plusone.results import EpochRecord, Probe
from plusone.seeds import seeded
from plusone.training.batches import Begun, batches_of, begin
from plusone.training.expected import class_priors, expected
from plusone.training.guards import (
    check_scale,
    check_settings,
    check_weights,
    compiler_problem,
    computing,
)
from plusone.training.optim import make_optimizer, set_rates
from plusone.training.selection import Best, State, Validation, Validator
from plusone.training.stage_inputs import StageInputs
from plusone.training.state import copy_of, load_state, state
from plusone.training.step import Gradients, Loss, LossMeter, refusing_options, training_step
from plusone.types import Clock, Stage, TrainLabels


class Training:
    """A model, a method and where they are in their run.

    Iterate `epochs()` to train; stop whenever you like. `state()` and `load_state()` carry
    everything needed to resume elsewhere with the same result. `closed_fit.fit_for` makes the one
    that a recipe needs.

    Args:
        task: The data.
        recipe: The settings.
        backbone: A module to use instead of the recipe's backbone; needs an attribute `dim`.
        on_step: Called after every step; the epoch ends where it returns True.
        on_extract: Called with the number of items whose features were just extracted.
        features: Folder where features of image files are cached for later runs.
    """

    solved = False  # whether heads on features are solved in closed form

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
        self.stages = self._stages()
        self.expected = expected(recipe, task, features, on_extract)
        self.k = self.expected.k
        self.weighs = weighs_negatives(task, recipe)
        labels = train_labels(task, recipe, self.k, class_priors(recipe, task, features))
        self.model, self.method = build(
            recipe,
            labels,
            task.shape,
            images=task.images,
            backbone=backbone,
            landmarks=n_landmarks(sum(len(part) for part in self.learned_parts)),
        )
        self.device = resolve(recipe.device)
        check_settings(recipe, self.device, self.model, images=task.images)
        with computing(self, None):
            self.model.place(self.device)
            self.tables = DividedTables(self.method)
            self.method.move(self.device, memory=recipe.memory)
        self.groups = group_consistency(task, recipe, labels, self.device)
        self.inputs = StageInputs(
            task,
            recipe,
            self.model,
            self.device,
            FeatureCache(on_extract, features),
            self.learned_parts,
            solved=self.solved,
        )
        self.loss = compiled_loss(recipe, self.method, self.model, images=task.images)
        self.sharing = Sharing(self.model) if world()[1] > 1 else None
        self.validator = Validator(task.val, recipe)
        self._prober = prober_for(task.train.truth, task.train.observed)
        # Parameters that a backbone of the user's own keeps fixed stay fixed.
        self._trainable = [w for w in self.model.backbone.parameters() if w.requires_grad]
        self.stage = self.epoch = 0
        self._begun: Begun | None = None  # the next epoch
        self._knows_items = False  # whether the method was given the training items
        self.best: Best | None = None
        self.before: Best | None = None  # of the previous stage
        self.stage_maps: list[float] = []
        self.begin_stage()

    @property
    def done(self) -> bool:
        """Whether all stages are finished."""
        return self.stage == len(self.stages)

    @property
    def keeps_backbone(self) -> bool:
        """Whether the current stage keeps the backbone fixed."""
        stage = self.stages[self.stage]
        return stage.freeze_backbone or stage.inputs == "features"

    @property
    def learned_parts(self) -> tuple[Part, ...]:
        """The parts that are learned from."""
        return (self.task.train,)

    def _stages(self) -> tuple[Stage, ...]:
        phases = get_method(self.recipe.method).phases
        return self.recipe.resolved_stages(images=self.task.images, phases=phases)

    def epochs(self) -> Iterator[EpochRecord]:
        """Trains, one record per epoch, until all stages are finished.

        Raises:
            DivergedError: A loss term or a weight is not finite. The best weights so far, if there
                are any, are in place again.
        """
        while not self.done:
            started = time.perf_counter()
            with computing(self, None):
                self.inputs.enter_space(self.stages[self.stage])
                for part in (self.task.train, self.task.val):
                    self.forward(part, self.model)  # extracts features, if there are none yet
                self.begin_training()
            with computing(self, self._work()):
                try:
                    losses = self.train_epoch()
                    check_weights(self)
                    check_scale(self, self.gradients.scaler)
                except DivergedError as error:
                    if (best := self.best or self.before) is not None:
                        best.restore(self.model, self.method, self.groups)
                    if self.gradients.scaler is None:
                        raise
                    hint = "fp16 has no numbers above 65,504; precision = bf16 has"
                    raise DivergedError(f"{error.what} ({hint})") from None
                evaluated = self._evaluate()
                probe = self.probe(self.train_logits)
            yield self.close_epoch(losses, evaluated, probe, started)

    def begin_training(self) -> None:
        """Lets the method see the vectors of the training items, if that was not done yet."""
        if not self._knows_items:
            self._knows_items = True
            self.method.begin_training(self.train_vectors)
            self.tables.divide(self.method)
            self.method.move(self.device, memory=self.recipe.memory)

    def clock(self, step: int = 0) -> Clock:
        """Where training is, at a step of the current epoch."""
        steps = math.ceil(len(self.task.train) / self.recipe.batch_size)
        return Clock(self.stage, self.epoch, self.stages[self.stage].epochs, step, steps)

    def train_epoch(self) -> dict[str, float]:
        """Trains for one epoch; returns the mean of each loss term."""
        recipe, method, model = self.recipe, self.method, self.model
        model.train()
        if self.keeps_backbone:
            model.backbone.eval()
        if self.task.images:
            freeze_statistics(model.backbone, recipe.freeze, norm=recipe.freeze_norm)
        _, _, forward = self.forward(self.task.train, model)
        meter = LossMeter([method.name or type(method).__name__], self.epoch + 1)
        with seeded(recipe.seed, "dropout", self.stage, self.epoch):
            begun, self._begun = self._begun, None
            for step, batch in enumerate(batches_of(self, begun)):
                clock = self.clock(step)
                set_rates(self.optimizer, self.rates, recipe.schedule, clock)
                with refusing_options(recipe.method, clock):
                    terms = training_step(
                        forward,
                        model.head,
                        method,
                        self.optimizer,
                        batch,
                        clock,
                        loss=self.loss,
                        sharing=self.sharing,
                        weigh=self.weighs,
                        groups=self.groups,
                        gradients=self.gradients,
                    )
                meter.add(terms)
                for average in self.averages.values():
                    average.update(model)
                if self.on_step is not None and self.on_step(clock) is True:
                    break
        stage = self.stages[self.stage]
        if stage.inputs == "images" and self.epoch + 1 < stage.epochs:
            self._begun = begin(self, self.epoch + 1)  # before the evaluation of this one
        (means,) = meter.means()
        with torch.no_grad():
            method.after_epoch(clock, lambda: self.train_logits().to(self.device))
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
            probe: What `probe` gave.
            started: When the epoch began, by `time.perf_counter`.
        """
        validation, weights, model = evaluated
        stage, self.epoch = self.stage, self.epoch + 1
        best = self.best is None or validation.score > self.best.score
        if self.best is None or best:
            groups = {} if self.groups is None else copy_of(self.groups)
            states = copy_of(model), copy_of(self.method), groups
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
        waited, patience = self.epoch - self.best.epoch, self.recipe.patience
        if self.epoch == self.stages[stage].epochs or waited >= (patience or math.inf):
            self._next_stage()
        return record

    def predict(self, part: Part, rows: Tensor | None = None) -> Tensor:
        """Scores in [0, 1] `[N, L]` of a part of the task under the current weights.

        Args:
            part: The part.
            rows: Which of its items, int64 `[N]`; None for all.
        """
        return torch.sigmoid(self.log_odds(part, rows))

    def log_odds(self, part: Part, rows: Tensor | None = None) -> Tensor:
        """Log-odds of these scores, what items and labels are ranked by, `[N, L]`."""
        with computing(self, None):
            inputs, kind, forward = self.forward(part, self.model)
            inputs = inputs if rows is None else SomeInputs(inputs, rows)
            return self.method.log_odds(predict(self.model, forward, inputs, kind=kind))

    def held_out(self) -> HeldOut:
        """Scores of items that the model was not trained on, and the labels that may be used."""
        return HeldOut(self.log_odds(self.task.val), self.validator.labels)

    def _work(self) -> int | None:
        """Multiplications of one step, roughly, where only the head is trained; else None."""
        if self.stages[self.stage].inputs == "images":
            return None
        return self.recipe.batch_size * sum(
            weight.numel() for weight in self.model.head.parameters()
        )

    def _evaluate(self) -> tuple[Validation, str, Classifier]:
        """The validation of the better of raw and averaged weights, and that model."""
        models = {"raw": self.model}
        if "ema" in self.averages:
            models["ema"] = self.averages["ema"].model
        evaluated = []
        for name, model in models.items():
            inputs, kind, forward = self.forward(self.task.val, model)
            logits = predict(model, forward, inputs, kind=kind)
            evaluated.append((self.validated(logits), name, model))
        return max(evaluated, key=lambda entry: entry[0].score)

    def validated(self, logits: Tensor) -> Validation:
        """The validation of logits `[N, L]` of the validation items."""
        return self.validator(self.method.log_odds(logits))

    def probe(self, predict: Callable[[], Tensor]) -> Probe | None:
        """Histograms of the hidden labels' probabilities, where the recipe asks for them."""
        probe, cheap = self.recipe.probe, self.stages[self.stage].inputs == "features"
        if self._prober is None or probe == "off" or (probe == "auto" and not cheap):
            return None
        return self._prober(self.method.probabilities(predict()))

    def train_logits(self) -> Tensor:
        """Logits `[N, L]` of the training items under the current weights."""
        inputs, kind, forward = self.forward(self.task.train, self.model)
        return predict(self.model, forward, inputs, kind=kind)

    def train_vectors(self) -> Tensor:
        """What the head gets for each training item in a stage on features, `[N, D]`."""
        inputs, kind, forward = self.forward(self.task.train, self.model)
        return predict(self.model, lambda x: forward(x).features, inputs, kind=kind)

    def forward(self, part: Part, model: Classifier) -> tuple[Inputs, str, nn.Module]:
        """Inputs of the current stage, their kind, and what to apply to them."""
        stage = self.stages[min(self.stage, len(self.stages) - 1)]
        return self.inputs.forward(part, model, stage)

    def begin_stage(self) -> None:
        """Prepares method, optimizer and averages for the current stage."""
        stage = self.stages[self.stage]
        self._begun = None
        self.inputs.clear()
        for weight in self._trainable:
            weight.requires_grad_(not self.keeps_backbone)
        if self.task.images:
            freeze_weights(self.model.backbone, self.recipe.freeze, norm=self.recipe.freeze_norm)
        self.method.begin_stage(stage)
        if self.sharing:
            self.sharing.begin_stage()
        self.optimizer = make_optimizer(self.model, self.method, self.recipe, stage)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        trains_backbone = self.task.images and not self.keeps_backbone
        self.gradients = stage_gradients(self.recipe, stage, self.device, trains_backbone)
        decays = {"ema": self.recipe.ema, "teacher": self.method.teacher}
        self.averages = {name: Ema(self.model, decay) for name, decay in decays.items() if decay}

    def _next_stage(self) -> None:
        """Moves to the next stage; after the last one the best weights are put in place."""
        assert self.best is not None
        self._begun = None  # patience may end a stage early
        check_equal_weights(self.model, self.method)
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

    def other_state(self) -> State:
        """Tensors of a kind of fit of its own."""
        return {}

    def load_other_state(self, tensors: State) -> None:
        """Takes over what `other_state` gave, among others."""


def compiled_loss(recipe: Recipe, method: Method, model: Classifier, *, images: bool) -> Loss:
    """The loss of a method; compiled, as is the backbone, where the recipe says so."""
    if not recipe.compile or compiler_problem(recipe.device) is not None:
        return method.loss
    if images:
        model.backbone.compile()
    compiled: Loss = torch.compile(method.loss)
    return compiled


def stage_gradients(
    recipe: Recipe, stage: Stage, device: torch.device, trains_backbone: bool
) -> Gradients:
    """How gradients are computed and applied in a stage."""
    scales = recipe.precision == "fp16" and trains_backbone
    return Gradients(
        pieces=recipe.accumulate if stage.inputs == "images" else 1,
        clip=recipe.clip,
        scaler=GradScaler(device.type) if scales else None,
        recomputes=recipe.checkpoint_activations and trains_backbone,
    )


def weighs_negatives(task: Task, recipe: Recipe) -> bool:
    """Whether seen negatives are weighted: not for references, defined by what they see."""
    single = get_method(recipe.method).scheme == "single"
    seen = bool(task.train.observed.per_class(-1).any())
    return recipe.seen_negatives == "weighted" and single and seen


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
    return TrainLabels(task.train.observed, k, recipe.seed, places, hints, priors)


def group_consistency(
    task: Task, recipe: Recipe, labels: TrainLabels, device: torch.device
) -> GroupConsistency | None:
    """The recipe's `group_weight` as a term of the loss."""
    if not recipe.group_weight:
        return None
    numbers = numbered_groups([task.train])
    if numbers is None:
        raise InputError(
            f"group_weight = {recipe.group_weight:g} needs groups, and {task.name} has no group "
            "column; docs/data.md describes it"
        )
    weight, rate = recipe.group_weight, recipe.group_rate
    return GroupConsistency(labels, numbers, weight=weight, rate=rate).to(device)
