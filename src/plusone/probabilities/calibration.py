"""Calibration: from the scores of a model to probabilities.

A method's scores rank labels; how large they are depends on its loss. At the end of a training they
are mapped to probabilities by an increasing curve, one shape for all classes and an offset each,

    log-odds of the probability = f(log-odds of the score) + offset of the class,

with a piecewise linear f. Within a class the order of items does not change.

The curve is fitted on scores of items that the model was not trained on. Items with all labels
known enter by cross-entropy, items with some seen labels by the likelihood of the uniform pick
(`plusone.probabilities.picks`), with the mean number of labels per item held at k, because picks
alone hardly determine it. The result stands in the run folder as `calibration.json`. Runs without
the file give their raw scores, and say so.
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
from torch.nn.functional import binary_cross_entropy_with_logits

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.io.files import write_json
from plusone.io.readers import read_json
from plusone.probabilities._lbfgs import minimise
from plusone.probabilities.curve import FEWEST
from plusone.probabilities.picks import CERTAIN, log_likelihood, pick

FILE = "calibration.json"
ORIGINS = ("truth", "seen", "audit", "none")
NO_FILE = "the run holds no calibration"
QUANTILES = (0.2, 0.5, 0.8)  # of the scores of known positives: the knots of f
OFFSET_RIDGE = 1.0
SLOPE_RIDGE = 4.0  # of the logarithms of neighbouring slopes
STIFFNESS = 20.0  # weight of the penalty that holds k
STEPS = 100
SPREAD = 3.0  # of the scores in the units of the fit
MOST = 500_000  # labels that are fitted on
LEAST_ITEMS = 1_000  # that are fitted on, even if they have more labels

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class HeldOut:
    """Scores of items that a model was not trained on, and what is known of their labels.

    Args:
        log_odds: Log-odds of their scores, `[N, L]`.
        labels: Their labels; unobserved ones are 0.
        items: What the items are, for sentences.
    """

    log_odds: Tensor
    labels: LabelMatrix
    items: str = "validation items"


@dataclass(frozen=True)
class Calibration:
    """An increasing map from the log-odds of scores to those of probabilities.

    `y_l = offset_l + slope_0 x + sum_j (slope_{j+1} - slope_j) max(x - knot_j, 0)`; without knots,
    with slope 1 and offsets 0 it gives the scores themselves.

    Args:
        knots: `J` places where the slope changes, ascending.
        slopes: `J + 1` slopes, all positive.
        offsets: One per class.
        origin: What it was fitted on: "truth" (all labels of held-out items), "seen" (their seen
            labels), "audit" (seen labels, and all labels of some items) or "none" (the identity).
        note: The same as a phrase; for the identity, why there is no calibration.
        k: Mean number of labels per item that was assumed; None for "truth" and "none".
    """

    knots: tuple[float, ...]
    slopes: tuple[float, ...]
    offsets: tuple[float, ...]
    origin: str
    note: str
    k: float | None = None

    @classmethod
    def none(cls, n_classes: int, why: str = NO_FILE) -> Calibration:
        """The identity: scores stay as they are."""
        return cls((), (1.0,), (0.0,) * n_classes, "none", why)

    @property
    def calibrated(self) -> bool:
        """Whether it gives probabilities, not the raw scores."""
        return self.origin != "none"

    def __call__(self, log_odds: Tensor) -> Tensor:
        """Calibrated log-odds of the log-odds of scores, `[..., L]`."""
        if not self.calibrated:
            return log_odds
        result = torch.tensor(self.offsets, dtype=log_odds.dtype, device=log_odds.device)
        result = result + self.slopes[0] * log_odds
        for knot, before, after in zip(self.knots, self.slopes, self.slopes[1:], strict=False):
            result = result + (after - before) * (log_odds - knot).clamp(min=0)
        return result

    def inverse(self, log_odds: Floats) -> Floats:
        """The log-odds of the scores `[L]` that have these calibrated log-odds."""
        y = np.asarray(log_odds, dtype=np.float64) - np.asarray(self.offsets)
        knots, slopes = np.asarray(self.knots), np.asarray(self.slopes)
        # Without offsets: values at the knots, where the line through 0 changes its slope.
        values = slopes[0] * knots + np.array(
            [(np.diff(slopes)[:j] * (knots[j] - knots[:j])).sum() for j in range(len(knots))]
        )
        piece = np.searchsorted(values, y)
        first = np.maximum(piece - 1, 0)
        from_knot = (y - values[first]) / slopes[piece] + knots[first] if len(knots) else y
        return np.asarray(np.where(piece == 0, y / slopes[0], from_knot))

    def about(self) -> dict[str, Any]:
        """What it was fitted on, as plain values."""
        return {"from": self.origin, "note": self.note, "k": self.k}

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


def fit_calibration(held_out: HeldOut, k: float | None, k_note: str = "given") -> Calibration:
    """The most likely calibration.

    Args:
        held_out: Scores and labels of items that were not trained on.
        k: Mean number of labels per item; not used where all labels are known.
        k_note: Where k comes from, for the sentence.

    Returns:
        The identity, with the reason, if too few items have labels.
    """
    n_classes = held_out.labels.n_classes
    states, log_odds = _known(held_out)
    complete = (states != 0).all(axis=1)
    n_complete, n_seen = int(complete.sum()), int((~complete).sum())
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
        k, origin = None, "truth"
        note = f"all labels of {n_complete} {held_out.items}"
    else:
        counted = n_complete >= FEWEST
        if counted:
            k = float((states[complete] == 1).sum(axis=1).mean())
        elif k is not None:
            k = max(k, float((states == 1).sum(axis=1).mean()))  # no less than what was seen
        if k is None:
            return Calibration.none(n_classes, "the number of labels per item is not known")
        origin = "audit" if counted else "seen"
        note = f"the seen labels of {n_seen} {held_out.items}"
        note += f" and all labels of {n_complete}" if counted else ""
        note += f", with {k:.3g} labels per item ({'counted' if counted else k_note})"
    knots, slopes, offsets = _fit(log_odds, states, complete, k)
    return Calibration(knots, slopes, offsets, origin, note, k)


def _known(held_out: HeldOut) -> tuple[npt.NDArray[np.int8], Tensor]:
    """Labels and scores of the items that say something, at most as many as are fitted on."""
    labels = held_out.labels
    informative = (labels.per_item(1) > 0) | (labels.per_item(0) == 0)
    rows = np.flatnonzero(informative)
    most = max(MOST // max(labels.n_classes, 1), LEAST_ITEMS)
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
    return labels.dense(rows), held_out.log_odds[torch.from_numpy(rows)].double()


def _fit(
    log_odds: Tensor, states: npt.NDArray[np.int8], complete: npt.NDArray[np.bool_], k: float | None
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Knots, slopes and offsets.

    Args:
        log_odds: Log-odds of scores, float64 `[N, L]`.
        states: Labels, `[N, L]`; every item has a seen positive, or all labels.
        complete: Which items enter by all their labels, `[N]`.
        k: Mean number of labels per item to hold, if given.
    """
    unit = float(log_odds.std()) / SPREAD or 1.0
    x = log_odds / unit
    positive = torch.from_numpy(states == 1)
    knots = torch.quantile(x[positive][:MOST], torch.tensor(QUANTILES, dtype=x.dtype))
    all_known, some_known = torch.from_numpy(complete), torch.from_numpy(~complete)
    picked = pick(states[~complete], np.random.default_rng(0))
    others = positive[some_known].scatter(1, picked.label[:, None], False)
    truth = positive[all_known].to(x.dtype)

    def curve(shift: Tensor, log_slopes: Tensor, offsets: Tensor) -> Tensor:
        slopes = log_slopes.exp()
        y: Tensor = shift + offsets + slopes[0] * x
        for knot, change in zip(knots, slopes.diff(), strict=True):
            y = y + change * (x - knot).clamp(min=0)
        return y

    def cost(shift: Tensor, log_slopes: Tensor, offsets: Tensor) -> Tensor:
        z = curve(shift, log_slopes, offsets)
        ridge = (
            OFFSET_RIDGE * offsets.square().sum() + SLOPE_RIDGE * log_slopes.diff().square().sum()
        )
        total = ridge / 2
        if len(truth):
            total = total + binary_cross_entropy_with_logits(z[all_known], truth, reduction="sum")
        if len(picked):
            certain = z[some_known].masked_fill(others, CERTAIN)
            total = total - log_likelihood(certain, picked).sum()
        held = 0.0 if k is None else (torch.sigmoid(z).sum(dim=1).mean() / k - 1) ** 2
        return total / len(z) + STIFFNESS * held

    start = [
        torch.zeros((), dtype=x.dtype),
        torch.full((len(QUANTILES) + 1,), -0.5, dtype=x.dtype),
        torch.zeros(x.shape[1], dtype=x.dtype),
    ]
    shift, log_slopes, offsets = minimise(cost, start, steps=STEPS)
    return (
        tuple((knots * unit).tolist()),
        tuple((log_slopes.exp() / unit).tolist()),
        tuple((shift + offsets).tolist()),
    )


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
    if not isinstance(content, Mapping) or content.get("from") not in ORIGINS:
        raise InputError(f"{path}: is not what plusone train writes")
    if content["from"] == "none":
        return Calibration.none(len(classes), str(content.get("note", NO_FILE)))
    offsets: Any = content.get("offsets")
    values = offsets if isinstance(offsets, Mapping) else {}
    knots, slopes = _numbers(content.get("knots"), path), _numbers(content.get("slopes"), path)
    increasing = all(slope > 0 for slope in slopes) and list(knots) == sorted(knots)
    if len(slopes) != len(knots) + 1 or not increasing:
        raise InputError(f"{path}: its curve is not increasing; train again")
    return Calibration(
        knots,
        slopes,
        _numbers([values.get(name) for name in classes], path),
        str(content["from"]),
        str(content.get("note", "")),
        None if content.get("k") is None else _numbers([content["k"]], path)[0],
    )


def _numbers(values: object, path: Path) -> tuple[float, ...]:
    """A list of finite numbers, or an error."""
    entries: list[Any] = values if isinstance(values, list) else [None]
    for value in entries:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value):
            raise InputError(f"{path}: {value!r} is not a number; train again")
    return tuple(float(value) for value in entries)
