"""The command `sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plusone.cli import options as opt
from plusone.cli.board import run_shown
from plusone.cli.checks import check_folder
from plusone.cli.loading import given_settings
from plusone.cli.printing import command_line, emit, out, say, table
from plusone.errors import InputError

if TYPE_CHECKING:
    from plusone.compare.documents import Sweep


def sweep(
    context: typer.Context,
    data: opt.Data,
    over: Annotated[
        str,
        typer.Option(
            metavar="NAME=V1,V2,...",
            help="A recipe setting or options.NAME, and its values; 0.1,0.2,...,1.0 works too.",
        ),
    ],
    names: Annotated[
        str | None,
        typer.Option(
            "--methods", "-m", help="Methods, comma-separated; the recipe's or gr by default."
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="A method trained without the setting, to compare with.")
    ] = None,
    seeds: opt.Seeds = "0,1,2",
    lrs: opt.Rates = None,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.")] = Path("sweep"),
    features: opt.Features = None,
    hints: opt.Hints = None,
    recipe: opt.RecipeFile = None,
    epochs: opt.Epochs = None,
    settings: opt.Set = None,
    device: opt.Device = None,
    rules: opt.Rules = None,
    workers: opt.Workers = 2,
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    seed: opt.OneSeed = None,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
) -> None:
    """Train with several values of one setting: one curve per method.

    --over train_share=0.1,0.2,...,1.0: mAP against the number of labels
    (add bce to the methods to see what all labels give).

    --over keep=0.1,0.2,...,1.0: each positive is seen with this probability.

    --over expected_positives=1.0,1.5,2.0: what a wrong k does.

    What is done is skipped when the command is run again.

    Example: [bold]plusone sweep labels.csv -m em --over options.alpha=0.1,0.2[/bold]
    """
    from plusone.compare.sweep import parse_over, run_sweep, write_sweep
    from plusone.data.source import make_source
    from plusone.recipe import make_recipe

    check_folder(to)
    name, values = parse_over(over)
    if {"lr": lrs, "epochs": epochs}.get(name) is not None:
        raise InputError(f"--over {name} and --{name} are the same setting; give one of them")
    given = given_settings(recipe, opt.with_device(settings, device), {"epochs": epochs})
    result = run_sweep(
        make_source(data, features or (), form, meaning, hints),
        opt.parts(names, str, "--methods") or [make_recipe(given).method],
        name,
        values,
        to,
        seeds=[seed] if seed is not None else opt.parts(seeds, int, "--seeds"),
        rates=opt.parts(lrs, float, "--lr") or [None],
        settings=given,
        rules=opt.by_rules(rules, recipe),
        baseline=baseline,
        command=command_line(context, ("as_json", "workers")),
        run=lambda jobs: run_shown(jobs, to, workers),
    )
    written = write_sweep(result, to)
    if as_json:
        emit(result.to_json())
    else:
        _show_sweep(result)
    say(f"written: {', '.join(map(str, written))}")


def _show_sweep(result: Sweep) -> None:
    """A line per value, a column per method."""
    from plusone.compare.sweep import sweep_table

    wide = 24 + 16 * len({row.method for row in result.rows}) <= out.width
    measure = "test mAP" if result.rows[0].test_map is not None else "validation mAP"
    out.print(f"{result.title} ({measure})", markup=False, soft_wrap=True)
    out.print(table("", *sweep_table(result, with_sd=wide)))
