"""Finds what there is to report at some places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plusone.bench.choice import choice_score
from plusone.errors import InputError
from plusone.methods import METHODS
from plusone.report.documents import Document, documents
from plusone.report.places import DEFAULTS, Result, content, distinct, folders, journal_of
from plusone.report.style import colours
from plusone.report.variants import is_reference, named

FOCUS = ("gr", "em", "role", "lasd", "wan", "epr")  # brought out after the best, AN and BCE
SHOWN = 6


@dataclass(frozen=True)
class Entry:
    """A row of a results table and the trainings behind it."""

    row: dict[str, Any]
    runs: tuple[Result, ...]

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(self.row["method"])

    @property
    def reference(self) -> bool:
        """Whether the method is meant to see more than single positives."""
        return is_reference(self.method)

    @property
    def score(self) -> float:
        """Test mAP, or what validation chose by where there is no test split."""
        test: float | None = self.row.get("test_map")
        return choice_score(self.row) if test is None else float(test)


@dataclass(frozen=True)
class Group:
    """The methods compared on one data set in one mode.

    Args:
        name: What to call it.
        slug: The same for names of files and anchors.
        data: Name of the data set.
        mode: How the methods were trained.
        entries: One per method.
    """

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
        return sorted(self.entries, key=lambda entry: (entry.reference, -entry.score))

    @property
    def best(self) -> Entry:
        """The best method, references apart."""
        return self.ranked[0]

    @property
    def focus(self) -> list[Entry]:
        """A few methods to bring out: the best, AN, BCE, well-known ones, then by rank."""
        names = [self.best.method, "an", "bce", *FOCUS, *(entry.method for entry in self.ranked)]
        found = [self.find(name) for name in dict.fromkeys(names)]
        return [entry for entry in found if entry is not None][:SHOWN]

    @property
    def ink(self) -> dict[str, str]:
        """Colours of the methods in focus."""
        return colours([entry.method for entry in self.focus])

    @property
    def example(self) -> Result | None:
        """A training that shows what the data is like: of a method with hidden labels."""
        runs = [run for entry in self.ranked for run in entry.runs]
        return runs[0] if runs else None


@dataclass(frozen=True)
class Material:
    """Everything a report is made from.

    Args:
        groups: Tables of methods.
        documents: Content of our JSON files by kind.
        runs: Run folders with their results.
    """

    groups: tuple[Group, ...] = ()
    documents: dict[str, list[Document]] = field(default_factory=dict)
    runs: tuple[tuple[Path, Result], ...] = ()

    def of(self, kind: str) -> list[Document]:
        """The documents of a kind."""
        return self.documents.get(kind, [])


def collect(places: Sequence[Path]) -> Material:
    """Reads run, bench, sweep and ablation folders at or below some places.

    Copies of the same training or document count once.

    Raises:
        InputError: If a place does not exist, or none holds anything finished.
    """
    from plusone.engine.run_files import read_metrics

    found: dict[str, list[Document]] = {}
    tables: list[tuple[str, list[Entry]]] = []
    loose: list[Result] = []
    runs: dict[str, tuple[Path, Result]] = {}
    for folder in folders(places):
        here = list(documents(folder))
        new = [document for document in here if document not in found.get(document["kind"], [])]
        for document in new:
            found.setdefault(document["kind"], []).append(document)
        journal = journal_of(folder)
        for document in new:
            if document["kind"] == "bench":
                tables.append(("", _entries(document["rows"], journal)))
        if not {document["kind"] for document in here} & {"bench", "sweep", "ablation"}:
            loose += journal
        if (folder / "metrics.json").exists():
            result = DEFAULTS | read_metrics(folder)
            runs.setdefault(content(result), (folder, result))
            loose.append(result | {"key": f"run {folder}"})
    if loose:
        tables.append(("runs", _summarised(distinct(loose))))
    if not tables and not found:
        raise InputError(
            f"{', '.join(str(place) for place in places)}: holds no finished run; plusone train "
            "makes one, and --resume finishes one that was stopped"
        )
    return Material(tuple(_groups(tables)), found, tuple(runs.values()))


def _entries(rows: Iterable[dict[str, Any]], results: Iterable[Result]) -> list[Entry]:
    """Rows with the results their keys name."""
    by_key = {result["key"]: result for result in results}
    entries = []
    for row in rows:
        runs = [by_key[key] for key in row.get("keys", ()) if key in by_key]
        entries.append(Entry(row, tuple(sorted(runs, key=lambda run: int(run["seed"])))))
    return entries


def _summarised(results: Sequence[Result]) -> list[Entry]:
    """Rows made from results, for runs and for benches that were stopped.

    A row per variant of a method; variants of references are summed up by themselves, so that they
    are not taken for rivals.
    """
    from plusone.bench.summary import summarise

    known = named(results)
    apart = [run for run in known if run["method"] not in METHODS and is_reference(run["method"])]
    keys = {run["key"] for run in apart}
    rows = [row.to_dict() for row in summarise(r for r in known if r["key"] not in keys).rows]
    rows += [row.to_dict() | {"best": False, "within_noise": False, "p_seeds": None,
             "p_classes": None} for row in summarise(apart).rows]  # fmt: skip
    return _entries(rows, known)


def _groups(tables: Sequence[tuple[str, Sequence[Entry]]]) -> Iterator[Group]:
    """One group per table, data set and mode, each with a name of its own."""
    found: dict[tuple[int, str, str], list[Entry]] = {}
    for number, (_, entries) in enumerate(tables):
        for entry in entries:
            key = (number, str(entry.row["data"]), str(entry.row.get("mode", "")))
            found.setdefault(key, []).append(entry)
    modes: dict[str, set[str]] = {}
    for _, data, mode in found:
        modes.setdefault(data, set()).add(mode)
    used: dict[str, int] = {}
    for place, ((number, data, mode), entries) in enumerate(found.items(), start=1):
        name = f"{data}, {mode}" if len(modes[data]) > 1 else data
        used[name] = used.get(name, 0) + 1
        if used[name] > 1:
            name = f"{name} ({tables[number][0] or used[name]})"
        yield Group(name, f"{place}", data, mode, tuple(entries))
