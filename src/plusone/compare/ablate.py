"""Ablations: a method with some of its parts switched off, as in the tables of its paper.

The rows of a method are in its `MethodInfo`. A row is the method with other options, or another
method; exactly one row is the method itself, and every other one is compared with it. Options that
the user gives apply to all rows that have them, unless the row itself sets them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from plusone.compare.documents import Ablation, AblationRow
from plusone.compare.jobs import Job, JobResult, Runner, Settings, run_jobs
from plusone.compare.results_table import markdown
from plusone.compare.rows import outcome, public_name
from plusone.compare.sweep import plan_cell, run_cells
from plusone.data.source import Source
from plusone.errors import InputError
from plusone.io.files import write_json, write_text
from plusone.io.text import percent
from plusone.methods import METHODS, Part, get_method
from plusone.version import __version__


def run_ablation(
    source: Source,
    method: str,
    folder: Path,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    rates: Sequence[float | None] = (None,),
    settings: Settings | None = None,
    rules: bool = False,
    data: str | None = None,
    notes: Sequence[str] = (),
    command: str = "",
    run: Runner | None = None,
) -> Ablation:
    """Trains every row with every seed; the arguments are those of `run_sweep`.

    `data` names the public data set whose published figures stand beside ours; by default it is
    recognised by its name and counts.
    """
    parts = parts_of(method)
    given = settings or {}
    cells = [plan_part(part, method, source, seeds, rates, given, rules=rules) for part in parts]
    journal = folder / "journal.jsonl"
    results = run_cells(cells, run or (lambda jobs: run_jobs(jobs, journal)))
    modes = {result.mode for trained in results for result in trained}
    if data is None and modes == {"finetune"}:  # as the published figures
        data = public_name(results[0][0])
    rows = summarise_ablation(parts, results, data)
    note = get_method(method).on_features
    own = (note,) if modes == {"linear"} and note else ()
    return Ablation(
        title=f"{rows[0].data}: what the parts of {method} are worth",
        command=command,
        method=method,
        data=rows[0].data,
        rows=rows,
        notes=(*own, *notes),
        version=__version__,
    )


def parts_of(method: str) -> Sequence[Part]:
    """The rows of a method's ablation."""
    parts = get_method(method).ablation
    if not parts:
        known = ", ".join(name for name, info in METHODS.items() if info.ablation)
        raise InputError(f"{method} has no parts to switch off; methods: {known}")
    return parts


def plan_part(
    part: Part,
    method: str,
    source: Source,
    seeds: Sequence[int],
    rates: Sequence[float | None],
    settings: Settings,
    *,
    rules: bool = False,
) -> list[Job]:
    """The runs of one row."""
    name = part.method or method
    given = settings.get("options", {})
    if part.method is not None:  # another method may not have all these options
        known = {entry.name for entry in dataclasses.fields(get_method(name).options)}
        known -= set(part.leaves)
        given = {option: value for option, value in given.items() if option in known}
    own = {"options": dict(part.options)}
    general = settings | {"options": given}
    return plan_cell(part.name, source, name, seeds, rates, general, own, rules=rules)


def summarise_ablation(
    parts: Sequence[Part], results: Sequence[Sequence[JobResult]], data: str | None = None
) -> tuple[AblationRow, ...]:
    """One row per part, from the results of its runs; published figures are those of `data`."""
    outcomes = [outcome(trained) for trained in results]
    (full,) = (out.test_map for part, out in zip(parts, outcomes, strict=True) if part.is_full)
    return tuple(
        AblationRow.model_validate(
            out.to_json()
            | {
                "name": part.name,
                "paper": part.paper,
                "options": trained[0].options,
                "published": part.published.get(data or ""),
                "change": None if out.test_map is None or full is None else out.test_map - full,
            }
        )
        for part, out, trained in zip(parts, outcomes, results, strict=True)
    )


def ablation_table(ablation: Ablation) -> tuple[list[str], list[list[str]]]:
    """Columns and lines: a line per row of the paper's table, mAP in per cent."""
    header = ["what is on", "test mAP", "sd", "val mAP", "change"]
    quoted = any(row.published is not None for row in ablation.rows)
    lines = [
        [
            row.name,
            percent(row.test_map),
            percent(row.test_sd),
            percent(row.val_map),
            "-" if row.change is None else f"{100 * row.change:+.2f}",
            *((_quote(row.published), row.paper or "-") if quoted else ()),
        ]
        for row in ablation.rows
    ]
    return [*header, *(["published", "row"] if quoted else [])], lines


def _quote(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:g}"


def write_ablation(ablation: Ablation, folder: Path) -> Path:
    """Writes `ablation.json` and `table.md`."""
    notes = "".join(f"- {note}\n" for note in ablation.notes)
    write_text(folder / "table.md", f"{markdown(*ablation_table(ablation))}\n{notes}")
    write_json(folder / "ablation.json", ablation.to_json())
    return folder / "ablation.json"
