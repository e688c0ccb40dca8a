"""Finding missing labels: cross-fit a method on the data, calibrate the scores, rank the labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from plusone.data.dataset import Dataset
from plusone.data.formats import read
from plusone.data.groups import group_numbers
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.features.extraction import with_features
from plusone.inputs.task import apply_observation
from plusone.io.files import replacing
from plusone.prediction.evaluate import difference
from plusone.prediction.load import load_run
from plusone.prediction.run_folder import read_recipe
from plusone.probabilities import LabelsPerItem, k_from_features, labels_per_item, usable_rows
from plusone.probabilities.answers import answers_from
from plusone.probabilities.calibration import read_calibration
from plusone.probabilities.hint_prior import with_prior
from plusone.probabilities.k import ITEMS
from plusone.probabilities.unseen_labels import Calibrated, calibrate
from plusone.recipe import Recipe
from plusone.suggest.folder import Suggestions
from plusone.training.crossfit import CrossFit, cross_fit

LEAST = 0.02


@dataclass(frozen=True)
class Found:
    """Scores and probabilities of all labels of the items.

    Args:
        table: All items of the data; its truth, if it has one, was not used.
        rows: The items that were cross-fitted, all but the test items, int64 `[n]`.
        scores: Out-of-sample scores, float32 `[n, L]`.
        calibrated: Calibrated probabilities, `[n, L]`.
        name: Name of the data set.
        method: The method behind the scores.
        folds: Folds of the cross-fitting.
        seed: Its seed.
        hint_weight: Weight of the hints in the scores; None if the data has none.
    """

    table: LabelTable
    rows: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32]
    calibrated: Calibrated
    name: str
    method: str
    folds: int
    seed: int
    hint_weight: float | None = None

    @property
    def observed(self) -> npt.NDArray[np.int8]:
        """Seen labels of the cross-fitted items, `[n, L]`."""
        return self.table.labels.dense(self.rows)

    @property
    def groups(self) -> npt.NDArray[np.int64] | None:
        """Number of the group of each cross-fitted item, `[n]`; None without groups."""
        return None if self.table.groups is None else group_numbers(self.table.groups[self.rows])

    @property
    def truth(self) -> npt.NDArray[np.bool_] | None:
        """All labels of the cross-fitted items, `[n, L]`, if known; for reports only."""
        return None if self.table.truth is None else self.table.truth.dense(self.rows) == 1

    @property
    def confirmed(self) -> npt.NDArray[np.bool_]:
        """Labels that were not seen and an audit has found, bool `[n, L]`."""
        found = np.zeros(self.observed.shape, dtype=bool)
        if self.calibrated.checked is not None:
            answers = self.calibrated.checked.answers
            found[answers.row, answers.label] = answers.yes
        found[self.observed != 0] = False
        return found

    def suggestions(self, *, least: float = LEAST, top: int | None = None) -> Suggestions:
        """The unobserved labels of each item, the most probable first.

        Args:
            least: Labels below this probability are left out.
            top: Largest number per item.
        """
        p = np.where(self.observed == 0, self.calibrated.probabilities, -1.0)
        p = np.where(p >= max(least, 0.0), p, -1.0)
        if top is not None and top < p.shape[1]:
            rank = np.argsort(np.argsort(-p, axis=1, kind="stable"), axis=1, kind="stable")
            p = np.where(rank < top, p, -1.0)
        row, label = np.nonzero(p >= 0)
        order = np.lexsort((-p[row, label], row))
        row, label = row[order], label[order]
        summary = self.calibrated.summary
        about = {
            "data": self.name,
            "method": self.method,
            "folds": self.folds,
            "seed": self.seed,
            "items": len(self.rows),
            "least_probability": least,
            "top": top,
            "calibration": None if summary is None else summary.to_dict(),
        }
        if self.hint_weight is not None:
            about["hint_weight"] = self.hint_weight
        return Suggestions(
            self.table,
            self.rows[row],
            label.astype(np.int32),
            p[row, label].astype(np.float32),
            self.scores[row, label],
            about,
        )

    def write_probabilities(self, folder: Path) -> str:
        """Writes `probabilities.npz` with all labels of the items; returns its name.

        Its arrays: `ids` `[n]`, `classes` `[L]`, `probabilities` (calibrated, float32), `scores`
        (before calibration) and `seen` (1, 0 or -1), all three `[n, L]`; and `group` `[n]`, if
        items have groups.
        """
        name = "probabilities.npz"
        groups = {} if self.table.groups is None else {"group": self.table.groups[self.rows]}
        with replacing(folder / name) as part, part.open("wb") as out:
            np.savez(
                out,
                allow_pickle=False,
                ids=self.table.ids[self.rows],
                classes=np.array(self.table.classes),
                probabilities=self.calibrated.probabilities.astype(np.float32),
                scores=self.scores,
                seen=self.observed,
                **groups,
            )
        return name


def suggest(
    dataset: Dataset,
    recipe: Recipe,
    folds: int = 5,
    *,
    audit: LabelTable | None = None,
    positives: float | None = None,
    least: float = LEAST,
    top: int | None = None,
    keep: Path | None = None,
    on_epoch: Callable[[int], None] | None = None,
) -> Suggestions:
    """Suggests labels that items may have but were not given, with calibrated probabilities.

    Args:
        dataset: The data. Partial labels are used as they are; where all labels are known, the
            recipe's scheme hides some first. Test items are left out.
        recipe: The settings; one model is trained per fold.
        folds: Folds of the cross-fitting.
        audit: All labels of a few of the items, or the answers of a review; test items in it are
            ignored.
        positives: Mean number of labels per item, if known.
        least: Labels below this probability are left out.
        top: Largest number per item.
        keep: A folder for finished folds, to resume from.
        on_epoch: Called with the number of the fold after every epoch.
    """
    table = apply_observation(dataset.table, recipe)
    result = find(
        replace(dataset, table=table),
        recipe,
        folds,
        audit=audit,
        positives=positives,
        keep=keep,
        on_epoch=on_epoch,
    )
    return result.suggestions(least=least, top=top)


def find(
    dataset: Dataset,
    recipe: Recipe,
    folds: int = 5,
    *,
    audit: LabelTable | None = None,
    positives: float | LabelsPerItem | None = None,
    keep: Path | None = None,
    on_epoch: Callable[[int], None] | None = None,
    on_fold: Callable[[int, bool], None] | None = None,
    on_extract: Callable[[int], None] | None = None,
    features_folder: Path | None = None,
) -> Found:
    """Cross-fits and calibrates; the labels of the table are used as they are.

    See `suggest` and `cross_fit` for the arguments; `positives` may be an estimate with its range.
    """
    rows = np.flatnonzero(
        np.isin(np.arange(len(dataset.table)), dataset.table.rows_of("test"), invert=True)
    )
    table = dataset.table.take(rows)
    if not (table.labels.per_item(0) > 0).any():
        raise InputError(f"{dataset.name}: every label of its items is known; nothing is missing")
    answers = None
    if audit is not None:
        tested = np.isin(audit.ids, dataset.table.ids[dataset.table.rows_of("test")])
        if tested.all():
            raise InputError("the audit names test items only; audit some of the training items")
        answers = answers_from(audit.take(np.flatnonzero(~tested)), table, seed=recipe.seed)
    fit = cross_fit(
        dataset,
        recipe,
        folds,
        on_epoch=on_epoch,
        on_fold=on_fold,
        on_extract=on_extract,
        keep=keep,
        features_folder=features_folder,
    )
    if positives is None and isinstance(recipe.expected_positives, float):
        positives = recipe.expected_positives
    scores, weight = fit.probabilities, None
    if table.hints is not None:
        scores, weight = with_prior(scores, table.hints, table.labels, seed=recipe.seed)
    calibrated = calibrate(
        scores, table.labels, k=_k(fit, table, positives), answers=answers, seed=recipe.seed
    )
    return Found(
        dataset.table,
        rows,
        scores.astype(np.float32),
        calibrated,
        dataset.name,
        recipe.method,
        folds,
        recipe.seed,
        weight,
    )


def _k(fit: CrossFit, table: LabelTable, known: float | LabelsPerItem | None) -> LabelsPerItem:
    """Mean number of labels per item: as it is known, else estimated."""
    if isinstance(known, LabelsPerItem):
        return known
    if known is not None:
        return LabelsPerItem.given(known)
    if fit.features is None:
        return labels_per_item(fit.probabilities, table.labels)
    rows = usable_rows(table.labels)  # a sample where there are more than it needs
    x = torch.from_numpy(np.asarray(fit.features[rows], dtype=np.float32))
    groups = None if table.groups is None else table.groups[rows]
    return k_from_features(x, table.labels.take(rows), groups)


def run_k(run: Path, table: LabelTable) -> LabelsPerItem | None:
    """The estimate of k that a run was calibrated with; None where it was counted or is not known.

    Args:
        run: The run folder.
        table: Its items and their seen labels.
    """
    calibration = read_calibration(run, table.classes)
    if calibration.k is None or calibration.k_range is None:
        return None
    learned = table.take(np.setdiff1d(np.arange(len(table)), table.rows_of("test")))
    items = min(int((learned.labels.per_item(1) > 0).sum()), ITEMS)
    return LabelsPerItem(calibration.k, *calibration.k_range, items)


def run_recipe(run: Path, device: str = "auto", seed: int | None = None) -> Recipe:
    """The recipe of a run, to train its folds by: what it counted on the truth is estimated.

    Args:
        run: The run folder.
        device: What trains.
        seed: Seed of folds and weights; the run's by default.
    """
    recipe = read_recipe(run)
    changed: dict[str, object] = {"device": device} | ({} if seed is None else {"seed": seed})
    for name in ("expected_positives", "class_priors"):
        if getattr(recipe, name) == "truth":
            changed[name] = "estimate"
    return recipe.model_copy(update=changed)


def run_labels(run: Path, data: LabelTable, recipe: Recipe) -> LabelTable:
    """The data with the seen labels of a finished run, for the items that the run has.

    Args:
        run: The run folder.
        data: The table of the run or other data with the same classes.
        recipe: The run's settings; they determine the seen labels of other items.
    """
    seen = read(run / "observed.npz").table
    if set(seen.classes) != set(data.classes):
        raise InputError(
            f"{run}: was trained on other classes than the data has; in the data "
            f"{difference(seen.classes, data.classes)}"
        )
    table = apply_observation(data.with_classes(seen.classes), recipe)
    rows = {name: row for row, name in enumerate(table.ids.tolist())}
    pairs = [(rows[name], row) for row, name in enumerate(seen.ids.tolist()) if name in rows]
    if not pairs:
        return table
    at, source = np.array(pairs, dtype=np.int64).T
    order = np.arange(len(table))
    order[at] = len(table) + source
    labels = table.labels
    stacked = LabelMatrix.concatenate([labels, seen.labels.with_default(labels.default)])
    return replace(table, labels=stacked.take(order))


def head_only(
    run: Path,
    dataset: Dataset,
    recipe: Recipe,
    tick: Callable[[int], None] | None = None,
    keep: Path | None = None,
) -> tuple[Dataset, Recipe]:
    """Features from the run's own backbone, and a recipe that trains a linear head on them.

    The backbone of a fine-tuned run was trained on the same items.

    Args:
        run: The run folder.
        dataset: Images.
        recipe: The run's settings.
        tick: Called with the number of items whose features were just extracted.
        keep: A folder to cache the features in.
    """
    predictor = load_run(run, recipe.device)
    if not predictor.images:
        raise InputError(f"{run}: was trained on features, so --linear has no effect; leave it out")
    update = {"mode": "linear", "stages": (), "epochs": None, "crops": "one"}
    features = with_features(dataset, recipe, predictor.model, tick=tick, folder=keep)
    return features, recipe.model_copy(update=update)
