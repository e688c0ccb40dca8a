"""The material of a report: tables of methods with their runs, and documents of commands."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from plusone.compare.documents import Ablation, Bench, Intervals, Loop, Sweep
from plusone.compare.jobs import JobResult, read_journal
from plusone.compare.results_table import options_text
from plusone.compare.rows import Row, summarise
from plusone.errors import InputError
from plusone.io.readers import read_json
from plusone.methods import ALL_LABELS, ASSUME_NEGATIVE
from plusone.prediction.run_folder import read_metrics
from plusone.report.gradients import Gradients
from plusone.report.style import FOCUS, colours
from plusone.report.surfaces import RunSurface
from plusone.results import Document

D = TypeVar("D", bound=Document)

FIGURES = "figures"  # the folder that a report itself writes
HIGHLIGHTED = 6
NOT_VARIANTS = ("method", "seed", "lr", "options")  # settings that do not make a variant
IDENTITY = {"data", "method", "mode", "seed", "lr", "options", "recipe", "val_map", "test_map"}
BEGINNING = 400  # characters within which a file of ours states its kind
KINDS: dict[str, type[Document]] = {
    record.kind: record
    for record in (Bench, Sweep, Ablation, RunSurface, Gradients, Intervals, Loop)
}
FILES = {kind: f"{kind}.json" for kind in KINDS} | {Bench.kind: "results.json"}


@dataclass(frozen=True)
class Entry:
    """A row of a results table and the runs behind it."""

    row: Row
    runs: tuple[JobResult, ...]

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.row.method

    @property
    def reference(self) -> bool:
        """Whether the method sees more than single positives."""
        return not self.row.competes


@dataclass(frozen=True)
class Group:
    """The methods compared on one data set in one mode."""

    name: str
    slug: str
    data: str
    mode: str
    entries: tuple[Entry, ...]

    def find(self, method: str) -> Entry | None:
        """The entry of a method."""
        return next((entry for entry in self.entries if entry.method == method), None)

    @property
    def ranked(self) -> list[Entry]:
        """Methods from the best to the worst, then references."""
        return sorted(self.entries, key=lambda entry: (entry.reference, -entry.row.score))

    @property
    def best(self) -> Entry:
        """The best method, not counting references."""
        return self.ranked[0]

    @property
    def focus(self) -> list[Entry]:
        """A few methods to highlight: the best, AN, BCE, well-known ones, then by rank."""
        names = [
            self.best.method,
            ASSUME_NEGATIVE,
            ALL_LABELS,
            *FOCUS,
            *(entry.method for entry in self.ranked),
        ]
        entries = [self.find(name) for name in dict.fromkeys(names)]
        return [entry for entry in entries if entry is not None][:HIGHLIGHTED]

    @property
    def only(self) -> JobResult | None:
        """The training, if there is just one."""
        runs = self.runs
        return runs[0] if len(self.entries) == len(runs) == 1 else None

    @property
    def ink(self) -> dict[str, str]:
        """Colours of the methods in focus."""
        return colours([entry.method for entry in self.focus])

    @property
    def runs(self) -> list[JobResult]:
        """All runs, those of the best method first."""
        return [run for entry in self.ranked for run in entry.runs]


@dataclass(frozen=True)
class Material:
    """Everything a report is made from; `left_out` names the runs that no table or curve shows."""

    groups: tuple[Group, ...] = ()
    documents: tuple[Document, ...] = ()
    runs: tuple[JobResult, ...] = ()
    left_out: tuple[str, ...] = ()

    def of(self, kind: type[D]) -> list[D]:
        """The documents of a kind."""
        return [document for document in self.documents if isinstance(document, kind)]


def collect(places: Sequence[Path]) -> Material:
    """Reads run, bench, sweep and ablation folders at or below some places.

    Copies of the same training or document count once.
    """
    documents: list[Document] = []
    tables: list[tuple[str, list[Entry]]] = []
    loose: list[JobResult] = []  # runs that are in no table yet
    runs: list[JobResult] = []
    journals: list[tuple[Path, list[JobResult]]] = []
    unfinished: list[str] = []
    for folder in folders(places):
        here = list(read_documents(folder))
        journal = list(read_journal(folder / "journal.jsonl"))
        new = [document for document in here if document not in documents]
        documents += new
        tables += [("", _entries(each.rows, journal)) for each in new if isinstance(each, Bench)]
        if not any(isinstance(document, Bench | Sweep | Ablation) for document in here):
            loose += journal
        if (run := _read_run(folder)) is not None:
            runs.append(run)
            loose.append(run)
        elif (folder / "recipe.toml").exists():
            unfinished.append(f"{folder}: a run that is not finished")
        journals.append((folder, journal if run is None else [*journal, run]))
    if loose:
        named = _named(distinct(loose))  # a row per variant of a method
        tables.append(("runs", _entries(summarise(named).rows, named)))
    if not tables and not documents:
        raise InputError(
            f"{', '.join(str(place) for place in places)}: holds no finished run; plusone train "
            "makes one, and --resume finishes one that was stopped"
        )
    shown = {run.key for _, entries in tables for entry in entries for run in entry.runs}
    shown |= {key for each in documents for row in getattr(each, "rows", ()) for key in _keys(row)}
    others = [text for folder, each in journals for text in _left_out(folder, each, shown)]
    return Material(
        tuple(_groups(tables)),
        tuple(documents),
        tuple(distinct(runs)),
        (*unfinished, *others),
    )


def _keys(row: object) -> tuple[str, ...]:
    keys: tuple[str, ...] = getattr(row, "keys", ())
    return keys


def _left_out(folder: Path, journal: Sequence[JobResult], shown: set[str]) -> Iterator[str]:
    """The runs of a journal that are not shown, a sentence for each method."""
    by_method: dict[tuple[str, str], list[JobResult]] = {}
    for run in journal:
        if run.key not in shown:
            by_method.setdefault((run.data, run.method), []).append(run)
    for (data, method), runs in by_method.items():
        rates = ", ".join(dict.fromkeys(f"{run.lr:g}" for run in runs))
        options = dict.fromkeys(options_text(run.options) for run in runs if run.options)
        with_options = f"; {'; '.join(options)}" if options else ""
        count = f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
        yield f"{folder}: {count} of {method} on {data}, not chosen (lr {rates}{with_options})"


def read_documents(folder: Path) -> Iterator[Document]:
    """The JSON files of ours in a folder: those that begin with a kind that is known.

    Files with other names may be somebody else's: they are skipped if they are not valid.

    Raises:
        InputError: If a file with one of our names is not what we write.
    """
    for path in sorted(folder.glob("*.json")):
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                if '"kind"' not in file.read(BEGINNING):
                    continue
            content = read_json(path)
        except (OSError, ValueError) as error:
            if path.name in FILES.values():
                raise InputError(f"{path}: is not valid JSON ({error})") from None
            continue
        kind = content.get("kind") if isinstance(content, dict) else None
        if not isinstance(kind, str) or kind not in KINDS:
            continue
        try:
            yield KINDS[kind].from_json(content, str(path))
        except InputError as error:
            if path.name == FILES[kind]:
                raise InputError(f"{error}; make it again or remove it") from None


def find_results(places: Sequence[Path]) -> list[JobResult]:
    """The results of all finished runs at or below some places, without copies."""
    runs: list[JobResult] = []
    journals: list[JobResult] = []
    for folder in folders(places):
        if (run := _read_run(folder)) is not None:
            runs.append(run)
        journals += read_journal(folder / "journal.jsonl")
    return distinct([*runs, *journals])


def folders(places: Sequence[Path]) -> Iterator[Path]:
    """All folders at or below some places, each once, except hidden ones and figures."""
    visited: set[Path] = set()
    for place in places:
        if not place.exists():
            raise InputError(f"{place}: no such folder")
        for name, below, _ in os.walk(place if place.is_dir() else place.parent):
            below[:] = sorted(one for one in below if not one.startswith(".") and one != FIGURES)
            folder = Path(name)
            if (resolved := folder.resolve()) not in visited:
                visited.add(resolved)
                yield folder


def distinct(results: Iterable[JobResult]) -> list[JobResult]:
    """Results without copies of the same training, in order."""
    by_identity: dict[str, JobResult] = {}
    for result in results:
        identity = result.model_dump(mode="json", include=IDENTITY) | {"digest": _digest(result)}
        by_identity.setdefault(json.dumps(identity, sort_keys=True), result)
    return list(by_identity.values())


def _read_run(folder: Path) -> JobResult | None:
    """The result of a run folder; None if it holds no complete run."""
    if not (folder / "metrics.json").exists():
        return None
    here = {"key": f"run {folder}", "run": os.fspath(folder)}  # it may have been moved
    return JobResult.model_validate(read_metrics(folder).to_json() | here)


def _entries(rows: Iterable[Row], results: Iterable[JobResult]) -> list[Entry]:
    """Rows with the results that their keys name, by seed."""
    by_key = {result.key: result for result in results}
    entries = []
    for row in rows:
        runs = [by_key[key] for key in row.keys if key in by_key]
        entries.append(Entry(row, tuple(sorted(runs, key=lambda run: run.seed))))
    return entries


def _named(results: Sequence[JobResult]) -> list[JobResult]:
    """The results; where a method has variants, its name says what differs between them."""
    groups: dict[tuple[str, str, str], list[JobResult]] = {}
    for result in results:
        groups.setdefault((result.data, result.mode, result.method), []).append(result)
    names = {
        result.key: name
        for group in groups.values()
        for result, name in zip(group, _variants(group), strict=True)
    }
    return [result.model_copy(update={"method": names[result.key]}) for result in results]


def _variants(group: Sequence[JobResult]) -> Iterator[str]:
    recipes = [
        {name: json.dumps(value) for name, value in result.recipe.items()
         if name not in NOT_VARIANTS}
        for result in group
    ]  # fmt: skip
    names = sorted({name for recipe in recipes for name in recipe})
    varied = [name for name in names if len({recipe.get(name) for recipe in recipes}) > 1]
    other_labels = not varied and len({_digest(result) for result in group}) > 1
    for result in group:
        words = [f"{name} = {result.recipe[name]}" for name in varied if name in result.recipe]
        words += [f"labels {_digest(result)[:8]}"] if other_labels else []
        yield f"{result.method} ({', '.join(words)})" if words else result.method


def _digest(result: JobResult) -> str:
    return str(result.observation.get("digest", "unknown"))


def _groups(tables: Sequence[tuple[str, Sequence[Entry]]]) -> Iterator[Group]:
    """One group per table, data set and mode, each with its own name."""
    by_table: dict[tuple[int, str, str], list[Entry]] = {}
    for number, (_, entries) in enumerate(tables):
        for entry in entries:
            by_table.setdefault((number, entry.row.data, entry.row.mode), []).append(entry)
    modes: dict[str, set[str]] = {}
    for _, data, mode in by_table:
        modes.setdefault(data, set()).add(mode)
    used: dict[str, int] = {}
    for place, ((number, data, mode), entries) in enumerate(by_table.items(), start=1):
        name = f"{data}, {mode}" if len(modes[data]) > 1 else data
        used[name] = used.get(name, 0) + 1
        if used[name] > 1:
            name = f"{name} ({tables[number][0] or used[name]})"
        yield Group(name, f"{place}", data, mode, tuple(entries))
