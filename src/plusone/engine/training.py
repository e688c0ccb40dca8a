"""The training loop: one for images and arrays, for every method, naming none of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from plusone.engine.build import below, build
from plusone.engine.inputs import ArrayInputs, Inputs
from plusone.engine.labels import label_batches
from plusone.engine.optim import make_optimizer
from plusone.engine.predict import predict
from plusone.engine.step import Forward, training_step
from plusone.engine.task import Part, Task, expected_positives
from plusone.engine.threads import suitable_threads
from plusone.errors import InputError
from plusone.metrics import mean_average_precision
from plusone.models.classifier import Classifier
from plusone.models.ema import Ema
from plusone.recipe import Recipe
from plusone.seeds import derive, generator, seeded
from plusone.types import Batch, Clock, Stage, TrainLabels

State = dict[str, Tensor]


@dataclass(frozen=True)
class EpochRecord:
    """What one epoch brought; one line of `records.jsonl`.

    Args:
        stage: Number of the stage, from 0.
        epoch: Number of the epoch within the stage, from 1.
        losses: Mean of each loss term over the steps.
        val_map: mAP on the validation items, against the labels of `selected_on`.
        selected_on: "truth" or "observed".
        best: Whether this is the best epoch of the stage so far.
        weights: "raw" or "ema", whichever scored better.
        seconds: Time taken, evaluation included.
    """

    stage: int
    epoch: int
    losses: dict[str, float]
    val_map: float
    selected_on: str
    best: bool
    weights: str
    seconds: float


@dataclass(frozen=True)
class Best:
    """The best weights of a stage so far."""

    score: float
    epoch: int
    weights: str
    model: State
    method: State


class Training:
    """A model, a method and where they are in their training.

    Iterate `epochs()` to train; stop whenever you like. `state()` and `load_state()` carry
    everything needed to go on elsewhere with the same result.

    Args:
        task: The data.
        recipe: The settings.
        backbone: A module to use instead of the recipe's backbone; needs an attribute `dim`.
        on_step: Called after every step.
        on_extract: Called with the number of items whose features were just extracted.
    """

    def __init__(
        self,
        task: Task,
        recipe: Recipe,
        *,
        backbone: nn.Module | None = None,
        on_step: Callable[[Clock], None] | None = None,
        on_extract: Callable[[int], None] | None = None,
    ) -> None:
        self.task, self.recipe = task, recipe
        self.on_step, self.on_extract = on_step, on_extract
        self.stages = recipe.resolved_stages(images=task.images)
        self.k = expected_positives(recipe, task)
        labels = TrainLabels(task.train.observed, self.k, recipe.seed)
        self.model, self.method = build(
            recipe, labels, task.shape, images=task.images, backbone=backbone
        )
        if recipe.select_on == "truth" and task.val.truth is None:
            raise InputError("select_on = 'truth' needs validation items with all labels known")
        on_truth = task.val.truth is not None and recipe.select_on != "observed"
        self.selected_on = "truth" if on_truth else "observed"
        wanted = task.val.truth if on_truth and task.val.truth is not None else task.val.observed
        self._val_target = torch.from_numpy(wanted.dense() == 1)
        if not self._val_target.any():
            raise InputError("no validation item has a positive label, so no epoch can be chosen")
        self._pooled: dict[int, tuple[Part, Inputs]] = {}
        self.stage = self.epoch = 0
        self.best: Best | None = None
        self._begin_stage()

    @property
    def done(self) -> bool:
        """Whether all stages are finished."""
        return self.stage == len(self.stages)

    def epochs(self) -> Iterator[EpochRecord]:
        """Trains on, one record per epoch, until all stages are finished."""
        while not self.done:
            started = time.perf_counter()
            clock = Clock(self.stage, self.epoch, self.stages[self.stage].epochs, 0, 0)
            with suitable_threads(None, self.recipe.threads):
                for part in (self.task.train, self.task.val):
                    self._forward(part, self.model)  # extracts features, if there are none yet
            with suitable_threads(self._work(), self.recipe.threads):
                losses = self._train_epoch(clock)
                score, weights, model = self._evaluate()
            self.epoch += 1
            best = self.best is None or score > self.best.score
            if best:
                self.best = Best(score, self.epoch, weights, _copy(model), _copy(self.method))
            seconds = time.perf_counter() - started
            record = EpochRecord(
                self.stage, self.epoch, losses, score, self.selected_on, best, weights, seconds
            )
            if self.epoch == clock.epochs:
                self._next_stage()
            yield record

    def predict(self, part: Part) -> Tensor:
        """Probabilities `[N, L]` of a part of the task under the present weights."""
        with suitable_threads(None, self.recipe.threads):
            inputs, kind, forward = self._forward(part, self.model)
            return self.method.probabilities(predict(self.model, forward, inputs, kind=kind))

    def predict_inputs(self, inputs: Inputs) -> Tensor:
        """Probabilities `[N, L]` of other inputs under the present weights."""
        kind = "images" if self.task.images else "features"
        return self.method.probabilities(predict(self.model, self.model, inputs, kind=kind))

    def _train_epoch(self, clock: Clock) -> dict[str, float]:
        """One pass over the training items; returns the mean of each loss term."""
        task, recipe, method = self.task, self.recipe, self.method
        place = (clock.stage, clock.epoch)
        order = torch.randperm(len(task.train), generator=generator(recipe.seed, "order", *place))
        inputs, _, forward = self._forward(task.train, self.model)
        views = inputs.batches(
            order, recipe.batch_size, method.views, derive(recipe.seed, "views", *place) >> 1
        )
        labels = label_batches(task.train.observed, order, recipe.batch_size)
        clock = replace(clock, steps=math.ceil(len(order) / recipe.batch_size))
        sums: dict[str, float] = {}
        self.model.train()
        if _keeps_backbone(self.stages[clock.stage]):
            self.model.backbone.eval()
        with seeded(recipe.seed, "dropout", *place):
            for step, (view, observed) in enumerate(zip(views, labels, strict=True)):
                index = order[step * recipe.batch_size : (step + 1) * recipe.batch_size]
                clock = replace(clock, step=step)
                batch = Batch(view, observed, index)
                values = self._step(forward, batch, clock)
                for name, value in values.items():
                    sums[name] = sums.get(name, 0.0) + value
                if self.ema is not None:
                    self.ema.update(self.model)
                if self.on_step is not None:
                    self.on_step(clock)
        with torch.no_grad():
            method.after_epoch(clock, self._train_logits)
        return {name: total / clock.steps for name, total in sums.items()}

    def _work(self) -> int | None:
        """Multiplications of one step, roughly, where only the head is trained; else None."""
        if self.stages[self.stage].inputs == "images":
            return None
        return self.recipe.batch_size * sum(
            weight.numel() for weight in self.model.head.parameters()
        )

    def _step(self, forward: Forward, batch: Batch, clock: Clock) -> dict[str, float]:
        head, method, optimizer = self.model.head, self.method, self.optimizer
        try:
            return training_step(forward, head, method, optimizer, batch, clock)
        except ValueError as error:
            if clock.epoch or clock.step or isinstance(error, InputError):
                raise
            # The first step is where a loss sees its options for the first time.
            raise InputError(f"the options of {self.recipe.method}: {error}") from error

    def _evaluate(self) -> tuple[float, str, Classifier]:
        """Validation mAP of the better of the raw and the averaged weights, and that model."""
        found = []
        for name, model in (("raw", self.model), *([("ema", self.ema.model)] if self.ema else [])):
            inputs, kind, forward = self._forward(self.task.val, model)
            scores = self.method.probabilities(predict(model, forward, inputs, kind=kind))
            score = mean_average_precision(scores, self._val_target, empty=self.recipe.empty)
            found.append((score, name, model))
        return max(found, key=lambda entry: entry[0])

    def _train_logits(self) -> Tensor:
        inputs, kind, forward = self._forward(self.task.train, self.model)
        return predict(self.model, forward, inputs, kind=kind).clone()

    def _forward(self, part: Part, model: Classifier) -> tuple[Inputs, str, Forward]:
        """Inputs of the present stage, their kind, and what to apply to them."""
        stage = self.stages[min(self.stage, len(self.stages) - 1)]
        if not self.task.images:
            return part.inputs, "features", model.head
        if stage.inputs == "images":
            return part.inputs, "images", model
        if id(part) not in self._pooled:
            pooled = predict(
                self.model, self.model.features, part.inputs, kind="images", tick=self.on_extract
            )
            self._pooled[id(part)] = (part, ArrayInputs(pooled.clone()))
        return self._pooled[id(part)][1], "features", model.head

    def _begin_stage(self) -> None:
        stage = self.stages[self.stage]
        self._pooled.clear()  # the backbone may have moved since
        self.model.backbone.requires_grad_(not _keeps_backbone(stage))
        self.method.begin_stage(stage)
        self.optimizer = make_optimizer(self.model, self.method, self.recipe, stage)
        self.ema = Ema(self.model, self.recipe.ema) if self.recipe.ema else None

    def _next_stage(self) -> None:
        """Goes on to the next stage; after the last one the best weights are put in place."""
        self.stage += 1
        if self.done or self.stages[self.stage].start_from == "best":
            assert self.best is not None
            self.model.load_state_dict(self.best.model)
            self.method.load_state_dict(self.best.method)
        if not self.done:
            self.epoch, self.best = 0, None
            self._begin_stage()

    def state(self) -> tuple[State, dict[str, Any]]:
        """Everything that changes in training: tensors by name, and plain values."""
        tensors = {f"model.{key}": value for key, value in self.model.state_dict().items()}
        tensors |= {f"method.{key}": value for key, value in self.method.state_dict().items()}
        if not self.done:
            for number, slot in self.optimizer.state_dict()["state"].items():
                kept = {key: value for key, value in slot.items() if value is not None}
                tensors |= {f"optimizer.{number}.{key}": value for key, value in kept.items()}
            if self.ema is not None:
                tensors |= {f"ema.{key}": v for key, v in self.ema.model.state_dict().items()}
        plain: dict[str, Any] = {"stage": self.stage, "epoch": self.epoch, "best": None}
        if self.best is not None:
            tensors |= {f"best.model.{key}": value for key, value in self.best.model.items()}
            tensors |= {f"best.method.{key}": value for key, value in self.best.method.items()}
            kept = asdict(replace(self.best, model={}, method={}))
            plain["best"] = {name: kept[name] for name in ("score", "epoch", "weights")}
        return tensors, plain

    def load_state(self, tensors: State, plain: dict[str, Any]) -> None:
        """Takes over what `state()` gave."""
        self.stage, self.epoch = plain["stage"], plain["epoch"]
        if not self.done:
            self._begin_stage()
        self.model.load_state_dict(below(tensors, "model."))
        self.method.load_state_dict(below(tensors, "method."))
        if not self.done:
            slots: dict[int, dict[str, Tensor]] = {}
            for key, value in below(tensors, "optimizer.").items():
                number, name = key.split(".", 1)
                slots.setdefault(int(number), {})[name] = value
            groups = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({"state": slots, "param_groups": groups})
            if self.ema is not None:
                self.ema.model.load_state_dict(below(tensors, "ema."))
        self.best = None
        if plain["best"] is not None:
            model, method = below(tensors, "best.model."), below(tensors, "best.method.")
            self.best = Best(**plain["best"], model=model, method=method)


def _keeps_backbone(stage: Stage) -> bool:
    """Whether a stage keeps the backbone as it is."""
    return stage.freeze_backbone or stage.inputs == "features"


def _copy(module: nn.Module) -> State:
    return {key: value.detach().clone() for key, value in module.state_dict().items()}
