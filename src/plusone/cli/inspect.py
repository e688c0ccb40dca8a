"""The command `inspect`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plusone.cli import options as opt
from plusone.cli.loading import load
from plusone.cli.printing import emit, out, say, table
from plusone.errors import InputError
from plusone.io.text import percent

if TYPE_CHECKING:
    from plusone.data.dataset import Dataset
    from plusone.data.inspect import Summary
    from plusone.data.table import LabelTable
    from plusone.probabilities.picks import Salience


def inspect(
    data: opt.Data = "digits",
    features: opt.Features = None,
    hints: opt.Hints = None,
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    separator: opt.Separator = None,
    classes: Annotated[int, typer.Option(min=0, help="How many classes to list.")] = 20,
    seed: opt.UnusedSeed = 0,
    as_json: opt.Json = False,
) -> None:
    """Summarise a data set, or list every problem in it (exit code 2).

    With features, it also says how readily annotators name each class.

    Example: [bold]plusone inspect photos/labels.csv[/bold]
    """
    from plusone.data.inspect import summarise

    try:
        dataset = load(data, features, form, meaning, hints=hints, separator=separator)
    except InputError as error:
        if as_json:
            emit({"data": data, "problems": str(error).splitlines()})
        raise
    summary, auc = summarise(dataset.table), _hint_auc(dataset.table)
    salience = _salience(dataset)
    if as_json:
        broken = [asdict(one) for one in dataset.broken]
        more: dict[str, Any] = {"broken": broken} | (
            {} if summary.hints is None else {"hint_auc": auc}
        )
        more |= {} if salience is None else {"salience": salience.to_dict()}
        emit({"data": data, "problems": []} | summary.to_dict() | more)
        return
    _print_summary(summary, dataset.name, classes, auc)
    if salience is not None:
        say(f"how annotators pick: {salience.finding(dataset.table.classes)}")
    for one in dataset.broken:
        say(f"left out: {one.id} {one.reason}")


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
