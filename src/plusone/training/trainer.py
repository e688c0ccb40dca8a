"""The training loop: one for images and arrays, for every method, naming none of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from plusone.errors import InputError
from plusone.methods import get_method
from plusone.metrics import mean_average_precision
from plusone.metrics.probe import prober_for
from plusone.metrics.seen_labels import get_score, score_name
from plusone.models.classifier import Classifier
from plusone.models.ema import Ema
from plusone.models.freezing import freeze_weights
from plusone.parallel.processes import world
from plusone.parallel.sharing import Sharing, check_equal_weights
from plusone.recipe import Recipe
from plusone.results import EpochRecord, Probe
from plusone.training.build import below, build
from plusone.training.diverged import check_weights
from plusone.training.epoch import train_epoch
from plusone.training.expected import expected
from plusone.training.features import PooledFeatures
from plusone.training.linear_epoch import linear_epoch, suits
from plusone.training.loader import Inputs, SomeInputs
from plusone.training.optim import make_optimizer
from plusone.training.predict import predict
from plusone.training.step import Forward
from plusone.training.task import Part, Task
from plusone.training.threads import suitable_threads
from plusone.types import Clock, Stage, TrainLabels


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
    """

    score: float
    val_map: float
    epoch: int
    weights: str
    model: dict[str, Tensor]
    method: dict[str, Tensor]


State = dict[str, Tensor]


def pack(training: Training) -> tuple[State, dict[str, Any]]:
    """Everything that changes in training: tensors by name, and plain values."""
    tensors = _named("model", training.model.state_dict())
    tensors |= _named("method", training.method.state_dict())
    if not training.done:
        for number, slot in training.optimizer.state_dict()["state"].items():
            kept = {key: value for key, value in slot.items() if value is not None}
            tensors |= _named(f"optimizer.{number}", kept)
        for name, average in training.averages.items():
            tensors |= _named(name, average.model.state_dict())
    plain: dict[str, Any] = {"stage": training.stage, "epoch": training.epoch}
    plain["stage_maps"] = list(training.stage_maps)
    # Those of the stage before are kept until this one has some.
    before = training.before if training.best is None else None
    for name, best in (("best", training.best), ("before", before)):
        plain[name] = None
        if best is not None:
            tensors |= _named(f"{name}.model", best.model) | _named(f"{name}.method", best.method)
            told = ("score", "val_map", "epoch", "weights")
            plain[name] = {key: getattr(best, key) for key in told}
    return tensors, plain


def unpack(training: Training, tensors: State, plain: dict[str, Any]) -> None:
    """Puts what `pack` gave into a training."""
    training.stage, training.epoch = plain["stage"], plain["epoch"]
    training.stage_maps = list(plain["stage_maps"])
    if not training.done:
        training.begin_stage()
    training.model.load_state_dict(below(tensors, "model."))
    training.method.load_state_dict(below(tensors, "method."))
    if not training.done:
        slots: dict[int, dict[str, Tensor]] = {}
        for key, value in below(tensors, "optimizer.").items():
            number, name = key.split(".", 1)
            slots.setdefault(int(number), {})[name] = value
        groups = training.optimizer.state_dict()["param_groups"]
        training.optimizer.load_state_dict({"state": slots, "param_groups": groups})
        for name, average in training.averages.items():
            average.model.load_state_dict(below(tensors, f"{name}."))
    training.best, training.before = (
        None
        if plain.get(name) is None
        else Best(
            **plain[name],
            model=below(tensors, f"{name}.model."),
            method=below(tensors, f"{name}.method."),
        )
        for name in ("best", "before")
    )


def _named(prefix: str, tensors: State) -> State:
    return {f"{prefix}.{key}": value for key, value in tensors.items()}


@dataclass(frozen=True)
class Judgement:
    """What validation says about a model.

    Args:
        val_map: mAP against the labels that it was judged on.
        score: What the best epoch is chosen by; higher is better.
    """

    val_map: float
    score: float


class Judge:
    """Judges probabilities of the validation items.

    On all labels the score is mAP. On seen labels alone mAP prefers models that find the one label
    that happened to be picked, so a score of `plusone.metrics.seen_labels` is used there.

    Args:
        val: The validation items.
        recipe: The settings.
    """

    def __init__(self, val: Part, recipe: Recipe) -> None:
        if recipe.select_on == "truth" and val.truth is None:
            raise InputError("select_on = 'truth' needs validation items with all labels known")
        on_truth = val.truth is not None and recipe.select_on != "observed"
        self.selected_on = "truth" if on_truth else "observed"
        self.selected_by = "map" if on_truth else score_name(recipe.select_by)
        wanted = val.truth if on_truth and val.truth is not None else val.observed
        self._labels = torch.from_numpy(wanted.dense())
        self._empty = recipe.empty
        if not (self._labels == 1).any():
            raise InputError("no validation item has a positive label, so no epoch can be chosen")

    def __call__(self, probabilities: Tensor) -> Judgement:
        """Judges probabilities `[N, L]`."""
        val_map = mean_average_precision(probabilities, self._labels, empty=self._empty)
        if self.selected_by == "map":
            return Judgement(val_map, val_map)
        return Judgement(val_map, get_score(self.selected_by).function(probabilities, self._labels))


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
        features: Folder where features of image files are kept for later trainings.
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
        self.on_step, self._pooled = on_step, PooledFeatures(on_extract, features)
        phases = get_method(recipe.method).phases
        self.stages = recipe.resolved_stages(images=task.images, phases=phases)
        self.expected = expected(recipe, task)
        self.k = self.expected.k
        labels = TrainLabels(task.train.observed, self.k, recipe.seed, len(task.shape) > 1)
        self.model, self.method = build(
            recipe, labels, task.shape, images=task.images, backbone=backbone
        )
        self.sharing = Sharing(self.model) if world()[1] > 1 else None
        self.judge = Judge(task.val, recipe)
        self._prober = prober_for(task.train.truth, task.train.observed)
        # What a backbone of the user's own keeps fixed stays so.
        self._trainable = [w for w in self.model.backbone.parameters() if w.requires_grad]
        self.stage = self.epoch = 0
        self.best: Best | None = None
        self.before: Best | None = None  # of the stage before
        self.stage_maps: list[float] = []
        self.begin_stage()

    @property
    def done(self) -> bool:
        """Whether all stages are finished."""
        return self.stage == len(self.stages)

    @property
    def keeps_backbone(self) -> bool:
        """Whether the present stage keeps the backbone as it is."""
        return _keeps_backbone(self.stages[self.stage])

    def epochs(self) -> Iterator[EpochRecord]:
        """Trains on, one record per epoch, until all stages are finished."""
        while not self.done:
            started = time.perf_counter()
            clock = Clock(self.stage, self.epoch, self.stages[self.stage].epochs, 0, 0)
            with suitable_threads(None, self.recipe.threads):
                for part in (self.task.train, self.task.val):
                    self.forward(part, self.model)  # extracts features, if there are none yet
            with suitable_threads(self._work(), self.recipe.threads):
                losses = (linear_epoch if suits(self) else train_epoch)(self, clock)
                check_weights(self, self.epoch + 1)
                found = self._evaluate()
                probe = self.probe(self.train_logits)
            yield self.close_epoch(losses, found, probe, started)

    def close_epoch(
        self,
        losses: dict[str, float],
        found: tuple[Judgement, str, Classifier],
        probe: Probe | None,
        started: float,
    ) -> EpochRecord:
        """Counts an epoch: keeps the best weights, and goes on to the next stage after the last.

        Args:
            losses: Mean of each loss term.
            found: What validation says, about which weights ("raw" or "ema"), and the model.
            probe: What `probe` gave.
            started: When the epoch began, by `time.perf_counter`.
        """
        (said, weights, model), judge = found, self.judge
        stage, self.epoch = self.stage, self.epoch + 1
        best = self.best is None or said.score > self.best.score
        if best:
            states = _copy(model), _copy(self.method)
            self.best = Best(said.score, said.val_map, self.epoch, weights, *states)
        record = EpochRecord(
            stage=stage,
            epoch=self.epoch,
            losses=losses,
            val_map=said.val_map,
            selected_on=judge.selected_on,
            best=best,
            weights=weights,
            seconds=time.perf_counter() - started,
            probe=probe,
            val_score=said.score,
            selected_by=judge.selected_by,
        )
        if self.epoch == self.stages[stage].epochs or self._out_of_patience():
            self._next_stage()
        return record

    def predict(self, part: Part, rows: Tensor | None = None) -> Tensor:
        """Probabilities `[N, L]` of a part of the task under the present weights.

        Args:
            part: The part.
            rows: Which of its items, int64 `[N]`; None for all.
        """
        with suitable_threads(None, self.recipe.threads):
            inputs, kind, forward = self.forward(part, self.model)
            inputs = inputs if rows is None else SomeInputs(inputs, rows)
            return self.method.probabilities(predict(self.model, forward, inputs, kind=kind))

    def predict_inputs(self, inputs: Inputs) -> Tensor:
        """Probabilities `[N, L]` of other inputs under the present weights."""
        kind = "images" if self.task.images else "features"
        return self.method.probabilities(predict(self.model, self.model, inputs, kind=kind))

    def _work(self) -> int | None:
        """Multiplications of one step, roughly, where only the head is trained; else None."""
        if self.stages[self.stage].inputs == "images":
            return None
        return self.recipe.batch_size * sum(
            weight.numel() for weight in self.model.head.parameters()
        )

    def _evaluate(self) -> tuple[Judgement, str, Classifier]:
        """What validation says of the better of raw and averaged weights, and that model."""
        found = []
        models = {"raw": self.model}
        if "ema" in self.averages:
            models["ema"] = self.averages["ema"].model
        for name, model in models.items():
            inputs, kind, forward = self.forward(self.task.val, model)
            said = self.judged(predict(model, forward, inputs, kind=kind))
            found.append((said, name, model))
        return max(found, key=lambda entry: entry[0].score)

    def judged(self, logits: Tensor) -> Judgement:
        """What validation logits `[N, L]` are worth."""
        return self.judge(self.method.probabilities(logits))

    def probe(self, predict: Callable[[], Tensor]) -> Probe | None:
        """What training logits say about the hidden labels, where that is wanted."""
        wanted, cheap = self.recipe.probe, self.stages[self.stage].inputs == "features"
        if self._prober is None or wanted == "off" or (wanted == "auto" and not cheap):
            return None
        return self._prober(self.method.probabilities(predict()))

    def train_logits(self) -> Tensor:
        """Logits `[N, L]` of the training items under the present weights."""
        inputs, kind, forward = self.forward(self.task.train, self.model)
        return predict(self.model, forward, inputs, kind=kind).clone()

    def forward(self, part: Part, model: Classifier) -> tuple[Inputs, str, Forward]:
        """Inputs of the present stage, their kind, and what to apply to them."""
        stage = self.stages[min(self.stage, len(self.stages) - 1)]
        if not self.task.images:
            # Vectors go straight to the head; tokens may have to be pooled for it first.
            return part.inputs, "features", model.head if len(self.task.shape) == 1 else model
        if stage.inputs == "images":
            return part.inputs, "images", model
        return self._pooled.of(self.model, part.inputs), "features", model.head

    def begin_stage(self) -> None:
        """Makes method, optimizer and averages ready for the present stage."""
        stage = self.stages[self.stage]
        self._pooled.clear()  # the backbone may have moved since
        for weight in self._trainable:
            weight.requires_grad_(not self.keeps_backbone)
        if self.task.images:
            freeze_weights(self.model.backbone, self.recipe.freeze, norm=self.recipe.freeze_norm)
        self.method.begin_stage(stage)
        self.optimizer = make_optimizer(self.model, self.method, self.recipe, stage)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        decays = {"ema": self.recipe.ema, "teacher": self.method.teacher}
        self.averages = {name: Ema(self.model, decay) for name, decay in decays.items() if decay}

    def _out_of_patience(self) -> bool:
        assert self.best is not None
        patience = self.recipe.patience
        return patience is not None and self.epoch - self.best.epoch >= patience

    def _next_stage(self) -> None:
        """Goes on to the next stage; after the last one the best weights are put in place."""
        assert self.best is not None
        check_equal_weights(self.model, self.method)
        self.stage_maps.append(self.best.val_map)
        self.stage += 1
        if self.done or self.stages[self.stage].start_from == "best":
            self.model.load_state_dict(self.best.model)
            self.method.load_state_dict(self.best.method)
        if not self.done:
            self.epoch, self.before, self.best = 0, self.best, None
            self.begin_stage()

    def state(self) -> tuple[State, dict[str, Any]]:
        """Everything that changes in training: tensors by name, and plain values."""
        return pack(self)

    def load_state(self, tensors: State, plain: dict[str, Any]) -> None:
        """Takes over what `state()` gave."""
        unpack(self, tensors, plain)


def _keeps_backbone(stage: Stage) -> bool:
    """Whether a stage keeps the backbone as it is."""
    return stage.freeze_backbone or stage.inputs == "features"


def _copy(module: nn.Module) -> State:
    return {key: value.detach().clone() for key, value in module.state_dict().items()}
