"""Choosing the best epoch: what the validation items say, and the weights that are kept."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from plusone.errors import InputError
from plusone.inputs.task import Part
from plusone.metrics import mean_average_precision
from plusone.metrics.known import MEANINGS, against
from plusone.metrics.seen_labels import SCORES, score_name
from plusone.recipe import Recipe

State = dict[str, Tensor]


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

    def restore(self, model: nn.Module, method: nn.Module, groups: nn.Module | None) -> None:
        """Puts these weights in place."""
        model.load_state_dict(self.model)
        method.load_state_dict(self.method)
        if groups is not None and self.groups:
            groups.load_state_dict(self.groups)


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
        labels: Labels of the validation items: all, if the best epoch is chosen on them. Else the
            named ones measure: answers change from run to run, and were asked where there was
            doubt, so figures against them could not be compared.
        against: What mAP is measured against, see `plusone.metrics.known`.
    """

    def __init__(self, val: Part, recipe: Recipe) -> None:
        if recipe.select_on == "truth" and val.truth is None:
            raise InputError("select_on = 'truth' needs validation items with all labels known")
        on_truth = val.truth is not None and recipe.select_on != "observed"
        self.selected_on = "truth" if on_truth else "observed"
        self.selected_by = "map" if on_truth else score_name(recipe.select_by)
        self.labels = val.truth if on_truth and val.truth is not None else val.observed
        named = None if on_truth else val.named
        measured = self.labels if named is None else named
        self.against = against(measured)
        self._labels = torch.from_numpy(measured.dense())
        self._empty, self._unknown = recipe.empty, MEANINGS[self.against][0]
        if not (self._labels == 1).any():
            raise InputError("no validation item has a positive label, so no epoch can be chosen")

    def __call__(self, log_odds: Tensor) -> Validation:
        """Evaluates log-odds of scores `[N, L]`; probabilities would tie where they round to 1."""
        val_map = mean_average_precision(log_odds, self._labels, self._empty, self._unknown)
        if self.selected_by == "map":
            return Validation(val_map, val_map)
        score = SCORES[self.selected_by]
        values = log_odds if score.of_ranks else torch.sigmoid(log_odds.double())
        return Validation(val_map, score.function(values, self._labels))
