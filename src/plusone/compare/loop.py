"""Simulates review: how much a person's answers improve a model, with the truth as reviewer.

On fully labelled data: hide all but one positive per item, train, suggest the missing labels, ask
the truth about some of them, train again with the answers, and measure on the test items. The
truth is used for the answers and the measurement only.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.compare.documents import Loop, LoopRow
from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.inputs.task import make_task, split_and_observe
from plusone.io.jsonl import append_jsonl, read_jsonl, write_jsonl
from plusone.methods import ALL_LABELS, get_method
from plusone.metrics import mean_average_precision
from plusone.metrics.known import MEANINGS, against
from plusone.recipe import Recipe
from plusone.reviewing import ORDERS, apply_answers
from plusone.reviewing.questions import Selection, Suggested
from plusone.reviewing.store import Verdict
from plusone.suggestions import Suggestions, read_suggestions, write_suggestions
from plusone.suggestions.find import suggest
from plusone.training.closed_fit import fit_for
from plusone.training.run import fingerprint

ANY = "any"  # questions drawn at random from all unobserved labels, suggested or not
BEFORE = "before"
VERSION = 2  # to be raised when other questions are asked
ALL = "all labels"

Value = dict[str, Any]
Places = npt.NDArray[np.int64]
Progress = Callable[[str], None]


class Journal:
    """Values by key, written to a file as soon as they are known.

    Args:
        path: The file; its first line identifies the simulation it belongs to.
        identity: Identifies the simulation, plain values. A file of another one is refused.
    """

    def __init__(self, path: Path, identity: Value) -> None:
        self.path = path
        self.values: dict[str, Value] = {}
        lines = self._lines()
        if lines and lines[0] != identity:
            raise InputError(
                f"{path}: belongs to other settings or other data; choose another --out"
            )
        self.values = {line["key"]: line["value"] for line in lines[1:]}
        if not lines:
            write_jsonl(path, [identity])

    def get(self, key: str, make: Callable[[], Value]) -> Value:
        """The value of a key: the stored one, or one made and stored now."""
        if key not in self.values:
            self.values[key] = make()
            append_jsonl(self.path, {"key": key, "value": self.values[key]})
        return self.values[key]

    def _lines(self) -> list[Value]:
        if not self.path.exists():
            return []
        try:
            lines = list(read_jsonl(self.path))
            for line in lines[1:]:
                if not isinstance(line["key"], str) or not isinstance(line["value"], dict):
                    raise ValueError("a line has no key and value")
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{self.path}: is damaged ({error}); remove it") from None
        return lines


def simulate(
    dataset: Dataset,
    recipe: Recipe,
    folder: Path,
    *,
    questions: Sequence[int] = (500,),
    orders: Sequence[str] = ("worth",),
    seeds: Sequence[int] = (0, 1, 2),
    folds: int = 5,
    on_progress: Progress | None = None,
) -> Loop:
    """Runs the loop once per seed, and with random questions (the order `any`) for comparison.

    Args:
        dataset: Fully labelled data with a test split.
        recipe: The settings of all runs. Epochs are chosen on observed labels alone.
        folder: Measurements are stored here, so that a stopped simulation resumes.
        questions: Numbers of questions to measure after, in a review with the largest as budget.
        orders: Names in `plusone.reviewing.ORDERS`.
        seeds: Seeds of training, of folds and of random questions; each also draws other seen
            labels, where they are drawn (`observe`).
        folds: Folds of the cross-fitting.
        on_progress: Called with the name of each finished step; `steps` gives their number.
    """
    check(dataset, recipe, questions, orders, seeds)
    blind = recipe.model_copy(update={"observe": "given", "select_on": "observed", "probe": "off"})
    tables = {
        seed: split_and_observe(
            dataset.table, recipe.model_copy(update={"observe_seed": recipe.observe_seed + seed})
        )
        for seed in seeds
    }
    first = split_and_observe(dataset.table, recipe)
    identity = {
        "data": dataset.name,
        "labels": first.labels.digest(),
        "items": fingerprint(make_task(replace(dataset, table=first), blind)),
        "recipe": blind.portable.model_dump(mode="json"),
        "folds": folds,
        "version": VERSION,
    }
    journal = Journal(folder / "answers.jsonl", identity)
    done = on_progress or (lambda what: None)

    def measured(key: str, labels: LabelTable, settings: Recipe) -> float:
        value = journal.get(key, lambda: {"test_map": _measure(dataset, labels, settings)})
        done(key)
        return float(value["test_map"])

    scores: dict[tuple[str, int], list[float]] = {}
    yes: dict[tuple[str, int], list[int]] = {}
    for seed, table in tables.items():
        settings = blind.model_copy(update={"seed": seed})
        full = settings.model_copy(update=_reference(recipe) | {"observe": "all"})
        for name, labels, how in ((BEFORE, table, settings), (ALL, dataset.table, full)):
            value = measured(f"seed {seed}: {name}", labels, how)
            scores.setdefault((name, 0), []).append(value)
        suggestions = _suggestions(
            dataset, table, settings, folds, folder / f"suggestions-seed{seed}"
        )
        done(f"seed {seed}: suggestions")
        for order in (*orders, ANY):
            row, label, answer = _answers(suggestions, order, max(questions), seed, table)
            for number in questions:
                labels = apply_answers(table, row[:number], label[:number], answer[:number])
                key = (order, number)
                # Random questions are the same in any number, a review depends on its budget.
                of = "" if order == ANY else f" of {max(questions)}"
                value = measured(f"seed {seed}: {number}{of} {order}", labels, settings)
                scores.setdefault(key, []).append(value)
                yes.setdefault(key, []).append(int(answer[:number].sum()))
    before = statistics.mean(scores[BEFORE, 0])
    asked = np.setdiff1d(np.arange(len(first)), first.rows_of("test"))
    hidden = int(dataset.table.truth.take(asked).per_item(1).sum()) if dataset.table.truth else 0
    return Loop(
        data=dataset.name,
        method=recipe.method,
        lr=recipe.lr,
        items=len(asked),
        hidden=hidden - int(first.labels.take(asked).per_item(1).sum()),
        seeds=tuple(seeds),
        folds=folds,
        before=before,
        before_sd=_spread(scores[BEFORE, 0]),
        all_labels=statistics.mean(scores[ALL, 0]),
        reference=_reference(recipe)["method"],
        rows=tuple(
            LoopRow(
                order=order,
                questions=number,
                yes=statistics.mean(yes[order, number]),
                test_map=mean,
                test_sd=_spread(values),
                gain=mean - before,
                over_random=None if order == ANY else mean - statistics.mean(scores[ANY, number]),
            )
            for (order, number), values in scores.items()
            if order not in (BEFORE, ALL)
            for mean in [statistics.mean(values)]
        ),
    )


def _reference(recipe: Recipe) -> Value:
    """The settings of the run with all labels."""
    if get_method(recipe.method).closed_form:
        return {"method": recipe.method}
    return {"method": ALL_LABELS, "options": {}}


def steps(questions: Sequence[int], orders: Sequence[str], seeds: Sequence[int]) -> int:
    """How often `simulate` reports progress."""
    return len(seeds) * (3 + len(questions) * (len(orders) + 1))


def check(
    dataset: Dataset,
    recipe: Recipe,
    questions: Sequence[int],
    orders: Sequence[str],
    seeds: Sequence[int],
) -> None:
    """Refuses what `simulate` cannot run, before anything is computed."""
    if dataset.table.truth is None:
        raise InputError(f"{dataset.name}: the truth plays the reviewer, so all labels are needed")
    tested = dataset.table.rows_of("test")
    asked = np.setdiff1d(np.arange(len(dataset.table)), tested)
    if unknown_labels := int(dataset.table.truth.take(asked).per_class(0).sum()):
        raise InputError(
            f"{dataset.name}: the truth plays the reviewer, and {unknown_labels} labels of its "
            "items are unknown; only those of test items may be"
        )
    if not len(tested):
        raise InputError(
            f"{dataset.name}: has no test split to measure on; mark some items as test in a column "
            "or array named split"
        )
    if get_method(recipe.method).scheme != "single":
        raise InputError(
            f"{recipe.method}: is a reference that sees more labels than one per item; choose "
            "another method, for example gr"
        )
    if recipe.train_share != 1:
        raise InputError("train_share must stay 1: questions are about all training items")
    if unknown := [order for order in orders if order not in ORDERS]:
        raise InputError(f"unknown order {unknown[0]!r}; known: {', '.join(ORDERS)}")
    if not questions or min(questions) < 1:
        raise InputError("there must be at least 1 question")
    if not seeds:
        raise InputError("there must be at least 1 seed")


def _measure(dataset: Dataset, table: LabelTable, settings: Recipe) -> float:
    """Test mAP of a run on these labels; unknown test labels are left out."""
    task = make_task(replace(dataset, table=table), settings)
    training = fit_for(task, settings)
    for _ in training.epochs():
        pass
    assert task.test is not None
    truth = task.test.truth
    assert truth is not None
    z, unknown = training.log_odds(task.test), MEANINGS[against(truth)][0]
    return mean_average_precision(z, truth.dense(), settings.empty, unknown)


def _suggestions(
    dataset: Dataset, table: LabelTable, settings: Recipe, folds: int, folder: Path
) -> Suggestions:
    """Suggestions made without the truth; read from the folder if it has them."""
    if (folder / "about.json").exists():
        return read_suggestions(folder)
    blind = replace(dataset, table=replace(table, truth=None))
    suggestions = suggest(blind, settings, folds=folds, keep=folder / "folds")
    write_suggestions(suggestions, folder)
    return suggestions


def _answers(
    suggestions: Suggestions, order: str, budget: int, seed: int, table: LabelTable
) -> tuple[Places, Places, npt.NDArray[np.bool_]]:
    """Items, classes and true answers of the questions, in the order in which they are asked."""
    assert table.truth is not None  # checked before
    if order == ANY:
        rows = np.setdiff1d(np.arange(len(table)), table.rows_of("test"))
        place, label = np.nonzero(table.labels.dense(rows) == 0)
        chosen = np.random.default_rng(seed).permutation(len(place))[:budget]
        row, label = rows[place[chosen]], label[chosen]
    else:
        chosen = reviewed(suggestions, order, budget, seed, table.truth)
        row, label = suggestions.row[chosen], suggestions.label[chosen].astype(np.int64)
    if len(row) < budget:
        raise InputError(
            f"there are {len(row)} labels to ask about in the order {order!r}, fewer than the "
            f"{budget} questions; ask fewer (--questions {len(row)})"
        )
    return row, label, table.truth.dense(row)[np.arange(len(row)), label] == 1


def reviewed(
    suggestions: Suggestions,
    order: str,
    budget: int,
    seed: int,
    truth: LabelMatrix,
    least: float = 0.0,
) -> Places:
    """Positions of the suggestions that a review with true answers asks about, in order.

    Questions about an item are asked together, and answers change what is asked next.
    """
    review = Suggested(suggestions, Selection(order, budget, least, seed))
    asked: list[int] = []
    while len(places := review.next_item(frozenset(), 0)):
        asked += places.tolist()
        label = suggestions.label[places].astype(np.int64)
        yes = truth.dense(suggestions.row[places])[np.arange(len(places)), label] == 1
        review.update(
            {
                review.pairs[place]: Verdict("yes" if right else "no", (), len(asked))
                for place, right in zip(places.tolist(), yes.tolist(), strict=True)
            }
        )
    return np.array(asked, dtype=np.int64)


def _spread(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None
