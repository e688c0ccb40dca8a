"""Tags: what a run gives the owner of the photos, before any ranking figure.

Where no true labels are known, the calibrated probabilities of held-out items say what to expect.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plusone.errors import InputError
from plusone.prediction.guaranteed_thresholds import kept_of
from plusone.prediction.run_folder import read_description, read_observed
from plusone.probabilities.calibration import Calibration, read_calibration
from plusone.probabilities.thresholds import read_thresholds
from plusone.report.blocks import Code, Facts, Section
from plusone.report.material import Material
from plusone.results import RunResult

Floats = npt.NDArray[np.float64]

NAMED = 5  # classes that are found well, and badly
LEAST_GIVEN = 5  # photos that a class must be expected on to be named
INTRO = (
    "What to expect of the tags, by the probabilities of the model for items that it was not "
    "trained on. Nobody checked them: an audit of 100 photos does (plusone suggest --draw-audit "
    "100), and a review of the suggestions makes the model better."
)


@dataclass(frozen=True)
class Expected:
    """What the tags of held-out items are worth, if the probabilities are right.

    Args:
        items: How many items.
        seen: Tags per item that were given.
        calibration: Of the run.
        given: Items that get each class, `[L]`.
        right: How many of these have it, `[L]`.
        there: Items that have it, `[L]`; labels with a probability below 2 % do not count.
    """

    classes: tuple[str, ...]
    items: int
    seen: float
    calibration: Calibration
    given: Floats
    right: Floats
    there: Floats

    @property
    def quality(self) -> Floats:
        """The expected F1 of each class, `[L]`."""
        return np.asarray(2 * self.right / np.maximum(self.given + self.there, 1e-9))

    @property
    def ranked(self) -> list[str]:
        """Classes that some items are expected to have, those found best first."""
        order = np.argsort(-self.quality, kind="stable")
        return [self.classes[label] for label in order if self.there[label] >= LEAST_GIVEN]


def expected_of(run: RunResult) -> Expected | None:
    """What to expect of the tags of a run without true labels; None if it does not know."""
    if not run.run or run.against != "seen" or run.test_map is not None:
        return None
    folder = Path(run.run)
    try:
        classes = read_description(folder).classes
        calibration = read_calibration(folder, classes)
        kept, cuts = kept_of(folder), read_thresholds(folder, classes).array
        labels = read_observed(folder).labels
    except (InputError, OSError):
        return None
    if calibration.origin == "none":
        return None
    label, p = kept.label.numpy(), kept.probabilities(calibration)
    above = p > cuts[label]

    def by_class(values: npt.ArrayLike) -> Floats:
        return np.bincount(label, np.asarray(values, np.float64), len(classes)).astype(np.float64)

    seen = float(labels.per_item(1)[kept.row.numpy()].mean())
    right, there = by_class(p * above), by_class(p)
    return Expected(classes, len(kept.row), seen, calibration, by_class(above), right, there)


def tags(material: Material) -> Section | None:
    """The opening of the report of one run; None where true labels are known, or several runs."""
    run = material.groups[0].only if len(material.groups) == 1 else None
    expected = None if run is None else expected_of(run)
    if run is None or expected is None:
        return None
    n, given, right = expected.items, expected.given.sum(), expected.right.sum()
    k, between = expected.calibration.k, expected.calibration.k_range
    per_item = f"{expected.seen:.2g} in the data; the model gives {given / n:.2g}"
    if k is not None:
        ends = "" if between is None else " ({:.2g} to {:.2g})".format(*between)
        per_item += f"; about {k:.2g}{ends} are there"
    facts = [("tags per photo", per_item)]
    if given:
        found = right / max(float(expected.there.sum()), 1e-9)
        facts.append(
            (
                "how sure",
                f"about {10 * right / given:.0f} of 10 tags that it gives are right, and it finds "
                f"about {10 * found:.0f} of 10 that are there",
            )
        )
    ranked = expected.ranked
    if len(ranked) > 1:
        named = min(NAMED, len(ranked) // 2)
        facts.append(("found well", ", ".join(ranked[:named])))
        facts.append(("found badly", ", ".join(ranked[: -named - 1 : -1])))
    commands = "plusone suggest RUN --out suggestions\nplusone review suggestions"
    blocks = (Facts(tuple(facts)), Code("To find the missing tags, and to check them", commands))
    return Section("tags", "Tags", INTRO, blocks)
