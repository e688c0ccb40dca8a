"""Options and arguments that several commands share, and how their texts are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from plusone.errors import InputError

Data = Annotated[
    str,
    typer.Argument(
        help="digits, digits-features, or a path: CSV, folder per class, COCO JSON, VOC devkit, "
        "MULAN ARFF, npz, parquet, JSON lines, text files, WebDataset tar files, Hugging Face "
        "datasets.",
    ),
]
Features = Annotated[
    list[Path] | None,
    typer.Option(
        "--features",
        "-x",
        metavar="FILE",
        help="Features of the items: npz, npy, parquet, arrow or Lance, a folder or a quoted "
        "pattern of them (repeat for several).",
    ),
]
Hints = Annotated[
    Path | None,
    typer.Option(
        "--hints",
        metavar="FILE",
        help="npz with scores of a zero-shot tagger or an older model (plusone hints).",
    ),
]
Classes = Annotated[
    Path | None,
    typer.Option(
        "--classes",
        metavar="FILE",
        help="CSV with the columns class,parent: a label of a class is one of its parents too; "
        "classes.csv beside the labels by default.",
    ),
]
Form = Annotated[
    str,
    typer.Option(
        "--format",
        help="Form of the labels: csv-long, csv-wide, npz, parquet, voc, mulan, coco, folders, "
        "xmp; detected by default.",
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        help="What is between the labels in a cell of a CSV; by default |, and what is found in a "
        "column Keywords or Tags."
    ),
]
Meaning = Annotated[
    str,
    typer.Option("--labels", help="What 0 means: auto, seen (unobserved) or complete (negative)."),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show details, by the names that papers use.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")]
Host = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="Address to listen on; any but those of this computer alone needs --token-file.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File with the token; without it one is drawn and printed."),
]
OpenBrowser = Annotated[
    bool, typer.Option("--browser/--no-browser", help="Open the page by itself.")
]
StopAfter = Annotated[
    float | None, typer.Option(metavar="SECONDS", help="Stop by itself; Ctrl-C by default.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed; the same seed gives the same result.")]
UnusedSeed = Annotated[
    int, typer.Option("--seed", help="Accepted by every command; nothing here is random.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="NAME=VALUE",
        help="Any recipe setting, such as weight_decay=1e-4 or options.alpha=0.2 (repeatable).",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="What computes: auto (the accelerator that torch finds, else the CPU), cpu, cuda, "
        "cuda:1, mps or xpu.",
    ),
]
AtOnce = Annotated[
    str,
    typer.Option(
        "--batch-size",
        metavar="auto|N",
        help="Most images computed at once; auto: as many as fit, halved where they do not.",
    ),
]
Rules = Annotated[
    bool | None,
    typer.Option(
        "--rules/--no-rules",
        help="Choose what is not set by rules that look at the data; by default unless there is a "
        "recipe file.",
    ),
]
RecipeFile = Annotated[
    Path | None, typer.Option("--recipe", "-r", metavar="FILE", help="TOML file with settings.")
]
OneMethod = Annotated[
    str | None,
    typer.Option("--method", "-m", help="A name in plusone methods; by the data by default."),
]
Epochs = Annotated[
    int | None, typer.Option("--epochs", help="Epochs of each stage; by the data by default.")
]
Rate = Annotated[float | None, typer.Option("--lr", help="Learning rate; by the data by default.")]
Backbone = Annotated[
    str | None,
    typer.Option(
        "--backbone",
        help="For images: cnn, lite0, lite1, lite2 or timm/NAME; lite0 if installed.",
    ),
]
Encoder = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="For texts: use, minilm, wordllama or sentence-transformers/NAME; the first of them "
        "that is installed by default.",
    ),
]
Report = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html too.")]
Run = Annotated[
    Path, typer.Argument(help="A run folder made by plusone train, or a folder of plusone export.")
]
Shown = Annotated[
    Literal["one", "five"] | None,
    typer.Option(
        "--crops",
        help="Show the model the whole image, or the whole and four tiles; as in training by "
        "default.",
    ),
]
Precision = Annotated[
    float | None,
    typer.Option(
        min=0.01, max=0.999, help="Guarantee that this share of predicted labels is right."
    ),
]
Recall = Annotated[
    float | None,
    typer.Option(
        min=0.01, max=0.999, help="Guarantee that this share of an item's labels is found."
    ),
]
EachClass = Annotated[
    bool, typer.Option("--per-class", help="Guarantee it for each class by itself.")
]
AuditFile = Annotated[
    Path | None,
    typer.Option("--audit", help="All labels of some items, drawn at random, for the guarantee."),
]
ByClass = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        min=0,
        max=1,
        help="Labels above this probability count; default: the run's own, by class.",
    ),
]
Seeds = Annotated[str, typer.Option(help="Seeds, comma-separated.")]
Rates = Annotated[
    str | None,
    typer.Option("--lr", help="Learning rates, comma-separated; validation picks one each."),
]
Workers = Annotated[int, typer.Option(min=1, help="Parallel runs, one core each.")]
OneSeed = Annotated[int | None, typer.Option("--seed", help="One seed instead of --seeds.")]
Plugin = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin", metavar="FILE", help="Python file with methods or schemes of your own."
    ),
]
PickModels = Annotated[
    Literal["auto", "uniform", "salience"] | None,
    typer.Option(
        "--picks",
        help="How annotators pick the label they name: uniform (at random), or salience (how "
        "readily each class is named is learned); auto learns it.",
    ),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder to write into.")]


def most_at_once(batch_size: str) -> int | None:
    """The number of `--batch-size`; None for auto."""
    if batch_size == "auto":
        return None
    if not batch_size.isdecimal() or int(batch_size) < 1:
        raise InputError(f"--batch-size {batch_size}: must be auto or a whole number of at least 1")
    return int(batch_size)


def with_device(settings: list[str] | None, device: str | None) -> list[str]:
    """The texts of `--set`, with that of `--device` last."""
    return [*(settings or []), *([f"device={device}"] if device is not None else [])]


def parts(text: str | None, kind: type, flag: str) -> list[Any]:
    """The distinct values of a comma-separated list; none if the option was not given."""
    if text is None:
        return []
    try:
        values = [kind(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError:
        values = []
    if not values:
        what = {str: "names", int: "whole numbers"}.get(kind, "numbers")
        raise InputError(f"{flag} {text!r}: write {what} separated by commas")
    return list(dict.fromkeys(values))


def by_rules(rules: bool | None, recipe: Path | None) -> bool:
    """Whether rules choose what is not set: as asked, or unless there is a recipe file."""
    return recipe is None if rules is None else rules
