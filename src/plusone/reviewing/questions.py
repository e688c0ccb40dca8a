"""Which questions to ask, and in which order.

- `order_questions` orders suggestions, and selects some if there is no time for all. With
  calibrated probabilities an answer is worth most at a probability of one half, which decides the
  order within a class. Classes take turns: the k-th question of a class comes at time k / weight.
  Where items belong to groups, one question for each group and class comes before all others.
- `Selection` says which questions are asked; without a budget those of at least `WORTH`.
- `Suggested` keeps the state of the questions about suggestions, and about seen labels that are
  probably wrong. An answer about these is worth as much as the label is probably wrong.
- `NewItems` labels new items by yes/no questions until a yes (LASD, section 5.1). The classes of an
  item are asked about in a random order, drawn for each item, and the first yes ends it: the
  positive is uniform among the item's positives, as methods for single positives assume. Every no
  before it is stored as a seen negative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.groups import group_numbers
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.probabilities.correction import counted_once, fit_correction, shift_groups
from plusone.reviewing.store import Pair, Verdict
from plusone.suggestions.folder import Suggestions

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]  # positions in the arrays of `Suggestions`
States = npt.NDArray[np.int8]

WORTH = 0.2  # below, more than five questions are needed for one missing label


def _falling(values: npt.NDArray[np.floating[Any]]) -> Places:
    return np.argsort(-values, kind="stable").astype(np.int64)


def _missing(probability: Floats, label: Places, n_classes: int) -> Floats:
    """Expected number of missing labels of each class."""
    return np.asarray(np.bincount(label, probability, n_classes))


def _doubt(probability: Floats, label: Places, n_classes: int) -> Floats:
    """How unsure the missing labels of each class are: mean of 1 - p, weighted by p."""
    unsure = np.bincount(label, probability * (1 - probability), n_classes)
    return unsure / np.maximum(_missing(probability, label, n_classes), 1e-9)


def _turns(
    weigh: Callable[[Floats, Places, int], Floats],
) -> Callable[[Suggestions, np.random.Generator], Places]:
    """Classes take turns in proportion to their weights; in each the uncertain come first."""

    def ordered(suggestions: Suggestions, rng: np.random.Generator) -> Places:
        bits = entropy(suggestions.probability)
        best_first = np.lexsort((-bits, suggestions.label))
        label = suggestions.label[best_first].astype(np.int64)
        probability = suggestions.probability[best_first].astype(np.float64)
        weight = weigh(probability, label, len(suggestions.table.classes))
        turn = np.arange(len(label)) - np.searchsorted(label, label, side="left")
        time = (turn + 0.5) / np.maximum(weight[label], 1e-9)
        return best_first[np.lexsort((-bits[best_first], time))].astype(np.int64)

    return ordered


ORDERS: Mapping[str, Callable[[Suggestions, np.random.Generator], Places]] = {
    "item": lambda suggestions, rng: np.arange(len(suggestions), dtype=np.int64),
    "worth": _turns(_doubt),
    "uncertain": lambda suggestions, rng: _falling(entropy(suggestions.probability)),
    "frequent": _turns(_missing),
    "balanced": _turns(lambda probability, label, n_classes: np.ones(n_classes)),
    "likely": lambda suggestions, rng: _falling(suggestions.probability),
    "random": lambda suggestions, rng: rng.permutation(len(suggestions)).astype(np.int64),
}


@dataclass(frozen=True)
class Selection:
    """Which questions are asked, and in which order.

    Args:
        budget: Largest number of questions, including those answered before; None for no limit.
        least: Suggestions of a lower probability are not asked about.
    """

    order: str = "item"
    budget: int | None = None
    least: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise InputError(f"unknown order {self.order!r}; known: {', '.join(ORDERS)}")
        if self.budget is not None and self.budget < 1:
            raise InputError(f"the budget must be at least 1 question, not {self.budget}")
        if not 0 <= self.least <= 1:
            raise InputError(f"the least probability must be from 0 to 1, not {self.least:g}")


def select_by_default(
    order: str = "", budget: int | None = None, least: float | None = None, seed: int = 0
) -> Selection:
    """The selection of a review; what is not given depends on whether there is a budget.

    The order is `worth`; the least probability `WORTH`, with a budget 0.
    """
    if budget is None and least is None:
        least = WORTH
    return Selection(order or "worth", budget, least or 0.0, seed)


def order_questions(
    suggestions: Suggestions, order: str = "item", budget: int | None = None, seed: int = 0
) -> npt.NDArray[np.int64]:
    """The suggestions to ask about, in order, as positions in `suggestions`.

    | order | first come |
    | --- | --- |
    | `item` | the items in their order, each with its most probable labels first |
    | `worth` | the uncertain ones, classes in turn, more turns for classes that are in doubt |
    | `uncertain` | those nearest to one half, of any class |
    | `frequent` | as `worth`, with turns in proportion to the missing labels of a class |
    | `balanced` | as `worth`, with equally many turns for every class |
    | `likely` | the most probable |
    | `random` | a random order, for comparison |

    The budget is the largest number of questions, the seed that of the order `random`.
    """
    Selection(order, budget)  # refuses what is unknown
    places = ORDERS[order](suggestions, np.random.default_rng(seed))
    return groups_first(suggestions, places)[:budget]


def topics(suggestions: Suggestions) -> Places | None:
    """Number of the group and class that each suggestion is about; None without groups."""
    table = suggestions.table
    if table.groups is None:
        return None
    numbers = group_numbers(table.groups)[suggestions.row] * len(table.classes)
    return numbers + suggestions.label


def groups_first(
    suggestions: Suggestions, places: Places, answered: npt.NDArray[np.bool_] | None = None
) -> Places:
    """The same suggestions, the first about each group and class before all others.

    Items of a group are alike: an answer about one says much about the others, so these can wait.

    `places` are some of them, in order. Those that were answered, bool `[n]`, are the first of
    their group.
    """
    topic = topics(suggestions)
    if topic is None:
        return places
    later = np.zeros(len(places), dtype=bool) if answered is None else ~answered[places]
    by_topic = np.lexsort((np.arange(len(places)), later, topic[places]))
    first = np.zeros(len(places), dtype=bool)
    first[by_topic[np.unique(topic[places][by_topic], return_index=True)[1]]] = True
    return np.concatenate([places[first], places[~first]])


def entropy(probability: npt.NDArray[np.float32]) -> Floats:
    """Entropy of the answer in bits.

    >>> entropy(np.array([0.5, 1.0], dtype=np.float32)).tolist()
    [1.0, 0.0]
    """
    p = np.clip(probability.astype(np.float64), 0, 1)
    inner = (p > 0) & (p < 1)
    q = np.where(inner, p, 0.5)
    return np.where(inner, -(q * np.log2(q) + (1 - q) * np.log2(1 - q)), 0.0)


OPEN, YES, NO, SKIPPED = 0, 1, 2, 3
CODES = {None: OPEN, "yes": YES, "no": NO, "skip": SKIPPED}
ANSWERS = {code: answer for answer, code in CODES.items()}
REFIT = 50  # from so many answers on, the correction is not fitted again after each one


def counts(states: States) -> dict[str, int]:
    """Number of questions in each state."""
    number = np.bincount(states, minlength=4).tolist()
    return {
        "questions": len(states),
        "answered": number[YES] + number[NO],
        "yes": number[YES],
        "no": number[NO],
        "skipped": number[SKIPPED],
        "left": number[OPEN],
    }


def agreement(states: States, probability: npt.NDArray[np.float32]) -> dict[str, float | None]:
    """How well the probabilities predict the answers; None before the first answer.

    | name | meaning |
    | --- | --- |
    | `accepted` | share of answers that are yes |
    | `expected` | the same as predicted: mean probability of the answered questions |
    | `agreement` | share of answers that are the more probable one |
    | `judged` | number of these answers |
    """
    answered = (states == YES) | (states == NO)
    if not answered.any():
        return {"accepted": None, "expected": None, "agreement": None, "judged": 0}
    yes, p = states[answered] == YES, probability[answered]
    return {
        "judged": len(yes),
        "accepted": float(yes.mean()),
        "expected": float(p.mean(dtype=np.float64)),
        "agreement": float((yes == (p >= 0.5)).mean()),
    }


class Suggested:
    """The state of every suggestion, and which ones to ask about next.

    Answers correct the probabilities of the other suggestions, as those of an audit do
    (`plusone.probabilities.correction`), and those about the same class of other items of a group
    once more. The questions that are left are chosen and ordered anew.

    Args:
        suggestions: The suggestions, and seen labels that are probably wrong (`with_wrong`).
    """

    def __init__(self, suggestions: Suggestions, selection: Selection) -> None:
        self.suggestions = suggestions
        self.probability = suggestions.probability  # corrected by the answers
        self._fitted_on = 0  # answers behind the correction
        self._added = np.zeros(len(suggestions), dtype=np.bool_)
        ids, classes = suggestions.table.ids.tolist(), suggestions.table.classes
        codes = suggestions.table.labels
        positive = codes.row_of_entry()[codes.values == 1] * len(classes)
        positive += codes.indices[codes.values == 1]
        own = suggestions.row * len(classes) + suggestions.label
        self.seen = np.isin(own, positive)  # questions whether a seen label is right
        self.pairs: list[Pair] = [
            (ids[row], classes[label])
            for row, label in zip(suggestions.row.tolist(), suggestions.label.tolist(), strict=True)
        ]
        self.place = {pair: place for place, pair in enumerate(self.pairs)}
        self.state = np.zeros(len(suggestions), dtype=np.int8)
        # Number of the row that decided it.
        self._decided = np.zeros(len(suggestions), dtype=np.int64)
        self._starts = np.searchsorted(suggestions.row, np.arange(len(suggestions.table) + 1))
        self.select(selection)
        self.at_first = len(self.queue)

    def select(self, selection: Selection) -> None:
        """Chooses and orders the questions that are left; answered ones stay."""
        self.selection = selection
        # Answered ones rank first in their class, so that the turns they took count.
        change = self._change(self.probability)
        ranked = np.where(self.state == OPEN, change, np.float32(0.5))
        places = ORDERS[selection.order](
            replace(self.suggestions, probability=ranked), np.random.default_rng(selection.seed)
        )
        self._queued = self.state != OPEN
        places = groups_first(self.suggestions, places, self._queued)
        worth = places[~self._queued[places] & (change[places] >= selection.least)]
        if selection.budget is not None:
            worth = worth[: max(selection.budget - int(self._queued.sum()), 0)]
        self._queued[worth] = True
        self.queue: Places = places[self._queued[places]]

    def update(self, changed: Mapping[Pair, Verdict]) -> None:
        """Applies new verdicts; those about other suggestions are ignored."""
        for pair, now in changed.items():
            place = self.place.get(pair)
            if place is not None:
                self.state[place] = CODES[now.answer]
                self._decided[place] = now.last
        answered = np.flatnonzero((self.state == YES) | (self.state == NO))
        if abs(len(answered) - self._fitted_on) >= max(1, self._fitted_on // REFIT):
            self._correct(answered)

    def _correct(self, answered: Places) -> None:
        before, label = self.suggestions.probability, self.suggestions.label
        topic, n_classes = topics(self.suggestions), len(self.suggestions.table.classes)
        likely = before
        for _ in range(2):  # what answers make likely was asked too, and its answers count
            asked = answered[self._asked(likely)[answered] & ~self.seen[answered]]
            yes = self.state[asked] == YES
            weight = None if topic is None else counted_once(topic[asked])
            correction = fit_correction(before[asked], label[asked], yes, n_classes, weight)
            corrected = correction(before, label)
            if topic is not None:
                corrected = shift_groups(corrected, topic, asked, yes)
            self.probability = np.where(self.seen, before, corrected).astype(np.float32)
            likely = np.maximum(before, self.probability)
        self._added = (self.state == YES) & ~self._asked(likely) & ~self.seen
        self._fitted_on = len(answered)
        self.select(self.selection)

    def _change(self, probability: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """How probably the answer changes a label: a yes, or a no about a seen label."""
        return np.where(self.seen, 1 - probability, probability).astype(np.float32)

    def _asked(self, probability: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
        """Which suggestions are asked about, with these probabilities, bool `[n]`.

        Labels that a person adds without being asked are all yes, so nothing is learned from them.
        """
        return np.asarray(self._change(probability) >= min(self.selection.least, WORTH))

    def of_item(self, row: int) -> Places:
        """The questions about one item."""
        every = np.arange(self._starts[row], self._starts[row + 1])
        chosen: Places = every[self._queued[every] | (self.state[every] != OPEN)]
        return chosen

    def wrong_of(self, row: int) -> list[int]:
        """Seen labels of one item that were asked about and are wrong."""
        own = slice(self._starts[row], self._starts[row + 1])
        wrong = self.seen[own] & (self.state[own] == NO)
        return [int(label) for label in self.suggestions.label[own][wrong]]

    def wrong_items(self) -> set[int]:
        """Items with a seen label that was asked about and is wrong."""
        return set(self.suggestions.row[self.seen & (self.state == NO)].tolist())

    def next_item(self, busy: Set[Pair], again: int, row: int | None = None) -> Places:
        """The open questions of the given or the next item; empty if there is none.

        Those in `busy` are leased to other sessions; those skipped up to row `again` of the history
        are asked again.
        """
        if row is not None:
            own = self.of_item(row)
            return own[self._askable(own, again, frozenset())]
        first = self.queue[self._askable(self.queue, again, busy)][:1]
        if not len(first):
            return first
        own = self.of_item(int(self.suggestions.row[first[0]]))
        return own[self._askable(own, again, busy)]

    def next_page(self, label: int, busy: Set[Pair], again: int, size: int) -> Places:
        """The next open questions about one class, the most probable first."""
        own = self.queue[self.suggestions.label[self.queue] == label]
        own = own[np.argsort(-self.probability[own], kind="stable")]
        free: Places = own[self._askable(own, again, busy)][:size]
        return free

    def after(self, row: int, again: int) -> int | None:
        """The item that probably comes next, to fetch its image in advance."""
        askable = self.queue[self._askable(self.queue, again, frozenset())]
        others = askable[self.suggestions.row[askable] != row][:1]
        return int(self.suggestions.row[others[0]]) if len(others) else None

    def classes(self) -> list[dict[str, Any]]:
        """The classes that are asked about, with their questions and those left."""
        label = self.suggestions.label[self.queue]
        n = len(self.suggestions.table.classes)
        total = np.bincount(label, minlength=n)
        left = np.bincount(label[self.state[self.queue] == OPEN], minlength=n)
        return [
            {"label": k, "name": name, "questions": int(total[k]), "left": int(left[k])}
            for k, name in enumerate(self.suggestions.table.classes)
            if total[k]
        ]

    def progress(self) -> dict[str, Any]:
        """Counts and agreement over the queue; `rest` is the share of yes expected of the rest.

        Questions about seen labels have no probability and only count, as labels do that were
        added without a question. `at_first` is the number of questions before any answer.
        """
        states = self.state[self.queue]
        left = self.queue[(states == OPEN) & ~self.seen[self.queue]]
        rest = float(self.probability[left].mean(dtype=np.float64)) if len(left) else None
        asked = ~self._added[self.queue] & ~self.seen[self.queue]
        agreed = agreement(states[asked], self.suggestions.probability[self.queue][asked])
        return counts(states) | agreed | {"rest": rest, "at_first": self.at_first}

    def _askable(self, places: Places, again: int, busy: Set[Pair]) -> npt.NDArray[np.bool_]:
        state = self.state[places]
        free: npt.NDArray[np.bool_] = (state == OPEN) | (
            (state == SKIPPED) & (self._decided[places] <= again)
        )
        leased = [self.place[pair] for pair in busy if pair in self.place]
        if leased:
            free &= ~np.isin(places, leased)
        return free


WHOLE = ""  # in place of a class name: the item itself


class NewItems:
    """Which item and which class to ask about next.

    Args:
        table: The items; those with a seen positive are not asked about.
    """

    def __init__(self, table: LabelTable, seed: int) -> None:
        self.table = table
        self.seed = seed
        self.ids: list[str] = table.ids.tolist()
        self.rows = {name: row for row, name in enumerate(self.ids)}
        self.labels = {name: label for label, name in enumerate(table.classes)}
        self._asked_about = table.labels.per_item(1) == 0
        self._waiting = self._asked_about.copy()
        self._total = int(self._waiting.sum())
        self._left = np.full(len(table), len(table.classes)) - table.labels.per_item(-1)
        self._answers: dict[int, dict[int, str]] = {}
        self._skipped: dict[int, int] = {}  # skipped item -> row of the history
        self._counts = {"yes": 0, "no": 0, "skip": 0}

    def update(self, changed: Mapping[Pair, Verdict]) -> None:
        """Applies new verdicts; those about other items or classes are ignored."""
        for (item, name), now in changed.items():
            row = self.rows.get(item)
            if row is None:
                continue
            if name == WHOLE:
                self._skipped.pop(row, None)
                if now.answer is not None:
                    self._skipped[row] = now.last
            elif name in self.labels:
                self._note(row, self.labels[name], now.answer)

    def order(self, row: int) -> npt.NDArray[np.int64]:
        """The classes of one item in the order in which they are asked about."""
        return np.random.default_rng([self.seed, row]).permutation(len(self.table.classes))

    def next(self, busy: Set[Pair], again: int, row: int | None = None) -> tuple[int, int] | None:
        """The item and the class to ask about; None if there is none, or all are leased to others.

        Items in `busy` are leased to other sessions; those skipped up to row `again` of the history
        are asked about again. The item `row` is preferred if it still needs a question.
        """
        free = self._waiting & (self._left > 0)
        if row is not None and free[row]:
            return row, self._class(row)
        free[[item for item, at in self._skipped.items() if at > again]] = False
        free[[self.rows[item] for item, _ in busy if item in self.rows]] = False
        rows = np.flatnonzero(free)
        return (int(rows[0]), self._class(int(rows[0]))) if len(rows) else None

    def number(self, row: int) -> int:
        """Number of answered questions about an item."""
        return len(self._answers.get(row, ()))

    def progress(self) -> dict[str, Any]:
        """Number of labelled items, and of the questions asked."""
        still_open = self._waiting & (self._left > 0)
        skipped = sum(bool(still_open[row]) for row in self._skipped)
        done = self._total - int(still_open.sum())
        asked = self._counts["yes"] + self._counts["no"]
        return {
            "questions": self._total,
            "answered": done,
            "left": self._total - done - skipped,
            "skipped": skipped,
            "without": int((self._waiting & ~still_open).sum()),
            "yes": self._counts["yes"],
            "no": self._counts["no"],
            "per_item": asked / done if done else None,
        }

    def _class(self, row: int) -> int:
        known = {*self._answers.get(row, ()), *self._seen(row)}
        return int(next(label for label in self.order(row).tolist() if label not in known))

    def _seen(self, row: int) -> list[int]:
        own = self.table.labels
        return [int(label) for label in own.indices[own.indptr[row] : own.indptr[row + 1]]]

    def _note(self, row: int, label: int, answer: str | None) -> None:
        if not self._asked_about[row] or label in self._seen(row):
            return  # the label was added to the table in the meantime
        answers = self._answers.setdefault(row, {})
        before = answers.pop(label, None)
        if before is not None:
            self._counts[before] -= 1
            self._left[row] += 1
        if answer is not None:
            answers[label] = answer
            self._counts[answer] += 1
            self._left[row] -= 1
        self._waiting[row] = "yes" not in answers.values()
