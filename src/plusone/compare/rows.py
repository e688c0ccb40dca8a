"""One results row per data set, method and mode: the record, and how it comes from many runs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any, Literal

from pydantic import Field

from plusone.compare.jobs import DRAWN, JobResult
from plusone.compare.noise import (
    Noise,
    is_near,
    p_over_classes,
    p_over_seeds,
    pooled_noise,
)
from plusone.compare.protocol import is_edge, searched, still_improving
from plusone.data.observation import describe_scheme, parse_scheme
from plusone.data.public import PUBLIC
from plusone.methods import ALL_LABELS, ASSUME_NEGATIVE, METHODS
from plusone.results import Number, Record, RunResult

REPEATED = ("seed", *DRAWN)  # settings in which repetitions differ
BACKBONE = "ResNet-50"  # of the published figures
PARTS_OF_NAMES = {"voc": "voc", "coco": "coco", "nuswide": "nus", "cub": "cub"}


def base(name: str) -> str:
    """The method of a variant's name.

    >>> base("gr (epochs = 3)"), base("gr")
    ('gr', 'gr')
    """
    return name if name in METHODS else name.partition(" (")[0]


class Outcome(Record):
    """Mean scores of runs that differ only in their seed.

    Args:
        test_map: Mean over seeds, unknown labels left out; None without a test split.
        test_sd: Sample standard deviation over seeds; None for one seed.
        if_negative: `test_map` if all unknown labels were negative; None if there are none.
        keys: Keys of the runs in the journal.
    """

    data: str
    method: str
    lr: Number = None
    seeds: int = 1
    val_map: float
    test_map: Number = None
    test_sd: Number = None
    if_negative: Number = None
    if_positive: Number = None
    keys: tuple[str, ...] = ()

    @property
    def score(self) -> float:
        """Test mAP, or validation mAP without a test split."""
        return self.val_map if self.test_map is None else self.test_map


class Row(Outcome):
    """One method of a comparison with the settings chosen on validation data: a results row.

    `plusone.compare.results_table` has its columns; `results.json` holds all fields.

    Args:
        options: The chosen options, where they differ from the method's defaults.
        val_score: Mean over seeds of what was chosen by, see `RunResult.choice_score`.
        recovery_map: mAP of the training labels against the truth, mean over seeds.
        gap_closed: How far from AN (0) to training with all labels (1) it gets.
        published: The published figure for the same data, labels and mode, in per cent.
        best: Whether it is the best of the methods that see single positives.
        within_noise: Whether it cannot be distinguished from the best one.
        p_seeds: Paired t-test over seeds against the best.
        p_classes: Wilcoxon's signed-rank test over classes against the best.
        head: What was trained on features, see `RunResult.head`.
        learned: How many items it learned from.
        searched: How many learning rates and options were tried.
        at_edge: Whether the learning rate is the lowest or the highest of those tried.
        improving: Whether the best epoch of most runs is the last.
        digests: Of the observed labels of its runs, each draw once.
        protocol: What all rows share, see `plusone.compare.protocol`.
    """

    mode: str = ""
    head: str = ""
    learned: int | None = None
    searched: str = ""
    at_edge: bool = False
    improving: bool = False
    digests: tuple[str, ...] = ()
    protocol: str = ""
    options: dict[str, Any] = Field(default_factory=dict)
    val_score: Number = None
    recovery_map: Number = None
    seconds: Number = None
    gap_closed: Number = None
    published: Number = None
    published_source: str | None = None
    best: bool = False
    within_noise: bool = False
    p_seeds: Number = None
    p_classes: Number = None

    @property
    def choice_score(self) -> float:
        """What settings were chosen by; earlier versions chose by mAP."""
        return self.val_map if self.val_score is None else self.val_score

    @property
    def ranked_by(self) -> Literal["test_map", "val_score", "val_map"]:
        """The field that ranks rows: test mAP, or the validation score without a test split."""
        if self.test_map is not None:
            return "test_map"
        return "val_map" if self.val_score in (None, self.val_map) else "val_score"

    @property
    def score(self) -> float:
        """The value of `ranked_by`."""
        return self.choice_score if self.test_map is None else self.test_map

    @property
    def competes(self) -> bool:
        """Whether it sees single positives; methods that see more labels are references."""
        info = METHODS.get(base(self.method))  # a result may name a method that is unknown here
        return info is None or info.scheme == "single"

    @property
    def paper_name(self) -> str:
        """The method as papers write it, with the variant where it has several."""
        info = METHODS.get(base(self.method))
        if info is None:
            return self.method
        variant = self.options.get("variant", getattr(info.options(), "variant", None))
        more = self.method.removeprefix(info.name)
        return info.written + (f", {variant}" if variant else "") + more

    @property
    def solved(self) -> bool:
        """Whether it was solved in closed form, without a learning rate and epochs."""
        info = METHODS.get(base(self.method))
        return info is not None and info.closed_form and self.mode == "linear"

    def to_dict(self) -> dict[str, Any]:
        """The row for JSON, with all fields."""
        return self.model_dump(mode="json")


@dataclass(frozen=True)
class Summary:
    """The result of `summarise`."""

    rows: tuple[Row, ...]
    tests: tuple[dict[str, Any], ...]

    def tables(self) -> dict[tuple[str, str], list[Row]]:
        """The rows of each data set and mode."""
        tables: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            tables.setdefault((row.data, row.mode), []).append(row)
        return tables


def summarise(results: Iterable[JobResult]) -> Summary:
    """One row per (data, method, mode); settings by the mean validation score over seeds."""
    groups: dict[tuple[str, str], dict[str, dict[str, list[JobResult]]]] = {}
    for result in results:
        methods = groups.setdefault((result.data, result.mode), {})
        # All but the seed and what it draws, so that only repetitions are averaged.
        others = {name: value for name, value in result.recipe.items() if name not in REPEATED}
        settings = json.dumps([result.lr, result.options, others], sort_keys=True)
        runs = methods.setdefault(result.method, {}).setdefault(settings, [])
        if result.key not in {run.key for run in runs}:
            runs.append(result)
    rows: list[Row] = []
    tests = []
    for (data, mode), methods in groups.items():
        chosen = {name: max(tried.values(), key=mean_score) for name, tried in methods.items()}
        compared, noise = compare([_row(runs) for runs in chosen.values()], chosen)
        rows += compared
        tests += [{"data": data, "mode": mode} | asdict(noise)] if noise else []
    return Summary(tuple(rows), tuple(tests))


def with_search(summary: Summary, results: Iterable[JobResult], protocol: str) -> Summary:
    """The summary with what was searched for each row, among all runs of the comparison."""
    tried: dict[tuple[str, str, str], list[JobResult]] = {}
    for result in results:
        tried.setdefault((result.data, result.method, result.mode), []).append(result)
    rows = []
    for row in summary.rows:
        runs = tried[row.data, row.method, row.mode]
        edge = not row.solved and is_edge(row.lr, runs)
        values = {"searched": searched(runs), "at_edge": edge, "protocol": protocol}
        rows.append(row.model_copy(update=values))
    return Summary(tuple(rows), summary.tests)


def compare(
    rows: Sequence[Row], runs: Mapping[str, Sequence[JobResult]]
) -> tuple[list[Row], Noise | None]:
    """The rows of one table, compared with each other."""
    rows = [
        row.model_copy(update={"gap_closed": gap})
        for row, gap in zip(rows, gap_closed(rows), strict=True)
    ]
    rivals = [row for row in rows if row.competes]
    if not rivals:
        return rows, None
    best = max(rivals, key=lambda row: row.score)
    by_seed = {row.method: _by_seed(runs[row.method]) for row in rivals}
    by_class = {row.method: _by_class(runs[row.method]) for row in rivals}
    noise = pooled_noise(by_seed)

    def beside_best(row: Row) -> Row:
        if row is best or not row.competes:
            return row.model_copy(update={"best": row is best})
        p_seeds = p_over_seeds(by_seed[row.method], by_seed[best.method])
        ours, other = by_class[row.method], by_class[best.method]
        p_classes = p_over_classes(ours, other) if len(ours) == len(other) else None
        gap = best.score - row.score
        near = is_near(gap, noise, p_classes) or gap == 0
        tests = {"p_seeds": p_seeds, "p_classes": p_classes, "within_noise": near}
        return row.model_copy(update=tests)

    return [beside_best(row) for row in rows], noise


def gap_closed(rows: Sequence[Row]) -> list[float | None]:
    """How far each method gets from AN (0) to all labels (1), by test mAP; None if undefined."""
    score = {row.method: row.test_map for row in rows}
    bottom, top = score.get(ASSUME_NEGATIVE), score.get(ALL_LABELS)
    if bottom is None or top is None or top <= bottom:
        return [None] * len(rows)
    return [
        None if row.test_map is None else (row.test_map - bottom) / (top - bottom) for row in rows
    ]


def mean_score(results: Sequence[JobResult]) -> float:
    """The mean validation score of runs, by which settings are chosen."""
    return fmean(result.choice_score for result in results)


def outcome(results: Sequence[JobResult]) -> Outcome:
    """Summarises runs that differ in learning rate and seed; validation picks the rate.

    The first of equally good rates is picked.
    """
    by_rate: dict[float, list[JobResult]] = {}
    for result in results:
        by_rate.setdefault(result.lr, []).append(result)
    return Outcome(**_figures(max(by_rate.values(), key=mean_score)))


def _row(runs: Sequence[JobResult]) -> Row:
    """The row of one method from its runs with the chosen settings."""
    first = runs[0]
    recovery = [run.recovery["recovery_map"] for run in runs if run.recovery]
    recovered = [value for value in recovery if value is not None]
    figure, source = published(first) or (None, None)
    return Row(
        **_figures(runs),
        mode=first.mode,
        options=first.options,
        val_score=mean_score(runs),
        recovery_map=fmean(recovered) if recovered else None,
        head=first.head,
        learned=first.learned,
        improving=still_improving(runs),
        digests=tuple(dict.fromkeys(str(run.observation.get("digest")) for run in runs)),
        seconds=fmean(run.seconds for run in runs),
        published=figure,
        published_source=source,
    )


def _figures(runs: Sequence[JobResult]) -> dict[str, Any]:
    tests = [run.test_map for run in runs if run.test_map is not None]
    return {
        "data": runs[0].data,
        "method": runs[0].method,
        "lr": runs[0].lr,
        "seeds": len(runs),
        "val_map": fmean(run.val_map for run in runs),
        "test_map": fmean(tests) if tests else None,
        "test_sd": stdev(tests) if len(tests) > 1 else None,
        "if_negative": _mean_map([run.test_if_negative for run in runs]),
        "if_positive": _mean_map([run.test_if_positive for run in runs]),
        "keys": tuple(run.key for run in runs),
    }


def _mean_map(tests: Sequence[Mapping[str, float | None] | None]) -> float | None:
    maps = [test.get("map") for test in tests if test is not None]
    known = [value for value in maps if value is not None]
    return fmean(known) if known else None


def _by_seed(runs: Sequence[JobResult]) -> dict[int, float]:
    return {run.seed: run.choice_score if run.test_map is None else run.test_map for run in runs}


def _by_class(runs: Sequence[JobResult]) -> list[float | None]:
    """The test AP of each class, mean over seeds; empty without a test split."""
    per_run = [run.test_ap for run in runs if run.test_ap]
    return mean_per_class(per_run) if per_run else []


def mean_per_class(runs: Sequence[Sequence[float | None]]) -> list[float | None]:
    """The mean over runs of a score per class; None where any run has none."""
    means: list[float | None] = []
    for column in zip(*runs, strict=True):
        known = [value for value in column if value is not None and not math.isnan(value)]
        means.append(fmean(known) if known and len(known) == len(column) else None)
    return means


def published(result: RunResult) -> tuple[float, str] | None:
    """The published mAP (%) for the setting of a result and its source, if there is one.

    Data set, labels and mode agree, and the options that belong to a figure; the backbone may be
    another one, which must be said beside the figure. A data set is known by its name and by
    its counts.
    """
    info = METHODS.get(result.method)
    data = public_name(result)
    if data is None or info is None:
        return None
    if result.observation["scheme"] != describe_scheme(parse_scheme(info.scheme)):
        return None
    if result.head.startswith("kernel"):
        return None  # the papers' heads are layers on the features
    usual, special = vars(info.options()), {n for figure in info.published for n in figure.options}
    given = {n: v for n, v in result.options.items() if n in special and v != usual[n]}
    plain = result.recipe.get("head") != "labelwise"
    mode = result.mode if plain else {"finetune": "labelwise"}.get(result.mode)
    for figure in info.published:
        value: float | None = getattr(figure, data)
        if (
            figure.scores == "test"
            and figure.mode == mode
            and figure.options == given
            and value is not None
        ):
            return value, figure.source
    return None


def public_name(result: RunResult) -> str | None:
    """Which public data set this is, with the split of the papers."""
    if result.labels is None:  # the truth is not known: no protocol of the papers
        return None
    items = result.items
    counts = (items["train"] + items["val"], items["test"], len(result.labels.classes))
    for name, public in PUBLIC.items():
        expected = public.expected
        known = (expected.train, expected.test, expected.classes)
        if counts == known and PARTS_OF_NAMES[name] in result.data.lower():
            return name
    return None
