"""Examples: a few training items with the labels that were seen, found and missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from plusone.compare.jobs import JobResult
from plusone.data.dataset import Dataset
from plusone.data.source import Source
from plusone.errors import InputError, RunError, first_line
from plusone.methods import ASSUME_NEGATIVE
from plusone.prediction.clearest import MEANING, ClearestParts
from plusone.prediction.run_folder import read_description
from plusone.report.blocks import Block, Chip, Gallery, GalleryItem, Note, Section, Work
from plusone.report.classes import thresholds_of
from plusone.report.material import Group, Material
from plusone.report.thumbnails import excerpts, image_file, load_items, thumbnails
from plusone.results import Example

DEFAULT = 0.5  # threshold of a class where the run folder is gone
STATES = ("seen", "found", "missed", "wrong")
UNKNOWN = ("seen", "likely")
WITH_TRUTH = (
    "Training items drawn at random from those with hidden labels, the same for every method. "
    "A method predicts as many labels as the item truly has, those with the highest probabilities; "
    "so methods are compared whatever the scale of their probabilities. “Found” was hidden and is "
    "predicted, “missed” was hidden and is not, “wrong” is predicted and not true."
)
WITHOUT_TRUTH = (
    "Training items drawn at random, the same for every method. “Likely” are unobserved labels "
    "above the threshold of their class, from which on the model predicts them. Whether they are "
    "right is not known."
)
OUTLINE = f"The outline on a picture, of the label that is shaded or pointed at, is {MEANING}."
WITHOUT_IMAGES = 4  # items shown where there are neither images nor texts


def examples(material: Material) -> Section:
    """Images or texts with seen, found and missed labels."""
    works: list[Block] = []
    shown = set()
    for group in material.groups:
        if group.data not in shown and _with_examples(group):
            shown.add(group.data)
            works.append(Work(f"examples of {group.name}", partial(_gallery, group)))
    items = [item for group in material.groups for run in _with_examples(group).values()
             for item in run.examples]  # fmt: skip
    known = any(item.truth is not None for item in items)
    return Section("examples", "Examples", WITH_TRUTH if known else WITHOUT_TRUTH, tuple(works))


def _with_examples(group: Group) -> dict[str, JobResult]:
    """The first run of the best method and of AN, if they have examples."""
    entries = (group.best, group.find(ASSUME_NEGATIVE))
    runs = {entry.method: entry.runs[0] for entry in entries if entry is not None and entry.runs}
    return {name: run for name, run in runs.items() if run.examples}


def _gallery(group: Group) -> Sequence[Block]:
    runs = _with_examples(group)
    first = next(iter(runs.values()))
    dataset, images, texts, problem = _items(first, [item.id for item in first.examples])
    predictions = {}
    for name, run in runs.items():
        _, thresholds = thresholds_of(run) or ({}, {})
        predictions[name] = {item.id: chips(item, thresholds) for item in run.examples}
        if dataset is not None:
            predictions[name] = _with_parts(predictions[name], run, dataset)
    items = [
        GalleryItem(
            item.id,
            images.get(item.id, ""),
            tuple(Chip(name, "seen") for name in item.seen),
            tuple(
                (name, by_id[item.id]) for name, by_id in predictions.items() if item.id in by_id
            ),
            texts.get(item.id, ""),
        )
        for item in first.examples
    ]
    tiny = any(image.startswith("data:image/png") for image in images.values())
    gallery = Gallery(
        group.name,
        tuple(items if images or texts else items[:WITHOUT_IMAGES]),
        UNKNOWN if first.examples[0].truth is None else STATES,
        tiny,
    )
    outlined = any(item.first_part is not None for item in gallery.items)
    notes = [problem] * bool(problem) + [OUTLINE] * outlined
    return [gallery, *map(Note, notes)]


def chips(item: Example, thresholds: Mapping[str, float]) -> tuple[Chip, ...]:
    """The labels that a method predicts for an item.

    Where the truth is known as many as are true, found ones first; otherwise those above their
    threshold.
    """
    ranked = sorted(item.scores, key=lambda name: -(item.scores[name] or 0.0))
    seen = set(item.seen)
    if item.truth is None:
        return tuple(
            Chip(name, "likely")
            for name in ranked
            if name not in seen and (item.scores[name] or 0.0) >= thresholds.get(name, DEFAULT)
        )
    truth = set(item.truth)
    predicted = ranked[: len(truth)]
    states = {
        "found": [name for name in predicted if name in truth - seen],
        "missed": [name for name in item.truth if name not in seen and name not in predicted],
        "wrong": [name for name in predicted if name not in truth],
    }
    return tuple(Chip(name, state) for state, names in states.items() for name in names)


def _with_parts(
    predicted: dict[str, tuple[Chip, ...]], run: JobResult, dataset: Dataset
) -> dict[str, tuple[Chip, ...]]:
    """The chips with the clearest parts of the pictures, if the run's model is shown several."""
    if not run.run or run.recipe.get("crops", "one") == "one":
        return predicted
    rows = {str(name): row for row, name in enumerate(dataset.table.ids)}
    clearest, found = ClearestParts(Path(run.run)), dict(predicted)
    for name, entries in predicted.items():
        path = image_file(dataset, rows[name]) if name in rows else None
        given = [chip.name for chip in entries if chip.state != "missed"]
        if path is None or not given:
            continue
        try:
            boxes = clearest.of(path, given)
        except (InputError, RunError, OSError, MemoryError):
            continue
        found[name] = tuple(replace(chip, part=boxes.get(chip.name)) for chip in entries)
    return found


def _items(
    run: JobResult, ids: Sequence[str]
) -> tuple[Dataset | None, dict[str, str], dict[str, str], str]:
    """The data, thumbnails or texts by item, and a sentence where both are missing."""
    try:
        dataset = load_items(_source(run))
        if texts := excerpts(dataset, ids):
            return dataset, {}, texts, ""
        images = thumbnails(dataset, ids)
    except (InputError, RunError, OSError) as error:
        reason = first_line(error) if isinstance(error, (InputError, RunError)) else ""
        return None, {}, {}, f"Without images: {reason or 'they cannot be read'}."
    if not images:
        in_memory = dataset.features is not None and dataset.features.ndim == 4
        there = in_memory or dataset.table.root is not None
        why = "their files are not where they were" if there else "the data has no images"
        return None, {}, {}, f"Without images: {why}."
    return dataset, images, {}, ""


def _source(run: JobResult) -> Source | None:
    """How the data of a run was read: from the journal, or from its run folder."""
    if run.source is None and run.run:
        return Source.from_json(read_description(Path(run.run)).source)
    return run.source
