"""Finding missing labels: cross-fit a method on the data, calibrate the scores, rank the labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from plusone.closed_form.estimates import ITEMS, k_from_features, usable_rows
from plusone.data.dataset import Dataset
from plusone.data.formats import write as write_table
from plusone.data.groups import group_numbers
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.features.extraction import with_features
from plusone.inputs.task import apply_observation
from plusone.io.arrays import Blocks, write_npz
from plusone.io.files import write_json
from plusone.io.readers import read_json
from plusone.prediction.evaluate import difference
from plusone.prediction.load import load_run
from plusone.prediction.run_folder import read_observed, read_recipe
from plusone.probabilities.accept import PROBABLE, Accepted, accept, accept_none
from plusone.probabilities.answers import answers_from, answers_in, marked_labels
from plusone.probabilities.calibration import read_calibration
from plusone.probabilities.drawing import draw_audit
from plusone.probabilities.hint_prior import with_prior
from plusone.probabilities.k import LabelsPerItem, labels_per_item, with_salience
from plusone.probabilities.scores import Scores, blocks
from plusone.probabilities.unseen_labels import Calibrated, calibrate
from plusone.probabilities.wrong import WrongLabels, find_wrong
from plusone.recipe import Recipe
from plusone.suggestions.folder import Suggestions
from plusone.training.crossfit import CrossFit, cross_fit

LEAST = 0.02
PRECISION = 0.9  # with an audit, where none is asked for
AUDIT_ITEMS = "audit.csv"
AUDIT_WEIGHTS = "audit.json"


@dataclass(frozen=True)
class Found:
    """Scores and probabilities of all labels of the items, computed in blocks.

    Args:
        table: All items of the data; its truth, if it has one, was not used.
        rows: The items that were cross-fitted, all but the test items, int64 `[n]`.
        scores: Out-of-sample scores, `[n, L]`.
        calibrated: Calibrated probabilities, `[n, L]`.
        name: Name of the data set.
        method: The method behind the scores.
        folds: Folds of the cross-fitting.
        seed: Its seed.
        hint_weight: Weight of the hints in the scores; None if the data has none.
        reused: Whether the scores are those that a run kept.
    """

    table: LabelTable
    rows: npt.NDArray[np.int64]
    scores: Scores
    calibrated: Calibrated
    name: str
    method: str
    folds: int
    seed: int
    hint_weight: float | None = None
    reused: bool = False

    @property
    def observed(self) -> LabelMatrix:
        """Seen labels of the cross-fitted items, `[n, L]`."""
        return self.calibrated.observed

    @property
    def groups(self) -> npt.NDArray[np.int64] | None:
        """Number of the group of each cross-fitted item, `[n]`; None without groups."""
        return None if self.table.groups is None else group_numbers(self.table.groups[self.rows])

    @property
    def truth(self) -> LabelMatrix | None:
        """All labels of the cross-fitted items, `[n, L]`, if known; for reports only."""
        return None if self.table.truth is None else self.table.truth.take(self.rows)

    @property
    def hidden(self) -> int:
        """Number of positives of the truth that were not seen; 0 where it is not known."""
        if (truth := self.truth) is None:
            return 0
        positive = truth.values == 1
        row, label = truth.row_of_entry()[positive], truth.indices[positive]
        return int((self.observed.at(row, label) == 0).sum())

    def with_confirmed(
        self, accepted: Accepted
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.integer[Any]]]:
        """Rows and classes of accepted labels, and of those that an audit has found."""
        row, label = accepted.row, accepted.label
        if self.calibrated.checked is not None:
            answers = self.calibrated.checked.answers
            new = answers.yes & (self.observed.at(answers.row, answers.label) == 0)
            row = np.concatenate([row, answers.row[new]])
            label = np.concatenate([label, answers.label[new]])
        return row, label

    def wrong(self) -> WrongLabels:
        """Which seen labels are probably wrong; rows are those of `table`."""
        summary, checked = self.calibrated.summary, self.calibrated.checked
        assert summary is not None
        k, known = summary.k, None if checked is None else checked.answers.complete
        found = find_wrong(
            self.scores, self.observed, k.k, known=known, picks=k.picks, seed=self.seed
        )
        return replace(found, row=self.rows[found.row])

    def suggestions(self, *, least: float = LEAST, top: int | None = None) -> Suggestions:
        """The unobserved labels of each item, the most probable first.

        Args:
            least: Labels below this probability are left out.
            top: Largest number per item.
        """
        labels = self.calibrated.unseen(min(least, PROBABLE))
        labels = labels.take(labels.probability >= least)
        labels = labels.take(np.lexsort((-labels.probability, labels.row)))
        if top is not None:
            first = np.searchsorted(labels.row, labels.row)  # of the same item
            labels = labels.take(np.arange(len(labels)) - first < top)
        summary = self.calibrated.summary
        about = {
            "data": self.name,
            "method": self.method,
            "folds": self.folds,
            "seed": self.seed,
            "items": len(self.rows),
            "scores": "kept by the run" if self.reused else "fitted",
            "least_probability": least,
            "top": top,
            "calibration": None if summary is None else summary.to_dict(),
        }
        if self.hint_weight is not None:
            about["hint_weight"] = self.hint_weight
        return Suggestions(
            self.table,
            self.rows[labels.row],
            labels.label,
            labels.probability.astype(np.float32),
            labels.score,
            about,
        )

    def accept(self, precision: float | None = None, *, per_class: bool = False) -> Accepted:
        """Labels to accept; without an audit none, unless a precision is asked for."""
        if precision is None and self.calibrated.checked is None:
            return accept_none(self.observed.n_classes)
        return accept(
            self.calibrated, precision or PRECISION, per_class=per_class, groups=self.groups
        )

    def write_audit(self, folder: Path, number: int) -> str:
        """Draws items to audit, and writes them with their seen labels; returns the file's name.

        The weights of the items are in `AUDIT_WEIGHTS` beside it.
        """
        rows, weight = draw_audit(self.calibrated, number, self.seed)
        items = self.table.take(self.rows[rows])
        write_table(Dataset(replace(items, truth=None, split=None)), folder / AUDIT_ITEMS)
        weights = dict(zip(items.ids.tolist(), weight.tolist(), strict=True))
        write_json(folder / AUDIT_WEIGHTS, {"weights": weights})
        return AUDIT_ITEMS

    def write_probabilities(self, folder: Path) -> str:
        """Writes `probabilities.npz` with all labels of the items; returns its name.

        Its arrays: `ids` `[n]`, `classes` `[L]`, `probabilities` (calibrated, float32), `scores`
        (before calibration) and `seen` (1, 0 or -1), all three `[n, L]`; and `group` `[n]`, if
        items have groups.
        """
        name, calibrated = "probabilities.npz", self.calibrated

        def table(
            of_rows: Callable[[npt.NDArray[np.int64]], npt.NDArray[Any]], kind: npt.DTypeLike
        ) -> Blocks:
            n, n_classes = shape = self.scores.shape
            return Blocks(shape, kind, map(of_rows, blocks(np.arange(n), n_classes)))

        arrays = {
            "ids": Blocks.of(self.table.ids[self.rows]),
            "classes": Blocks.of(np.array(self.table.classes)),
            "probabilities": table(lambda rows: calibrated.at(rows).probabilities, np.float32),
            "scores": table(self.scores.at, np.float32),
            "seen": table(self.observed.dense, np.int8),
        }
        if self.table.groups is not None:
            arrays["group"] = Blocks.of(self.table.groups[self.rows])
        write_npz(folder / name, arrays)
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
    drawn: Mapping[str, float] | None = None,
    keep: Path | None = None,
    on_epoch: Callable[[int], None] | None = None,
    on_fold: Callable[[int, bool], None] | None = None,
    on_extract: Callable[[int], None] | None = None,
    features_folder: Path | None = None,
    run: Path | None = None,
) -> Found:
    """Cross-fits and calibrates; the labels of the table are used as they are.

    See `suggest` and `cross_fit` for the arguments; `positives` may be an estimate with its range,
    and `drawn` has the weights of items that were drawn for the audit (`draw_audit`).
    """
    rows = np.flatnonzero(
        np.isin(np.arange(len(dataset.table)), dataset.table.rows_of("test"), invert=True)
    )
    table = dataset.table.take(rows)
    if not (table.labels.per_item(0) > 0).any():
        raise InputError(f"{dataset.name}: every label of its items is known; nothing is missing")
    groups = None if table.groups is None else group_numbers(table.groups)
    answers = answers_in(marked_labels(table.labels, table.named), groups)
    if audit is not None:
        tested = np.isin(audit.ids, dataset.table.ids[dataset.table.rows_of("test")])
        if tested.all():
            raise InputError("the audit names test items only; audit some of the training items")
        answers = answers_from(audit.take(np.flatnonzero(~tested)), table, seed=recipe.seed)
        answers = answers if drawn is None else answers.weighted(table.ids, drawn)
    fit = cross_fit(
        dataset,
        recipe,
        folds,
        on_epoch=on_epoch,
        on_fold=on_fold,
        on_extract=on_extract,
        keep=keep,
        features_folder=features_folder,
        run=run,
    )
    if positives is None and isinstance(recipe.expected_positives, float):
        positives = recipe.expected_positives
    scores, weight = fit.scores, None
    if table.hints is not None:
        scores, weight = with_prior(scores, table.hints, table.labels, seed=recipe.seed)
    k = _k(fit, table, positives, recipe)
    calibrated = calibrate(scores, table.labels, k=k, answers=answers, seed=recipe.seed)
    calibrated = calibrated.within(table.hierarchy)
    return Found(
        dataset.table,
        rows,
        scores,
        calibrated,
        dataset.name,
        recipe.method,
        folds,
        recipe.seed,
        weight,
        fit.reused,
    )


def _k(
    fit: CrossFit, table: LabelTable, known: float | LabelsPerItem | None, recipe: Recipe
) -> LabelsPerItem:
    """Mean number of labels per item, and how they are picked: as known, else estimated."""
    if isinstance(known, LabelsPerItem):
        return known
    if fit.estimate is not None:
        estimate = fit.estimate
    elif fit.features is None:
        estimate = labels_per_item(fit.scores, table.labels, table.hierarchy)
        if recipe.picks != "uniform":
            estimate = with_salience(estimate, fit.scores, table.labels)
    else:
        rows = usable_rows(table.labels)  # a sample where there are more than it needs
        x = torch.from_numpy(np.asarray(fit.features[rows], dtype=np.float32))
        groups = None if table.groups is None else table.groups[rows]
        labels, named = table.labels.take(rows), table.named
        named = None if named is None else named.take(rows)
        estimate = k_from_features(
            x, labels, groups, picks=recipe.picks, named=named, hierarchy=table.hierarchy
        )
    if known is None:
        return estimate
    return replace(LabelsPerItem.given(known), salience=estimate.salience)


def check_no_audit(folder: Path) -> None:
    """Refuses to draw an audit where there is one, which may have answers."""
    if (path := folder / AUDIT_ITEMS).exists():
        raise InputError(
            f"{path} is there already, perhaps with answers; move it, or choose another --out"
        )


def drawn_weights(folder: Path) -> dict[str, float] | None:
    """The weights of items that were drawn for an audit; None if there are none."""
    path = folder / AUDIT_WEIGHTS
    try:
        content = read_json(path)
        weights = {str(name): float(weight) for name, weight in content["weights"].items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); draw the audit again") from None
    if not all(0 < weight < float("inf") for weight in weights.values()):
        raise InputError(f"{path}: weights are positive numbers; draw the audit again")
    return weights


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
    return LabelsPerItem(
        calibration.k,
        *calibration.k_range,
        items,
        "counted" if calibration.origin == "audit" else "estimated",
        calibration.salience,
    )


def run_recipe(
    run: Path, device: str = "auto", seed: int | None = None, picks: str | None = None
) -> Recipe:
    """The recipe of a run, to train its folds by: what it counted on the truth is estimated.

    Args:
        run: The run folder.
        device: What trains.
        seed: Seed of folds and weights; the run's by default.
        picks: How annotators pick; as in the run by default.
    """
    recipe = read_recipe(run)
    changed: dict[str, object] = {"device": device} | ({} if seed is None else {"seed": seed})
    changed |= {} if picks is None else {"picks": picks}
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
    seen = read_observed(run)
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
    named = None
    if seen.named is not None:  # of other items, all seen positives
        both = LabelMatrix.concatenate([table.labels.only_positives(), seen.named])
        named = both.take(order)
    return replace(table, labels=stacked.take(order), named=named)


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
