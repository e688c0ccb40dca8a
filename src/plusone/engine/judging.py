"""How good an epoch is, judged on the validation items."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from plusone.engine.task import Part
from plusone.errors import InputError
from plusone.metrics import mean_average_precision
from plusone.recipe import Recipe
from plusone.selection.table import get_score, score_name


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
    that happened to be picked, so a score of `plusone.selection` is used there.

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
