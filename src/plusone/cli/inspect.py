"""The command `inspect`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_file
from plusone.cli.loading import load
from plusone.cli.printing import emit, out, progress, say, table
from plusone.errors import InputError
from plusone.io.text import percent

if TYPE_CHECKING:
    from plusone.data.dataset import Dataset
    from plusone.data.duplicates import Duplicates
    from plusone.data.inspect import Summary
    from plusone.data.table import LabelTable
    from plusone.probabilities.picks import Salience

COMPARED = 20_000  # items among which near duplicates are looked for unasked: a minute
TOO_SURE = (
    "  figures on left-out items, k and probabilities are too sure where others show the same; as "
    "groups they are left out together"
)


def inspect(
    data: opt.Data = "digits",
    features: opt.Features = None,
    hints: opt.Hints = None,
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    separator: opt.Separator = None,
    classes: Annotated[int, typer.Option(min=0, help="How many classes to list.")] = 20,
    duplicates: Annotated[
        bool | None,
        typer.Option(
            "--duplicates/--no-duplicates",
            help=f"Look for near duplicates, by features or images; by default among up to "
            f"{COMPARED:,} items.",
        ),
    ] = None,
    write_groups: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the labels, near duplicates in one group, to a new file (.csv, .npz, "
            ".parquet).",
        ),
    ] = None,
    seed: opt.UnusedSeed = 0,
    as_json: opt.Json = False,
) -> None:
    """Summarise a data set, or list every problem in it (exit code 2).

    With features, it also says how readily annotators name each class. Items that show the same,
    such as a photo that was saved again, resized or cropped, are found by features or else by the
    images, and --write-groups keeps them together in training.

    Example: [bold]plusone inspect photos/labels.csv[/bold]
    Example: [bold]plusone inspect photos --write-groups grouped.csv[/bold]
    """
    from plusone.data.inspect import summarise

    if write_groups is not None:
        _check_new(write_groups)
    try:
        dataset = load(data, features, form, meaning, hints=hints, separator=separator)
    except InputError as error:
        if as_json:
            emit({"data": data, "problems": str(error).splitlines()})
        raise
    summary, auc = summarise(dataset.table), _hint_auc(dataset.table)
    salience = _salience(dataset)
    asked = write_groups is not None or duplicates
    near = _duplicates(dataset, asked) if duplicates is not False or asked else None
    if write_groups is not None:
        _write_groups(dataset, near, write_groups)
    if as_json:
        broken = [asdict(one) for one in dataset.broken]
        more: dict[str, Any] = {"broken": broken} | (
            {} if summary.hints is None else {"hint_auc": auc}
        )
        more |= {} if salience is None else {"salience": salience.to_dict()}
        more |= {} if near is None else {"duplicates": near.to_dict(dataset.table)}
        emit({"data": data, "problems": []} | summary.to_dict() | more)
        return
    _print_summary(summary, dataset.name, classes, auc)
    if salience is not None:
        say(f"how annotators pick: {salience.finding(dataset.table.classes)}")
    if near is not None:
        _print_duplicates(near, dataset.table, write_groups, features or [])
    for one in dataset.broken:
        say(f"left out: {one.id} {one.reason}")


def _check_new(path: Path) -> None:
    """Refuses a file that exists or cannot be written, before any work is done for it."""
    if path.suffix.lower() not in (".csv", ".npz", ".parquet"):
        raise InputError(f"--write-groups {path}: the suffix must be .csv, .npz or .parquet")
    if path.exists() or path.is_symlink():
        raise InputError(f"--write-groups {path}: exists already; name a new file")
    check_file(path, flag="--write-groups")


def _duplicates(dataset: Dataset, asked: bool | None) -> Duplicates | None:
    """Near duplicates, where features or images tell, of few enough items or if asked for."""
    from plusone.data.duplicates import find_duplicates
    from plusone.data.feature_store import features_folder

    n = len(dataset.table)
    if n > COMPARED and not asked:
        say(f"near duplicates: not looked for among {n:,} items; --duplicates does it")
        return None
    with progress("comparing items", 2 * n) as (bar, task):
        return find_duplicates(dataset, features_folder(), lambda done: bar.advance(task, done))


def _write_groups(dataset: Dataset, near: Duplicates | None, path: Path) -> None:
    """Writes the labels with the groups of near duplicates."""
    from plusone.data.formats import write

    if near is None:
        raise InputError(
            f"--write-groups {path}: there is nothing to find near duplicates by; give features "
            "of the items with -x FILE"
        )
    write(replace(dataset.table, groups=near.names(dataset.table)), path)


def _print_duplicates(
    near: Duplicates, labels: LabelTable, written: Path | None, features: list[Path]
) -> None:
    if not near.groups:
        say(f"near duplicates: none found, by their {near.by}")
    else:
        say(f"near duplicates: {near.sentence()}")
        for names in near.examples(labels):
            say(f"  {', '.join(names)}")
        say(TOO_SURE + ("" if written else ": --write-groups FILE writes the labels with groups"))
    if written is not None:
        say(f"labels with groups in {written}")
        words = [word for path in features for word in ("--features", str(path))]
        say(f"next: {join(['plusone', 'train', str(written), *words])}")


def _salience(dataset: Dataset) -> Salience | None:
    """How readily each class is named, where features and single positives tell."""
    import numpy as np
    import torch

    from plusone.closed_form.estimates import from_features, usable_rows

    x, labels = dataset.features, dataset.table.labels
    if (hierarchy := dataset.table.hierarchy) is not None:
        labels = hierarchy.most_specific(labels)  # the others were not named
    if x is None or x.ndim == 4 or dataset.table.truth is not None:
        return None
    try:
        rows = usable_rows(labels)
    except InputError:  # too few items
        return None
    groups = None if dataset.table.groups is None else dataset.table.groups[rows]
    features = torch.from_numpy(np.asarray(x[rows], dtype=np.float32))
    return from_features(features, labels.take(rows), groups).salience


def _hint_auc(labels: LabelTable) -> float | None:
    """How well hints rank the seen positives of a class above its other items."""
    import numpy as np

    from plusone.metrics.seen_labels import seen_auc

    if labels.hints is None:
        return None
    known = ~np.isnan(labels.hints)
    rows, columns = known.any(axis=1), known.any(axis=0)
    seen = labels.labels.dense(np.flatnonzero(rows))[:, columns]
    if not (seen == 1).any():
        return None
    return seen_auc(np.nan_to_num(labels.hints[rows][:, columns], nan=0.0), seen)


def _print_summary(summary: Summary, name: str, classes: int, hint_auc: float | None) -> None:
    """The summary as two tables: the whole, then the classes."""
    seen, true = summary.positives, summary.true_positives
    rows: list[tuple[str, object]] = [
        ("items", summary.items),
        ("classes", summary.classes),
        ("splits", _list(summary.splits)),
        *_group_rows(summary),
        ("image files", "yes" if summary.images else "no"),
        ("seen positives per item", f"{seen.least} to {seen.most}, mean {seen.mean:.2f}"),
        ("items by seen positives", _list(seen.items)),
        ("seen negatives", summary.seen_negatives),
        ("unobserved labels", f"{percent(summary.unobserved_share)} %"),
        ("items without a positive", summary.rows_without_positive),
        ("items with several positives", summary.rows_with_several),
        ("all labels known", "yes" if summary.truth else "no"),
        *_hint_rows(summary, hint_auc),
    ]
    if true is not None:
        rows.append(
            ("all positives per item", f"{true.least} to {true.most}, mean {true.mean:.2f}")
        )
    rows += [(f"observation: {key}", value) for key, value in summary.observation.items()]
    rows.append(
        ("classes without a positive", ", ".join(summary.classes_without_positive) or "none")
    )
    rows.append(("problems", "see the warnings below" if summary.warnings else "none"))
    out.print(table(name, ("what", ""), rows, text=2))
    columns = ("class", "seen positive", "seen negative", "all positives")
    counts = [
        (row.name, row.seen_positive, row.seen_negative, row.true_positive)
        for row in summary.per_class
    ]
    if classes:
        out.print(table("", columns, counts[:classes]))
    if len(counts) > classes:
        say(f"... and {len(counts) - classes} more classes (--classes N shows more)")
    for note in summary.notes:
        say(f"note: {note}")
    for warning in summary.warnings:
        say(f"warning: {warning}")


def _group_rows(summary: Summary) -> list[tuple[str, object]]:
    if summary.groups is None:
        return []
    mean = summary.items / max(summary.groups, 1)
    rows: list[tuple[str, object]] = [
        ("groups", f"{summary.groups}, of {mean:.1f} items, at most {summary.largest_group}")
    ]
    if summary.divided_groups:
        rows.append(("groups in several splits", summary.divided_groups))
    return rows


def _hint_rows(summary: Summary, auc: float | None) -> list[tuple[str, object]]:
    if summary.hints is None:
        return []
    return [
        ("items with hints", _list(summary.hints.items)),
        ("classes with hints", summary.hints.classes),
        ("AUC of hints on seen labels", f"{percent(auc)} % (50 % is chance)"),
    ]


def _list(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{key}: {count}" for key, count in counts.items()) or "none"
