"""`choose`: picks method, learning rate and epoch by observed labels alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from plusone.data.dataset import Dataset
from plusone.errors import InputError, RunError
from plusone.features.extraction import feature_task
from plusone.inputs.task import Task, apply_observation, make_task
from plusone.methods import get_method
from plusone.metrics.seen_labels import score_name
from plusone.recipe import Recipe
from plusone.training.closed_fit import fit_for
from plusone.training.stack import AloneError, train_stacked
from plusone.training.trainer import Training

IMAGE_SETTINGS = ("backbone", "weights", "image_size", "aspect", "precision")
DATA_SETTINGS = ("observe", "observe_seed", "val_share", "split_seed", "train_share", "select_by")


@dataclass(frozen=True)
class Candidate:
    """A run that was tried, and the best score of its epochs (numbered from 1)."""

    recipe: Recipe
    score: float
    epoch: int


@dataclass(frozen=True)
class Choice:
    """The result of `choose`: candidates, best first, and settings that failed, with the reason.

    `items` counts the validation items, `seen` their observed positive labels.
    """

    score: str
    candidates: tuple[Candidate, ...]
    failed: tuple[tuple[Recipe, str], ...]
    items: int
    seen: int

    @property
    def best(self) -> Candidate:
        """The winner."""
        return self.candidates[0]

    def to_dict(self) -> dict[str, Any]:
        """The choice for JSON; of the settings, those that differ from the defaults."""
        plain = asdict(self)
        plain["candidates"] = [
            {
                "method": each.recipe.method,
                "lr": each.recipe.lr,
                "score": each.score,
                "epoch": each.epoch,
                "recipe": _plain(each.recipe),
            }
            for each in self.candidates
        ]
        plain["failed"] = [{"recipe": _plain(recipe), "why": why} for recipe, why in self.failed]
        return plain


def choose(
    dataset: Dataset,
    recipes: Sequence[Recipe],
    *,
    on_epoch: Callable[[int], None] | None = None,
    on_extract: Callable[[int], None] | None = None,
    features_folder: Path | None = None,
) -> Choice:
    """Trains every recipe on the same items and ranks them by a score on observed labels.

    The full labels are never used: where they are known, all but one positive per item are hidden
    first, and the hidden labels are dropped. Images are turned into features of the backbone once,
    and linear models are trained on these; vectors are used as they are.

    Args:
        dataset: The data.
        recipes: Candidates; they must agree in the settings of data, backbone and score. Crops are
            those of the first.
        on_epoch: Called with the number of candidates that have just finished an epoch.
        on_extract: Called with the number of images whose features were just extracted.
        features_folder: Where features of images are cached.
    """
    if not recipes:
        raise InputError("there is nothing to choose from: give at least one recipe")
    first = recipes[0]
    for name in (*DATA_SETTINGS, *IMAGE_SETTINGS):
        if any(getattr(recipe, name) != getattr(first, name) for recipe in recipes):
            raise InputError(f"candidates must have the same {name}")
    for recipe in recipes:
        if get_method(recipe.method).scheme != "single":
            raise InputError(
                f"{recipe.method}: is a reference that sees more labels than the others, so it "
                "cannot be chosen"
            )
    seen = replace(apply_observation(dataset.table, first), truth=None)
    task = make_task(replace(dataset, table=seen), _trained(first))
    if task.images:
        task = feature_task(task, _trained(first), on_extract, features_folder)
    candidates: list[Candidate] = []
    failed: list[tuple[Recipe, str]] = []
    for group in _groups(recipes):
        for recipe, outcome in _train(task, group, on_epoch):
            if isinstance(outcome, Training):
                assert outcome.best is not None
                candidates.append(Candidate(recipe, outcome.best.score, outcome.best.epoch))
            else:
                failed.append((recipe, outcome))
    if not candidates:
        raise RunError(f"no candidate could be trained; {first.method}: {failed[0][1]}")
    ranked = sorted(candidates, key=lambda each: -each.score)  # stable: ties keep the given order
    return Choice(
        score_name(first.select_by),
        tuple(ranked),
        tuple(failed),
        items=len(task.val),
        seen=int(task.val.observed.per_class(1).sum()),
    )


def _trained(recipe: Recipe) -> Recipe:
    """The settings a candidate is trained with: a linear model, scored on observed labels."""
    update = {"observe": "given", "select_on": "observed", "mode": "linear", "probe": "off"}
    return recipe.model_copy(update=update)


def _groups(recipes: Sequence[Recipe]) -> list[list[Recipe]]:
    """Groups of recipes that differ only in the learning rate and the seed."""
    groups: dict[str, list[Recipe]] = {}
    for recipe in recipes:
        same = recipe.model_copy(update={"lr": 1.0, "seed": 0}).model_dump_json()
        groups.setdefault(same, []).append(recipe)
    return list(groups.values())


def _train(
    task: Task, group: Sequence[Recipe], on_epoch: Callable[[int], None] | None
) -> list[tuple[Recipe, Training | str]]:
    """Trains a group, as one stack where possible; a failed training gives its error message."""
    trained = [_trained(recipe).model_copy(update={"crops": "one"}) for recipe in group]
    tick = on_epoch or (lambda count: None)
    if len(group) > 1:
        try:
            stack = train_stacked(task, trained, lambda _: tick(len(group)))
            return list(zip(group, (training for training, _ in stack), strict=True))
        except (AloneError, RunError):
            pass  # where one failed, the others are trained one by one
    outcomes: list[tuple[Recipe, Training | str]] = []
    for given, recipe in zip(group, trained, strict=True):
        try:
            training = fit_for(task, recipe)
            for _ in training.epochs():
                tick(1)
            outcomes.append((given, training))
        except RunError as error:
            outcomes.append((given, str(error)))
    return outcomes


def _plain(recipe: Recipe) -> dict[str, Any]:
    return recipe.model_dump(mode="json", exclude_defaults=True)
