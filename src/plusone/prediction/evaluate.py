"""Evaluating a trained model on labelled data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plusone.build import plan_of
from plusone.data.dataset import Dataset
from plusone.data.table import hold_out_validation
from plusone.errors import InputError
from plusone.inputs.loader import SomeInputs
from plusone.inputs.sampling import TEST_LABELS, blockwise, sample
from plusone.io.text import by_level
from plusone.metrics import Cut, Unknown, average_precision, evaluate, mean_by_level
from plusone.metrics.calibration_error import mean_and_rate
from plusone.metrics.known import MEANINGS, against
from plusone.models.branches import Branches
from plusone.prediction.items import inputs_for
from plusone.prediction.load import Predictor
from plusone.prediction.run_folder import OBSERVED, read_observed
from plusone.recipe import Recipe
from plusone.results import finite

SPLITS = ("train", "val", "test", "all")
NAMES = {"train": "training", "val": "validation"}


@dataclass(frozen=True)
class Evaluation:
    """The metrics of a model on some items.

    Args:
        of: How many there are, if those are a sample.
        against: "truth"; "known" where some labels are unknown, which are left out; "seen" where
            only positives were observed, and everything else counts as negative
            (`plusone.metrics.known`).
        not_measured: Classes of the model that the data does not have.
        unknown: How many labels are unknown, where they are left out.
        ends: The metrics if all unknown labels were "negative", and if all were "positive".
        map_by_level: mAP of the classes of each level of a hierarchy, the top first.
    """

    items: int
    of: int | None
    against: str
    not_measured: tuple[str, ...]
    metrics: dict[str, float | None]
    unknown: int = 0
    ends: Mapping[str, dict[str, float | None]] = field(default_factory=dict)
    map_by_level: tuple[float | None, ...] = ()

    def sentences(self) -> list[str]:
        """What else is to be said."""
        levels = [by_level(self.map_by_level)] if self.map_by_level else []
        calibration = self.calibration()
        return levels if calibration is None else [calibration, *levels]

    def calibration(self) -> str | None:
        """How well probabilities agree with true labels, in a sentence; None on seen labels."""
        mean, rate = self.metrics.get("mean_probability"), self.metrics.get("true_rate")
        if mean is None or rate is None or (error := self.metrics.get("ece")) is None:
            return None
        return (
            f"calibration: the mean probability is {mean:.3f}, and {rate:.3f} of the labels are "
            f"true; probabilities are off by {error:.3f} on average (ece)"
        )

    def to_json(self) -> dict[str, Any]:
        """As plain values, without what does not apply."""
        values: dict[str, Any] = {"items": self.items}
        values |= {} if self.of is None else {"of": self.of}
        values["against"] = self.against
        values |= {"not_measured": list(self.not_measured)} if self.not_measured else {}
        values |= {"unknown": self.unknown} if self.ends else {}
        values |= {"map_by_level": list(self.map_by_level)} if self.map_by_level else {}
        return values | self.metrics | {f"if_{end}": found for end, found in self.ends.items()}


def check_split(split: str) -> None:
    """Refuses unknown splits."""
    if split not in SPLITS:
        raise InputError(f"the split {split!r} is not one of {', '.join(SPLITS)}")


def existing_split(dataset: Dataset, *, own: bool) -> str:
    """The items to evaluate if nobody says which: test items if there are some.

    Otherwise, of the run's own data the validation items, which are known; of other data all.
    """
    table = dataset.table
    if table.split is not None and len(table.rows_of("test")):
        return "test"
    return "val" if own else "all"


def trained_on(dataset: Dataset, run: Path) -> int:
    """How many items have the name of a training item of a run; 0 if it does not say."""
    if not (run / OBSERVED).is_file():
        return 0
    seen = read_observed(run)
    return int(np.isin(dataset.table.ids, seen.ids[seen.rows_of("train")]).sum())


def learns_from_validation(predictor: Predictor) -> bool:
    """Whether a model learned from the seen labels of its validation items: a closed form may."""
    recipe = predictor.recipe
    if isinstance(predictor.model.backbone, Branches):  # of which closed forms are heads
        return recipe.use_validation
    return recipe.use_validation and plan_of(recipe, images=predictor.images).closed_form


def as_in_training(dataset: Dataset, run: Path, recipe: Recipe) -> Dataset:
    """The data of a run, with the training and validation items that the run had.

    Validation items are drawn by their row among all. An image that was repaired or broke since
    shifts the rows, and would move training items into the validation split. In that case the
    splits of the run are used, and items that it did not have are in neither.
    """
    table = dataset.table
    if len(table.rows_of("val")) or not (run / OBSERVED).is_file():
        return dataset
    seen = read_observed(run)
    drawn = hold_out_validation(table, share=recipe.val_share, seed=recipe.split_seed).split
    if seen.split is None or drawn is None:
        return dataset
    splits = dict(zip(seen.ids.tolist(), seen.split.tolist(), strict=True))
    before = np.array([splits.get(name, "") for name in table.ids.tolist()], dtype="<U5")
    known = before != ""
    if (before[known] == drawn[known]).all():
        return dataset
    split = np.where(known, before, np.where(drawn == "test", "test", ""))
    return replace(dataset, table=replace(table, split=split))


def as_named_in_run(dataset: Dataset, run: Path, split: str) -> Dataset:
    """Other data than that of a run, with the splits that its items have in the run, by name.

    Validation items drawn from such data anew would be training items of the run for the most part.
    Data with validation items of its own keeps its splits, if the run did not train on those.
    """
    table = dataset.table
    hint = "--split all evaluates all items"
    own = len(table.rows_of("val")) > 0
    seen = read_observed(run) if (run / OBSERVED).is_file() else None
    if seen is None or seen.split is None or not len(seen.rows_of("val")):  # published folders
        if own:
            return dataset
        raise InputError(
            f"{run}: does not say which items it was trained on, so those of the split {split!r} "
            f"are not known; {hint}"
        )
    splits = dict(zip(seen.ids.tolist(), seen.split.tolist(), strict=True))
    before = np.array([splits.get(name, "") for name in table.ids.tolist()], dtype="<U5")
    if own:
        trained = int((before[table.rows_of("val")] == "train").sum())
        if split == "val" and trained:
            raise InputError(
                f"{dataset.name}: the run was trained on {trained} of its validation items; {hint}"
            )
        return dataset
    if not (before == split).any():
        raise InputError(
            f"{dataset.name}: no item has the name of a {NAMES[split]} item of the run; {hint}"
        )
    return replace(dataset, table=replace(table, split=before))


def evaluate_run(
    predictor: Predictor,
    dataset: Dataset,
    split: str,
    *,
    hold_out: bool = True,
    threshold: Cut = 0.5,
    top_k: int = 3,
    tick: Callable[[int], None] | None = None,
) -> Evaluation:
    """All metrics of a model on one split ("train", "val", "test" or "all") of a data set.

    With `hold_out`, the recipe draws the same validation items as the training did from the same
    data, if the data has none. Where some labels of the items are unknown, they are left out, and
    the metrics with all of them negative and with all of them positive are given too. Without
    negatives, everything but observed positives counts as negative. Of very many items a sample
    is evaluated. Classes are matched by name; those that the data does not have are not measured.

    Raises:
        InputError: The data has a class that the model does not know.
    """
    check_split(split)
    recipe = predictor.recipe
    known = set(dataset.table.classes)
    shared = [name for name in predictor.classes if name in known]
    if len(shared) < len(known):
        raise InputError(
            f"{dataset.name}: its classes are not those of the model; "
            f"{difference(predictor.classes, dataset.table.classes)}"
        )
    table = dataset.table.with_classes(shared)
    if hold_out:
        table = hold_out_validation(table, share=recipe.val_share, seed=recipe.split_seed)
    rows = np.arange(len(table)) if split == "all" else table.rows_of(split)
    if not len(rows):
        counts = {name: len(table.rows_of(name)) for name in SPLITS[:3]}
        have = ", ".join(f"{name} ({count})" for name, count in counts.items() if count)
        raise InputError(
            f"{dataset.name}: has no items in the split {split!r}; its splits: {have}, and all"
        )
    total = len(rows)
    if (chosen := sample(total, len(predictor.classes), TEST_LABELS)) is not None:
        rows = rows[chosen]
    items = table.take(rows)
    target = items.labels if items.truth is None else items.truth
    inputs = inputs_for(predictor, dataset, rows)
    log_odds = blockwise(
        torch.arange(len(rows)),
        len(predictor.classes),
        lambda part: predictor.log_odds(SomeInputs(inputs, part), tick),
    )
    hierarchy = predictor.hierarchy
    if len(shared) < len(predictor.classes):
        columns = [predictor.classes.index(name) for name in shared]
        hierarchy = None if hierarchy is None else hierarchy.of(columns)
        log_odds = log_odds[:, columns]
        threshold = threshold if isinstance(threshold, float) else threshold[columns]
    p, states, what = torch.sigmoid(log_odds), target.dense(), against(target)

    def measured(unknown: Unknown) -> dict[str, float | None]:
        found = evaluate(
            p, states, threshold=threshold, top_k=top_k, empty=recipe.empty, ranking=log_odds,
            unknown=unknown,
        )  # fmt: skip
        found |= {} if what == "seen" else mean_and_rate(p, states, unknown)
        values: dict[str, float | None] = finite(found)
        return values

    first, *ends = MEANINGS[what]
    levels: tuple[float | None, ...] = ()
    if hierarchy is not None:
        levels = mean_by_level(average_precision(log_odds, states, first), hierarchy.level)
    return Evaluation(
        items=len(rows),
        of=None if chosen is None else total,
        against=what,
        not_measured=tuple(name for name in predictor.classes if name not in known),
        metrics=measured(first),
        unknown=int((states == 0).sum()) if ends else 0,
        ends={end: measured(end) for end in ends},
        map_by_level=levels,
    )


def difference(expected: tuple[str, ...], given: tuple[str, ...]) -> str:
    """The classes that differ between two lists, in a few words."""
    missing = [name for name in expected if name not in given]
    extra = [name for name in given if name not in expected]
    parts = [f"missing: {', '.join(missing[:5])}"] if missing else []
    parts += [f"unknown: {', '.join(extra[:5])}"] if extra else []
    return "; ".join(parts)
