"""The command `methods`."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from plusone.cli import options as opt
from plusone.cli.printing import emit, out, say, table

INPUTS = {
    "any": "images or features",
    "vectors": "features, also of images: --mode linear",
    "images": "images: --mode finetune",
}
PRIORS = (
    "estimated by the method; --set class_priors=estimate takes those of plusone priors, truth "
    "counts them on the training items, 0.1,0.3,... gives them"
)


def methods(
    name: Annotated[str | None, typer.Argument(help="Show one method with its options.")] = None,
    seed: opt.UnusedSeed = 0,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
) -> None:
    """List the methods with their papers and options.

    Example: [bold]plusone methods gr[/bold]
    """
    from plusone.methods import METHODS, get_method

    chosen = {name: get_method(name)} if name else METHODS
    rows: dict[str, dict[str, Any]] = {
        key: {
            "paper": info.paper,
            "year": info.year,
            "summary": info.summary,
            "labels_seen": info.scheme,
            "needs_k": info.needs_k,
            "needs_hints": info.needs_hints,
            "uses_priors": info.uses_priors,
            "inputs": info.inputs,
            "options": {f.name: f.default for f in dataclasses.fields(info.options)},
        }
        for key, info in chosen.items()
    }
    if as_json:
        emit(rows)
    elif name:
        _print_one(name, rows[name])
    else:
        listed = [(key, row["year"], row["summary"]) for key, row in rows.items()]
        out.print(table("", ("method", "year", "what it does"), listed, text=3))
        say("plusone methods NAME shows the paper and the options of one method")


def _print_one(name: str, row: dict[str, Any]) -> None:
    k = "yes: --set expected_positives=K" if row["needs_k"] else "no"
    rows = [
        ("what it does", row["summary"]),
        ("paper", f"{row['paper']} {row['year']}"),
        ("labels seen", row["labels_seen"]),
        ("needs the positives per item", k),
        ("inputs", INPUTS[row["inputs"]]),
        ("needs hints", "yes: --hints FILE" if row["needs_hints"] else "no"),
    ]
    if row["uses_priors"]:
        rows.append(("class priors", PRIORS))
    out.print(table(name, ("method", ""), rows, text=2))
    if row["options"]:
        out.print(table("", ("option", "default"), list(row["options"].items())))
        first, value = next(iter(row["options"].items()))
        say(f"to set one: plusone train --method {name} --set options.{first}={value}")
