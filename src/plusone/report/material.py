"""Finds what there is to report at some places."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plusone.errors import InputError
from plusone.io.readers import read_json
from plusone.methods import METHODS
from plusone.report.style import colours

Result = dict[str, Any]
OWN = "figures"  # what a report itself writes
SAME = ("data", "method", "mode", "seed", "lr", "options", "recipe", "val_map", "test_map")
DEFAULTS: Result = {"mode": "linear", "options": {}, "observation": {}}  # of older journals


def folders(places: Sequence[Path]) -> Iterator[Path]:
    """All folders at or below some places, each once; hidden ones and figures are passed over.

    Raises:
        InputError: If a place does not exist.
    """
    seen: set[Path] = set()
    for place in places:
        if not place.exists():
            raise InputError(f"{place}: no such folder")
        for name, below, _ in os.walk(place if place.is_dir() else place.parent):
            below[:] = sorted(part for part in below if not part.startswith(".") and part != OWN)
            folder = Path(name)
            if (whole := folder.resolve()) not in seen:
                seen.add(whole)
                yield folder


def content(result: Result) -> str:
    """What makes a training that training, wherever it is kept."""
    seen = (result.get("observation") or {}).get("digest")
    return json.dumps([*(result.get(name) for name in SAME), seen], sort_keys=True, default=str)


def distinct(results: Iterable[Result]) -> list[Result]:
    """Results without copies, in order."""
    found: dict[str, Result] = {}
    for result in results:
        found.setdefault(content(result), result)
    return list(found.values())


def journal_of(folder: Path) -> list[Result]:
    """The results in a folder's journal, if it has one."""
    from plusone.compare.jobs import read_journal

    return [DEFAULTS | result.to_json() for result in read_journal(folder / "journal.jsonl")]


Document = dict[str, Any]
SNIFFED = 400  # characters within which a file of ours says its kind
NAMES = {
    "bench": "results.json",
    "sweep": "sweep.json",
    "ablation": "ablation.json",
    "surface": "surface.json",
    "gradients": "gradients.json",
    "intervals": "intervals.json",
    "loop": "loop.json",
}
KEYS = {
    "bench": ("rows",),
    "sweep": ("over", "values", "rows"),
    "ablation": ("method", "data", "rows"),
    "surface": ("method", "extent", "steps", "seed", "train_items", "alphas", "betas", "loss"),
    "gradients": ("p", "curves"),
    "intervals": ("data", "k", "rows"),
    "loop": ("data", "method", "items", "hidden", "seeds", "before", "all_labels", "rows"),
}
ROWS = {  # where a list of objects is, and what each must have
    "bench": ("rows", ("data", "method", "val_map")),
    "sweep": ("rows", ("data", "method", "value")),
    "ablation": ("rows", ("name",)),
    "gradients": ("curves", ("method", "observed", "unobserved")),
    "intervals": ("rows", ("size", "low", "high")),
    "loop": ("rows", ("order", "questions", "yes", "test_map", "test_sd", "gain")),
}


def documents(folder: Path) -> Iterator[Document]:
    """Our JSON files in a folder: those that say their kind at the beginning.

    Files of other names may be somebody else's: they are passed over if they are not like ours.

    Raises:
        InputError: If a file with one of our names cannot be read as what it says it is.
    """
    for path in sorted(folder.glob("*.json")):
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                if '"kind"' not in file.read(SNIFFED):
                    continue
            document = read_json(path)
        except (OSError, ValueError) as error:
            if path.name in NAMES.values():
                raise InputError(f"{path}: is not valid JSON ({error})") from None
            continue
        kind = document.get("kind") if isinstance(document, dict) else None
        if not isinstance(kind, str) or kind not in NAMES:
            continue
        missing = _missing(kind, document)
        if not missing:
            yield document
        elif path.name == NAMES[kind]:
            raise InputError(
                f"{path}: has no {missing}, which a file of the kind {kind!r} needs; make it again "
                "or remove it"
            )


def _missing(kind: str, document: Document) -> str | None:
    """The first thing that a document should have and has not."""
    for key in KEYS[kind]:
        if document.get(key) is None:
            return repr(key)
    if kind in ROWS:
        name, keys = ROWS[kind]
        rows = document[name]
        if not isinstance(rows, list):
            return f"list {name!r}"
        for number, row in enumerate(rows, start=1):
            for key in keys:
                if not isinstance(row, dict) or key not in row:
                    return f"{key!r} in entry {number} of {name!r}"
    return None


ALIKE = ("method", "seed", "lr", "options")  # settings that make no variant


def base(name: str) -> str:
    """The method behind a name.

    >>> base("gr (epochs = 3)"), base("gr")
    ('gr', 'gr')
    """
    return name if name in METHODS else name.partition(" (")[0]


def is_reference(name: str) -> bool:
    """Whether a method is meant to see more than single positives."""
    info = METHODS.get(base(name))
    return info is not None and info.scheme != "single"


def named(results: Sequence[Result]) -> list[Result]:
    """The results, those of variants with a method named by what is different.

    >>> runs = [{"method": "gr", "data": "d", "recipe": {"epochs": n}} for n in (3, 5)]
    >>> [run["method"] for run in named(runs)]
    ['gr (epochs = 3)', 'gr (epochs = 5)']
    """
    groups: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        key = tuple(str(result.get(name)) for name in ("data", "mode", "method"))
        groups.setdefault(key, []).append(result)
    names = {id(result): name for group in groups.values() for result, name in _names(group)}
    return [result | {"method": names[id(result)]} for result in results]


def _names(group: Sequence[Result]) -> list[tuple[Result, str]]:
    """A name for each result of one method."""
    settings = [_settings(result) for result in group]
    values = [
        {name: json.dumps(of[name], default=str) for name in of} for of in settings
    ]  # as text, to be compared
    every = sorted({name for of in values for name in of})
    varied = [name for name in every if len({of.get(name) for of in values}) > 1]
    labels = len({_digest(result) for result in group}) > 1
    found = []
    for result, of in zip(group, settings, strict=True):
        words = [f"{name} = {of[name]}" for name in varied if name in of]
        words += [f"labels {_digest(result)[:8]}"] if labels and not varied else []
        method = str(result["method"])
        found.append((result, f"{method} ({', '.join(words)})" if words else method))
    return found


def _settings(result: Result) -> dict[str, Any]:
    recipe = result.get("recipe") or {}
    return {name: value for name, value in recipe.items() if name not in ALIKE}


def _digest(result: Result) -> str:
    return str((result.get("observation") or {}).get("digest", "unknown"))


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
        if test is not None:
            return test
        score = self.row.get("val_score")  # rows of earlier versions have none
        return float(self.row["val_map"] if score is None else score)


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
    from plusone.training.run_folder import read_metrics

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
            result = DEFAULTS | read_metrics(folder).to_json()
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
    from plusone.compare.jobs import JobResult
    from plusone.compare.summary import summarise

    known = named(results)
    typed = JobResult.model_validate
    apart = [run for run in known if run["method"] not in METHODS and is_reference(run["method"])]
    keys = {run["key"] for run in apart}
    rivals = [run for run in known if run["key"] not in keys]
    rows = [row.to_dict() for row in summarise(map(typed, rivals)).rows]
    rows += [row.to_dict() | {"best": False, "within_noise": False, "p_seeds": None,
             "p_classes": None} for row in summarise(map(typed, apart)).rows]  # fmt: skip
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
