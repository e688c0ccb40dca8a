"""Ablations: a method with some of its parts switched off, as in the tables of its paper.

`ABLATIONS` lists the rows of each method. A row is the method with other options, or another
method; exactly one row is the method itself, and every other one is compared with it. Options that
the user gives hold for all rows that know them, unless the row itself sets them.

LASD's Table 3 tells what is switched off and its figures tell something else: A and B have those of
AN and ASL in the paper's Table 2, while by the text, Eq. 5 and section 5 they are ASL and LAS. Both
readings are listed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from plusone.compare.cells import Outcome, Result, Runner, outcome, plan_cell, run_cells
from plusone.compare.jobs import Job, Source, run_jobs
from plusone.compare.plan import Settings
from plusone.compare.summary import markdown
from plusone.compare.tables import percent
from plusone.errors import InputError
from plusone.io.files import write_json, write_text
from plusone.methods import get_method
from plusone.version import __version__


@dataclass(frozen=True)
class Part:
    """A row of an ablation.

    Args:
        name: What is left of the method.
        options: Options that switch the rest off.
        method: Another method, where no option does it.
        paper: The row it stands for.
        leaves: Options the user gave that have no meaning in this row.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    method: str | None = None
    paper: str = ""
    leaves: tuple[str, ...] = ()

    @property
    def is_full(self) -> bool:
        """Whether it is the method itself."""
        return self.method is None and not self.options


NO_KHAT = {"w": 0.0, "w_start": 0.0, "b": -90.0, "b_start": -90.0}  # sigmoid(-90) is 0
NO_V = {"sigma": 1e6, "sigma_start": 1e6}  # v is 1
NO_ROBUST = {"q1": 0.01, "q2": 0.01, "q3": 0.01}
NEVER = 1_000_000  # an epoch that does not come

ABLATIONS: dict[str, list[Part]] = {
    "lasd": [
        Part("none: AN", method="an", paper="LASD Table 3, A by its figure"),
        Part("none: ASL", method="asl", paper="LASD Table 3, A by its text, B by its figure"),
        Part("leverage", {"tau": 1.0, "alpha": 0.0}, paper="LASD Table 3, B"),
        Part("leverage + disambiguation", {"alpha": 0.0}, paper="LASD Table 3, C"),
        Part("leverage + disambiguation + consistency", paper="LASD Table 3, D"),
    ],
    "gr": [
        Part("none: AN", method="an", paper="GR Table 3, AN loss"),
        Part("khat", NO_V | NO_ROBUST, paper="GR Table 3, row 1"),
        Part("v", NO_KHAT | NO_ROBUST, paper="GR Table 3, row 2"),
        Part("robust losses", NO_KHAT | NO_V, paper="GR Table 3, row 3"),
        Part("khat + v", NO_ROBUST, paper="GR Table 3, row 4"),
        Part("khat + robust losses", NO_V, paper="GR Table 3, row 5"),
        Part("v + robust losses", NO_KHAT, paper="GR Table 3, row 6"),
        Part("khat + v + robust losses", paper="GR Table 3, row 7"),
        Part(
            "khat and v learned",
            method="gr_learned",
            paper="GR Table 3, row 8",
            leaves=("mu", "sigma"),
        ),
    ],
    "lac": [
        Part("AN", {"lam_plc": 0.0, "lam_lac": 0.0}, paper="LAC Table 3, row 1"),
        Part("AN + PLC", {"lam_lac": 0.0}, paper="LAC Table 3, row 2"),
        Part(
            "AN + PLC + LAC, end to end",
            {"end_to_end": True, "queue": 0},
            paper="LAC Table 3, row 3",
        ),
        Part("AN + PLC + LAC, two stages", {"queue": 0}, paper="LAC Table 3, row 4"),
        Part("AN + PLC + LAC, two stages, queue", paper="LAC Table 3, row 5"),
    ],
    "em_apl": [
        Part("none: AN", method="an"),
        Part("EM", {"warmup": NEVER}),
        Part("APL", {"alpha": 0.0}),
        Part("EM + APL"),
    ],
    "role": [
        Part("none: AN", method="an"),
        Part("count of positives: EPR", {"variant": "released"}, method="epr"),
        Part("online estimation", {"lam": 0.0}),
        Part("count of positives + online estimation"),
    ],
    "epr": [
        Part("seen positives", {"lam": 0.0}),
        Part("seen positives + count of positives"),
    ],
    "en_cl": [
        Part("none: AN", method="an"),
        Part("expected negatives", {"weight": 0.0}),
        Part("expected negatives + consistency"),
    ],
    "splc": [
        Part("focal loss", {"tau": 1.0, "margin": 0.0}),
        Part("focal loss + margin", {"tau": 1.0}),
        Part("focal loss + correction", {"margin": 0.0}),
        Part("focal loss + margin + correction"),
    ],
}

SAME_VIEWS = {
    "lasd": "On features the augmented views are the same as the plain one: the consistency is "
    "zero, and rows with and without it are the same training.",
    "lac": "On features the weak and the strong view are the same, apart from dropout: what PLC "
    "and LAC gain from augmentation does not show here.",
}


@dataclass(frozen=True)
class AblationRow:
    """What the trainings of a row gave; `change` is test mAP minus that of the full method."""

    part: Part
    options: Mapping[str, Any]
    outcome: Outcome
    change: float | None

    def to_dict(self) -> dict[str, Any]:
        """The row for JSON."""
        about = {"name": self.part.name, "paper": self.part.paper, "options": dict(self.options)}
        figures = asdict(self.outcome) | {"keys": list(self.outcome.keys), "change": self.change}
        return about | figures


@dataclass(frozen=True)
class Ablation:
    """The result of an ablation.

    Args:
        title: What it is, in a line.
        command: How to repeat it.
        method: The full method.
        rows: One per row of `ABLATIONS`.
        notes: What a reader must know.
    """

    title: str
    command: str
    method: str
    rows: tuple[AblationRow, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The content of `ablation.json`."""
        return {
            "kind": "ablation",
            "title": self.title,
            "command": self.command,
            "method": self.method,
            "data": self.rows[0].outcome.data,
            "rows": [row.to_dict() for row in self.rows],
            "notes": list(self.notes),
            "version": __version__,
        }


def run_ablation(
    source: Source,
    method: str,
    folder: Path,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    rates: Sequence[float | None] = (None,),
    settings: Settings | None = None,
    title: str = "",
    command: str = "",
    workers: int = 2,
    run: Runner | None = None,
) -> Ablation:
    """Trains every row with every seed; what `folder` already holds is not repeated.

    Args:
        source: The data.
        method: A name in `ABLATIONS`.
        folder: Where the journal of trainings is.
        seeds: Seeds of each row.
        rates: Learning rates; for each row validation picks one.
        settings: Settings of all trainings.
        title: A line for reports; one is made if there is none.
        command: How to repeat it.
        workers: Parallel processes.
        run: Runs jobs instead of `run_jobs`, to show progress.
    """
    parts = parts_of(method)
    cells = [plan_part(part, method, source, seeds, rates, settings or {}) for part in parts]
    journal = folder / "journal.jsonl"
    results = run_cells(cells, run or (lambda jobs: run_jobs(jobs, journal, workers=workers)))
    rows = summarise_ablation(parts, results)
    linear = all(result["mode"] == "linear" for found in results for result in found)
    return Ablation(
        title=title or f"{rows[0].outcome.data}: what the parts of {method} are worth",
        command=command,
        method=method,
        rows=rows,
        notes=(SAME_VIEWS[method],) if linear and method in SAME_VIEWS else (),
    )


def parts_of(method: str) -> list[Part]:
    """The rows of a method's ablation."""
    get_method(method)
    if method not in ABLATIONS:
        raise InputError(f"{method} has no parts to switch off; methods: {', '.join(ABLATIONS)}")
    return ABLATIONS[method]


def plan_part(
    part: Part,
    method: str,
    source: Source,
    seeds: Sequence[int],
    rates: Sequence[float | None],
    settings: Settings,
) -> list[Job]:
    """The trainings of one row."""
    name = part.method or method
    given = settings.get("options", {})
    if part.method is not None:  # another method need not know all that was given
        known = {entry.name for entry in dataclasses.fields(get_method(name).options)}
        known -= set(part.leaves)
        given = {option: value for option, value in given.items() if option in known}
    own = {"options": dict(part.options)}
    return plan_cell(part.name, source, name, seeds, rates, settings | {"options": given}, own)


def summarise_ablation(
    parts: Sequence[Part], results: Sequence[Sequence[Result]]
) -> tuple[AblationRow, ...]:
    """One row per part, from the results of its trainings."""
    outcomes = [outcome(found) for found in results]
    (full,) = (out.test_map for part, out in zip(parts, outcomes, strict=True) if part.is_full)
    return tuple(
        AblationRow(
            part,
            found[0]["options"],
            out,
            None if out.test_map is None or full is None else out.test_map - full,
        )
        for part, out, found in zip(parts, outcomes, results, strict=True)
    )


def ablation_table(ablation: Ablation) -> tuple[list[str], list[list[str]]]:
    """Columns and lines: a line per row of the paper's table, mAP in per cent."""
    lines = [
        [
            row.part.name,
            percent(row.outcome.test_map),
            percent(row.outcome.test_sd),
            percent(row.outcome.val_map),
            "-" if row.change is None else f"{100 * row.change:+.2f}",
        ]
        for row in ablation.rows
    ]
    return ["what is on", "test mAP", "sd", "val mAP", "change"], lines


def write_ablation(ablation: Ablation, folder: Path) -> Path:
    """Writes `ablation.json` and `table.md`."""
    notes = "".join(f"- {note}\n" for note in ablation.notes)
    write_text(folder / "table.md", f"{markdown(*ablation_table(ablation))}\n{notes}")
    write_json(folder / "ablation.json", ablation.to_dict())
    return folder / "ablation.json"
