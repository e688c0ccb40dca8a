"""The number of labels per item, by answers.

Questions are asked about labels in doubt, so the share of yes among the answers is not that of
other labels. But given its probability, whether a label was asked about says nothing more of it. So
answers correct the probabilities with which they were chosen, those of a model that has not seen
them, and k is the mean sum of all labels: known ones, and corrected probabilities of the others
(the regression estimator of survey sampling).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from plusone.data.matrix import LabelMatrix
from plusone.probabilities.answers import answers_in, without_answers
from plusone.probabilities.curve import fit_to_picks
from plusone.probabilities.k import LabelsPerItem
from plusone.probabilities.unseen_labels import check

NOISE = 1.64  # standard errors of k on both sides
OFF = 0.25  # relative error of an estimate from seen labels, on five data sets
LOWEST = 0.05  # share of the answers that may be below what counts as asked about


def k_by_answers(
    scores: npt.ArrayLike,
    marked: LabelMatrix,
    estimate: LabelsPerItem,
    groups: npt.NDArray[np.int64] | None = None,
) -> LabelsPerItem:
    """The number of labels per item, by answers where there are enough of them.

    It is the mean of what the answers say and of the estimate without them, each weighted by how
    well it is known. Its range allows for the noise of the correction (a jackknife over parts of
    the answers), and for labels so improbable that none of them was asked about: there may be none,
    or twice as many.

    Args:
        scores: Out-of-sample scores in [0, 1] of a model without the answers, `[N, L]`.
        marked: What `marked_labels` gives, `[N, L]`.
        estimate: k and saliences, without the answers.
        groups: Number of each item's group, `[N]`.
    """
    answers = answers_in(marked, groups)
    if answers is None or estimate.source == "given":
        return estimate
    values, picks = np.asarray(scores, dtype=np.float64), estimate.picks
    blind, states = without_answers(marked), marked.dense()
    curve = fit_to_picks(values, blind, estimate.k, picks=picks)
    before = curve.given_seen(values, states, picks)
    asked = curve.given_seen(values, blind.dense(), picks)[answers.row, answers.label]
    checked = check(answers, asked, marked.shape)
    found = checked.corrected_table(before, states)
    known, n = states != 0, len(states)
    certain = float((states >= 1).sum()) / n
    k = float(found.sum()) / n
    parts = np.array([float(part(before)[~known].sum()) / n for part in checked.corrections])
    noise = NOISE * float(np.sqrt((len(parts) - 1) * parts.var()))
    improbable = ~known & (before < np.quantile(asked, LOWEST))
    doubt = noise + float(found[improbable].sum()) / n
    low, high = max(k - doubt, certain, 1.0), max(k + doubt, 1.0)
    weight = OFF**2 / (OFF**2 + (doubt / NOISE / k) ** 2)  # few answers leave k where it was
    k = weight * k + (1 - weight) * estimate.k
    low, high = min(low, max(k, certain)), max(high, k)
    return replace(
        estimate, k=max(k, low), low=low, high=min(high, marked.n_classes), source="counted"
    )
