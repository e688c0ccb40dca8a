"""From out-of-sample scores to calibrated probabilities, with an audit where there is one.

Scores are calibrated on the seen labels by a `Curve` (`plusone.probabilities.curve`). Answers of an
audit or a review then correct the probabilities (`plusone.probabilities.correction`). The
correction is also fitted without each part of the audited items in turn, so that these items can
tell how good the corrected probabilities are (`plusone.probabilities.accept`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.matrix import LabelMatrix
from plusone.probabilities.answers import Answers
from plusone.probabilities.correction import Correction, counted_once, fit_correction
from plusone.probabilities.curve import Floats, States, fit_to_picks
from plusone.probabilities.k import LabelsPerItem

FOLDS = 10  # of the audited items
NO_AUDIT = (
    "No audit: nobody checked any of these labels, so there is no confidence to state. The "
    "probabilities come from the seen labels alone and assume that each was picked at random among "
    "the labels of its item, and that an item has {k} labels on average ({origin}). If that is "
    "wrong, so are they.{careful}"
)
CAREFUL = " Labels are accepted as if items had fewer labels, closer to the lower end of the range."
AUDIT = (
    "Calibrated on {answers} answers about {items} items{of_groups} ({yes} of them yes), "
    "and on the seen labels with {k} labels per item ({origin})."
)


@dataclass(frozen=True)
class AuditCounts:
    """Size of an audit.

    Args:
        answers: Number of answers.
        items: Number of distinct items.
        yes: Number of answers that are yes.
        groups: Number of distinct groups; None if items belong to no groups.
    """

    answers: int
    items: int
    yes: int
    groups: int | None = None


@dataclass(frozen=True)
class CalibrationSummary:
    """What a calibration was based on.

    Args:
        k: Mean number of labels per item.
        audit: Size of the audit; None if there was none.
    """

    k: LabelsPerItem
    audit: AuditCounts | None = None

    @property
    def sentence(self) -> str:
        """The same as a sentence."""
        k, given = f"{self.k.k:.3g}", self.k.source == "given"
        estimated = f"estimated from the seen labels, {self.k.low:.3g} to {self.k.high:.3g}"
        origin = "as given" if given else estimated
        if self.audit is None:
            return NO_AUDIT.format(k=k, origin=origin, careful="" if given else CAREFUL)
        groups = self.audit.groups
        of_groups = "" if groups is None else f" of {groups} groups"
        return AUDIT.format(k=k, origin=origin, of_groups=of_groups, **asdict(self.audit))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "k": self.k.k,
            "k_from": self.k.source,
            "k_range": None if self.k.source == "given" else [self.k.low, self.k.high],
            "audit": None if self.audit is None else asdict(self.audit),
            "sentence": self.sentence,
        }


@dataclass(frozen=True)
class Checked:
    """An audit, and corrections fitted without some of its items.

    Args:
        answers: The answers of the audit.
        before: Their probabilities before the correction, `[m]`.
        fold: The part of the audit each belongs to, `[m]`; -1 for items not all of whose labels are
            known, which were chosen, not drawn.
        corrections: For each part, the correction that was fitted on the others.
    """

    answers: Answers
    before: Floats
    fold: npt.NDArray[np.int64]
    corrections: tuple[Correction, ...]


@dataclass(frozen=True)
class Calibrated:
    """Probabilities of all labels of all items.

    Args:
        probabilities: Given the seen labels of the item, float64 `[n, L]`; seen labels are 1 or 0.
        before: Probabilities before the correction by an audit, `[n, L]`.
        checked: The audit; None without one.
        summary: What the calibration was based on; None for probabilities from elsewhere.
        careful: Probabilities for a low estimate of k, by which labels are accepted that nobody
            checked, `[n, L]`; None with an audit or a k that is given.
    """

    probabilities: Floats
    before: Floats
    checked: Checked | None = None
    summary: CalibrationSummary | None = None
    careful: Floats | None = None


def calibrate(
    scores: npt.ArrayLike,
    observed: LabelMatrix,
    *,
    k: LabelsPerItem,
    answers: Answers | None = None,
    seed: int = 0,
) -> Calibrated:
    """Calibrates scores on the seen labels, and on the answers of an audit if there are any.

    Args:
        scores: Out-of-sample scores in `[0, 1]`, `[n, L]`.
        observed: Seen labels, `[n, L]`.
        k: Mean number of labels per item.
        answers: Answers of an audit or a review.
        seed: Seed of the parts of the audit.
    """
    states, values = observed.dense(), np.asarray(scores, dtype=np.float64)
    without_answers = states.copy()
    if answers is not None:
        without_answers[answers.row, answers.label] = 0  # a run may have seen the answers
    curve = fit_to_picks(values, without_answers, k.k, seed=seed)
    before = curve.given_seen(values, states)
    if answers is None:
        careful = None
        if k.source == "estimated":
            low = fit_to_picks(values, states, k.cautious, seed=seed)
            careful = low.given_seen(values, states)
        return Calibrated(before, before, None, CalibrationSummary(k), careful)
    audited = curve.given_seen(values, without_answers)[answers.row, answers.label]
    counts = AuditCounts(len(answers), answers.items, int(answers.yes.sum()), answers.n_groups)
    summary = CalibrationSummary(k, counts)
    return replace(correct(before, states, answers, audited, seed=seed), summary=summary)


def correct(
    before: Floats, states: States, answers: Answers, audited: Floats, *, seed: int = 0
) -> Calibrated:
    """Probabilities corrected by answers.

    Args:
        before: Probabilities without the answers, `[n, L]`.
        states: Seen labels, `[n, L]`.
        answers: The answers.
        audited: Their probabilities if they were not seen, `[m]`.
        seed: Seed of the parts of the audit.
    """
    n_classes = before.shape[1]
    weight = counted_once(answers.unit * n_classes + answers.label)
    correction = fit_correction(audited, answers.label, answers.yes, n_classes, weight)
    return Calibrated(
        np.where(states == 0, correction(before), before),
        before,
        check(audited, answers, n_classes, seed=seed),
    )


def check(probabilities: Floats, answers: Answers, n_classes: int, *, seed: int = 0) -> Checked:
    """Fits corrections without each part of the audited items in turn.

    Items of a group are in one part, and no answer about the group is fitted on without it.

    Args:
        probabilities: Probabilities of the answers before the correction, `[m]`.
        answers: The answers.
        n_classes: Number of classes.
        seed: Seed of the parts.
    """
    unit_of = dict(zip(answers.row.tolist(), answers.unit.tolist(), strict=True))
    units = [*dict.fromkeys(unit_of[row] for row in answers.complete.tolist() if row in unit_of)]
    order = np.random.default_rng(seed).permutation(len(units)).tolist()
    parts = min(FOLDS, len(units))
    part_of = {units[place]: number % parts for number, place in enumerate(order)}
    part = np.array([part_of.get(unit, -1) for unit in answers.unit.tolist()], dtype=np.int64)
    fold = np.where(np.isin(answers.row, answers.complete), part, -1)
    label, yes = answers.label, answers.yes
    weight = counted_once(answers.unit * n_classes + label)
    corrections = [
        fit_correction(probabilities[kept], label[kept], yes[kept], n_classes, weight[kept])
        for kept in (part != number for number in range(parts))
    ]
    return Checked(answers, probabilities, fold, tuple(corrections))
