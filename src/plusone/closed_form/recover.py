"""Labels recovered from single positives, by rounds of ridge regression: the core of `recovery`.

docs/recovery.md has the derivation, the ablation and the measured tables. With L classes and m seen
positives per item (m = 1 mostly), each of them picked by an annotator (`plusone.probabilities
.picks`) who names class c with a salience e_c:

1. Ridge regression on the seen label: targets 1 / m for each seen positive, else 0; items without
   any have the mean target. Its leave-one-out prediction, clipped and normalised in each row, is q,
   the probability that a class is the one that is picked. The penalty is the one with the least
   leave-one-out squared error.
2. k, the number of positives per item: as given; else estimated from how often q's first choice is
   a seen one (`labels_per_item`).
3. p = k q, the probability that a class is positive; then `rounds` times:
   a. The annotator: saliences e under which the seen labels are the most likely picks among the
      classes present with probability p. Labels are recovered by these less the spread that errors
      of the model explain; k, the estimate and all probabilities have them as they are. Where
      hidden labels are less readily named than first choices, there are more of them than k says:
      k - 1 is multiplied by the ratio of saliences.
   b. Calibrate: p is raised to the power with which the recovered labels sum to k on average.
   c. Recover: R is 1 for a seen positive, 0 for a seen negative, else the probability that a class
      is positive although it was not picked, (p - s) / (1 - s), with s = m e p / sum e p, times
      sum p / m where less than m labels are expected.
   d. Fit: ridge regression, with the penalty of step 1, on T = p + w (R - p), and p its
      leave-one-out prediction. A pick carries 1 / k of the information of all labels, so the
      step from p towards R is w = k / n times k / max(m, sum p) long, with n the mean of m, and at
      least 1 (Fisher scoring); 1 where all labels of an item are known.

Every prediction that becomes a target is leave-one-out, so that an item does not confirm itself at
once; from the second round on it does a little, through the targets of its neighbours, so
probabilities are calibrated on other folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from plusone.closed_form.ridge import (
    PENALTIES,
    Ridge,
    Solution,
    pick_probabilities,
    regression,
    seen_label_regression,
)
from plusone.data.hierarchy import Hierarchy
from plusone.data.matrix import LabelMatrix
from plusone.probabilities.curve import FEWEST
from plusone.probabilities.k import (
    FEW_CLASSES,
    LabelsPerItem,
    effective_classes,
    labels_per_item,
    salience_ratio,
    with_implied,
)
from plusone.probabilities.picks import Salience, learn_salience, shrunken_salience
from plusone.seeds import generator
from plusone.types import Picks

CLIPPED = 1e-3  # probabilities are clipped to [eps, 1 - eps]; smaller eps with many classes
ADDED = 0.1  # labels per item that clipping may add
MORE = 1.05  # lower bound on k, as a multiple of the seen mean
POWERS = (0.2, 8.0)  # of p, least and most
HALVINGS = 16
SEARCHED = 2_000_000  # labels that the power is searched on, about
LEARNED = 20_000_000  # labels that k and saliences are learned from, about
CERTAIN = 0.97  # the largest probability that a label was picked
SIMULATED = 19  # draws of picks at random that the saliences are compared with
SLACK = 1.4  # on five data sets with picks at random, at 300 to 1,500 items
TESTED = 5_000_000  # labels; with more, the comparison would take too long


@dataclass(frozen=True)
class Recovering:
    """How a round makes targets of leave-one-out predictions.

    Args:
        power: To which p is raised.
        k: Labels per item, for the length of steps.
        e: Salience of each class, `[L]`; None if all are the same.
        picked: Labels per item, if the predictions are those of the seen label; else None.
        scoring: Whether steps have the length of Fisher scoring; else T = R.
        n: Seen positives per item, for the length of steps.
    """

    power: float
    k: float
    e: Tensor | None = None
    picked: float | None = None
    scoring: bool = True
    n: float = 1.0

    def recovered(self, left_out: Tensor, observed: Tensor) -> Tensor:
        """R, `[b, L]`."""
        return recover(self._p(left_out, observed), observed, self.e)

    def __call__(self, left_out: Tensor, observed: Tensor) -> Tensor:
        """T = p + w (R - p), `[b, L]`."""
        p = self._p(left_out, observed)
        recovered = recover(p, observed, self.e)
        if not self.scoring:
            return recovered
        targets = p.lerp_(recovered, step_length(p, observed, self.k, self.n))
        return torch.where((observed == -1) | (observed > 1), recovered, targets)

    def _p(self, left_out: Tensor, observed: Tensor) -> Tensor:
        p = left_out
        if self.picked is not None:
            p = pick_probabilities(left_out, observed).mul_(self.picked)
        return clipped(p).pow_(self.power)


def recover_labels(
    ridge: Ridge,
    observed: LabelMatrix,
    *,
    k: float | None = None,
    estimate: LabelsPerItem | None = None,
    rounds: int = 5,
    scoring: bool = True,
    picks: Picks = "auto",
    salience: Sequence[float] | None = None,
    penalties: Sequence[float] = PENALTIES,
    hierarchy: Hierarchy | None = None,
) -> Solution:
    """The regression on recovered labels.

    k, saliences and powers are learned from items with a seen positive, from some of them where
    there are very many labels. The models without a fold have those of all items.

    Args:
        ridge: The vectors.
        observed: Labels, `[n, L]`, with positives that are answers marked (`mark_answers`); they
            say nothing about how labels are picked.
        k: Mean number of positives per item, if known.
        estimate: The same with its range, where answers tell it.
        rounds: How often labels are recovered.
        scoring: Whether steps have the length of Fisher scoring; else T = R.
        picks: "uniform": all labels of an item are named with the same probability; else saliences
            are learned.
        salience: How readily each class is named, `[L]`, if it is known.
        penalties: To choose from.
        hierarchy: Which class lies below which, if the labels follow one. k is then that of the
            most specific labels, with those that follow from them.

    Returns:
        The solution; its `estimate` is k with its range and the saliences.
    """
    if hierarchy is not None and k is None and estimate is None:
        named = hierarchy.most_specific(observed)
        alone = recover_labels(
            ridge, named, rounds=rounds, scoring=scoring, picks=picks, penalties=penalties
        )
        assert alone.estimate is not None
        estimate = with_implied(alone.estimate, named, hierarchy)
    told = estimate is not None
    solution = seen_label_regression(ridge, observed, penalties)
    some = _Sample(solution)
    left_out, seen, own = some.predictions(), some.seen, some.weights
    q = pick_probabilities(left_out, seen)
    estimate = first_estimate(q, seen, k) if estimate is None or k is not None else estimate
    first = estimate
    top, p, e, n = q.argmax(1), q.mul_(first.k), None, seen_per_item(observed)
    for number in range(rounds):
        if salience is not None:
            learned = e = p.new_tensor(salience)  # as it is given
        elif picks != "uniform":
            learned = learn_salience(p, seen, own)
            e = shrunken_salience(learned, seen, own)
        power = power_for(p[some.searched], seen[some.searched], estimate.k, e)
        picked = None if number else first.k
        step = Recovering(power, estimate.k, e, picked, scoring, n)
        if e is not None and first.source == "estimated" and not told:
            recovered = step.recovered(left_out, seen)
            estimate = first.scaled(salience_ratio(recovered, seen, learned, top))
            step = replace(step, k=estimate.k)
        solution.steps.append(step)
        solution.solve(solution.products())
        if number + 1 < rounds:
            p = left_out = some.predictions()
    if e is not None:
        estimate = replace(estimate, salience=Salience(tuple(learned.cpu().tolist())))
    solution.estimate = estimate
    return solution


class _Sample:
    """The items that k, saliences and powers are learned from, with their targets so far.

    Args:
        solution: Whose predictions are asked for.

    Attributes:
        seen: Labels of the items of all processes, int8 `[s, L]`.
        weights: How much each counts, `[s]`.
        searched: Those that powers are searched on, bool `[s]`.
    """

    def __init__(self, solution: Solution) -> None:
        ridge, n_classes = solution.ridge, solution.observed.n_classes
        known = torch.from_numpy(np.flatnonzero(solution.observed.per_item(1)))
        chosen = torch.zeros(len(ridge), dtype=torch.bool)
        chosen[ridge.sample(known, n_classes, LEARNED)] = True
        blocks = list(ridge.blocks(n_classes, chosen.nonzero()[:, 0]))
        self.solution, self.rounds = solution, 0
        self.blocks = [(block, chosen[block.rows]) for block in blocks]
        self.targets = [solution.targets_of_seen(solution.seen(block.rows)) for block in blocks]
        own = [block.rows[kept] for block, kept in self.blocks]
        rows = ridge.ranks.gather(torch.cat([torch.zeros(0, dtype=torch.int64), *own]))
        self.seen, self.weights = solution.seen(rows), ridge.weights[rows.to(ridge.device)]
        self.searched = torch.isin(rows, ridge.sample(known, n_classes, SEARCHED))

    def predictions(self) -> Tensor:
        """Leave-one-out predictions of the last round, `[s, L]`."""
        solution, number = self.solution, len(self.solution.steps)
        ridge, model = solution.ridge, solution.models[0]
        parts = [self.seen.new_zeros((0, self.seen.shape[1]), dtype=torch.float32)]
        for place, (block, kept) in enumerate(self.blocks):
            z, seen = ridge.vectors.at(block.rows), solution.seen(block.rows)
            if number:
                before = model.left_out(block, z, self.targets[place], number - 1)
                self.targets[place] = solution.steps[-1](before, seen)
            parts.append(model.left_out(block, z, self.targets[place], number)[kept])
        return ridge.ranks.gather(torch.cat(parts))


def first_estimate(q: Tensor, observed: Tensor, k: float | None = None) -> LabelsPerItem:
    """The k of `labels_per_item`, or as given; more than is seen.

    Args:
        q: Probabilities that each class is the one that is picked, `[n, L]`.
        observed: Labels, `[n, L]`.
        k: The number, if known.
    """
    if k is not None:
        return LabelsPerItem.given(k)
    seen = LabelMatrix.from_dense(observed.cpu().numpy().astype(np.int8))
    counts = seen.per_item(1)
    counts = counts[counts > 0]
    least = min(MORE * (float(counts.mean()) if len(counts) else 1.0), float(seen.n_classes))
    if len(counts) < FEWEST:
        return LabelsPerItem(least, least, least, len(counts))
    estimate = labels_per_item(q.cpu().numpy(), seen)
    return replace(estimate, k=max(estimate.k, least), high=max(estimate.high, least))


def clipped(p: Tensor) -> Tensor:
    """Probabilities `[n, L]` away from 0 and 1."""
    least = min(CLIPPED, ADDED / p.shape[1])
    return p.clamp(least, 1 - least)


def power_for(p: Tensor, observed: Tensor, k: float, e: Tensor | None = None) -> float:
    """The power of p at which the recovered labels sum to k on average.

    Args:
        p: Probability of each label before a label is seen, `[n, L]`.
        observed: Labels, `[n, L]`; items without a seen positive do not count.
        k: Labels per item.
        e: Salience of each class, `[L]`; all the same by default.
    """
    rows = (observed == 1).any(1)
    p, seen = clipped(p[rows]), observed[rows]
    low, high = POWERS
    power = 1.0
    for _ in range(HALVINGS):
        power = float(low * high) ** 0.5
        too_many = float(recover(p**power, seen, e).sum(1).mean()) > k
        low, high = (power, high) if too_many else (low, power)
    return power


def recover(p: Tensor, observed: Tensor, e: Tensor | None = None) -> Tensor:
    """R: the probability of each label given what was seen, `[n, L]`.

    Args:
        p: Probability of each label before a label is seen, `[n, L]`.
        observed: Labels, `[n, L]`.
        e: Salience of each class, `[L]`; all the same by default.
    """
    seen = (observed == 1).sum(1, keepdim=True)
    p = torch.where(observed > 1, 1.0, torch.where(observed == -1, 0.0, p))
    named = p if e is None else p * e
    expected = p.sum(1, keepdim=True)
    among = torch.maximum(expected, seen.clamp(min=1))
    if e is not None:
        among = among * named.sum(1, keepdim=True) / expected
    picked = (seen * named / among).clamp(max=CERTAIN)
    unseen = ((p - picked) / (1 - picked)).clamp(min=0)
    return torch.where(observed >= 1, 1.0, torch.where(observed == -1, 0.0, unseen))


def seen_per_item(observed: LabelMatrix) -> float:
    """Mean number of seen positives of the items that have one and an unobserved label, or 1."""
    seen = observed.per_item(1)
    counts = seen[(seen > 0) & (observed.per_item(0) > 0)]
    return float(counts.mean()) if len(counts) else 1.0


def step_length(p: Tensor, observed: Tensor, k: float, n: float = 1.0) -> Tensor:
    """w, `[b, 1]`: longer for items with few positives, whose pick says more; at least 1.

    It is 1 where all labels are known, which are then the targets.

    Args:
        p: Probability of each label before a label is seen, `[b, L]`.
        observed: Labels, `[b, L]`.
        k: Labels per item.
        n: Seen positives per item.
    """
    seen = (observed == 1).sum(1, keepdim=True).clamp(min=1)
    length = (k / n * k / torch.maximum(p.sum(1, keepdim=True), seen)).clamp(min=1)
    return length.masked_fill_((observed != 0).all(1, keepdim=True), 1.0)


def with_test(solution: Solution) -> Solution:
    """The solution, with a test of its saliences against picks at random, and their errors.

    Picks are simulated: labels drawn from the recovered ones, and one of each item's picked with
    the same probability. Saliences learned from such picks differ by noise, and because labels are
    known only with doubt. Models of real data also err about some classes more than about others,
    which simulations do not show: without bias, saliences spread up to `SLACK` times as far. The p
    value is the share of simulations, and the data itself, whose saliences then spread as far as
    those of the data. There is none with more than `FEW_CLASSES` effective classes, where saliences
    spread farther than `SLACK` allows for.

    Args:
        solution: What `recover_labels` gives; it is changed.
    """
    estimate, ridge = solution.estimate, solution.ridge
    if estimate is None or estimate.salience is None:
        return solution
    if solution.observed.shape[0] * solution.observed.n_classes > TESTED:
        return solution
    everyone = torch.arange(len(ridge))
    observed, recovered = solution.seen(everyone).cpu(), solution.recovered()
    weights = ridge.weights.cpu()
    share = (observed == 1).float().mean(0).double()

    def learned(seen: Tensor) -> Tensor:
        """Logarithms of saliences of the first round, `[L]`, 0 on average over the picks."""
        left_out = regression(ridge, seen.float(), solution.penalty)[1].cpu()
        q = pick_probabilities(left_out, seen)
        logs = learn_salience(q * estimate.k, seen, weights).double().log()
        return logs - (share * logs).sum() / share.sum()

    own = learned(_one_each(observed))
    rows, draws = (observed == 1).any(1, keepdim=True), []
    for number in range(SIMULATED):
        random = torch.rand(recovered.shape, generator=generator("simulated picks", number))
        labels = (random < recovered) & rows
        order = torch.rand(recovered.shape, generator=generator("which is picked", number))
        best = (labels * (order + 1e-6)).argmax(1, keepdim=True)
        draws.append(learned(torch.zeros_like(observed).scatter_(1, best, 1) * rows))
    null = torch.stack(draws)

    def spread(logs: Tensor) -> Tensor:
        return (share * logs.square()).sum(-1)

    p_value = None
    if effective_classes((share / share.sum()).numpy()) <= FEW_CLASSES:
        p_value = (1 + int((SLACK * spread(null) >= spread(own)).sum())) / (1 + SIMULATED)
    final = torch.tensor(estimate.salience.values, dtype=torch.float64).log()
    final = final - (share * final).sum() / share.sum()
    longer = float((spread(final) / spread(own).clamp(min=1e-12)).sqrt().clamp(min=1.0))
    error = (null.square().mean(0).sqrt() * longer).tolist()
    salience = replace(estimate.salience, error=tuple(error), p_value=p_value)
    solution.estimate = replace(estimate, salience=salience)
    return solution


def _one_each(observed: Tensor) -> Tensor:
    """The seen positives, of several in an item only the first, int8 `[n, L]`."""
    positive = (observed == 1).to(torch.int8)
    return torch.zeros_like(positive).scatter_(1, positive.argmax(1, keepdim=True), 1) * positive
