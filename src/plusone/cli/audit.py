"""The command audit."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_file
from plusone.cli.loading import dataset_of
from plusone.cli.printing import say
from plusone.cli.review import serve_page
from plusone.cli.suggest import find_missing


def audit(
    run: Annotated[Path, typer.Argument(help="A run folder made by plusone train.")],
    data: Annotated[str | None, typer.Argument(help="Data; the run's own by default.")] = None,
    to: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File of labels to write; default RUN-audit.csv."),
    ] = None,
    items: Annotated[int, typer.Option(min=20, help="How many items to draw.")] = 60,
    stratified: Annotated[
        bool,
        typer.Option(
            "--stratified",
            help="Draw items that may miss labels more often, and weigh them back: suggest learns "
            "more from them, but predict --precision needs items drawn evenly.",
        ),
    ] = False,
    features: opt.Features = None,
    hints: opt.Hints = None,
    device: opt.Device = None,
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    port: opt.Port = 0,
    browser: opt.OpenBrowser = True,
    stop_after: opt.StopAfter = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the draw.")] = None,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
) -> None:
    """Draw items, ask for all their labels on a page, and write what they say.

    The labels that the model thinks likely are asked first; X says no to the rest of an item. After
    each ten items the page says what could be promised now. Stop at any time: the file is written,
    and the same command goes on with the same items. train, suggest --audit, predict --precision
    --audit and priors --audit take the file as it is.

    Example: [bold]plusone audit runs/photos[/bold], then
    [bold]plusone suggest runs/photos --audit runs/photos-audit.csv[/bold]
    """
    from plusone.data.feature_store import features_folder
    from plusone.data.formats import write
    from plusone.reviewing.opening import open_audit
    from plusone.reviewing.reviewed_labels import reviewed_table
    from plusone.suggestions.audit_folder import promise, write_questions
    from plusone.suggestions.find import drawn_weights, run_k, run_labels, run_recipe

    file = to or run.with_name(f"{run.name}-audit.csv")
    folder = file.with_suffix("")
    check_file(file, flag="--out")
    recipe = run_recipe(run, device or "auto", seed, None)
    dataset = dataset_of(run, data, features, form, meaning, hints)
    dataset = replace(dataset, table=run_labels(run, dataset.table, recipe))
    k = run_k(run, dataset.table) if data is None else None
    found = find_missing(dataset, recipe, 5, None, k, folder, features_folder(), None, run)
    if not (folder / "about.json").exists():
        number = write_questions(found, folder, items, stratified=stratified, run=str(run))
        say(f"{number} items were drawn; {folder} keeps the answers")
    desk = open_audit(
        folder, partial(promise, found, drawn=drawn_weights(folder)), seed=recipe.seed
    )
    try:
        serve_page(desk, run.resolve().name, port, browser, stop_after, as_json)
        say(desk.promise() or f"{len(desk.done)} items are done; promises begin after ten")
        write(replace(reviewed_table(desk).table, truth=None), file)
    finally:
        desk.store.close()
    say(f"all labels of {len(desk.done)} items in {file}")
    if len(desk.done):
        say(f"next: plusone suggest {quote(str(run))} --audit {quote(str(file))}")
    else:
        say("next: the same command, to answer its questions")
