"""A few training items: what was seen of them, what methods find, what they miss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from plusone.errors import InputError, RunError
from plusone.report.blocks import Block, Chip, Example, Gallery, Note, Section, Work
from plusone.report.material import Entry, Group, Material, Result

LIKELY = 3  # labels shown where the truth is not known
STATES = ("seen", "found", "missed", "wrong")
UNKNOWN = ("seen", "likely")
WITH_TRUTH = (
    "Training items drawn at random from those with hidden labels, the same for every method. "
    "A method names as many labels as the item truly has, those it gives the highest "
    "probability: so methods are compared whatever their probabilities are like. "
    "“Found” was hidden and is named, “missed” was hidden and is not, “wrong” is named and "
    "not true."
)
WITHOUT_TRUTH = (
    "Training items drawn at random, the same for every method, with the labels that were not seen "
    f"and have the highest probabilities, {LIKELY} for each. Nobody has said whether these are "
    "right: look for yourself."
)
WITHOUT_IMAGES = 4  # items shown where there is nothing to look at


def examples(material: Material) -> Section | None:
    """Images with seen, found and missed labels."""
    works: list[Block] = []
    done = set()
    for group in material.groups:
        if group.data not in done and any(run.get("examples") for run in _shown(group).values()):
            done.add(group.data)
            works.append(Work(f"examples of {group.name}", partial(_gallery, material, group)))
    if not works:
        return None
    known = any(_knows_truth(run) for group in material.groups for run in _shown(group).values())
    return Section("examples", "Examples", WITH_TRUTH if known else WITHOUT_TRUTH, tuple(works))


def _knows_truth(run: Result) -> bool:
    return any(item.get("truth") is not None for item in run.get("examples") or ())


def _shown(group: Group) -> dict[str, Result]:
    """The first training of the best method and of AN."""
    wanted: list[Entry | None] = [group.best, group.find("an")]
    return {entry.method: entry.runs[0] for entry in wanted if entry is not None and entry.runs}


def _gallery(material: Material, group: Group) -> Sequence[Block]:
    runs = {name: run for name, run in _shown(group).items() if run.get("examples")}
    items = list(next(iter(runs.values()))["examples"])
    ids = [str(item["id"]) for item in items]
    images, problem, tiny = _images(material, next(iter(runs.values())), ids)
    said = {name: {str(item["id"]): item for item in run["examples"]}
            for name, run in runs.items()}  # fmt: skip
    made = [
        Example(
            str(item["id"]),
            images.get(str(item["id"]), ""),
            tuple(Chip(str(name), "seen") for name in item["seen"]),
            tuple(
                (name, chips(by_id[str(item["id"])]))
                for name, by_id in said.items()
                if str(item["id"]) in by_id
            ),
        )
        for item in items
    ]
    known = items[0].get("truth") is not None
    gallery = Gallery(
        group.name,
        tuple(made if images else made[:WITHOUT_IMAGES]),
        STATES if known else UNKNOWN,
        tiny,
    )
    return [gallery, Note(problem)] if problem else [gallery]


def chips(item: Mapping[str, Any]) -> tuple[Chip, ...]:
    """What a method says of an item: as many labels as are true, found ones first."""
    ranked = sorted(item["scores"], key=lambda name: -item["scores"][name])
    seen = set(item["seen"])
    if item.get("truth") is None:
        return tuple(Chip(name, "likely") for name in ranked if name not in seen)[:LIKELY]
    truth = set(item["truth"])
    named = ranked[: len(truth)]
    states = {
        "found": [name for name in named if name in truth - seen],
        "missed": [name for name in item["truth"] if name not in seen and name not in named],
        "wrong": [name for name in named if name not in truth],
    }
    return tuple(Chip(name, state) for state, names in states.items() for name in names)


def _images(
    material: Material, run: Result, ids: Sequence[str]
) -> tuple[dict[str, str], str, bool]:
    """Thumbnails by item, a sentence where they are missing, and whether they are tiny."""
    from plusone.report.images import load_images, thumbnails

    try:
        found = thumbnails(load_images(source_of(material, run)), ids)
    except (InputError, RunError, OSError) as error:
        reason = str(error).splitlines()[0] if isinstance(error, (InputError, RunError)) else ""
        return {}, f"Without images: {reason or 'they cannot be read'}.", False
    if not found:
        return {}, "Without images: their files are not where they were.", False
    tiny = next(iter(found.values())).startswith("data:image/png")
    return found, "", tiny


def source_of(material: Material, run: Result) -> Mapping[str, Any]:
    """How the data of a training was read: benches note it, runs keep it beside."""
    from plusone.training.run_folder import read_description

    if run.get("source"):
        known: Mapping[str, Any] = run["source"]
        return known
    for folder, result in material.runs:
        if result.get("run") == run.get("run"):
            source: Mapping[str, Any] = read_description(folder).source
            return source
    return {}
