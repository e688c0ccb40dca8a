"""`PlusOneClassifier`: the methods as a scikit-learn classifier on arrays."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from plusone.data._arrow import numbers
from plusone.data.dataset import Dataset, as_hints
from plusone.data.groups import Ints, group_numbers
from plusone.data.lazy import LazyArray, joined
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.estimator.labels import Labels, read_labels
from plusone.seeds import generator

# What trains is imported by the functions that use it, so that importing the class is fast.
if TYPE_CHECKING:
    from plusone.autorecipe import Composed, Facts
    from plusone.inputs.loader import Inputs
    from plusone.inputs.task import Part, Task
    from plusone.prediction.load import Predictor
    from plusone.probabilities.calibration import Calibration
    from plusone.probabilities.thresholds import Thresholds
    from plusone.recipe import Recipe
    from plusone.results import EpochRecord
    from plusone.training.trainer import Training

LARGEST_WEIGHT = 1e30  # of an item: the sum of many must stay finite in float32
MOST_HELD_OUT = 5000  # more would not improve the choice, and would slow every epoch


def suitable_fraction(n_items: int) -> float:
    """Share of the items held out by default: a recipe's `val_share`, at most 5,000 items.

    >>> suitable_fraction(1_000), suitable_fraction(100_000)
    (0.2, 0.05)
    """
    from plusone.recipe import Recipe

    share: float = Recipe.model_fields["val_share"].default
    return min(share, MOST_HELD_OUT / max(n_items, 1))


def _plain(value: Any) -> Any:
    """NumPy scalars, as parameter searches pass them, as Python numbers."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    return value


def held_out(
    labels: LabelMatrix,
    fraction: float,
    random: np.random.RandomState,
    groups: npt.ArrayLike | None = None,
) -> npt.NDArray[np.bool_]:
    """A random share of the items, bool `[N]`, without the last seen positive of any class.

    Items with a seen positive come first: the others cannot help to choose an epoch. At least one
    item is held out and at least one is not.

    Args:
        labels: Seen labels.
        fraction: The share, in (0, 1).
        random: Random state of the draw.
        groups: The group of each item, `[N]`. Whole groups are drawn then, passing over those that
            are so large that the share would be missed by more than without them.

    >>> held_out(LabelMatrix.from_lists([[0], [0], [1]], 2), 0.4, np.random.RandomState(0)).sum()
    np.int64(1)
    """
    if not 0 < fraction < 1:
        raise InputError(f"validation_fraction must be between 0 and 1, not {fraction}")
    if len(labels) < 2:
        raise InputError(
            f"{len(labels)} sample is too few: some are for training and some are held out"
        )
    number = np.arange(len(labels)) if groups is None else group_numbers(groups)
    sizes = np.bincount(number)
    if len(sizes) < 2:
        raise InputError("all items are in one group: none can be held out; give validation items")
    by_group, ends = np.argsort(number, kind="stable"), np.cumsum(sizes)
    missing = min(max(1, round(fraction * len(labels))), len(labels) - 1)
    positives_left = labels.per_class(1)
    order = random.permutation(len(sizes))
    seen = np.bincount(number, labels.per_item(1))
    order = order[np.argsort(seen[order] == 0, kind="stable")]
    selected = np.zeros(len(labels), dtype=np.bool_)
    for group in order:
        items = by_group[ends[group] - sizes[group] : ends[group]]
        if len(items) >= 2 * missing:
            continue
        positives, counts = np.unique(
            np.concatenate([labels.positives(item) for item in items]), return_counts=True
        )
        if (positives_left[positives] > counts).all():
            positives_left[positives] -= counts
            selected[items] = True
            missing -= len(items)
            if missing <= 0:
                break
    if not (selected & (labels.per_item(1) > 0)).any():
        # Every class was seen once: one of them loses its training item.
        selected[number == order[0]] = True
    return selected


Weights = npt.NDArray[np.float64]


def check_labels(x: npt.NDArray[Any], labels: Labels) -> None:
    """Refuses labels that nothing can be learned from."""
    check_lengths(len(x), len(labels.matrix))
    if len(labels.classes) < 2:
        raise InputError(
            f"y has {len(labels.classes)} class; a multi-label classifier needs two classes or more"
        )
    if not (labels.matrix.values == 1).any():
        raise InputError("y has no positive label (no 1 in the matrix); nothing can be learned")


def check_lengths(inputs: int, labels: int) -> None:
    """Refuses inputs and labels of different lengths."""
    if inputs != labels:
        raise InputError(
            f"Found input variables with inconsistent numbers of samples: X has {inputs} rows, y "
            f"has {labels}"
        )


def _numbered(groups: npt.ArrayLike, n_items: int) -> Ints:
    """The number of each item's group; refuses other than one name or whole number for each."""
    values = np.asarray(groups, dtype=object)
    if values.shape != (n_items,):
        raise InputError(f"groups has shape {values.shape}, but X has {n_items} rows")
    for row, value in enumerate(values):
        if value is None or value != value or value == "":
            raise InputError(f"groups, row {row}: {value!r} is not a group; every item needs one")
    return group_numbers(values.astype(np.str_))


def _hints(hints: npt.ArrayLike, shape: tuple[int, int]) -> npt.NDArray[np.float32]:
    """Hints as an array; refuses another shape and values outside [0, 1]."""
    scores = as_hints(hints, "hints")
    if scores.shape != shape:
        raise InputError(
            f"hints has shape {scores.shape}; expected {shape}, a row for each item of X and a "
            "column for each class of y"
        )
    return scores


def stacked(one: LabelMatrix, other: LabelMatrix) -> LabelMatrix:
    """Labels over the same classes, concatenated."""
    return LabelMatrix.concatenate([one, other.with_default(one.default)])


def make_items(data: Dataset, weights: Weights | None, recipe: Recipe) -> Task:
    """The training and validation items."""
    from plusone.inputs.task import make_task

    task = make_task(data, recipe)
    if weights is not None:
        own = np.isin(np.arange(len(weights)), data.table.rows_of("val"))
        train, val = replace(task.train, weights=weights[~own]), task.val
        if own.any():
            val = _repeated(val, weights[val.ids.astype(np.int64)], recipe.seed)
        task = replace(task, train=train, val=val)
    if not task.val.observed.per_class(0).any():  # every label was seen: they are the truth
        task = replace(task, val=replace(task.val, truth=task.val.observed.with_default(-1)))
    return task


def _repeated(part: Part, weights: Weights, seed: int) -> Part:
    """Held-out items, each repeated in proportion to its weight."""
    from plusone.inputs.loader import ArrayInputs, SomeInputs, visiting_order
    from plusone.inputs.task import Part

    draw = generator(seed, "held-out items")
    rows = np.sort(visiting_order(len(part), weights, draw).numpy())
    inputs: Inputs = SomeInputs(part.inputs, torch.from_numpy(rows))
    if isinstance(part.inputs, ArrayInputs):
        inputs = ArrayInputs(part.inputs.at(torch.from_numpy(rows)))
    groups = None if part.groups is None else part.groups[rows]
    observed = part.observed.take(rows)
    hints = None if part.hints is None else part.hints[rows]
    return Part(
        part.ids[rows], inputs, observed, part.truth, of=part.of, groups=groups, hints=hints
    )


def light_predictor(training: Training, calibration: Calibration) -> Predictor:
    """The trained model without the data and the per-item buffers of its method."""
    from plusone.build import blank_labels, build
    from plusone.device import CPU
    from plusone.prediction.load import Predictor

    task, recipe = training.task, training.recipe
    labels = blank_labels(len(task.classes), training.k, recipe.seed, task.shape)
    _, method = build(recipe, labels, task.shape, images=False)
    model = training.model.eval().to(CPU)
    shape, hierarchy = task.shape, task.hierarchy
    return Predictor(
        recipe, task.classes, shape, False, model, method, calibration, hierarchy=hierarchy
    )


class PlusOneClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A multi-label classifier trained from incomplete labels, as few as one per item.

    It is a linear model on the features it is given (for `lac` one with an embedding per class), so
    give it embeddings of a good network. See `docs/classifier.md`.

    Args:
        method: How to learn from incomplete labels, a name in `plusone.METHODS`; None chooses by
            the number of items.
        options: Options of the method, by name.
        epochs: Passes over the training items; default 25.
        lr: Learning rate; None chooses by the method, the features and the number of steps.
        batch_size: Items per step; None chooses by the number of items and the size of the model.
        weight_decay: Weight decay; default none, or the method's own.
        patience: Epochs without improvement after which training stops; None trains all epochs.
        validation_fraction: Share of the items that is held out to choose the best epoch and the
            probabilities on; None is a fifth, at most 5,000 items. Not used if `fit` gets
            validation items.
        expected_positives: How many labels an item has on average (k). Some methods need it, and
            the probabilities depend on it: without it, it is estimated.
        threshold: A probability above which a label is predicted, one for all classes or one for
            each; None chooses one per class by the expected F1.
        device: What trains: "auto" (the default: the accelerator that torch finds, else the CPU),
            "cpu", "cuda", "mps" and so on. Predictions are made on the CPU, so that a fitted
            classifier can be stored and used anywhere.
        settings: Other settings of a recipe, by name, such as `{"optimizer": "adamw"}`.
        rules: Whether what is not given is chosen by rules that look at the data, as `plusone
            train` does; False leaves the recipe's defaults.
        random_state: Seed of initial weights, batch order and held-out items.
        verbose: 1 prints a line per epoch.

    Attributes:
        classes_: Names of the classes `[L]`, in the order of the columns of all results.
        thresholds_: Probability above which each class is predicted `[L]`.
        n_features_in_: Number of features.
        feature_names_in_: Their names, if the inputs have any (a DataFrame).
        n_iter_: Number of epochs trained.
        best_epoch_: The epoch whose weights were kept, from 1, counted within its stage.
        history_: One dict per epoch: losses, validation mAP, seconds.
        recipe_: All settings, including those chosen by the rules.
        rules_: Why those were chosen, a sentence each.
        predictor_: The trained model.
        calibration_: From its scores to probabilities.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")
        >>> seen = np.where(x[:, 0] > 0, "right", "left")
        >>> model = PlusOneClassifier("an", epochs=3, random_state=0).fit(x, seen)
        >>> model.classes_.tolist(), model.predict_proba(x[:5]).shape
        (['left', 'right'], (5, 2))
    """

    def __init__(
        self,
        method: str | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        epochs: int | None = None,
        lr: float | None = None,
        batch_size: int | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        validation_fraction: float | None = None,
        expected_positives: float | None = None,
        threshold: float | npt.ArrayLike | None = None,
        device: str | None = None,
        settings: Mapping[str, Any] | None = None,
        rules: bool = True,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.method = method
        self.options = options
        self.epochs = epochs
        self.lr = lr
        self.batch_size = batch_size
        self.weight_decay = weight_decay
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.expected_positives = expected_positives
        self.threshold = threshold
        self.device = device
        self.settings = settings
        self.rules = rules
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        *,
        groups: npt.ArrayLike | None = None,
        hints: npt.ArrayLike | None = None,
        validation: tuple[Any, Any] | None = None,
    ) -> PlusOneClassifier:
        """Trains the model.

        Args:
            X: Features `[N, D]`: array, tensor or DataFrame; a table of polars, DuckDB or pyarrow
                with one column of vectors, or a column for each feature.
            y: Seen labels: one class per item, lists of labels, or a matrix `[N, L]` of 1
                (present), 0 (unobserved) and -1 (absent), dense or sparse; see
                `plusone.estimator.labels`.
            sample_weight: Weight of each item, `[N]`: an item of weight 2 is sampled twice as often
                as one of weight 1, and counts twice if it is held out. Items of weight 0 are
                left out.
            groups: Group of each item, `[N]`, names or whole numbers, where items belong together:
                items of a group are held out together, and left out together by a closed form.
            hints: Scores of the items from elsewhere in [0, 1], `[N, L]` with the columns of
                `classes_`, NaN where there is none; for the methods that learn from them.
            validation: (X, y) to choose the epoch and the probabilities on, instead of held-out
                items; if its y is a matrix without zeros, it is taken as complete. With `groups`,
                each of its items is a group of its own.
        """
        from plusone.autorecipe import facts_of
        from plusone.training.rates import begin_run

        x, labels = self._inputs(X, reset=True), read_labels(y)
        weights = self._weights(sample_weight, x)
        check_labels(x, labels)
        number = None if groups is None else _numbered(groups, len(x))
        scores = None if hints is None else _hints(hints, (len(x), len(labels.classes)))
        random = check_random_state(self.random_state)
        seed = int(random.randint(np.iinfo(np.int32).max))
        matrix = labels.matrix
        if weights is not None:
            positive = weights > 0
            if not positive.all():
                x, matrix = x[positive], matrix.take(np.flatnonzero(positive))
                number = None if number is None else number[positive]
                scores = None if scores is None else scores[positive]
            weights = weights[positive]
        inputs: npt.NDArray[Any] | LazyArray = x
        if validation is None:
            fraction = self.validation_fraction
            share = suitable_fraction(len(matrix)) if fraction is None else float(fraction)
            is_held_out = held_out(matrix, share, random, number)
        else:
            val_inputs, val_labels = (
                self._inputs(validation[0]),
                self._known(validation[1], labels.classes),
            )
            check_labels(val_inputs, val_labels)
            is_held_out = np.arange(len(x) + len(val_inputs)) >= len(x)
            matrix, inputs = stacked(matrix, val_labels.matrix), joined([x, val_inputs])
            if number is not None:
                number = np.append(number, number.max() + 1 + np.arange(len(val_inputs)))
            if scores is not None:
                none = np.full((len(val_inputs), scores.shape[1]), np.nan, dtype=np.float32)
                scores = np.concatenate([scores, none])
        names = tuple(str(name) for name in labels.classes)
        ids, split = (
            np.arange(len(is_held_out)).astype(np.str_),
            np.where(is_held_out, "val", "train"),
        )
        names_of_groups = None if number is None else number.astype(np.str_)
        table = LabelTable(ids, names, matrix, split=split, groups=names_of_groups, hints=scores)
        data = Dataset(table, inputs, "arrays")
        if validation is None:  # the rules look at all items, as those of `plusone train` do
            table, share = replace(table, split=None), float(is_held_out.mean())
            facts = partial(facts_of, Dataset(table, inputs, "arrays"), share)
        else:
            facts = partial(facts_of, data)
        composed = self._compose(facts, seed)
        if composed.recipe.hint_features:
            raise InputError("hint_features: append the hints to the columns of X yourself")
        task = make_items(data, weights, composed.recipe)
        composed, training, epochs = begin_run(task, composed)
        self._keep(training, epochs, labels)
        self.rules_ = composed.rules
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.float32]:
        """Probabilities `[N, L]`; they do not add up to 1, an item may have several labels.

        They are calibrated, if there were enough held-out items (`calibration_.sentence()` says).
        """
        return torch.sigmoid(self.calibration_(self._scores(X))).numpy()

    def decision_function(self, X: Any) -> npt.NDArray[np.float32]:
        """Log-odds of the method's raw scores `[N, L]`, not calibrated.

        Every column ranks the items as `predict_proba` does.
        """
        return self._scores(X).numpy()

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """A matrix `[N, L]`: 1 where the probability is above the threshold of the class."""
        probabilities = self.predict_proba(X)
        return (probabilities > self.thresholds_).astype(np.int64)

    def score(self, X: Any, y: Any) -> float:
        """Mean average precision of the probabilities, in [0, 1].

        Args:
            X: Features `[N, D]`.
            y: True or seen labels, in any form that `fit` takes. Beside 1 and -1, a 0 in a matrix
                is unknown and left out; without a class that has both, everything but 1 counts as
                negative. Classes without a positive are left out.
        """
        from plusone.metrics import mean_average_precision
        from plusone.metrics.known import MEANINGS, against

        scores = self.decision_function(X)  # probabilities would tie where they round to 1
        labels = self._known(y, self.classes_)
        check_lengths(len(scores), len(labels.matrix))
        if not (labels.matrix.values == 1).any():
            raise InputError("y has no positive label of a class of this model: no score exists")
        unknown = MEANINGS[against(labels.matrix)][0]
        return mean_average_precision(scores, labels.matrix.dense(), unknown=unknown)

    def __getstate__(self) -> dict[str, Any]:
        """Plain values and NumPy arrays, so that skops can store a fitted classifier."""
        from plusone.prediction.plain_state import plain_state

        state: dict[str, Any] = super().__getstate__()
        if "predictor_" in state:
            state = {name: value for name, value in state.items() if name != "recipe_"}
            state["predictor_"] = plain_state(self.predictor_)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        from plusone.prediction.plain_state import from_plain_state

        if isinstance(state.get("predictor_"), dict):  # up to release 0.2 it was the object itself
            predictor = from_plain_state(state["predictor_"])
            state = state | {"predictor_": predictor, "recipe_": predictor.recipe}
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags

    def _inputs(self, X: Any, *, reset: bool = False) -> npt.NDArray[Any]:
        """Inputs as a validated array of float32 or float16."""
        if np.ma.is_masked(X):
            raise InputError("X has masked values; fill them, or leave those items out")
        if isinstance(X, Tensor):
            X = X.detach().cpu()
            X = (X.float() if X.dtype == torch.bfloat16 else X).numpy()
        x: npt.NDArray[Any] = validate_data(
            self, numbers(X), reset=reset, dtype=[np.float32, np.float16], accept_sparse=False
        )
        return x

    def _weights(self, sample_weight: npt.ArrayLike | None, x: npt.NDArray[Any]) -> Weights | None:
        if sample_weight is None:
            return None
        weights: Weights = _check_sample_weight(
            sample_weight, x, dtype=np.float64, ensure_non_negative=True
        )
        if np.count_nonzero(weights) < 2:
            raise InputError("sample_weight is zero for all items but one; nothing can be learned")
        if weights.max() > LARGEST_WEIGHT:
            raise InputError(
                f"sample_weight has the value {weights.max():.3g}, above {LARGEST_WEIGHT:g}; only "
                "ratios count, so divide all of them by the largest"
            )
        return weights

    def _known(self, y: Any, classes: npt.NDArray[Any]) -> Labels:
        """Labels over given classes; others are left out with a warning."""
        labels = read_labels(y, classes)
        if labels.unknown:
            listed = ", ".join(repr(name) for name in labels.unknown[:5])
            warnings.warn(
                f"{len(labels.unknown)} classes of y were not seen in fit and are left out: "
                f"{listed}{' ...' if len(labels.unknown) > 5 else ''}",
                stacklevel=3,
            )
        return labels

    def _compose(self, facts: Callable[[], Facts], seed: int) -> Composed:
        """The settings: those given, and the others as `plusone train` would choose them."""
        from plusone.autorecipe import compose

        names = (
            "method", "options", "epochs", "lr", "batch_size", "weight_decay", "patience",
            "expected_positives", "device",
        )  # fmt: skip
        values = {name: getattr(self, name) for name in names}
        parameters = {name: _plain(value) for name, value in values.items() if value is not None}
        settings = {name: _plain(value) for name, value in (self.settings or {}).items()}
        return compose(
            (lambda _: facts()) if self.rules else None,  # the held-out items are chosen already
            parameters,
            settings,
            {"seed": seed, "probe": "off"},
            source="PlusOneClassifier",
        )

    def _keep(self, training: Training, records: Iterable[EpochRecord], labels: Labels) -> None:
        """Sets the fitted attributes from a run, once its epochs are through."""
        from plusone.training.summary import calibrate

        self.history_ = []
        epochs = sum(stage.epochs for stage in training.stages)
        for record in records:
            self.history_.append(record.to_json())
            for remark in record.remarks:
                warnings.warn(remark, stacklevel=3)
            if self.verbose:
                print(_line(record, len(self.history_), epochs))
        self.n_iter_ = len(self.history_)
        assert training.best is not None
        self.best_epoch_ = training.best.epoch
        self.classes_ = labels.classes
        self.recipe_ = training.recipe
        calibration, thresholds = calibrate(training)
        self.predictor_ = light_predictor(training, calibration)
        self.thresholds_ = self._thresholds(thresholds)

    @property
    def calibration_(self) -> Calibration:
        """From the scores of the model to probabilities."""
        check_is_fitted(self)
        calibration: Calibration = self.predictor_.calibration
        return calibration

    def _thresholds(self, chosen: Thresholds) -> npt.NDArray[np.float64]:
        """As given, or as chosen by the calibrated probabilities."""
        n_classes = len(chosen.values)
        if self.threshold is not None:
            thresholds = np.asarray(self.threshold, dtype=np.float64)
            within = ((thresholds >= 0) & (thresholds <= 1)).all()
            if thresholds.shape not in ((), (n_classes,)) or not within:
                raise InputError(
                    f"threshold must be a number between 0 and 1, or one for each of {n_classes} "
                    "classes"
                )
            return np.broadcast_to(thresholds, (n_classes,)).copy()
        return chosen.array

    def _scores(self, X: Any) -> Tensor:
        """Log-odds of the raw scores `[N, L]`."""
        from plusone.inputs.loader import MappedInputs

        check_is_fitted(self)
        predictor: Predictor = self.predictor_
        return predictor.raw.log_odds(MappedInputs(LazyArray([self._inputs(X)])))


def _line(record: EpochRecord, done: int, epochs: int) -> str:
    losses = "  ".join(f"{name} {value:.4f}" for name, value in record.losses.items())
    best = "  best so far" if record.best else ""
    return (
        f"epoch {done}/{epochs}  {losses}  validation mAP {100 * record.val_map:.2f}  "
        f"{record.seconds:.1f} s{best}"
    )
