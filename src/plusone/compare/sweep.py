"""Sweeps: one setting takes several values, everything else stays fixed; a curve per method.

The setting is any of the recipe's, or `options.NAME` for an option of the methods. Three sweeps
from papers are treated specially:

- `train_share`: mAP against the number of labels (Cole et al. 2021, Fig. 1). The items of a smaller
  share are part of every larger one. Rows hold `labels`, the number of labels seen in training:
  one per item, or one per item and class for `bce`.
- `keep`: each positive is seen with this probability and nothing else is, the general missing-label
  setting (Zhou et al. 2022). Labels seen at a small share are seen at every larger one; unlike with
  one positive per item, some items may have no label at all.
- `expected_positives`: a wrong k (Cole et al. 2021, App. B).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plusone.compare.documents import Baseline, Sweep, SweepRow
from plusone.compare.jobs import (
    Job,
    JobResult,
    Runner,
    Settings,
    make_jobs,
    rate_grid,
    run_jobs,
)
from plusone.compare.results_table import markdown, spread
from plusone.compare.rows import outcome
from plusone.compare.spec import settings_of_row
from plusone.data.source import Source
from plusone.errors import InputError
from plusone.inputs.task import seen_labels
from plusone.io.files import write_json, write_text
from plusone.io.text import percent
from plusone.methods import METHODS, get_method
from plusone.recipe import Recipe, parse_settings
from plusone.training.expected import check_expected_positives
from plusone.version import __version__

KEEP = "keep"
LABELS = {
    "train_share": "share of the training items",
    KEEP: "share of the positives seen",
    "expected_positives": "expected positives per item (k)",
    "lr": "learning rate",
}
REFUSED = {
    "method": "name the methods with --methods",
    "seed": "name the seeds with --seeds",
    "options": "write options.NAME, such as options.alpha",
    "stages": "stages cannot be swept",
    "format": "it is not a setting of training",
}


def parse_over(text: str) -> tuple[str, tuple[Any, ...]]:
    """The setting and its distinct values; three dots continue a sequence of numbers.

    >>> parse_over("options.alpha=0.1,0.2,...,0.5")
    ('options.alpha', (0.1, 0.2, 0.3, 0.4, 0.5))
    >>> parse_over("observe=single,positives_and_negatives(1, 1)")
    ('observe', ('single', 'positives_and_negatives(1, 1)'))
    """
    name, equals, listed = text.partition("=")
    name, parts = name.strip(), _split(listed)
    if not equals or not name or not parts:
        raise InputError(f"--over {text!r}: write it as name=value,value,...")
    if name in REFUSED:
        raise InputError(f"--over {name}: {REFUSED[name]}")
    known = [*Recipe.model_fields, KEEP]
    if name not in known and not name.startswith("options."):
        swept = ", ".join(entry for entry in known if entry not in REFUSED)
        raise InputError(f"--over {name}: unknown setting; settings: {swept}, options.NAME")
    if "..." in parts:
        return name, _continued(text, parts)
    return name, tuple({repr(value): value for value in map(_parse, parts)}.values())


def settings_for(over: str, value: Any, method: str) -> Settings:
    """The recipe settings that give `over` a value.

    >>> settings_for("keep", 0.3, "em")
    {'observe': 'fraction(0.3)'}
    """
    info = get_method(method)
    if over == KEEP:
        if info.scheme != "single":
            raise InputError(
                f"{method} is defined by the labels it sees, so none can be hidden from it; "
                f"compare with it by --baseline {method}"
            )
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
            raise InputError(f"keep={value}: the share of positives must be above 0 and at most 1")
        return {"observe": f"fraction({value})"}
    if over == "expected_positives" and not info.needs_k:
        users = ", ".join(name for name, entry in METHODS.items() if entry.needs_k)
        raise InputError(f"{method} does not use expected_positives; methods that do: {users}")
    if over.startswith("options."):
        return {"options": {over.removeprefix("options."): value}}
    return {over: value}


def label_of(over: str) -> str:
    """The label of the axis of the values."""
    return LABELS.get(over, over.removeprefix("options."))


def _split(text: str) -> list[str]:
    """The parts between commas outside brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def _parse(text: str) -> Any:
    return parse_settings([f"value={text}"])["value"]


def _continued(text: str, parts: list[str]) -> tuple[float, ...]:
    """The numbers of "first, second, ..., last"."""
    numbers = [_parse(part) for part in parts if part != "..."]
    numeric = all(isinstance(number, (int, float)) for number in numbers)
    if parts[2:3] != ["..."] or len(parts) != 4 or not numeric:
        raise InputError(f"--over {text!r}: write three dots as in 0.1,0.2,...,1.0")
    first, second, last = numbers
    step = second - first
    steps = round((last - first) / step) if step else 0
    if steps < 1 or abs(first + steps * step - last) > 1e-9 * max(1, abs(last)):
        raise InputError(f"--over {text!r}: steps of {step:g} do not lead from {first} to {last}")
    return tuple(round(first + number * step, 12) for number in range(steps + 1))


@dataclass(frozen=True)
class Point:
    """A point of a curve: a method, a value, and the number of labels seen, where counted."""

    method: str
    value: Any
    labels: int | None = None


def run_sweep(
    source: Source,
    methods: Sequence[str],
    over: str,
    values: Sequence[Any],
    folder: Path,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    rates: Sequence[float | None] = (None,),
    settings: Settings | None = None,
    rules: bool = False,
    baseline: str | None = None,
    command: str = "",
    run: Runner | None = None,
) -> Sweep:
    """Trains every method with every value and seed; runs in the journal are not repeated.

    `over` is a recipe setting, `options.NAME` or `keep`. Of several learning rates, validation
    picks one for each point; rules that look at the data may choose what is not given. The baseline
    is a method that is trained once, without the setting and with its default options. The folder
    has the journal of runs, and `run` trains jobs, `run_jobs` by default.
    """
    given = settings or {}
    points = [Point(method, value) for method in methods for value in values]

    def plan(method: str, name: str, settings: Settings, own: Settings) -> list[Job]:
        shared = settings_of_row(settings, method)
        return plan_cell(name, source, method, seeds, rates, shared, own, rules=rules)

    cells = [
        plan(
            point.method,
            f"{point.method} with {over}={point.value}",
            given,
            settings_for(over, point.value, point.method),
        )
        for point in points
    ]
    points = _check_against_data(points, [cell[0] for cell in cells], over)
    if baseline is not None:
        general = {name: value for name, value in given.items() if name != "options"}
        cells.append(plan(baseline, f"baseline {baseline}", general, {}))
    default = _default(over, [plan(method, method, given, {})[0].recipe for method in methods])
    journal = folder / "journal.jsonl"
    results = run_cells(cells, run or (lambda jobs: run_jobs(jobs, journal)))
    base = None
    if baseline is not None:
        found = outcome(results.pop())
        scores = found.model_dump(include={"test_map", "test_sd", "val_map"})
        base = Baseline(name=found.method, **scores)
    rows = summarise_sweep(points, results)
    return Sweep(
        title=f"{rows[0].data}: mAP against {label_of(over)}",
        command=command,
        over=over,
        label=label_of(over),
        values=tuple(values),
        baseline=base,
        default=default,
        rows=rows,
        version=__version__,
        runs=tidy_runs(rows, results),
    )


def summarise_sweep(
    points: Sequence[Point], results: Sequence[Sequence[JobResult]]
) -> tuple[SweepRow, ...]:
    """One row per point, from the results of its runs."""
    return tuple(
        SweepRow.model_validate(
            outcome(trained).to_json()
            | {"value": point.value}
            | ({} if point.labels is None else {"labels": point.labels})
        )
        for point, trained in zip(points, results, strict=True)
    )


def tidy_runs(
    rows: Sequence[SweepRow], results: Sequence[Sequence[JobResult]]
) -> tuple[dict[str, Any], ...]:
    """One entry per training; `chosen` says whether its learning rate was the chosen one."""
    return tuple(
        {
            "data": result.data,
            "method": result.method,
            "value": row.value,
            "labels": row.labels,
            "seed": result.seed,
            "lr": result.lr,
            "chosen": result.key in row.keys,
            "val_map": result.val_map,
            "test_map": result.test_map,
            "seconds": result.seconds,
            "key": result.key,
        }
        for row, trained in zip(rows, results, strict=True)
        for result in trained
    )


def sweep_table(sweep: Sweep, *, with_sd: bool = True) -> tuple[list[str], list[list[str]]]:
    """Columns and lines: a line per value, a column per method, mAP in per cent.

    It is the test mAP, or the validation mAP where there is no test split.
    """
    methods = list(dict.fromkeys(row.method for row in sweep.rows))
    outcomes = {(row.method, repr(row.value)): row for row in sweep.rows}
    lines = [
        [str(value), *(_figure(outcomes[name, repr(value)], with_sd) for name in methods)]
        for value in sweep.values
    ]
    if sweep.baseline is not None:
        figure = _figure(sweep.baseline, with_sd)
        lines.append([f"baseline {sweep.baseline.name}", *([figure] * len(methods))])
    return [sweep.over, *methods], lines


def _figure(result: SweepRow | Baseline, with_sd: bool) -> str:
    if result.test_map is None:
        return percent(result.val_map)
    return spread(result.test_map, result.test_sd if with_sd else None)


def write_sweep(sweep: Sweep, folder: Path) -> tuple[Path, Path]:
    """Writes `sweep.json`, `table.md` and, one line per training, `sweep.csv`."""
    text = io.StringIO()
    lines = csv.DictWriter(text, list(sweep.runs[0]), lineterminator="\n")
    lines.writeheader()
    lines.writerows(sweep.runs)
    write_json(folder / "sweep.json", sweep.to_json())
    write_text(folder / "sweep.csv", text.getvalue())
    write_text(folder / "table.md", markdown(*sweep_table(sweep)))
    return folder / "sweep.json", folder / "sweep.csv"


def plan_cell(
    name: str,
    source: Source,
    method: str,
    seeds: Sequence[int],
    rates: Sequence[float | None],
    settings: Settings,
    own: Settings,
    *,
    rules: bool = False,
) -> list[Job]:
    """The runs of a cell, whose `own` settings take precedence; errors begin with its name."""
    tried = [rate | own for rate in rate_grid(rates, method)]
    try:
        return make_jobs(source, [method], seeds, {method: tried}, settings, rules=rules)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def run_cells(cells: Sequence[Sequence[Job]], run: Runner) -> list[list[JobResult]]:
    """The results of each cell; a run that several cells share is done once."""
    jobs = {job.key: job for cell in cells for job in cell}
    results = dict(zip(jobs, run(list(jobs.values())), strict=True))
    return [[results[job.key] for job in cell] for cell in cells]


def _check_against_data(points: Sequence[Point], jobs: Sequence[Job], over: str) -> list[Point]:
    """Checks that each k is possible for the data, or counts the labels that each point sees."""
    if over not in ("train_share", "expected_positives"):
        return list(points)
    source = jobs[0].source
    table = source.load().table
    if over == "expected_positives":
        for job in jobs:
            check_expected_positives(job.recipe, len(table.classes))
        return list(points)
    counts: dict[tuple[str, Any], int] = {}  # observing a large table takes long
    for point, job in zip(points, jobs, strict=True):
        key = get_method(point.method).scheme, point.value
        if key not in counts:
            counts[key] = seen_labels(table, job.recipe)
    return [
        replace(point, labels=counts[get_method(point.method).scheme, point.value])
        for point in points
    ]


def _default(over: str, recipes: Sequence[Recipe]) -> Any:
    """The value that `over` has without the sweep, if it is the same for all."""
    if over == KEEP:
        return None
    values = []
    for recipe in recipes:
        if over.startswith("options."):
            options = get_method(recipe.method).make_options(recipe.options)
            values.append(getattr(options, over.removeprefix("options.")))
        else:
            values.append(getattr(recipe, over))
    return values[0] if all(value == values[0] for value in values) else None
