"""The command `priors`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plusone.cli import options as opt
from plusone.cli.loading import load
from plusone.cli.printing import EXTRACTING, KEPT, emit, out, progress, resume_hint, say, table
from plusone.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from plusone.data.dataset import Dataset
    from plusone.data.matrix import LabelMatrix
    from plusone.data.table import LabelTable

UNKNOWN = (
    "how readily annotators name each class is learned from the seen labels; where they always "
    "name one class before another, that one's hidden labels leave no trace. How much of a model's "
    "doubt is about several labels, and how much about which one, cannot be told from seen labels, "
    "so the range is wide; at least what is seen is sure"
)
AUDIT = (
    "to know better, label 50 items drawn at random in full, and count: "
    "plusone priors ... --audit FILE"
)


def priors(
    data: opt.Data,
    features: opt.Features = None,
    audit: Annotated[
        Path | None,
        typer.Option(
            "--audit", metavar="FILE", help="Labels of some items in full: any form of labels."
        ),
    ] = None,
    rows: Annotated[
        int,
        typer.Option("--classes", "--rows", min=1, help="How many classes to list."),
    ] = 20,
    picks: opt.PickModels = None,
    settings: opt.Set = None,
    device: opt.Device = None,
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Estimate how many labels an item has (k), and how often each class applies.

    From the seen labels: how often a model on the features predicts them, and how
    readily annotators name each class, which is learned. With --audit: counted on
    those items.

    Example: [bold]plusone priors labels.csv -x photos.npz[/bold]
    Example: [bold]plusone priors labels.csv -x photos.npz --audit checked.csv[/bold]
    """
    from plusone.probabilities.audit import from_audit

    dataset = load(data, features, form, meaning)
    checked = None if audit is None else audited(audit, dataset.table)
    result: dict[str, Any] = {"data": dataset.name, "classes": list(dataset.table.classes)}
    result |= {"k": None, "single": None, "audit": None, "true": None, "statement": UNKNOWN}
    if checked is None or _has_inputs(dataset):
        pick = [] if picks is None else [f"picks={picks}"]
        result |= _from_single(dataset, [*opt.with_device(settings, device), *pick], seed)
        result["k"] = result["single"]["k"]
    if checked is not None:
        towards = None if result["single"] is None else result["single"]["priors"]
        labels, rows_of_audit = checked
        if result["single"] is not None and result["single"]["salience"] is not None:
            result["single"]["salience"] |= _test_of_picks(labels, dataset.table, rows_of_audit)
        groups = None if dataset.table.groups is None else dataset.table.groups[rows_of_audit]
        estimate = from_audit(labels, towards=towards, seed=seed, groups=groups)
        result |= {"audit": estimate.to_dict(), "k": estimate.k}
    if as_json:
        emit(result)
    else:
        _print(result, rows)


def audited(path: Path, table: LabelTable) -> tuple[LabelMatrix, npt.NDArray[np.int64]]:
    """All labels of the items of an audit file, over the classes of the data, and their rows."""
    import numpy as np

    from plusone.data.formats import read
    from plusone.data.formats.base import as_labels
    from plusone.data.matrix import LabelMatrix

    other = read(path, check_images=False).table
    if other.named is not None:  # of plusone audit, or of a review: some items are known in full
        known = other.labels.per_item(0) == 0
        if not known.any():
            raise InputError(
                f"{path}: of no item all labels are known; plusone audit asks for them"
            )
        other = other.take(np.flatnonzero(known))
        other = replace(other, truth=other.labels.only_positives(default=-1))
    elif other.truth is None:
        other = as_labels(other, "complete")
    if other.truth is None:
        raise InputError(f"{path}: an audit needs all labels of its items, and some are unknown")
    unknown = sorted(set(other.classes) - set(table.classes))
    if unknown:
        raise InputError(f"{path}: the data has no class {unknown[0]!r}; use the same class names")
    missing = np.setdiff1d(other.ids, table.ids)
    if len(missing):
        raise InputError(
            f"{path}: {len(missing)} items are not in the data, such as {str(missing[0])!r}; "
            f"name items as the data does, such as {str(table.ids[0])!r}"
        )
    place = {name: number for number, name in enumerate(table.classes)}
    truth = other.truth.only_positives(default=-1)
    columns = np.array([place[name] for name in other.classes])[truth.indices]
    labels = LabelMatrix.from_entries(
        truth.row_of_entry(), columns, 1, (len(other), len(table.classes)), default=-1
    )
    row = {name: number for number, name in enumerate(table.ids.tolist())}
    return labels, np.array([row[name] for name in other.ids.tolist()], dtype=np.int64)


def _test_of_picks(
    truth: LabelMatrix, table: LabelTable, rows: npt.NDArray[np.int64]
) -> dict[str, Any]:
    """What audited items tell of how annotators pick; empty if they tell nothing."""
    from plusone.probabilities.picks import random_picks_p_value

    present, picked = truth.dense() == 1, table.labels.dense(rows) == 1
    p_value = random_picks_p_value(present | picked, picked)
    if p_value is None:
        return {}
    return {"p_value": p_value, "audited": int((present.sum(axis=1) > 1).sum())}


def _has_inputs(dataset: Dataset) -> bool:
    return dataset.features is not None or dataset.table.root is not None


def _from_single(dataset: Dataset, settings: list[str], seed: int) -> dict[str, Any]:
    """The estimate from the seen labels of all but the test items, and the truth if it is known."""
    import numpy as np
    import torch

    from plusone.closed_form.estimates import from_features, usable_rows
    from plusone.data.feature_store import features_folder
    from plusone.data.matrix import LabelMatrix
    from plusone.features.extraction import vectors_of
    from plusone.inputs.task import make_task, named_of, numbered_groups
    from plusone.recipe import make_recipe, parse_settings

    recipe = make_recipe(parse_settings(settings), {"seed": seed})
    with progress("reading", len(dataset.table)) as (bar, reading):
        task = make_task(dataset, recipe, tick=lambda: bar.advance(reading))
    parts = (task.train, task.val)  # a run learns from both
    default = task.train.observed.default
    seen = LabelMatrix.concatenate([part.observed.with_default(default) for part in parts])
    rows = usable_rows(seen, seed)
    first = len(task.train)
    with resume_hint(KEPT), progress(EXTRACTING, len(rows)) as (bar, making):
        of = partial(
            vectors_of, recipe, tick=partial(bar.advance, making), folder=features_folder()
        )
        own = (rows[rows < first], rows[rows >= first] - first)
        x = torch.cat([of(replace(task, train=p), r) for p, r in zip(parts, own, strict=True)])
    numbers = numbered_groups(parts)
    groups = None if numbers is None else numbers.numpy()[rows]
    named = named_of(parts)
    named = None if named is None else named.take(rows)
    labels = seen.take(rows)
    estimate = from_features(
        x, labels, groups, seed=seed, picks=recipe.picks, named=named, hierarchy=task.hierarchy
    )
    known = [part.truth for part in parts if part.truth is not None]
    true = None
    if len(known) == len(parts):
        share = np.sum([truth.per_class(1) for truth in known], axis=0) / len(seen)
        true = {"k": float(share.sum()), "priors": share.tolist()}
    return {"single": estimate.to_dict(), "true": true}


def _print(result: dict[str, Any], rows: int) -> None:
    from plusone.probabilities.intervals import no_interval
    from plusone.probabilities.picks import Salience

    single, audit, true = result["single"], result["audit"], result["true"]
    lines: list[tuple[object, ...]] = []
    if single is not None:
        what = f"seen labels of {single['items']} items"
        lines.append((what, f"{single['k']:.2f}", f"{single['low']:.2f} to {single['high']:.2f}"))
    if audit is not None:
        what = f"audit of {audit['items']} items (95 % interval)"
        known = audit["low"] is not None
        ends = f"{audit['low']:.2f} to {audit['high']:.2f}" if known else None
        lines.append((what, f"{audit['k']:.2f}", ends))
    if true is not None:
        lines.append(("all labels, known here", f"{true['k']:.2f}", None))
    columns = ("from", "labels per item (k)", "range")
    out.print(table(f"{result['data']}: how many labels an item has", columns, lines))
    out.print(table("per cent of the items", *_class_rows(result, rows)))
    left = len(result["classes"]) - rows
    if left > 0:
        say(f"{left} more classes; --classes {len(result['classes'])} shows all, --json gives all")
    if single is not None:
        if single["salience"] is not None:
            finding = Salience.from_dict(single["salience"]).finding(result["classes"])
            say(f"how annotators pick: {finding}")
        say(result["statement"])
    if audit is None:
        say(AUDIT)
        return
    if audit["low"] is None:
        say(no_interval(audit["groups"]))
    say(f"train with --set expected_positives={result['k']:.2f}")


def _class_rows(result: dict[str, Any], rows: int) -> tuple[list[str], list[list[object]]]:
    """Columns and rows of the table of classes."""
    single, audit, true = result["single"], result["audit"], result["true"]
    order_by = (single or audit)["priors"]
    shown: dict[str, list[str]] = {}
    if single is not None:
        shown["seen"] = [f"{100 * value:.1f}" for value in single["seen_share"]]
        if single["salience"] is not None:
            shown["named (x average)"] = [f"{value:.2g}" for value in single["salience"]["values"]]
        shown["estimate"] = [f"{100 * value:.1f}" for value in single["priors"]]
        shown["range"] = _ranges(single)
    if audit is not None:
        shown["audit"] = [f"{100 * value:.1f}" for value in audit["priors"]]
        shown["interval"] = _ranges(audit)
    if true is not None:
        shown["true"] = [f"{100 * value:.1f}" for value in true["priors"]]
    order = sorted(range(len(order_by)), key=lambda number: -order_by[number])[:rows]
    grid: list[list[object]] = [
        [result["classes"][number], *(column[number] for column in shown.values())]
        for number in order
    ]
    return ["class", *shown], grid


def _ranges(estimate: dict[str, Any]) -> list[str]:
    ends = zip(estimate["prior_low"], estimate["prior_high"], strict=True)
    return [f"{100 * low:.1f} to {100 * high:.1f}" for low, high in ends]
