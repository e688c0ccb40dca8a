"""All settings: what is needed to repeat the runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plusone.report.blocks import Block, Cell, Note, Section, Table
from plusone.report.material import Entry, Material

# Columns of their own, and what is of the machine and changes no result.
NOT_SHOWN = ("method", "seed", "options", "lr", "cache_dir", "threads", "workers")
NONE = "–"
COLUMNS = (
    ("method", ""),
    ("seeds", ""),
    ("lr", "learning rate"),
    ("options", "options of the method that differ from its defaults"),
    ("other settings", "recipe settings that differ from the defaults"),
    ("labels seen", "observation scheme and its seed"),
    ("digest", "of the labels seen"),
    ("k", "expected positives per item, where the method uses it"),
    ("best epoch", "of each seed, by validation"),
    ("weights", "raw, or averaged (ema)"),
    ("version", "of plusone"),
)


def settings(material: Material) -> Section:
    """Recipes and observations, a table per group."""
    blocks: list[Block] = []
    for group in material.groups:
        if entries := [entry for entry in group.ranked if entry.runs]:
            blocks += _blocks(group.name, entries)
    return Section(
        "settings",
        "All settings",
        "Settings that differ from the defaults of the recipe. Runs with the same digest saw "
        "exactly the same labels.",
        tuple(blocks),
    )


def _blocks(name: str, entries: Sequence[Entry]) -> list[Block]:
    recipes = [
        {name: value for name, value in entry.runs[0].recipe.items() if name not in NOT_SHOWN}
        for entry in entries
    ]
    common = {
        key: value
        for key, value in recipes[0].items()
        if all(recipe.get(key) == value for recipe in recipes)
    }
    rows = []
    for entry, recipe in zip(entries, recipes, strict=True):
        own = {key: value for key, value in recipe.items() if key not in common}
        rows.append(_row(entry, own))
    shown = [place for place in range(len(COLUMNS)) if any(row[place].text != NONE for row in rows)]
    table = Table(
        name,
        tuple(COLUMNS[place] for place in shown),
        tuple(tuple(row[place] for place in shown) for row in rows),
        notes=(f"All of them: {_pairs(common)}",) if common else (),
        text=len(shown),
    )
    runs = [run for entry in entries for run in entry.runs]
    rules = dict.fromkeys(rule for run in runs for rule in run.rules)
    picks = dict.fromkeys(
        run.calibration["picks"] for run in runs if run.calibration and "picks" in run.calibration
    )
    findings = [Note(f"How annotators pick: {finding}.") for finding in picks]
    striking = dict.fromkeys(text for run in runs for text in run.about_labels)
    findings += [Note(f"The labels: {text}.") for text in striking]
    return [table, *(Note(f"Rule: {rule}.") for rule in rules), *findings]


def _row(entry: Entry, own: dict[str, Any]) -> tuple[Cell, ...]:
    first = entry.runs[0]
    seen = first.observation
    seed = f", seed {seen['seed']}" if seen.get("seed") is not None else ""
    return (
        Cell(entry.method),
        Cell(", ".join(str(run.seed) for run in entry.runs)),
        Cell(NONE) if entry.row.solved else Cell(f"{first.lr:g}", first.lr),
        Cell(_pairs(first.options)),
        Cell(_pairs(own)),
        Cell(f"{seen['scheme']}{seed}" if seen.get("scheme") else NONE),
        Cell(str(seen.get("digest", NONE))),
        Cell(NONE) if first.k is None else Cell(f"{first.k:.3g}", first.k),
        Cell(NONE if entry.row.solved else ", ".join(str(run.best_epoch) for run in entry.runs)),
        Cell(", ".join(dict.fromkeys(run.weights for run in entry.runs))),
        Cell(first.version or NONE),
    )


def _pairs(values: dict[str, Any]) -> str:
    pairs = (
        f"{name} = {Path(value).name if isinstance(value, str) else json.dumps(value)}"
        for name, value in values.items()
    )
    return ", ".join(pairs) or NONE
