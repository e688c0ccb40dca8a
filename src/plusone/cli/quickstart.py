"""The command `quickstart`."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from shlex import join, split
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_file
from plusone.cli.printing import emit, out, say
from plusone.errors import InputError
from plusone.extras import install_command

if TYPE_CHECKING:
    from collections.abc import Collection

Items = Literal["photos", "text", "vectors"]
Goal = Literal["tags", "missing", "compare"]

ITEMS: dict[str, Items] = {"1": "photos", "2": "text", "3": "vectors"}
GOALS: dict[str, Goal] = {"1": "tags", "2": "missing", "3": "compare"}
WHERE = "1. Where are your items and their tags? A folder or a file (Enter: an example is made)"
WHAT = "2. What are they? 1 photos, 2 text, 3 vectors (embeddings, measurements)"
WHY = "3. What do you want? 1 tags for new items, 2 the missing tags, 3 a comparison of methods"
VECTORS = (".npz", ".npy", ".parquet")
NEEDED: dict[Items, str] = {"photos": "photos", "text": "text", "vectors": "plots"}
NEW: dict[Items, str] = {"photos": "NEW-PHOTOS", "text": "NEW.csv", "vectors": "NEW.npz"}

Lines = list[tuple[str, list[str]]]  # what a command is for, and its words


def quickstart(
    data: Annotated[
        str | None, typer.Argument(help="Your folder or file; asked for by default.")
    ] = None,
    items: Annotated[
        Items | None, typer.Option(help="What the items are; asked for by default.")
    ] = None,
    goal: Annotated[
        Goal | None,
        typer.Option(
            help="tags for new items, the missing tags, or compare methods; asked for by default."
        ),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="A file for the commands, a shell script.")
    ] = None,
    seed: opt.UnusedSeed = 0,
    as_json: opt.Json = False,
) -> None:
    """Ask three questions, and write the commands for your data.

    Nothing is trained. The answers may be given as arguments instead.

    Example: [bold]plusone quickstart[/bold]
    Example: [bold]plusone quickstart photos --goal missing --out commands.sh[/bold]
    """
    if to is not None:
        check_file(to)
    items = items or (None if data is None or not Path(data).exists() else _kind(Path(data)))
    if not sys.stdin.isatty() and None in (data, items, goal):
        raise InputError(
            "quickstart asks, and nobody can answer here; give the answers: plusone quickstart "
            "DATA --items photos|text|vectors --goal tags|missing|compare"
        )
    if data is None and (data := _ask(WHERE)):
        items = items or _kind(Path(data))
    if data and not Path(data).exists():
        raise InputError(f"{data}: no such file or folder")
    if not data:
        items = "text" if items == "text" else "photos"
    if items is None:
        items = ITEMS[_ask(WHAT, ITEMS)]
    goal = goal or GOALS[_ask(WHY, GOALS)]
    lines = commands(data or "", items, goal)
    script = "".join(f"# {why}\n{join(words)}\n" for why, words in lines)
    if to is not None:
        to.write_text(script, encoding="utf-8")
    if as_json:
        emit({"items": items, "goal": goal, "commands": [join(words) for _, words in lines]})
        return
    out.print(script.rstrip(), markup=False, soft_wrap=True)
    if to is not None:
        say(f"written to {to}")


def commands(data: str, items: Items, goal: Goal) -> Lines:
    """The commands for some data, each with what it is for.

    Args:
        data: A folder or file; "" for the example.
        items: What the items are.
        goal: What is wanted.
    """
    lines: Lines = []
    from plusone.cli.doctor import BUNDLES, EXTRAS

    bundle = "research" if goal == "compare" else NEEDED[items]
    modules = [m for extra in BUNDLES.get(bundle, (bundle,)) for m in EXTRAS[extra].modules]
    if not all(map(find_spec, modules)):
        lines.append(("what it needs", split(install_command(bundle))))
    new = NEW[items]
    if not data and items == "text":
        data, new = "tickets/tickets.csv", "tickets/new.csv"
        lines.append(
            ("support tickets with one tag each", ["plusone", "example", "tickets", "--texts"])
        )
    elif not data:
        data, new = "example/photos", "example/new"
        lines.append(("drawn pictures with one tag each", ["plusone", "example"]))
    words = [data]
    if items == "vectors" and Path(data).suffix.lower() not in VECTORS:
        words += ["--features", "VECTORS.npz"]
    lines.append(("what is in the data", ["plusone", "inspect", *words]))
    if goal == "compare":
        lines.append(("methods, compared", ["plusone", "bench", *words, "--out", "bench"]))
        lines.append(("without true labels", ["plusone", "choose", *words]))
        return lines
    lines.append(
        ("a model; run/report.html shows it", ["plusone", "train", *words, "--out", "run"])
    )
    if goal == "tags":
        page = ["--gallery", "tags.html"] if items == "photos" else ["--out", "tags.csv"]
        lines.append(("tags of new items", ["plusone", "predict", "run", new, *page]))
        return lines
    lines += [
        ("all labels of 60 items, on a page: what a promise needs", ["plusone", "audit", "run"]),
        (
            "the missing tags",
            ["plusone", "suggest", "run", "--audit", "run-audit.csv", "--out", "suggestions"],
        ),
        ("yes or no, on a page", ["plusone", "review", "suggestions"]),
        ("the labels", ["plusone", "review", "suggestions", "--export", "labels.csv"]),
    ]
    return lines


def _ask(question: str, answers: Collection[str] = ()) -> str:
    """The answer to a question; the first one by default, asked again if it is none of them."""
    while True:
        say(question)
        answer = input("> ").strip() or next(iter(answers), "")
        if not answers or answer in answers:
            return answer
        say(f"answer {', '.join(answers)}")


def _kind(data: Path) -> Items | None:
    """What the items of a folder or file are, as far as names tell; None where they do not."""
    from plusone.data.formats.csv_text import header_of
    from plusone.data.images import IMAGE_SUFFIXES

    if data.suffix.lower() == ".csv":
        return "text" if "text" in header_of(data) else None
    files = data.rglob("*") if data.is_dir() else (data,)
    suffixes = {file.suffix.lower() for file in files}
    kinds: dict[Items, tuple[str, ...]] = {
        "photos": IMAGE_SUFFIXES, "text": (".txt", ".jsonl", ".ndjson"), "vectors": VECTORS
    }  # fmt: skip
    return next((kind for kind, known in kinds.items() if suffixes & {*known}), None)
