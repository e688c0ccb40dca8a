"""The command `analyse gradients`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plusone.cli.checks import check_folder
from plusone.cli.options import Json, Out, Plugin, UnusedSeed
from plusone.cli.printing import emit, out, say, table
from plusone.errors import InputError
from plusone.extras import install_command

if TYPE_CHECKING:
    from plusone.report.gradients import Gradients


def gradients(
    methods: Annotated[list[str], typer.Argument(help="Methods, such as em gr hill an.")],
    epoch: Annotated[
        list[int] | None,
        typer.Option("--epoch", min=1, help="Epoch to show (repeatable); first and last."),
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of the run.")] = 10,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", metavar="METHOD.NAME=VALUE", help="A method's option (repeatable)."
        ),
    ] = None,
    classes: Annotated[int, typer.Option(min=3, help="Labels of an item.")] = 20,
    k: Annotated[float, typer.Option("--k", min=1, help="Expected positives of an item.")] = 1.5,
    rest: Annotated[
        float, typer.Option(min=0.01, max=0.99, help="Probability of the other labels.")
    ] = 0.5,
    to: Out = None,
    seed: UnusedSeed = 0,
    as_json: Json = False,
    plugin: Plugin = None,
) -> None:
    """Show the gradient of losses against the probability of a label; nothing is trained.

    Writes gradients.json and a figure into the folder of --out.

    Example: [bold]plusone analyse gradients em gr hill an --out gradients[/bold]
    """
    from plusone.report.gradients import gradient_curves

    if to is not None:
        check_folder(to)
    gradients = gradient_curves(
        methods,
        at=epoch or sorted({1, epochs}),
        epochs=epochs,
        options=_method_options(settings or []),
        classes=classes,
        k=k,
        rest=rest,
    )
    if to is not None:
        _write_gradients(gradients, to)
    if as_json:
        emit(gradients.to_json())
    elif to is None:
        _print_gradients(gradients)


def _method_options(texts: list[str]) -> dict[str, dict[str, Any]]:
    """Method -> options, from `method.name=value` texts."""
    from plusone.recipe import parse_settings

    options: dict[str, dict[str, Any]] = {}
    for name, value in parse_settings(texts).items():
        method, dot, option = name.partition(".")
        if not dot or not option:
            raise InputError(f"--set {name}: write it as method.option=value, such as gr.w=2")
        options.setdefault(method, {})[option] = value
    return options


def _write_gradients(gradients: Gradients, folder: Path) -> None:
    from plusone.io.files import write_json

    try:
        from plusone.report.gradients import gradient_regimes
        from plusone.report.page import save_figure

        figure = gradient_regimes(gradients)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise InputError(
            f"figures need matplotlib: {install_command('plots')}; without --out there is a table"
        ) from None
    write_json(folder / "gradients.json", gradients.to_json())
    for path in (folder / "gradients.json", *save_figure(figure, folder, "gradients")):
        say(str(path))


def _print_gradients(gradients: Gradients) -> None:
    from plusone.report.gradients import SHOWN, at_probabilities

    columns = ("d loss / d logit", *(f"p {value:g}" for value in SHOWN))
    for title, side in (("an unobserved label", "unobserved"), ("a seen positive", "observed")):
        rows = []
        for curve in gradients.curves:
            grad = getattr(curve, side).grad
            mark = "" if curve.independent else " *"
            values = [f"{value + 0.0:.3f}" for value in at_probabilities(gradients, grad)]
            rows.append((curve.label + mark, *values))
        out.print(table(title, columns, rows))
    say("above 0 the loss pushes the probability down, below 0 up")
    if not all(curve.independent for curve in gradients.curves):
        say(f"* depends on the other labels, whose probability is {gradients.rest:g} here (--rest)")
