"""The command `ablate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plusone.cli import options as opt
from plusone.cli.board import run_shown
from plusone.cli.checks import check_folder
from plusone.cli.loading import given_settings
from plusone.cli.printing import command_line, emit, out, say, table

if TYPE_CHECKING:
    from plusone.compare.documents import Ablation


def ablate(
    context: typer.Context,
    data: opt.Data,
    method: Annotated[
        str | None,
        typer.Option("--method", "-m", help="The method to ablate; the recipe's or gr by default."),
    ] = None,
    seeds: opt.Seeds = "0,1,2",
    lrs: opt.Rates = None,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.")] = Path("ablation"),
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
    """Switch off the parts of a method one by one, as in the ablation tables of its paper.

    A method without such parts is refused, with the names of those that have some.

    What is done is skipped when the command is run again.

    Example: [bold]plusone ablate VOCdevkit -x features -m gr --lr 1e-3,1e-4[/bold]
    """
    from plusone.compare.ablate import run_ablation
    from plusone.data.source import make_source
    from plusone.recipe import make_recipe

    check_folder(to)
    given = given_settings(recipe, opt.with_device(settings, device), {"epochs": epochs})
    result = run_ablation(
        make_source(data, features or (), form, meaning, hints),
        method or make_recipe(given).method,
        to,
        seeds=[seed] if seed is not None else opt.parts(seeds, int, "--seeds"),
        rates=opt.parts(lrs, float, "--lr") or [None],
        settings=given,
        rules=opt.by_rules(rules, recipe),
        command=command_line(context, ("as_json", "workers")),
        run=lambda jobs: run_shown(jobs, to, workers),
    )
    show_ablation(result, to, as_json=as_json)


def show_ablation(result: Ablation, folder: Path, *, as_json: bool) -> None:
    """Writes and prints an ablation."""
    from plusone.compare.ablate import ablation_table, write_ablation

    written = write_ablation(result, folder)
    if as_json:
        emit(result.to_json())
    else:
        out.print(table(result.title, *ablation_table(result)))
        for note in result.notes:
            say(note)
    say(f"written: {written}")
