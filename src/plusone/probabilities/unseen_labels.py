"""From out-of-sample scores to calibrated probabilities, with an audit where there is one.

Scores are calibrated on the seen labels by a `Curve` (`plusone.probabilities.curve`). Answers of an
audit or a review then correct the probabilities (`plusone.probabilities.correction`). Where they
are about items drawn at random, with all their labels, k is counted on these items, and what was
named among their labels says directly how readily each class is named.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from plusone.data.hierarchy import Hierarchy
from plusone.data.matrix import LabelMatrix
from plusone.probabilities.answers import Answers
from plusone.probabilities.consistent import consistent_array
from plusone.probabilities.correction import Correction, counted_once, fit_correction
from plusone.probabilities.curve import FEWEST, Floats, States, fit_to_picks
from plusone.probabilities.k import LabelsPerItem
from plusone.probabilities.picks import learn_salience, random_picks_p_value

PARTS = 10  # of the audited items
DOUBT = 5.0  # audited items that the saliences learned from seen labels are worth
NOISE = 1.64  # standard errors of a counted k on both sides
NO_AUDIT = (
    "No audit: nobody checked any of these labels, so nothing is promised. The probabilities come "
    "from the seen labels alone, {picks}, and with {k} labels per item ({origin}). If that is "
    "wrong, so are they.{careful}"
)
UNIFORM_PICKS = "as if each had been picked at random among the labels of its item"
LEARNED_PICKS = "with how readily each class is named learned from them"
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
        how = "counted" if self.k.source == "counted" else "estimated from the seen labels"
        origin = "as given" if given else f"{how}, {self.k.low:.3g} to {self.k.high:.3g}"
        if self.audit is None:
            picks = UNIFORM_PICKS if self.k.salience is None else LEARNED_PICKS
            careful = "" if given else CAREFUL
            return NO_AUDIT.format(k=k, origin=origin, picks=picks, careful=careful)
        groups = self.audit.groups
        of_groups = "" if groups is None else f" of {groups} groups"
        return AUDIT.format(k=k, origin=origin, of_groups=of_groups, **asdict(self.audit))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "k": self.k.k,
            "k_from": self.k.source,
            "k_range": None if self.k.source == "given" else [self.k.low, self.k.high],
            "salience": None if self.k.salience is None else self.k.salience.to_dict(),
            "audit": None if self.audit is None else asdict(self.audit),
            "sentence": self.sentence,
        }


@dataclass(frozen=True)
class Checked:
    """An audit, and corrections fitted without some of its items.

    Args:
        answers: The answers of the audit.
        corrected: Their probabilities after the correction, `[m]`.
        corrections: For each part of the audit, the correction that was fitted on the others.
    """

    answers: Answers
    corrected: Floats
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

    def within(self, hierarchy: Hierarchy | None) -> Calibrated:
        """The same with probabilities that agree with a hierarchy, which the labels follow."""
        careful = self.careful
        return replace(
            self,
            probabilities=consistent_array(self.probabilities, hierarchy),
            careful=None if careful is None else consistent_array(careful, hierarchy),
        )


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
        seed: Seed of the subsample that large data is fitted on.
    """
    states, values = observed.dense(), np.asarray(scores, dtype=np.float64)
    without_answers = states.copy()
    if answers is not None:
        without_answers[answers.row, answers.label] = 0  # a run may have seen the answers
    curve = fit_to_picks(values, without_answers, k.k, picks=k.picks, seed=seed)
    if answers is None:
        before, careful = curve.given_seen(values, states, k.picks), None
        if k.source == "estimated":
            low = fit_to_picks(values, states, k.cautious, picks=k.picks, seed=seed)
            careful = low.given_seen(values, states, k.picks)
        return Calibrated(before, before, None, CalibrationSummary(k), careful)
    if len(answers.complete) >= FEWEST:
        k = counted(k, answers, without_answers)
        curve = fit_to_picks(values, without_answers, k.k, picks=k.picks, seed=seed)
    before = curve.given_seen(values, states, k.picks)
    audited = curve.given_seen(values, without_answers, k.picks)[answers.row, answers.label]
    counts = AuditCounts(len(answers), answers.items, int(answers.yes.sum()), answers.n_groups)
    summary = CalibrationSummary(k, counts)
    return replace(correct(before, states, answers, audited, seed=seed), summary=summary)


def counted(estimate: LabelsPerItem, answers: Answers, picked: States) -> LabelsPerItem:
    """The estimate with k counted, and saliences learned, on items whose labels are all known.

    What was named among known labels dominates: the logarithm of a salience is the mean of those of
    the audit and of the estimate, weighted by the audited items in which the class is present
    beside others, and by `DOUBT` such items. Whether they were picked at random is tested on these
    items alone.

    Args:
        estimate: What is known without the answers.
        answers: The answers; some items are complete.
        picked: Labels without the answers, `[n, L]`.
    """
    rows, weight, known = answers.complete, np.ones(len(picked)), picked == 1
    about = np.isin(answers.row, rows)
    known[answers.row[about], answers.label[about]] = answers.yes[about]
    if answers.weight is not None:
        weight[answers.row] = answers.weight
    present, own = known[rows].astype(np.float64), weight[rows] / weight[rows].sum()
    sizes = present.sum(axis=1)
    k = float(own @ sizes)
    spread = NOISE * float(np.sqrt((own**2) @ (sizes - k) ** 2 * len(rows) / (len(rows) - 1)))
    least = max(float((picked[rows] == 1).sum(axis=1).mean()), 1.0)
    salience = None
    if estimate.salience is not None:
        seen, weights = torch.from_numpy(picked[rows]), torch.from_numpy(weight[rows])
        e = learn_salience(torch.from_numpy(present), seen, weights=weights).numpy()
        beside = present[sizes > 1].sum(axis=0)
        share = beside / (beside + DOUBT)
        e = np.exp(share * np.log(e) + (1 - share) * np.log(estimate.salience.values))
        test = random_picks_p_value(known[rows], picked[rows] == 1)
        values = tuple((e / e.mean()).tolist())
        if test is None:
            salience = replace(estimate.salience, values=values)
        else:
            salience = replace(
                estimate.salience, values=values, p_value=test, audited=int((sizes > 1).sum())
            )
    if estimate.source == "given":
        return replace(estimate, salience=salience)
    k = max(k, least)
    return LabelsPerItem(k, max(k - spread, least), k + spread, len(rows), "counted", salience)


def correct(
    before: Floats, states: States, answers: Answers, audited: Floats, *, seed: int = 0
) -> Calibrated:
    """Probabilities corrected by answers.

    Args:
        before: Probabilities without the answers, `[n, L]`.
        states: Seen labels, `[n, L]`.
        answers: The answers.
        audited: Their probabilities if they were not seen, `[m]`.
        seed: Seed of the parts of the audit, each of which is left out once.
    """
    n_classes, label, yes = before.shape[1], answers.label, answers.yes
    weight = counted_once(answers.unit * n_classes + label)
    others = answers.about_others(len(states))
    weight = weight if others is None else weight * others
    correction = fit_correction(audited, label, yes, n_classes, weight)
    units, unit = np.unique(answers.unit, return_inverse=True)
    parts = min(PARTS, len(units))
    part = (np.random.default_rng(seed).permutation(len(units)) % parts)[unit]
    corrections = [
        fit_correction(audited[kept], label[kept], yes[kept], n_classes, weight[kept])
        for kept in (part != number for number in range(parts))
    ]
    return Calibrated(
        np.where(states == 0, correction(before), before),
        before,
        Checked(answers, correction(audited, label), tuple(corrections)),
    )
