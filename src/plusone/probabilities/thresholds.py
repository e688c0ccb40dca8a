"""One threshold per class: above which probability a label is predicted.

They follow from the calibrated probabilities of held-out items at the end of a run and are
written to the run as `thresholds.json`, which may be edited. Without that file every class has 0.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from plusone.data.hierarchy import Hierarchy
from plusone.errors import InputError
from plusone.io.files import write_json
from plusone.io.readers import read_json
from plusone.metrics.threshold import thresholds_by_expected_f1, thresholds_from
from plusone.probabilities.calibration import Calibration, HeldOut
from plusone.probabilities.consistent import consistent_array

FILE = "thresholds.json"
DEFAULT = 0.5
EDGE = 1e-12  # thresholds of 0 and 1 have no finite log-odds
ORIGINS = {
    "probabilities": "by the expected F1 under the calibrated probabilities",
    "truth": "from all labels of the validation items",
    "seen": "from the seen labels of the validation items",
    "precision": "for the wanted precision",
    "recall": "for the wanted recall",
    "given": "as given",
    "none": "0.5, because the run holds none",
}

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Thresholds:
    """One threshold per class, and where they come from.

    Args:
        values: `L` numbers between 0 and 1.
        origin: A key of `ORIGINS`.
    """

    values: tuple[float, ...]
    origin: str

    @classmethod
    def same(cls, value: float, n_classes: int, origin: str = "given") -> Thresholds:
        """The same threshold for every class; `InputError` if no probability can be there."""
        if not 0 <= value <= 1:
            raise InputError(f"the threshold {value:g} is not between 0 and 1")
        return cls((value,) * n_classes, origin)

    @property
    def array(self) -> Floats:
        """As an array `[L]`."""
        return np.asarray(self.values, dtype=np.float64)

    @property
    def by_class(self) -> bool:
        """Whether every class has its own threshold."""
        return self.origin in ("probabilities", "truth", "seen") or len(set(self.values)) > 1

    def of_scores(self, calibration: Calibration) -> Thresholds:
        """The same thresholds for the raw scores behind calibrated probabilities."""
        p = np.clip(self.array, EDGE, 1 - EDGE)
        logits = calibration.inverse(np.log(p) - np.log1p(-p))
        scores = torch.sigmoid(torch.from_numpy(logits))
        return Thresholds(tuple(scores.tolist()), self.origin)

    def never(self, classes: npt.NDArray[np.bool_]) -> Thresholds:
        """The same, but 1 for some classes `[L]`, which no probability exceeds."""
        return Thresholds(tuple(np.where(classes, 1.0, self.array).tolist()), self.origin)

    def within(self, hierarchy: Hierarchy | None) -> Thresholds:
        """The same, but none above that of a class below it: then tags agree with a hierarchy."""
        values = -consistent_array(-self.array, hierarchy)
        return Thresholds(tuple(values.tolist()), self.origin)

    def by_name(self, classes: Sequence[str]) -> dict[str, float]:
        """The threshold of each class by its name."""
        return dict(zip(classes, self.values, strict=True))

    def sentence(self) -> str:
        """A sentence that describes them."""
        if self.by_class:
            return f"thresholds: per class, {ORIGINS[self.origin]}"
        value = f"{self.values[0]:g}" if self.values else "none"
        why = " (the run holds no thresholds of its own)" if self.origin == "none" else ""
        return f"threshold: {value} for every class{why}"


def find_thresholds(
    held_out: HeldOut, calibration: Calibration, k: float | None = None
) -> Thresholds:
    """Chooses thresholds on items that were not trained on.

    They follow from calibrated probabilities; where there are none, from the labels of the items.

    Args:
        held_out: Scores and labels of the items.
        calibration: From scores to probabilities.
        k: Expected number of positives per item, if known.
    """
    scores = torch.sigmoid(calibration(held_out.log_odds)).numpy()
    if calibration.calibrated:
        thresholds, origin = thresholds_by_expected_f1(scores), "probabilities"
    else:
        states = held_out.labels.dense()
        thresholds = thresholds_from(scores, states, expected_positives=k)
        origin = "seen" if (states == 0).any() else "truth"
    values = tuple(round(float(value), 8) for value in thresholds)  # scores may crowd near 0 or 1
    return Thresholds(values, origin)


def write_thresholds(folder: Path, classes: Sequence[str], thresholds: Thresholds) -> None:
    """Writes `thresholds.json` into a run folder."""
    by_name = thresholds.by_name(classes)
    write_json(folder / FILE, {"from": thresholds.origin, "thresholds": by_name})


def read_thresholds(folder: Path, classes: Sequence[str]) -> Thresholds:
    """The thresholds of a run; 0.5 for every class where it has none."""
    path = folder / FILE
    try:
        content: Any = read_json(path)
    except FileNotFoundError:
        return Thresholds.same(DEFAULT, len(classes), "none")
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    values = content.get("thresholds") if isinstance(content, Mapping) else None
    if not isinstance(values, Mapping) or str(content.get("from")) not in ORIGINS:
        raise InputError(f"{path}: is not what plusone train writes")
    for name in classes:
        value: Any = values.get(name)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not 0 <= value <= 1:
            raise InputError(
                f"{path}: the threshold of {name!r} is {value!r}, not a number between 0 and 1"
            )
    return Thresholds(tuple(float(values[name]) for name in classes), str(content["from"]))


def thresholds_for(run: Path, classes: Sequence[str], given: float | None) -> Thresholds:
    """The threshold of the user, or those of the run."""
    if given is not None:
        return Thresholds.same(given, len(classes))
    return read_thresholds(run, classes)
