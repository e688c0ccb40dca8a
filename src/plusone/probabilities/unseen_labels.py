"""From out-of-sample scores to calibrated probabilities, with an audit where there is one.

Scores are calibrated on the seen labels by a `Curve` (`plusone.probabilities.curve`). Answers of an
audit or a review then correct the probabilities (`plusone.probabilities.correction`). Where they
are about items drawn at random, with all their labels, k is counted on these items, and what was
named among their labels says directly how readily each class is named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from plusone.data.hierarchy import Hierarchy
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.probabilities.answers import Answers
from plusone.probabilities.consistent import consistent_array
from plusone.probabilities.correction import Correction, counted_once, fit_correction
from plusone.probabilities.curve import FEWEST, States, fit_to_picks
from plusone.probabilities.k import LabelsPerItem
from plusone.probabilities.picks import learn_salience, random_picks_p_value
from plusone.probabilities.scores import Floats, Ints, Scores

PARTS = 10  # of the audited items
DOUBT = 5.0  # audited items that the saliences learned from seen labels are worth
NOISE = 1.64  # standard errors of a counted k on both sides
MOST_UNSEEN = 1 << 26  # unobserved labels that are held at once, 32 bytes each
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
        correction: It.
        corrections: For each part of the audit, the correction that was fitted on the others.
    """

    answers: Answers
    corrected: Floats
    correction: Correction
    corrections: tuple[Correction, ...]

    def corrected_table(self, before: Floats, states: States) -> Floats:
        """Corrected probabilities `[b, L]`; those of seen labels stay.

        Args:
            before: Probabilities without the answers, `[b, L]`.
            states: Seen labels, `[b, L]`.
        """
        return np.where(states == 0, self.correction(before), before)


@dataclass(frozen=True)
class Block:
    """Scores and probabilities of all labels of some items, `[b, L]` each.

    Args:
        scores: Out-of-sample scores.
        probabilities: Given the seen labels of the item; seen labels are 1 or 0.
        before: Probabilities before the correction by an audit.
        careful: Probabilities for a low estimate of k, by which labels are accepted that nobody
            checked; None with an audit or a k that is given.
    """

    scores: Floats
    probabilities: Floats
    before: Floats
    careful: Floats | None = None

    @property
    def accepted_by(self) -> Floats:
        """The probabilities by which labels are accepted: the careful ones, where there are any."""
        return self.probabilities if self.careful is None else self.careful


@dataclass(frozen=True)
class Unseen:
    """Unobserved labels of some probability, one entry each, item by item.

    Args:
        row: The item, int64 `[m]`, ascending.
        label: The class, int32 `[m]`, ascending within an item.
        score: See `Block`, float32 `[m]`.
        probability: The same, float64 `[m]`.
        before: The same.
        accepted_by: The same.
    """

    row: Ints
    label: npt.NDArray[np.int32]
    score: npt.NDArray[np.float32]
    probability: Floats
    before: Floats
    accepted_by: Floats

    def __len__(self) -> int:
        return len(self.row)

    def take(self, chosen: npt.NDArray[Any]) -> Unseen:
        """Some of them: their places, or a mask."""
        return Unseen(*(getattr(self, one.name)[chosen] for one in fields(self)))


class Calibrated:
    """Calibrated probabilities of all labels of all items, computed in blocks.

    Args:
        at: Gives scores and probabilities of rows, int64 `[b]`.
        observed: Seen labels, `[N, L]`.
        scores: What `at` reads, for passes over the items.
        checked: The audit; None without one.
        summary: What the calibration was based on; None for probabilities from elsewhere.
    """

    def __init__(
        self,
        at: Callable[[Ints], Block],
        observed: LabelMatrix,
        scores: Scores,
        checked: Checked | None = None,
        summary: CalibrationSummary | None = None,
    ) -> None:
        self.at, self.observed, self.scores = at, observed, scores
        self.checked, self.summary = checked, summary
        self._unseen: tuple[float, Unseen] | None = None

    def within(self, hierarchy: Hierarchy | None) -> Calibrated:
        """The same with probabilities that agree with a hierarchy, which the labels follow."""
        if hierarchy is None:
            return self

        def at(rows: Ints) -> Block:
            found = self.at(rows)
            careful = found.careful
            return replace(
                found,
                probabilities=consistent_array(found.probabilities, hierarchy),
                careful=None if careful is None else consistent_array(careful, hierarchy),
            )

        return Calibrated(at, self.observed, self.scores, self.checked, self.summary)

    @property
    def probabilities(self) -> Floats:
        """All probabilities, `[N, L]`: for data that is small enough."""
        (table,) = self.scores.collect(lambda rows: (self.at(rows).probabilities,))
        return table

    def unseen(self, least: float) -> Unseen:
        """The unobserved labels that have at least this probability, by either estimate of k.

        They come from one pass over the items, and are kept for those of a higher probability.

        Raises:
            InputError: There are more than `MOST_UNSEEN`.
        """
        if self._unseen is None or least < self._unseen[0]:
            self._unseen = None
            self._unseen = least, self._pass(least)
        known = self._unseen[1]
        if least == self._unseen[0]:
            return known
        return known.take((known.probability >= least) | (known.accepted_by >= least))

    def _pass(self, least: float) -> Unseen:
        count = 0

        def likely(rows: Ints) -> tuple[npt.NDArray[Any], ...]:
            nonlocal count
            found = self.at(rows)
            kept = (found.probabilities >= least) | (found.accepted_by >= least)
            at, label = np.nonzero(kept & (self.observed.dense(rows) == 0))
            count += len(at)
            if count > MOST_UNSEEN:
                raise InputError(
                    f"more than {MOST_UNSEEN:,} labels have a probability of {least:g} or more, "
                    "which is too many to hold; suggest only more probable ones "
                    "(--min-probability 0.5), and accept with a higher --precision"
                )
            other = found.accepted_by if self.checked is None else found.before
            score, columns = found.scores[at, label], (rows[at], label.astype(np.int32))
            tables = (found.probabilities, other)[: 1 + (other is not found.probabilities)]
            return *columns, score.astype(np.float32), *(table[at, label] for table in tables)

        row, label, score, p, *rest = self.scores.collect(likely)
        other = rest[0] if rest else p
        before, accepted_by = (p, other) if self.checked is None else (other, p)
        return Unseen(row, label, score, p, before, accepted_by)


def calibrate(
    scores: npt.ArrayLike | Scores,
    observed: LabelMatrix,
    *,
    k: LabelsPerItem,
    answers: Answers | None = None,
    seed: int = 0,
) -> Calibrated:
    """Calibrates scores on the seen labels, and on the answers of an audit if there are any.

    Args:
        scores: Out-of-sample scores in `[0, 1]`, `[N, L]`.
        observed: Seen labels, `[N, L]`.
        k: Mean number of labels per item.
        answers: Answers of an audit or a review.
        seed: Seed of the subsample that large data is fitted on.
    """
    scores, blind = Scores.of(scores), observed
    if answers is not None:  # a run may have seen the answers
        blind = observed.without(answers.row, answers.label)
        if len(answers.complete) >= FEWEST:
            k = counted(k, answers, blind)
    curve = fit_to_picks(scores, blind, k.k, picks=k.picks, seed=seed)
    low = None
    if answers is None and k.source == "estimated":
        low = fit_to_picks(scores, blind, k.cautious, picks=k.picks, seed=seed)
    checked, summary = None, CalibrationSummary(k)
    if answers is not None:
        rows, place = np.unique(answers.row, return_inverse=True)
        audited = curve.given_seen(scores.at(rows), blind.dense(rows), k.picks)
        checked = check(answers, audited[place, answers.label], observed.shape, seed=seed)
        counts = AuditCounts(len(answers), answers.items, int(answers.yes.sum()), answers.n_groups)
        summary = CalibrationSummary(k, counts)

    def at(rows: Ints) -> Block:
        values, states = scores.at(rows), observed.dense(rows)
        before = curve.given_seen(values, states, k.picks)
        careful = None if low is None else low.given_seen(values, states, k.picks)
        corrected = before if checked is None else checked.corrected_table(before, states)
        return Block(values, corrected, before, careful)

    return Calibrated(at, observed, scores, checked, summary)


def counted(estimate: LabelsPerItem, answers: Answers, blind: LabelMatrix) -> LabelsPerItem:
    """The estimate with k counted, and saliences learned, on items whose labels are all known.

    What was named among known labels dominates: the logarithm of a salience is the mean of those of
    the audit and of the estimate, weighted by the audited items in which the class is present
    beside others, and by `DOUBT` such items. Whether they were picked at random is tested on these
    items alone.

    Args:
        estimate: What is known without the answers.
        answers: The answers; some items are complete.
        blind: Labels without the answers, `[n, L]`.
    """
    rows, weight = answers.complete, np.ones(len(blind))
    picked, about = blind.dense(rows), np.isin(answers.row, rows)
    order = np.argsort(rows)
    place = order[np.searchsorted(rows, answers.row[about], sorter=order)]
    known = picked == 1
    known[place, answers.label[about]] = answers.yes[about]
    if answers.weight is not None:
        weight[answers.row] = answers.weight
    present, own = known.astype(np.float64), weight[rows] / weight[rows].sum()
    sizes = present.sum(axis=1)
    k = float(own @ sizes)
    spread = NOISE * float(np.sqrt((own**2) @ (sizes - k) ** 2 * len(rows) / (len(rows) - 1)))
    least = max(float((picked == 1).sum(axis=1).mean()), 1.0)
    salience = None
    if estimate.salience is not None:
        seen, weights = torch.from_numpy(picked), torch.from_numpy(weight[rows])
        e = learn_salience(torch.from_numpy(present), seen, weights=weights).numpy()
        beside = present[sizes > 1].sum(axis=0)
        share = beside / (beside + DOUBT)
        e = np.exp(share * np.log(e) + (1 - share) * np.log(estimate.salience.values))
        test = random_picks_p_value(known, picked == 1)
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


def check(answers: Answers, audited: Floats, shape: tuple[int, int], *, seed: int = 0) -> Checked:
    """The correction of probabilities by answers.

    Args:
        answers: The answers.
        audited: Their probabilities if they were not seen, `[m]`.
        shape: Numbers of all items and of classes, `(n, L)`.
        seed: Seed of the parts of the audit, each of which is left out once.
    """
    n, n_classes = shape
    label, yes = answers.label, answers.yes
    weight = counted_once(answers.unit * n_classes + label)
    others = answers.about_others(n)
    weight = weight if others is None else weight * others
    correction = fit_correction(audited, label, yes, n_classes, weight)
    units, unit = np.unique(answers.unit, return_inverse=True)
    parts = min(PARTS, len(units))
    part = (np.random.default_rng(seed).permutation(len(units)) % parts)[unit]
    corrections = [
        fit_correction(audited[kept], label[kept], yes[kept], n_classes, weight[kept])
        for kept in (part != number for number in range(parts))
    ]
    return Checked(answers, correction(audited, label), correction, tuple(corrections))
