"""Calibration of a run: the curve from its scores to probabilities, and what it was fitted on.

A method's scores rank labels; how large they are depends on its loss. At the end of a run they are
mapped to probabilities (`plusone.probabilities.curve`), by scores of items that the model was not
trained on. The result stands in the run folder as `calibration.json`. Runs without the file give
their raw scores, and say so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.io.files import write_json
from plusone.io.readers import read_json
from plusone.probabilities.answers import are_answers, mark_answers
from plusone.probabilities.curve import FEWEST, Curve, fit_curve, sample_rows
from plusone.probabilities.k import LabelsPerItem
from plusone.probabilities.picks import UNIFORM, PickModel, Salience

FILE = "calibration.json"
ORIGINS = ("truth", "seen", "audit", "none")
NO_FILE = "the run holds no calibration"


@dataclass(frozen=True)
class HeldOut:
    """Scores of items that a model was not trained on, and what is known of their labels.

    Args:
        log_odds: Log-odds of their scores, `[N, L]`.
        labels: Their labels; unobserved ones are 0.
        items: What the items are, for sentences.
        named: Which seen positives were named, where the others are answers.
        rows: Which items of the run they are, training items first, `[N]`; None for its last ones.
    """

    log_odds: Tensor
    labels: LabelMatrix
    items: str = "validation items"
    named: LabelMatrix | None = None
    rows: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Calibration(Curve):
    """A curve, and what it was fitted on.

    Args:
        knots: See `Curve`.
        slopes: See `Curve`.
        offsets: See `Curve`.
        origin: What it was fitted on: "truth" (all labels of held-out items), "seen" (their seen
            labels), "audit" (seen labels, and all labels of some items) or "none" (the identity).
        note: The same as a phrase; for the identity, why there is no calibration.
        k: Mean number of labels per item that was assumed; None for "truth" and "none".
        k_range: Where k is estimated, its range.
        salience: How readily each class is named, that was assumed; None if all the same.
    """

    origin: str
    note: str
    k: float | None = None
    k_range: tuple[float, float] | None = None
    salience: Salience | None = None

    @classmethod
    def none(cls, n_classes: int, why: str = NO_FILE) -> Calibration:
        """The identity: scores stay as they are."""
        return cls((), (1.0,), (0.0,) * n_classes, "none", why)

    @property
    def picks(self) -> PickModel:
        """How labels are picked, that was assumed."""
        return UNIFORM if self.salience is None else PickModel(self.salience.values)

    @property
    def calibrated(self) -> bool:
        """Whether it gives probabilities, not the raw scores."""
        return self.origin != "none"

    def about(self) -> dict[str, Any]:
        """What it was fitted on, as plain values."""
        k_range = None if self.k_range is None else list(self.k_range)
        salience = None if self.salience is None else self.salience.to_dict()
        about = {"from": self.origin, "note": self.note, "k": self.k, "k_range": k_range}
        return about | {"salience": salience}

    def sentence(self) -> str:
        """A sentence that describes it."""
        if not self.calibrated:
            return f"probabilities: raw scores, not calibrated ({self.note})"
        return f"probabilities: calibrated on {self.note}"

    def to_json(self, classes: Sequence[str]) -> dict[str, Any]:
        """The content of `calibration.json`."""
        return self.about() | {
            "knots": list(self.knots),
            "slopes": list(self.slopes),
            "offsets": dict(zip(classes, self.offsets, strict=True)),
        }

    @classmethod
    def from_json(
        cls, content: Any, classes: Sequence[str], source: str = "calibration"
    ) -> Calibration:
        """What `to_json` gave; errors name the source."""
        if not isinstance(content, Mapping) or content.get("from") not in ORIGINS:
            raise InputError(f"{source}: is not what plusone train writes")
        if content["from"] == "none":
            return cls.none(len(classes), str(content.get("note", NO_FILE)))
        offsets: Any = content.get("offsets")
        values = offsets if isinstance(offsets, Mapping) else {}
        knots, slopes = (_numbers(content.get(name), source) for name in ("knots", "slopes"))
        increasing = all(slope > 0 for slope in slopes) and list(knots) == sorted(knots)
        if len(slopes) != len(knots) + 1 or not increasing:
            raise InputError(f"{source}: its curve is not increasing; train again")
        return cls(
            knots,
            slopes,
            _numbers([values.get(name) for name in classes], source),
            str(content["from"]),
            str(content.get("note", "")),
            None if content.get("k") is None else _numbers([content["k"]], source)[0],
            _range(content.get("k_range"), source),
            _salience(content.get("salience"), len(classes), source),
        )


def fit_calibration(
    held_out: HeldOut, estimate: LabelsPerItem | None, k_note: str = "given"
) -> Calibration:
    """The most likely calibration.

    Args:
        held_out: Scores and labels of items that were not trained on.
        estimate: Mean number of labels per item, and how they are picked; not used where all labels
            are known.
        k_note: Where k comes from, for the sentence.

    Returns:
        The identity, with the reason, if too few items have labels.
    """
    n_classes = held_out.labels.n_classes
    k = None if estimate is None else estimate.k
    k_range, salience = None, None if estimate is None else estimate.salience
    if estimate is not None and estimate.source != "given":
        k_range = (estimate.low, estimate.high)
    states, log_odds = _known(held_out)
    complete = (states != 0).all(axis=1)
    n_complete, n_seen = int(complete.sum()), int((~complete).sum())
    n_answers = int(are_answers(states).sum())
    if max(n_complete, n_seen) < FEWEST or not (states == 1).any():
        return Calibration.none(
            n_classes,
            f"{n_complete + n_seen} {held_out.items} have seen labels, and {FEWEST} are needed",
        )
    if n_complete < FEWEST:
        seen = (states == 1).any(axis=1)
        states, log_odds = states[seen], log_odds[torch.from_numpy(seen)]
        complete = np.zeros(len(states), dtype=np.bool_)
    if n_seen == 0:
        k, salience, origin = None, None, "truth"
        note = f"all labels of {n_complete} {held_out.items}"
    else:
        by_answers = estimate is not None and estimate.source == "counted"
        counted = n_complete >= FEWEST and not by_answers
        if counted:
            k = float((states[complete] == 1).sum(axis=1).mean())
        elif k is not None:
            k = max(k, float((states == 1).sum(axis=1).mean()))  # no less than what was seen
        if k is None:
            return Calibration.none(n_classes, "the number of labels per item is not known")
        origin = "audit" if counted or by_answers else "seen"
        note = f"the seen labels of {n_seen} {held_out.items}"
        note += f" and all labels of {n_complete}" if n_complete >= FEWEST else ""
        note += f", {n_answers} answers among them" if n_answers else ""
        k_range = None if counted else k_range
        between = "" if k_range is None else ", {:.3g} to {:.3g}".format(*k_range)
        note += f", with {k:.3g} labels per item ({'counted' if counted else k_note}{between})"
    picks = UNIFORM if salience is None else PickModel(salience.values)
    curve = fit_curve(log_odds, states, k, complete=complete, picks=picks)
    k_range = None if k is None else k_range
    about = (origin, note, k, k_range, salience)
    return Calibration(curve.knots, curve.slopes, curve.offsets, *about)


def _known(held_out: HeldOut) -> tuple[npt.NDArray[np.int8], Tensor]:
    """Labels and scores of the items that say something, at most as many as are fitted on."""
    labels, named = held_out.labels, held_out.named
    informative = (labels.per_item(1) > 0) | (labels.per_item(0) == 0)
    rows = sample_rows(np.flatnonzero(informative), labels.n_classes)
    states = mark_answers(labels.take(rows), None if named is None else named.take(rows))
    return states, held_out.log_odds[torch.from_numpy(rows)].double()


def write_calibration(folder: Path, classes: Sequence[str], calibration: Calibration) -> None:
    """Writes `calibration.json` into a run folder."""
    write_json(folder / FILE, calibration.to_json(classes))


def read_calibration(folder: Path, classes: Sequence[str]) -> Calibration:
    """The calibration of a run; the identity where it has none."""
    path = folder / FILE
    try:
        content: Any = read_json(path)
    except FileNotFoundError:
        return Calibration.none(len(classes))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    return Calibration.from_json(content, classes, str(path))


def _salience(content: object, n_classes: int, source: str) -> Salience | None:
    """The saliences; None where there are none, as in runs of earlier versions."""
    if not isinstance(content, Mapping):
        return None
    values, error = _numbers(content.get("values"), source), content.get("error")
    errors = None if error is None else _numbers(error, source)
    if any(len(part) != n_classes for part in (values, errors or values)) or min(values) <= 0:
        raise InputError(f"{source}: saliences are positive numbers, one per class; train again")
    test = content.get("p_value")
    return Salience(values, errors, None if test is None else _numbers([test], source)[0])


def _range(ends: object, source: str) -> tuple[float, float] | None:
    """The range of k; None where there is none, as in runs of earlier versions."""
    if ends is None:
        return None
    numbers = _numbers(ends, source)
    if len(numbers) != 2:
        raise InputError(f"{source}: the range of k has two ends; train again")
    return numbers[0], numbers[1]


def _numbers(values: object, source: str) -> tuple[float, ...]:
    """A list of finite numbers, or an error."""
    entries: list[Any] = values if isinstance(values, list) else [None]
    for value in entries:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value):
            raise InputError(f"{source}: {value!r} is not a number; train again")
    return tuple(float(value) for value in entries)
