"""Fine-tuning a network on labels that were recovered in closed form.

1. The closed form is solved on features of the network as it is. Its recovered labels are the
   targets of the training items, and a linear head fitted to the same features starts the network.
2. The network learns these targets, epoch by epoch. They stay as they are: labels that a network
   recovers from its own predictions confirm what it has memorised.
   Steps see whole images; where the recipe says, closed forms see the mean over several crops.
3. The closed form is solved again, on features of the fine-tuned network, with the k of step 1:
   a network knows the seen labels of its training items too well, so k would be too small.
4. The network, the two solutions, and means of the solution on frozen features and either of the
   others are compared on the validation items, from whose labels none of them has learned. The best
   one predicts. Its closed forms are then solved once more, with the validation items, as a closed
   form alone learns from them; their predictions of each of these items leave it out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from plusone.build import branched
from plusone.features.extraction import feature_task
from plusone.inputs.forward import predict
from plusone.inputs.task import Learned, Task, without_crops
from plusone.models.branches import Branches, MeanHead
from plusone.models.classifier import Classifier
from plusone.models.heads import Head
from plusone.probabilities.calibration import HeldOut
from plusone.probabilities.k import LabelsPerItem
from plusone.recipe import Recipe
from plusone.training.closed_fit import ClosedFormFit
from plusone.training.selection import State
from plusone.training.state import copy_of
from plusone.training.trainer import Training

NETWORK = "network"
FROZEN, TUNED = "closed form on frozen features", "closed form on fine-tuned features"
BOTH = "both closed forms"
COMPARED = (NETWORK, FROZEN, TUNED, "network and closed form on frozen features", BOTH)
# A solution on features, whatever the steps of the network are.
SOLVED = {
    "mode": "linear", "stages": (), "use_validation": False, "ema": None, "group_weight": 0.0,
    "compile": False, "probe": "off", "crops": "one",
}  # fmt: skip


@dataclass(frozen=True)
class Branch:
    """A model that predicts, alone or in a mean.

    Args:
        backbone: Its backbone.
        head: Its head, which has learned from training items alone.
        log_odds: Its log-odds of the validation items, `[V, L]`.
        final: The head that predicts once the models have been compared; it may have learned from
            validation items too.
        left_out: Log-odds of the validation items by heads like `final`, each item left out.
    """

    backbone: nn.Module
    head: Head
    log_odds: Tensor
    final: Head
    left_out: Tensor


class EndToEnd(Training):
    """A run of a method with a closed form that trains a pretrained network.

    Attributes:
        estimate: k and how labels are picked, by the closed form on frozen features.
        compared: Validation mAP of each of the models that were compared; empty before.
    """

    def __init__(
        self,
        task: Task,
        recipe: Recipe,
        *,
        features: Path | None = None,
        on_extract: Callable[[int], None] | None = None,
        **rest: Any,
    ) -> None:
        whole = task if recipe.crops == "one" else without_crops(task, recipe)
        super().__init__(whole, recipe, features=features, on_extract=on_extract, **rest)
        self._shown = task  # what closed forms learn from, and the finished model predicts from
        self._folder, self._on_extract = features, on_extract
        self._first = copy.deepcopy(self.model.backbone)
        self._frozen: Branch | None = None
        self._left_out: Tensor | None = None  # log-odds of validation items that were learned from
        self.estimate: LabelsPerItem | None = None
        self.compared: dict[str, float] = {}

    def begin_training(self) -> None:
        if self._frozen is None:
            self._begin_from_frozen()
        super().begin_training()

    def _begin_from_frozen(self) -> None:
        """Step 1; a run that is resumed solves it again and keeps its network."""
        fresh = (self.stage, self.epoch) == (0, 0)
        model = self.model if fresh else Classifier(self._first, Head(), self.model.precision)
        vectors = feature_task(self._shown, self.recipe, self._on_extract, self._folder, model)
        fit, self._frozen = self._branch(self._first, vectors)
        self.estimate = fit.estimate
        self.method.after_solving(fit.recovered)
        if fresh:
            start = self._solved(vectors, head="linear").model.head.state_dict()
            for started in (self.model, *(average.model for average in self.averages.values())):
                started.head.load_state_dict(start)

    def _branch(
        self, backbone: nn.Module, vectors: Task, **settings: Any
    ) -> tuple[ClosedFormFit, Branch]:
        """The closed form on features of a backbone, fitted to the training items."""
        fit = self._solved(vectors, **settings)
        head, log_odds = fit.model.head, fit.log_odds(vectors.val)
        if not self.recipe.use_validation:
            return fit, Branch(backbone, head, log_odds, head, log_odds)
        whole = self._solved(vectors, use_validation=True, **settings)
        assert whole.left_out is not None
        left_out = whole.method.log_odds(whole.left_out[-len(vectors.val) :])
        return fit, Branch(backbone, head, log_odds, whole.model.head, left_out)

    def _solved(self, vectors: Task, **settings: Any) -> ClosedFormFit:
        """The closed form on features of the training items."""
        fit = ClosedFormFit(vectors, self.recipe.model_copy(update=SOLVED | settings))
        for _ in fit.epochs():
            pass
        return fit

    def _next_stage(self) -> None:
        super()._next_stage()
        if self.done:
            self._choose_model()
            self.task = self._shown

    def _choose_model(self) -> None:
        """Steps 3 and 4."""
        assert self.best is not None
        assert self._frozen is not None
        vectors = feature_task(self._shown, self.recipe, None, None, self.model)
        k = {} if self.estimate is None else {"expected_positives": float(self.estimate.k)}
        own = predict(self.model.head, self.model.head, vectors.val.inputs, kind="features")
        z = self.method.log_odds(own)
        network = Branch(self.model.backbone, self.model.head, z, self.model.head, z)
        frozen, (_, tuned) = self._frozen, self._branch(self.model.backbone, vectors, **k)
        together = ((network,), (frozen,), (tuned,), (frozen, network), (frozen, tuned))
        means = [torch.stack([part.log_odds for part in parts]).mean(0) for parts in together]
        found = dict(zip(COMPARED, map(self.validator, means), strict=True))
        self.compared = {name: validation.val_map for name, validation in found.items()}
        chosen = max(found, key=lambda name: found[name].score)
        validation, parts = found[chosen], together[COMPARED.index(chosen)]
        if chosen != NETWORK:
            self.model.backbone = Branches([part.backbone for part in parts], vectors.shape[-1])
            self.model.head = MeanHead([part.final for part in parts])
            if self.recipe.use_validation:
                self._learned_from_validation(torch.stack([p.left_out for p in parts]).mean(0))
                validation = self.validator(self.held_out().log_odds)
        score, val_map, model = validation.score, validation.val_map, copy_of(self.model)
        self.best = replace(self.best, score=score, val_map=val_map, model=model)

    def _learned_from_validation(self, left_out: Tensor) -> None:
        self._left_out = left_out
        self.learned = Learned((self.task.train, self.task.val))

    def held_out(self) -> HeldOut:
        held_out = super().held_out()
        return held_out if self._left_out is None else replace(held_out, log_odds=self._left_out)

    def other_state(self) -> State:
        known = {} if self.estimate is None else self.estimate.to_tensors()
        compared = [self.compared[name] for name in COMPARED if name in self.compared]
        left_out = {} if self._left_out is None else {"left_out": self._left_out}
        return known | left_out | {"compared": torch.tensor(compared, dtype=torch.float64)}

    def load_other_state(self, tensors: State) -> None:
        self.estimate = LabelsPerItem.from_tensors(tensors)
        compared = tensors["compared"].tolist()
        self.compared = dict(zip(COMPARED, compared, strict=True)) if compared else {}
        if "left_out" in tensors:
            self._learned_from_validation(tensors["left_out"])

    def load_state(self, tensors: State, plain: dict[str, Any]) -> None:
        if plain["stage"] == len(self.stages):
            branched(self.model, tensors)
            self.task = self._shown
        super().load_state(tensors, plain)
