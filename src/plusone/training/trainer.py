"""The training loop: one for images and arrays, for every method, naming none of them.

A recipe's stages run one after the other; every epoch trains (`plusone.training.step`), evaluates
the validation items, and keeps the best weights. `Training` is a generator of epoch records:
logging, checkpoints and early stops belong to whoever iterates.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.amp import GradScaler

from plusone.build import below, build, head_of
from plusone.closed_form.folds import solve
from plusone.closed_form.gamma import SAMPLED, best_gamma
from plusone.closed_form.kernel import FeatureMap, KernelMap, LinearMap, StandardMap, n_landmarks
from plusone.data.matrix import LabelMatrix
from plusone.device import CPU, allowing_tf32, autocasts, is_out_of_memory, resolve
from plusone.errors import DivergedError, InputError, RunError
from plusone.features.extraction import FeatureCache
from plusone.features.space import Space
from plusone.inputs.forward import predict
from plusone.inputs.loader import (
    ArrayInputs,
    Inputs,
    MappedInputs,
    SomeInputs,
    label_batches,
    visiting_order,
)
from plusone.inputs.placement import own_part, owners_of
from plusone.inputs.task import Part, Task, numbered_groups
from plusone.methods import get_method
from plusone.methods._groups import GroupConsistency
from plusone.methods._tables import holder_of
from plusone.metrics import mean_average_precision
from plusone.metrics.known import MEANINGS, against
from plusone.metrics.probe import prober_for
from plusone.metrics.seen_labels import get_score, score_name
from plusone.models.backbones import (
    checkpoint_activations,
    feature_dim,
    freeze_statistics,
    freeze_weights,
)
from plusone.models.classifier import Classifier
from plusone.models.ema import Ema
from plusone.models.heads import Head, LinearHead
from plusone.parallel.processes import broadcast_tensors, check_device, world
from plusone.parallel.sharing import Sharing, check_equal_weights
from plusone.parallel.tables import DividedTables
from plusone.probabilities.calibration import HeldOut
from plusone.recipe import Recipe
from plusone.results import EpochRecord, Probe
from plusone.seeds import derive, generator, seeded
from plusone.training.expected import class_priors, expected
from plusone.training.optim import make_optimizer, set_rates
from plusone.training.pieces import forward_views
from plusone.training.step import (
    Gradients,
    Loss,
    LossMeter,
    refusing_options,
    suitable_threads,
    training_step,
)
from plusone.types import Batch, Clock, Outputs, TrainLabels

State = dict[str, Tensor]
SMALLEST_SCALE = 2.0**-24  # of a loss in float16; 1 / 2**40 of the first one


@dataclass(frozen=True)
class Best:
    """The best weights of a stage so far.

    Args:
        score: What they were chosen by, see `EpochRecord.val_score`.
        val_map: Their validation mAP.
        epoch: The epoch that gave them, from 1.
        weights: "raw" or "ema".
        model: The model's state.
        method: The method's state.
        groups: The state of `GroupConsistency`; empty without it.
    """

    score: float
    val_map: float
    epoch: int
    weights: str
    model: State
    method: State
    groups: State = field(default_factory=dict)


@dataclass(frozen=True)
class Begun:
    """An epoch whose first batches may be under way.

    Args:
        epoch: Its stage and number, from 0.
        order: The items in the order in which they are visited, int64 `[N]`.
        views: The views of each batch.
        boxes: The part of each item that its views show; None if they show all.
    """

    epoch: tuple[int, int]
    order: Tensor
    views: Iterator[tuple[Tensor, ...]]
    boxes: Tensor | None


@dataclass(frozen=True)
class Validation:
    """The figures of a model on the validation items.

    Args:
        val_map: mAP against the labels that it was evaluated on.
        score: What the best epoch is chosen by; higher is better.
    """

    val_map: float
    score: float


class Validator:
    """Evaluates scores of the validation items.

    On all labels the score is mAP. On seen labels alone mAP prefers models that find the one label
    that happened to be picked, so a score of `plusone.metrics.seen_labels` is used there.

    Args:
        val: The validation items.
        recipe: The settings.

    Attributes:
        against: What mAP is measured against, see `plusone.metrics.known`.
    """

    def __init__(self, val: Part, recipe: Recipe) -> None:
        if recipe.select_on == "truth" and val.truth is None:
            raise InputError("select_on = 'truth' needs validation items with all labels known")
        on_truth = val.truth is not None and recipe.select_on != "observed"
        self.selected_on = "truth" if on_truth else "observed"
        self.selected_by = "map" if on_truth else score_name(recipe.select_by)
        labels = val.truth if on_truth and val.truth is not None else val.observed
        self.against = against(labels)
        self._labels = torch.from_numpy(labels.dense())
        self._empty, self._unknown = recipe.empty, MEANINGS[self.against][0]
        if not (self._labels == 1).any():
            raise InputError("no validation item has a positive label, so no epoch can be chosen")

    def __call__(self, log_odds: Tensor) -> Validation:
        """Evaluates log-odds of scores `[N, L]`; probabilities would tie where they round to 1."""
        val_map = mean_average_precision(log_odds, self._labels, self._empty, self._unknown)
        if self.selected_by == "map":
            return Validation(val_map, val_map)
        score = get_score(self.selected_by)
        values = log_odds if score.of_ranks else torch.sigmoid(log_odds.double())
        return Validation(val_map, score.function(values, self._labels))


class Training:
    """A model, a method and where they are in their training.

    Iterate `epochs()` to train; stop whenever you like. `state()` and `load_state()` carry
    everything needed to resume elsewhere with the same result.

    Args:
        task: The data.
        recipe: The settings.
        backbone: A module to use instead of the recipe's backbone; needs an attribute `dim`.
        on_step: Called after every step.
        on_extract: Called with the number of items whose features were just extracted.
        features: Folder where features of image files are cached for later trainings.

    Attributes:
        space: The vectors that the head is trained on, if a map lies between features and head.
        left_out: Logits `[n, L]` of the items of `learned_parts`, each predicted by a model
            fitted without it and its group; None unless the method has a closed form.
    """

    def __init__(
        self,
        task: Task,
        recipe: Recipe,
        *,
        backbone: nn.Module | None = None,
        on_step: Callable[[Clock], None] | None = None,
        on_extract: Callable[[int], None] | None = None,
        features: Path | None = None,
    ) -> None:
        self.task, self.recipe = task, recipe
        self.on_step, self._features = on_step, FeatureCache(on_extract, features)
        info = get_method(recipe.method)
        self.stages = recipe.resolved_stages(images=task.images, phases=info.phases)
        self.closed_form = info.closed_form
        if info.closed_form:  # once is enough
            self.stages = tuple(
                replace(stage, epochs=1) if stage.inputs == "features" else stage
                for stage in self.stages
            )
        self.expected = expected(recipe, task, features, on_extract)
        self.k = self.expected.k
        observed = task.train.observed
        # References are defined by what they see, so nothing is weighted there.
        self.weighs = recipe.seen_negatives == "weighted" and info.scheme == "single"
        self.weighs &= bool(observed.per_class(-1).any())
        hints = None if task.train.hints is None else torch.from_numpy(task.train.hints)
        if info.needs_hints and (hints is None or bool(hints.isnan().all())):
            raise InputError(
                f"the method {recipe.method} learns from hints, and {task.name} has none for its "
                "training items; give them with --hints FILE (plusone hints makes such a file)"
            )
        priors = class_priors(recipe, task, features)
        labels = TrainLabels(observed, self.k, recipe.seed, len(task.shape) > 1, hints, priors)
        landmarks = n_landmarks(sum(len(part) for part in self.learned_parts))
        self.model, self.method = build(
            recipe,
            labels,
            task.shape,
            images=task.images,
            backbone=backbone,
            landmarks=landmarks,
        )
        self.device = resolve(recipe.device)
        check_device(self.device)
        self._check_settings()
        with self.computing(None):
            self.model.place(self.device)
            self.tables = DividedTables(self.method)
            self.method.move(self.device, memory=recipe.memory)
        self.groups = self._group_consistency(labels)
        self._placed: dict[int, tuple[Inputs, Inputs]] = {}
        self.kernel = head_of(recipe, images=task.images) == "kernel"
        self.mapped = self.kernel or recipe.standardize  # in every stage
        self.space: Space | None = None
        self.left_out: Tensor | None = None
        self.loss: Loss = self.method.loss
        if recipe.compile and compiler_problem(recipe.device) is None:
            self.loss = torch.compile(self.method.loss)
            if task.images:
                self.model.backbone.compile()
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
    def solves(self) -> bool:
        """Whether the current stage has a closed form."""
        return self.closed_form and self.stages[self.stage].inputs == "features"

    @property
    def learned_parts(self) -> tuple[Part, ...]:
        """The parts that are learned from: also validation items, if nothing is chosen by them."""
        together = self.closed_form and self.recipe.use_validation
        return (self.task.train, self.task.val) if together else (self.task.train,)

    def epochs(self) -> Iterator[EpochRecord]:
        """Trains, one record per epoch, until all stages are finished.

        Raises:
            DivergedError: A loss term or a weight is not finite. The best weights so far, if there
                are any, are in place again.
        """
        while not self.done:
            started = time.perf_counter()
            with self.computing(None):
                self.enter_space()
                for part in (self.task.train, self.task.val):
                    self.forward(part, self.model)  # extracts features, if there are none yet
                self.begin_training()
                solved = self.solve_head() if self.solves else None
            with self.computing(self._work()):
                try:
                    losses = self.train_epoch() if solved is None else solved
                    self.check_weights()
                    self._check_scale()
                except DivergedError as error:
                    self._restore(self.best or self.before)
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

    def _group_consistency(self, labels: TrainLabels) -> GroupConsistency | None:
        """The recipe's `group_weight` as a term of the loss."""
        recipe, numbers = self.recipe, numbered_groups([self.task.train])
        if not recipe.group_weight:
            return None
        if numbers is None:
            raise InputError(
                f"group_weight = {recipe.group_weight:g} needs groups, and {self.task.name} has no "
                "group column; docs/data.md describes it"
            )
        if any(self.closed_form and stage.inputs == "features" for stage in self.stages):
            raise InputError(
                f"group_weight is a term of gradient steps, and {recipe.method} has a closed form "
                "on fixed features; choose another method, or leave group_weight out"
            )
        rate = recipe.group_rate
        made = GroupConsistency(labels, numbers, weight=recipe.group_weight, rate=rate)
        return made.to(self.device)

    def _check_settings(self) -> None:
        """Refuses settings that this device, backbone or number of processes does not have."""
        recipe = self.recipe
        if self.task.images and not autocasts(self.device, recipe.precision):
            raise InputError(
                f"precision = {recipe.precision!r} is not there on {self.device}; use float32"
            )
        if self.task.images and recipe.checkpoint_activations:
            checkpoint_activations(self.model.backbone)

    @contextmanager
    def computing(self, work: int | None) -> Iterator[None]:
        """Threads and TF32 as the recipe has them, and a sentence where memory does not suffice.

        Args:
            work: Multiplications of one step, roughly; None where they are many.
        """
        recipe = self.recipe
        try:
            with (
                suitable_threads(work, recipe.threads),
                allowing_tf32(self.device, recipe.tf32),
            ):
                yield
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise RunError(self._out_of_memory()) from None

    def _out_of_memory(self) -> str:
        """What did not fit into the memory of the device, and what to change."""
        recipe, images = self.recipe, self.task.images
        pieces = f" in {recipe.accumulate} pieces" if images and recipe.accumulate > 1 else ""
        size = f", images of {self.task.shape[-1]} pixels in {recipe.precision}" if images else ""
        advice = {
            "a smaller batch_size": recipe.batch_size > 1,
            f"accumulate = {2 * recipe.accumulate} (the same batch in smaller pieces)": (
                images and recipe.accumulate < recipe.batch_size // world()[1]
            ),
            "precision = bf16": images and recipe.precision == "float32",
            "checkpoint_activations = true": images and not recipe.checkpoint_activations,
            "a smaller image_size": images,
            "memory = host": bool(self.method.per_item) and recipe.memory == "device",
        }
        listed = ", ".join(text for text, helps in advice.items() if helps)
        return (
            f"{self.device} has no memory left: {recipe.method} with batches of "
            f"{recipe.batch_size}{pieces}{size}; try {listed or 'device = cpu'}"
        )

    def clock(self, step: int = 0) -> Clock:
        """Where training is, at a step of the current epoch."""
        steps = math.ceil(len(self.task.train) / self.recipe.batch_size)
        return Clock(self.stage, self.epoch, self.stages[self.stage].epochs, step, steps)

    def solve_head(self) -> dict[str, float]:
        """Fits the head in closed form; returns the mean squared error, leaving each item out."""
        assert self.space is not None
        assert isinstance(self.model.head, LinearHead)
        parts, weights = self.learned_parts, self._weights()
        observed = torch.cat([torch.from_numpy(part.observed.dense()) for part in parts])
        observed = observed.to(self.device).float()
        vectors = self.space.fit([part.inputs for part in parts], weights)
        with torch.no_grad():
            own = get_method(self.recipe.method).leave_one_out
            groups = numbered_groups(parts)
            solution = solve(
                self.method.solve, vectors, observed, weights, groups, leave_one_out=own
            )
            self.method.after_solving(solution)
            self.model.head.weight.copy_(solution.weight)
            self.model.head.bias.copy_(solution.bias)
        error = (solution.left_out - observed.clamp(min=0)).square().mean()
        self.left_out = solution.left_out.to(CPU)
        return {"left_out_error": float(error)}

    def _weights(self) -> Tensor | None:
        """How much each item that is learned from counts, 1 on average; None if all the same."""
        if self.task.train.weights is None:
            return None
        weights = [
            torch.ones(len(part)) if part.weights is None else torch.from_numpy(part.weights)
            for part in self.learned_parts
        ]
        whole = torch.cat(weights).float().to(self.device)
        return whole / whole.mean()

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
            for step, batch in enumerate(self._batches()):
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
                if self.on_step is not None:
                    self.on_step(clock)
        stage = self.stages[self.stage]
        if stage.inputs == "images" and self.epoch + 1 < stage.epochs:
            self._begun = self._begin(self.epoch + 1)  # before the evaluation of this one
        (means,) = meter.means()
        with torch.no_grad():
            method.after_epoch(clock, lambda: self.train_logits().to(self.device))
        return means

    def _begin(self, epoch: int) -> Begun:
        """Begins an epoch of this stage: workers prepare its first batches from now on."""
        train, recipe, views = self.task.train, self.recipe, self.method.views
        order = visiting_order(
            len(train), train.weights, generator(recipe.seed, "order", self.stage, epoch)
        )
        inputs, _, _ = self.forward(train, self.model)
        seed = derive(recipe.seed, "views", self.stage, epoch) >> 1
        arguments = (order, recipe.batch_size, views, seed)
        if self.sharing:
            owners, pieces = owners_of(inputs, order), self.gradients.pieces
            batches = self.sharing.batches(inputs, *arguments, owners, pieces)
        else:
            batches = inputs.batches(*arguments)
        boxes = inputs.boxes(views, len(order), seed)
        return Begun((self.stage, epoch), order, batches, boxes)

    def _batches(self) -> Iterator[Batch]:
        """The batches of the current epoch, the same whenever it is repeated."""
        if self._begun is not None and self._begun.epoch != (self.stage, self.epoch):
            self._begun = None
        begun, self._begun = self._begun or self._begin(self.epoch), None
        order, size = begun.order, self.recipe.batch_size
        labels = label_batches(self.task.train.observed, order, size, self.device)
        indices = torch.split(order.to(self.device), size)
        shown = (
            torch.split(begun.boxes.to(self.device), size)
            if begun.boxes is not None
            else [None] * len(indices)
        )
        for view, observed, index, box in zip(begun.views, labels, indices, shown, strict=True):
            yield Batch(view, observed, index, self._teach(view), box)

    def _teach(self, views: tuple[Tensor, ...]) -> tuple[Outputs, ...]:
        """Outputs of the averaged model for each view of a batch, for methods with a teacher."""
        if "teacher" not in self.averages:
            return ()
        _, _, forward = self.forward(self.task.train, self.averages["teacher"].model)
        with torch.no_grad():
            return forward_views(forward, views, self.gradients.pieces, self.sharing)

    def check_weights(self) -> None:
        """Refuses weights that are not finite: a finite loss can have a gradient that is not."""
        for name, weight in self.model.state_dict().items():
            if weight.is_floating_point() and not bool(torch.isfinite(weight).all()):
                raise DivergedError(
                    f"the weights {name} are not finite after epoch {self.epoch + 1} of "
                    f"{self.recipe.method}"
                )

    def _check_scale(self) -> None:
        """Refuses an epoch in which float16 had no finite gradient at any scale."""
        scaler = self.gradients.scaler
        if scaler is not None and scaler.get_scale() < SMALLEST_SCALE:
            raise DivergedError(
                f"the gradients of {self.recipe.method} are not finite in epoch {self.epoch + 1}, "
                "at any scale of the loss"
            )

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
        if best:
            groups = {} if self.groups is None else _copy(self.groups)
            states = _copy(model), _copy(self.method), groups
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
        if self.epoch == self.stages[stage].epochs or self._out_of_patience():
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
        with self.computing(None):
            inputs, kind, forward = self.forward(part, self.model)
            inputs = inputs if rows is None else SomeInputs(inputs, rows)
            return self.method.log_odds(predict(self.model, forward, inputs, kind=kind))

    def predict_inputs(self, inputs: Inputs) -> Tensor:
        """Scores in [0, 1] `[N, L]` of other inputs under the current weights."""
        kind = "images" if self.task.images else "features"
        return self.method.probabilities(predict(self.model, self.model, inputs, kind=kind))

    def held_out(self) -> HeldOut:
        """Scores of items that the model was not trained on, and the labels that may be used.

        These are the validation items, with all labels if the best epoch was chosen on them, and
        where the method has a closed form every item that it learned from, each left out in turn.
        """
        val = self.task.val
        on_truth = self.validator.selected_on == "truth" and val.truth is not None
        labels = val.truth if on_truth and val.truth is not None else val.observed
        if self.left_out is None:
            return HeldOut(self.log_odds(val), labels)
        z = self.method.log_odds(self.left_out)
        if len(self.learned_parts) == 1:
            z = torch.cat([z, self.log_odds(val)])
        labels = labels.with_default(self.task.train.observed.default)
        known = LabelMatrix.concatenate([self.task.train.observed, labels])
        return HeldOut(z, known, "items that were each left out")

    def _work(self) -> int | None:
        """Multiplications of one step, roughly, where only the head is trained; else None."""
        if self.stages[self.stage].inputs == "images":
            return None
        return self.recipe.batch_size * sum(
            weight.numel() for weight in self.model.head.parameters()
        )

    def _evaluate(self) -> tuple[Validation, str, Classifier]:
        """The validation of the better of raw and averaged weights, and that model."""
        if self.left_out is not None and len(self.learned_parts) > 1:
            own = self.left_out[len(self.task.train) :]  # learned from, so each is left out
            return self.validated(own), "raw", self.model
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
        if self.space is not None:
            return self.space.of(part.inputs), "features", model.head
        if not self.task.images:
            # Vectors go straight to the head; tokens may have to be pooled for it first.
            head = model.head if len(self.task.shape) == 1 else model
            return self._on_device(part.inputs), "features", head
        if stage.inputs == "images":
            return self._on_device(part.inputs), "images", model
        return self._extracted(part.inputs), "features", model.head

    def _extracted(self, images: Inputs) -> Inputs:
        """The features of images with batches on the device."""
        if self.sharing is None:
            return self._on_device(self._features.of(self.model, images))
        if id(images) not in self._placed:
            features = own_part(self._features.of(self.model, images), self.device)
            self._placed[id(images)] = (images, features)
            self._features.clear()  # this process keeps its part alone
        return self._placed[id(images)][1]

    def _on_device(self, inputs: Inputs) -> Inputs:
        """The same inputs with batches on the device; features move there once."""
        if id(inputs) not in self._placed:
            self._placed[id(inputs)] = (inputs, own_part(inputs, self.device))
        return self._placed[id(inputs)][1]

    def enter_space(self, space: Space | None = None) -> None:
        """Fits the map between features and head, if this stage has one and it was not done.

        Args:
            space: Of another training on the same items, to share.
        """
        if self.space is None and space is not None:
            self.space = space
        if self.space is None and (self.mapped or self.solves):
            features_map = self._new_map()
            for part in features_map.modules():
                if isinstance(part, KernelMap):
                    part.similarity.gamma = self.recipe.gamma or self._gamma()
            self.space = Space(features_map.to(self.device), self._vectors)
            self.space.fit([part.inputs for part in self.learned_parts], self._weights())

    def _gamma(self) -> float:
        """How narrow the kernel is, by the seen labels of some items that are learned from."""
        parts = self.learned_parts
        count = sum(len(part) for part in parts)
        some = torch.linspace(0, count - 1, min(count, SAMPLED)).long()
        x = torch.cat([self._vectors(part.inputs) for part in parts])[some].to(self.device)
        if self.recipe.standardize:
            x = StandardMap(x.shape[1]).to(self.device).fit(x)
        observed = np.concatenate([part.observed.dense() for part in parts])[some.numpy()]
        groups = numbered_groups(parts)
        groups = None if groups is None else groups[some]
        return best_gamma(x, torch.from_numpy(observed).to(self.device).float(), groups)

    def _new_map(self) -> FeatureMap:
        """The map between features and head, not fitted yet."""
        images, shape = self.task.images, self.task.shape
        dim = feature_dim(self.model.backbone) if images else shape[-1]
        rank = n_landmarks(sum(len(part) for part in self.learned_parts))
        if not self.kernel and not self.closed_form:
            return StandardMap(dim)
        inner = KernelMap(dim, rank) if self.kernel else LinearMap(dim)
        return StandardMap(dim, inner) if self.recipe.standardize else inner

    def vectors(self, rows: npt.NDArray[np.int64]) -> Tensor:
        """Features of some training items, `[n, D]` or `[n, T, D]`."""
        inputs, chosen = self.task.train.inputs, torch.from_numpy(rows)
        if isinstance(inputs, ArrayInputs | MappedInputs) and not self.task.images:
            return inputs.at(chosen).float()
        return self._vectors(inputs)[chosen]

    def _vectors(self, inputs: Inputs) -> Tensor:
        """Features `[N, D]` of inputs."""
        if self.task.images and self.sharing is None:
            return Head().pool(self._features.of(self.model, inputs).x)
        if self.task.images:
            inputs = self._extracted(inputs)
        elif len(self.task.shape) == 1 and isinstance(inputs, ArrayInputs):
            return inputs.x.float()
        return predict(self.model, Head().pool, inputs, kind="features").float()

    def begin_stage(self) -> None:
        """Prepares method, optimizer and averages for the current stage."""
        stage = self.stages[self.stage]
        self._begun = None
        self._features.clear()  # the backbone may have changed since
        self._placed.clear()
        for weight in self._trainable:
            weight.requires_grad_(not self.keeps_backbone)
        if self.task.images:
            freeze_weights(self.model.backbone, self.recipe.freeze, norm=self.recipe.freeze_norm)
        self.method.begin_stage(stage)
        if self.sharing:
            self.sharing.begin_stage()
        self.optimizer = make_optimizer(self.model, self.method, self.recipe, stage)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        recipe, trains_backbone = self.recipe, self.task.images and not self.keeps_backbone
        scales = recipe.precision == "fp16" and trains_backbone
        self.gradients = Gradients(
            pieces=recipe.accumulate if stage.inputs == "images" else 1,
            clip=recipe.clip,
            scaler=GradScaler(self.device.type) if scales else None,
            recomputes=recipe.checkpoint_activations and trains_backbone,
        )
        decays = {"ema": self.recipe.ema, "teacher": self.method.teacher}
        self.averages = {name: Ema(self.model, decay) for name, decay in decays.items() if decay}

    def _out_of_patience(self) -> bool:
        assert self.best is not None
        patience = self.recipe.patience
        return patience is not None and self.epoch - self.best.epoch >= patience

    def _next_stage(self) -> None:
        """Moves to the next stage; after the last one the best weights are put in place."""
        assert self.best is not None
        self._begun = None  # patience may end a stage early
        check_equal_weights(self.model, self.method)
        self.stage_maps.append(self.best.val_map)
        self.stage += 1
        if self.done or self.stages[self.stage].start_from == "best":
            self._restore(self.best)
        if self.space is not None and (self.done or not self.mapped):
            self.model.head, self.space = self.space.map.folded(self.model.head), None
            self.best = replace(self.best, model=_copy(self.model))
        if not self.done:
            self.epoch, self.before, self.best = 0, self.best, None
            self.begin_stage()

    def take_over(self, other: Training) -> None:
        """Takes head and learning rate of a finished run on the features of the same items."""
        assert other.best is not None
        self.recipe = self.recipe.model_copy(update={"lr": other.recipe.lr})
        self.model.head = other.model.head
        self.stage, self.epoch, self.stage_maps = other.stage, other.epoch, other.stage_maps
        self.best = replace(other.best, model=_copy(self.model))

    def _restore(self, best: Best | None) -> None:
        """Loads saved weights."""
        if best is not None:
            self.model.load_state_dict(best.model)
            self.method.load_state_dict(best.method)
            if self.groups is not None and best.groups:
                self.groups.load_state_dict(best.groups)

    def weights(self) -> State:
        """The tensors that prediction needs: those of the model, and of the method but `memory`."""
        state, tables = self.method.state_dict(), self.method.per_item
        kept = {name: tensor for name, tensor in state.items() if name not in tables}
        return _named("model", self.model.state_dict()) | _named("method", kept)

    def memory(self) -> State:
        """The method's tables with a row for each item; of several processes as in `state`."""
        state, tables = self.method.state_dict(), self.method.per_item
        kept = {name: tensor for name, tensor in state.items() if name in tables}
        return self._whole(_named("method", kept))

    def state(self) -> tuple[State, dict[str, Any]]:
        """Everything that changes in training: tensors by name, and plain values.

        Of several processes all must call it, and rank 0 alone gets the tables of the method that
        have a row for each item: they are too large to be whole in every process.
        """
        tensors = _named("model", self.model.state_dict())
        tensors |= _named("method", self.method.state_dict())
        if not self.done:
            if self.groups is not None:
                tensors |= _named("groups", self.groups.state_dict())
            for number, slot in self.optimizer.state_dict()["state"].items():
                moments = {key: value for key, value in slot.items() if value is not None}
                tensors |= _named(f"optimizer.{number}", moments)
            for name, average in self.averages.items():
                tensors |= _named(name, average.model.state_dict())
        if self.left_out is not None:
            tensors["left_out"] = self.left_out
        plain: dict[str, Any] = {"stage": self.stage, "epoch": self.epoch}
        plain["stage_maps"] = list(self.stage_maps)
        if not self.done and self.gradients.scaler is not None:
            plain["scaler"] = self.gradients.scaler.state_dict()
        # The best weights of the previous stage are kept until this one has some.
        before = self.before if self.best is None else None
        for name, best in (("best", self.best), ("before", before)):
            plain[name] = None
            if best is not None:
                tensors |= _named(f"{name}.model", best.model)
                tensors |= _named(f"{name}.method", best.method)
                tensors |= _named(f"{name}.groups", best.groups)
                fields = ("score", "val_map", "epoch", "weights")
                plain[name] = {key: getattr(best, key) for key in fields}
        return self._whole(tensors), plain

    def _whole(self, tensors: State) -> State:
        return self.tables.whole(tensors, self._is_divided)

    def _own(self, name: str, tensor: Tensor) -> Tensor:
        return self.tables.cut(tensor) if self._is_divided(name, tensor) else tensor

    def _is_divided(self, name: str, tensor: Tensor) -> bool:
        """Whether each process holds some rows of a tensor of the state."""
        kind, _, rest = name.removeprefix("best.").removeprefix("before.").partition(".")
        if kind == "optimizer":  # moments are divided as their weight is, but not a count of steps
            groups, number = self.optimizer.param_groups, int(rest.split(".")[0])
            weight = [weight for group in groups for weight in group["params"]][number]
            return tensor.ndim > 0 and holder_of(weight) is not None
        return kind == "method" and rest in self.tables.names

    def load_state(self, tensors: State, plain: dict[str, Any]) -> None:
        """Takes over what `state()` gave; of several processes, what rank 0 is given."""
        self.stage, self.epoch = plain["stage"], plain["epoch"]
        self.stage_maps = list(plain["stage_maps"])
        if not self.done:
            self.begin_stage()
        tensors = broadcast_tensors(tensors, self._own)
        self.left_out = tensors.get("left_out")
        if self.done and self.mapped:
            self.model.head = self._new_map().to(self.device).folded(self.model.head)
        self.model.load_state_dict(below(tensors, "model."))
        self.method.load_state_dict(below(tensors, "method."))
        if not self.done:
            if self.groups is not None:
                self.groups.load_state_dict(below(tensors, "groups."))
            slots: dict[int, State] = {}
            for key, value in below(tensors, "optimizer.").items():
                number, name = key.split(".", 1)
                slots.setdefault(int(number), {})[name] = value
            groups = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({"state": slots, "param_groups": groups})
            for weight, slot in self.optimizer.state.items():
                for name, value in slot.items():  # fused kernels take one layout for all
                    if value.shape == weight.shape and value.stride() != weight.stride():
                        slot[name] = torch.empty_like(weight).copy_(value)
            if self.gradients.scaler is not None and "scaler" in plain:
                self.gradients.scaler.load_state_dict(plain["scaler"])
            for name, average in self.averages.items():
                average.model.load_state_dict(below(tensors, f"{name}."))
        self.best, self.before = (
            None
            if plain.get(name) is None
            else Best(
                **plain[name],
                model=below(tensors, f"{name}.model."),
                method=below(tensors, f"{name}.method."),
                groups=below(tensors, f"{name}.groups."),
            )
            for name in ("best", "before")
        )


def compiler_problem(device: str) -> str | None:
    """Why `torch.compile` does not work on the recipe's device, in a sentence; None if it does."""
    return _compiler_problem(resolve(device))


@cache  # behind a function, whose signature mypy checks
def _compiler_problem(device: torch.device) -> str | None:
    try:
        torch.compile(lambda x: torch.exp(x) + 1)(torch.ones(2, device=device))
    except Exception as error:  # whatever a missing or broken compiler raises
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return f"torch.compile does not work on {device}, so nothing is compiled ({first})"
    return None


def _copy(module: nn.Module) -> State:
    """A copy of the state in the memory of the CPU."""
    return {key: value.detach().to(CPU, copy=True) for key, value in module.state_dict().items()}


def _named(prefix: str, tensors: State) -> State:
    return {f"{prefix}.{key}": value for key, value in tensors.items()}
