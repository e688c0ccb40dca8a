"""What was compared, and the figure to look at first."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from plusone.report.blocks import Block, Code, Drawing, Facts, Section
from plusone.report.figures.scores import Score, score_dots
from plusone.report.material import Group, Material
from plusone.report.places import Result
from plusone.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def summary(material: Material) -> Section:
    """Facts, commands, and a dot per method."""
    blocks: list[Block] = [Facts(tuple(_facts(material)))]
    for group in material.groups:
        if len(group.entries) > 1:
            blocks.append(Drawing(f"scores-{group.slug}", partial(_scores, group), _marks(group)))
    commands = [
        document["command"]
        for kind in ("bench", "sweep", "ablation")
        for document in material.of(kind)
        if document.get("command")
    ]
    if commands:
        blocks.append(Code("To repeat it", "\n".join(dict.fromkeys(commands))))
    elif material.runs:
        text = "plusone train DATA --recipe RUN/recipe.toml"
        blocks.append(Code("To repeat a run", text))
    intro = (
        "Models were trained to name all labels of an item although training saw only some of "
        "them, most often one positive per item. Scores are mean average precision (mAP)."
    )
    if any(entry.reference for group in material.groups for entry in group.entries):
        intro += " Reference methods saw more labels; they are shown apart and not ranked."
    return Section("summary", "Summary", intro, tuple(blocks))


def _facts(material: Material) -> Iterable[tuple[str, str]]:
    groups = material.groups
    seen: set[str] = set()
    for group in groups:
        run = group.example
        if run is not None and group.data not in seen:
            seen.add(group.data)
            yield group.data, describe(run)
    methods = list(dict.fromkeys(entry.method for group in groups for entry in group.entries))
    if methods:
        shown = ", ".join(methods[:12]) + (", …" if len(methods) > 12 else "")
        yield "methods", f"{len(methods)}: {shown}"
    runs = [run for group in groups for entry in group.entries for run in entry.runs]
    if runs:
        seeds = sorted({int(run["seed"]) for run in runs})
        yield "seeds", ", ".join(map(str, seeds))
        if on := {
            (str(run["selected_on"]), str(run.get("selected_by", "map")))
            for run in runs if run.get("selected_on")
        }:  # fmt: skip
            yield "chosen on", _chosen(on)
    rules = [str(document["settings"]["rule"]) for document in material.of("bench")
             if document.get("settings", {}).get("rule")]  # fmt: skip
    for rule in dict.fromkeys(rules):
        yield "settings", rule
    dates = [str(document["date"]) for document in material.of("bench") if document.get("date")]
    if dates:
        yield "trained until", max(dates)
    versions = sorted({str(run["version"]) for run in runs if run.get("version")})
    yield "made by", f"plusone {', '.join(versions) or __version__}"


def describe(run: Result) -> str:
    """A data set in a line."""
    items = run.get("items", {})
    parts = [f"{items[name]:,} {word} items"
             for name, word in (("train", "training"), ("val", "validation"), ("test", "test"))
             if items.get(name)]  # fmt: skip
    labels = run.get("labels")
    if labels:
        n, true = len(labels["classes"]), sum(labels["true"])
        parts.append(f"{n} classes")
        if items.get("train"):
            parts.append(f"{true / items['train']:.2f} positives per training item")
    return ", ".join(parts)


def _chosen(on: set[tuple[str, str]]) -> str:
    words = {"truth": "all labels of the validation items", "observed": "their seen labels alone"}
    return "the epoch by validation " + ", ".join(
        f"{'mAP' if by == 'map' else by} against {words.get(name, name)}"
        for name, by in sorted(on, reverse=True)
    )


def _marks(group: Group) -> str:
    """What the colours mean, as far as they are there."""
    words = ["Bold numbers, blue dots: the best and all within noise of it."]
    if group.find("an"):
        words.append("Red dot: an, whatever its place.")
    if any(entry.reference for entry in group.entries):
        words.append("Below, apart: references that saw more labels.")
    if ends := [name for name in ("an", "bce") if group.find(name)]:
        words.append(f"Dashed: {' and '.join(ends)}.")
    return " ".join(words)


def _scores(group: Group) -> Figure:
    known = [entry.row.get("test_map") is not None for entry in group.entries]
    tested = all(known)
    mixed = any(known) and not tested  # the marks are of other numbers than those drawn
    scores = [
        Score(
            name=entry.method,
            method=entry.method,
            mean=entry.score if tested else float(entry.row["val_map"]),
            sd=entry.row.get("test_sd") if tested else None,
            reference=entry.reference,
            top=bool(entry.row.get("best") or entry.row.get("within_noise")) and not mixed,
        )
        for entry in group.entries
    ]
    return score_dots(scores, group.name, split="test" if tested else "validation")
