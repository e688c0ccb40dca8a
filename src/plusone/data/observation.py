"""Observation schemes: which labels an annotator gives, as pure functions of (truth, scheme, seed).

`single` under the protocol of Cole et al. 2021 ("Multi-Label Learning from Single Positive
Labels", CVPR) is reproduced bit for bit: one `numpy.random.RandomState(seed)`; row by row, first
the positives and then the negatives are shuffled, and the first of each are kept. The negatives
are shuffled even if none is kept, so that the random numbers match those of the released code.
"""

from __future__ import annotations

import ast
import csv
import io
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from plusone.data.boxes import CENTRAL, Boxes, read_boxes
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.io.readers import read_text

ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Observation:
    """The outcome of a scheme.

    Args:
        labels: The observed labels, three states `[N, L]`.
        questions: Number of yes/no questions per item, int64 `[N]`; None if none were asked.
    """

    labels: LabelMatrix
    questions: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Single:
    """One positive per item, picked uniformly; nothing else.

    Args:
        protocol: "cole2021" repeats the published labels bit for bit, at a cost that grows with
            N x L; "fast" draws from the same distribution at a cost that grows with the positives.
    """

    protocol: str = "cole2021"

    def __post_init__(self) -> None:
        if self.protocol not in ("cole2021", "fast"):
            raise InputError(f"protocol must be 'cole2021' or 'fast', not {self.protocol!r}")

    def __call__(self, truth: LabelMatrix, seed: int) -> Observation:
        if self.protocol == "fast":
            return Biased(np.ones(truth.n_classes))(truth, seed)
        return PositivesAndNegatives(1, 0)(truth, seed)


@dataclass(frozen=True)
class All:
    """Every label, positive and negative."""

    def __call__(self, truth: LabelMatrix, seed: int) -> Observation:
        return Observation(truth.only_positives(default=-1))


@dataclass(frozen=True)
class PositivesAndNegatives:
    """Up to `n_pos` positives and `n_neg` negatives per item, picked uniformly; None means all.

    (1, 1) is what the IU reference of Cole et al. sees, (1, None) what IUN sees.
    """

    n_pos: int | None = 1
    n_neg: int | None = 0

    def __post_init__(self) -> None:
        for name, count in asdict(self).items():
            if count is not None and (not isinstance(count, int) or count < 0):
                raise InputError(f"{name} must be a whole number from 0 up or None, not {count!r}")

    def __call__(self, truth: LabelMatrix, seed: int) -> Observation:
        if self.n_pos == 1 and self.n_neg == 0 and (truth.per_item(1) <= 1).all():
            return Observation(truth.only_positives())  # nothing to pick: spare the shuffling
        rng = np.random.RandomState(seed)
        every_class = np.arange(truth.n_classes)
        negatives = every_class.copy()
        rows: list[int] = []
        columns: list[npt.NDArray[Any]] = []
        values: list[int] = []
        for row in range(len(truth)):
            positives = truth.positives(row).copy()
            if self.n_neg:
                negatives = np.delete(every_class, positives)
            rng.shuffle(positives)
            rng.shuffle(negatives[: truth.n_classes - len(positives)])
            rows += [row, row]
            columns += [positives[: self.n_pos], negatives[: self.n_neg or 0]]
            values += [1, -1]
        counts = [len(classes) for classes in columns]
        seen = LabelMatrix.from_entries(
            np.repeat(rows, counts),
            np.concatenate(columns) if columns else [],
            np.repeat(values, counts),
            truth.shape,
        )
        return Observation(_with_all_negatives(seen, truth) if self.n_neg is None else seen)


@dataclass(frozen=True)
class Fraction:
    """Each positive is kept with probability `q`: the general missing-label setting."""

    q: float

    def __post_init__(self) -> None:
        if not 0 <= self.q <= 1:
            raise InputError(f"fraction(q) needs a q between 0 and 1, not {self.q}")

    def __call__(self, truth: LabelMatrix, seed: int) -> Observation:
        positives = truth.only_positives()
        keep = np.random.default_rng(seed).random(positives.nnz) < self.q
        rows = positives.row_of_entry()[keep]
        return Observation(LabelMatrix.from_entries(rows, positives.indices[keep], 1, truth.shape))


@dataclass(frozen=True)
class Partial:
    """Each label, positive or negative, is known with probability `p`: the partial-label setting.

    Labels that are not known stay unobserved, so an item may have no seen positive.
    """

    p: float

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise InputError(
                f"partial(p) needs a p between 0 and 1, not {self.p}; 10 % is partial(0.1)"
            )

    def __call__(self, truth: LabelMatrix, seed: int) -> Observation:
        rng = np.random.default_rng(seed)
        parts = [
            np.where(rng.random((len(rows), truth.n_classes)) < self.p, truth.dense(rows), 0)
            for start in range(0, len(truth), ROWS_AT_ONCE)
            for rows in [np.arange(start, min(start + ROWS_AT_ONCE, len(truth)))]
        ]
        empty = LabelMatrix.from_entries([], [], [], (0, truth.n_classes))
        kept = [LabelMatrix.from_dense(part) for part in parts]
        return Observation(LabelMatrix.concatenate(kept or [empty]))


@dataclass(frozen=True)
class Biased:
    """One positive per item, picked in proportion to weights: annotators have preferences.

    Args:
        weights: One per class `[L]` (some classes are more familiar) or one per label `[N, L]`
            (larger objects are noticed first). They are normalised over the positives of each
            item. An item whose positives all have weight 0 gets no label.
    """

    weights: tuple[float, ...] | npt.NDArray[np.floating[Any]]

    def __call__(self, truth: LabelMatrix, seed: int) -> Observation:
        try:
            weights = np.asarray(self.weights, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("biased weights must be numbers") from None
        if weights.shape not in ((truth.n_classes,), truth.shape):
            raise InputError(
                f"biased weights have shape {weights.shape}; expected one per class "
                f"({truth.n_classes},) or one per label {truth.shape}"
            )
        if not np.isfinite(weights).all() or (weights < 0).any():
            raise InputError("biased weights must be finite and not negative")
        positives = truth.only_positives()
        rows, columns = positives.row_of_entry(), positives.indices
        weight = weights[columns] if weights.ndim == 1 else weights[rows, columns]
        # Among exponentials with rates w, entry i is the smallest with probability w_i / sum w.
        with np.errstate(divide="ignore"):
            arrival = np.random.default_rng(seed).exponential(size=len(rows)) / weight
        order = np.lexsort((arrival, rows))
        order = order[np.isfinite(arrival[order])]
        _, first = np.unique(rows[order], return_index=True)
        picked = order[first]
        return Observation(LabelMatrix.from_entries(rows[picked], columns[picked], 1, truth.shape))


@dataclass(frozen=True)
class YesNo:
    """Classes are asked about one by one in random order until a yes (LASD, section 5.1).

    The positive is then uniform among the item's positives. The "no" answers before it are seen
    negatives if `keep_negatives` is true; by default they are dropped.
    """

    keep_negatives: bool = False

    def __call__(self, truth: LabelMatrix, seed: int) -> Observation:
        rng = np.random.default_rng(seed)
        questions = np.zeros(len(truth), dtype=np.int64)
        parts = []
        for start in range(0, len(truth), ROWS_AT_ONCE):
            chunk = truth.take(np.arange(start, min(start + ROWS_AT_ONCE, len(truth))))
            turn = rng.random(chunk.shape)  # classes are asked about in increasing order
            yes = chunk.dense() == 1
            first_yes = np.where(yes, turn, np.inf).min(axis=1, keepdims=True)
            asked = turn <= first_yes
            questions[start : start + len(chunk)] = asked.sum(axis=1)
            answers = np.where(asked & yes, 1, -1 if self.keep_negatives else 0)
            parts.append(LabelMatrix.from_dense(np.where(asked, answers, 0)))
        empty = LabelMatrix.from_entries([], [], [], (0, truth.n_classes))
        return Observation(LabelMatrix.concatenate(parts or [empty]), questions)


@dataclass(frozen=True)
class Frequent:
    """One positive per item: annotators prefer frequent classes, or rare ones.

    Args:
        power: A class is picked in proportion to the share of items that have it, to this power:
            0 is uniform, below 0 rare classes are preferred.
    """

    power: float = 1.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.power):
            raise InputError(f"frequent(power) needs a finite number, not {self.power}")

    def __call__(self, truth: LabelMatrix, seed: int) -> Observation:
        share = truth.per_class(1) / max(len(truth), 1)
        weights = np.where(share > 0, np.maximum(share, 1e-300) ** self.power, 0.0)
        return Biased(weights / max(weights.max(initial=0.0), 1e-300))(truth, seed)


@dataclass(frozen=True)
class Named:
    """One positive per item, in proportion to how often people name a class ("semantic").

    Args:
        weights: A CSV file with the columns `class` and `weight`, a row for every class.
    """

    weights: str

    def __call__(self, truth: LabelMatrix, seed: int) -> Observation:
        raise InputError(f"named('{self.weights}') needs a table with class names")

    def for_table(self, table: LabelTable) -> Biased:
        """The same with a weight for each class of the table."""
        rows = read_class_weights(Path(self.weights))
        if missing := [name for name in table.classes if name not in rows]:
            raise InputError(f"{self.weights}: has no weight for the class {missing[0]!r}")
        return Biased(tuple(rows[name] for name in table.classes))


@dataclass(frozen=True)
class Boxed:
    """One positive per item, picked by its objects; how, subclasses say.

    A positive without a box is not picked where its item has boxes. Items without any box get one
    of their positives uniformly; `observe_table` records how many had several to pick from.

    Args:
        boxes: A COCO instances file, a folder with some, or the folder `Annotations` of VOC
            (`plusone.data.boxes.read_boxes`).
    """

    boxes: str

    def __call__(self, truth: LabelMatrix, seed: int) -> Observation:
        raise InputError(f"the boxes of {self.boxes} need a table with the names of its items")

    def for_table(self, table: LabelTable) -> tuple[Biased, npt.NDArray[np.bool_]]:
        """The same with a weight for each label of the table, and which items have boxes `[N]`."""
        boxes = read_boxes(self.boxes, table)
        if table.truth is not None:
            boxes = boxes.of(table.truth.dense() == 1)
        known = boxes.known
        return Biased(np.where(known[:, None], self.weigh(boxes), 1.0)), known

    def weigh(self, boxes: Boxes) -> npt.NDArray[np.float64]:
        """Weights `[N, L]`."""
        raise NotImplementedError


@dataclass(frozen=True)
class Size(Boxed):
    """In proportion to the area of the class's objects (Arroyo et al. 2023)."""

    def weigh(self, boxes: Boxes) -> npt.NDArray[np.float64]:
        return boxes.area


@dataclass(frozen=True)
class Location(Boxed):
    """In inverse proportion to the distance from the centre (Arroyo et al. 2023)."""

    def weigh(self, boxes: Boxes) -> npt.NDArray[np.float64]:
        weights: npt.NDArray[np.float64] = 1 / np.maximum(boxes.distance, CENTRAL)
        return weights


@dataclass(frozen=True)
class Dominant(Boxed):
    """The label whose objects have the largest area."""

    def weigh(self, boxes: Boxes) -> npt.NDArray[np.float64]:
        largest: npt.NDArray[np.int64] = boxes.area.argmax(axis=1)
        return np.eye(boxes.area.shape[1], dtype=np.float64)[largest]


class Scheme(Protocol):
    """What a scheme is: a frozen dataclass that is called with all labels and a seed."""

    def __call__(self, truth: LabelMatrix, seed: int) -> Observation:
        """The labels that the annotator with this seed gives."""


SCHEMES: dict[str, Callable[..., Scheme]] = {
    "single": Single,
    "all": All,
    "positives_and_negatives": PositivesAndNegatives,
    "fraction": Fraction,
    "partial": Partial,
    "biased": Biased,
    "yes_no": YesNo,
    "frequent": Frequent,
    "named": Named,
    "size": Size,
    "location": Location,
    "dominant": Dominant,
}
GROUP = "plusone.schemes"  # of entry points: schemes of installed packages


def add_schemes(schemes: object, source: str) -> tuple[str, ...]:
    """Adds the schemes of a plug-in, frozen dataclasses by name; returns their names.

    Raises:
        InputError: They are not that, or a name is taken.
    """
    if not isinstance(schemes, Mapping) or not all(map(is_dataclass, schemes.values())):
        raise InputError(f"{source}: SCHEMES is not a dictionary of dataclasses by name")
    for name, build in schemes.items():
        if not str(name).isidentifier() or SCHEMES.get(name, build) is not build:
            raise InputError(
                f"{source}: an observation scheme cannot be called {name!r}: it is no plain word, "
                "or there is one of this name"
            )
    SCHEMES.update(schemes)
    return tuple(schemes)


def parse_scheme(text: str) -> Scheme:
    """Parses a scheme as written on the command line or in a recipe.

    >>> parse_scheme("positives_and_negatives(1, n_neg=None)")
    PositivesAndNegatives(n_pos=1, n_neg=None)
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if isinstance(call, ast.Name):
            name, args, keywords = call.id, [], {}
        elif isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            name = call.func.id
            args = [ast.literal_eval(value) for value in call.args]
            keywords = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
        else:
            raise SyntaxError
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise InputError(
            f"cannot read the observation scheme {text!r}; write a name or name(values), "
            "for example single or fraction(0.5)"
        ) from None
    for entry in () if name in SCHEMES else entry_points(group=GROUP, name=name):
        add_schemes({name: entry.load()}, entry.value)
    if name not in SCHEMES:
        raise InputError(
            f"unknown observation scheme {name!r}; known: {', '.join(SCHEMES)}; --plugin FILE adds "
            "schemes of your own"
        )
    try:
        return SCHEMES[name](*args, **keywords)
    except TypeError as error:
        raise InputError(f"observation scheme {text!r}: {error}") from None


def describe_scheme(scheme: Scheme) -> str:
    """The text from which `parse_scheme` restores a scheme (weights per label are summarised)."""
    name = next(name for name, build in SCHEMES.items() if type(scheme) is build)
    options = asdict(scheme)  # type: ignore[call-overload]
    if isinstance(scheme, Biased):
        weights = np.asarray(scheme.weights)
        if weights.ndim > 1:
            return f"biased(<weights {weights.shape[0]} x {weights.shape[1]}>)"
        options = {"weights": tuple(weights.tolist())}
    values = ", ".join(f"{key}={value!r}" for key, value in options.items())
    return f"{name}({values})" if values else name


def read_class_weights(path: Path) -> dict[str, float]:
    """Weights by class name of a CSV file with the columns `class` and `weight`."""
    try:
        text = read_text(path, encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: is not readable ({error})") from None
    rows = list(csv.reader(io.StringIO(text)))
    if not rows or rows[0] != ["class", "weight"]:
        raise InputError(f"{path}, row 1: needs the columns class,weight")
    weights: dict[str, float] = {}
    for number, row in enumerate(rows[1:], start=2):
        try:
            name, weight = row
            weights[name] = float(weight)
        except ValueError:
            raise InputError(f"{path}, row {number}: {row} is not a class and a number") from None
    return weights


def _with_all_negatives(seen: LabelMatrix, truth: LabelMatrix) -> LabelMatrix:
    """The seen positives plus every true negative; the other positives stay unobserved."""
    positives = truth.only_positives(default=-1)
    rows, columns = positives.row_of_entry(), positives.indices
    places = rows * truth.n_classes + columns
    is_seen = np.isin(places, seen.row_of_entry() * truth.n_classes + seen.indices)
    return LabelMatrix.from_entries(rows, columns, is_seen, truth.shape, default=-1)


Labels = TypeVar("Labels")


def observe(truth: Labels, scheme: str | Scheme = "single", seed: int = 1200) -> Labels:
    """Applies a scheme to full labels.

    Args:
        truth: All labels `[N, L]` as a `LabelMatrix`, a numpy array or a torch tensor; 1 is
            positive, 0 and -1 are negative.
        scheme: A scheme or its text, see `SCHEMES`.
        seed: Seed of the simulated annotator.

    Returns:
        The observed labels in three states (int8), in the same kind of container as `truth`.

    >>> observe(np.array([[1, 1, 0], [0, 0, 1]])).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    rule = parse_scheme(scheme) if isinstance(scheme, str) else scheme
    if isinstance(truth, LabelMatrix):
        return rule(truth, seed).labels  # type: ignore[return-value]
    if isinstance(truth, np.ndarray):
        matrix = LabelMatrix.from_dense(truth, default=-1)
        return rule(matrix, seed).labels.dense()  # type: ignore[return-value]
    import torch  # only for tensors: reading and observing tables must not need it

    if not isinstance(truth, torch.Tensor):
        kind = type(truth).__name__
        raise TypeError(f"truth must be a LabelMatrix, a numpy array or a tensor, not {kind}")
    seen = observe(truth.cpu().numpy(), rule, seed)
    return torch.from_numpy(seen).to(truth.device)  # type: ignore[return-value]


def observe_table(
    table: LabelTable, scheme: str | Scheme = "single", seed: int = 1200
) -> LabelTable:
    """Replaces the seen labels of a table by those that the scheme draws from its truth.

    Every split is observed separately with a fresh generator, as in the protocol, where each split
    is a file. Validation rows that `hold_out_validation` sets aside count as training rows in the
    protocol, so observe before holding out. Scheme, seed and the digest of the result are recorded
    in `observation`, and of schemes with boxes the number of items with several positives and no
    box, `without_boxes`, and the first of them.

    Where classes have a hierarchy, what is drawn is the most specific labels of each item, and the
    labels above a seen one are seen too.
    """
    if table.truth is None:
        raise InputError(
            "this table holds only seen labels, so there is nothing to hide; observation schemes "
            "need all labels (read it with labels=complete if its zeros are negatives)"
        )
    rule = parse_scheme(scheme) if isinstance(scheme, str) else scheme
    truth, hierarchy = table.truth, table.hierarchy
    if hierarchy is not None:  # annotators name the most specific labels
        truth = hierarchy.most_specific(truth)
    own = rule.for_table(table) if isinstance(rule, Named) else rule
    without: npt.NDArray[np.int64] | None = None
    if isinstance(rule, Boxed):
        own, known = rule.for_table(replace(table, truth=truth))
        without = np.flatnonzero(~known & (truth.per_item(1) > 1))
    order, labels, questions = [], [], []
    for name in ["train"] if table.split is None else list(dict.fromkeys(table.split.tolist())):
        rows = table.rows_of(name)
        result = _for_rows(own, rows)(truth.take(rows), seed)
        order.append(rows)
        labels.append(result.labels)
        questions.append(result.questions)
    seen = LabelMatrix.concatenate(labels).take(np.argsort(np.concatenate(order)))
    if hierarchy is not None:
        seen = hierarchy.closed(seen.unless_negative(table.truth))
    record: dict[str, object] = {
        "scheme": describe_scheme(rule),
        "seed": seed,
        "digest": seen.digest(),
    }
    if without is not None and len(without):
        record |= {"without_boxes": len(without), "first_without": str(table.ids[without[0]])}
    if questions[0] is not None:
        asked = np.concatenate([part for part in questions if part is not None])
        record |= {"questions": int(asked.sum()), "questions_per_item": float(asked.mean())}
    return replace(table, labels=seen, observation=record, named=None)


def _for_rows(rule: Scheme, rows: npt.NDArray[np.int64]) -> Scheme:
    """The scheme for a subset of the rows: weights per label are restricted to them."""
    if isinstance(rule, Biased) and np.ndim(rule.weights) == 2:
        return Biased(np.asarray(rule.weights)[rows])
    return rule
