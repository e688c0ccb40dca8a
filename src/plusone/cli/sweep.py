"""Commands that change one thing at a time: sweep, ablate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plusone.cli.bench import parts
from plusone.cli.bench_progress import run_shown
from plusone.cli.common import (
    Data,
    Features,
    Form,
    Json,
    Meaning,
    Rules,
    Set,
    check_folder,
    emit,
    out,
    say,
    table,
)
from plusone.cli.repeat import command_line
from plusone.errors import InputError

if TYPE_CHECKING:
    from plusone.compare.ablate import Ablation
    from plusone.compare.sweep import Sweep

Seeds = Annotated[str, typer.Option(help="Seeds, comma-separated.")]
Rates = Annotated[
    str | None,
    typer.Option("--lr", help="Learning rates, comma-separated; validation picks one each."),
]
Workers = Annotated[int, typer.Option(min=1, help="Parallel trainings, one core each.")]
OneSeed = Annotated[int | None, typer.Option("--seed", help="One seed instead of --seeds.")]


def sweep(
    context: typer.Context,
    data: Data,
    over: Annotated[
        str,
        typer.Option(
            metavar="NAME=V1,V2,...",
            help="A recipe setting or options.NAME, and its values; 0.1,0.2,...,1.0 works too.",
        ),
    ],
    names: Annotated[str, typer.Option("--methods", "-m", help="Methods, comma-separated.")] = "gr",
    baseline: Annotated[
        str | None, typer.Option(help="A method trained without the setting, to compare with.")
    ] = None,
    seeds: Seeds = "0,1,2",
    lrs: Rates = None,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.")] = Path("sweep"),
    features: Features = None,
    settings: Set = None,
    rules: Rules = True,
    workers: Workers = 2,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: OneSeed = None,
    as_json: Json = False,
) -> None:
    """Train with several values of one setting: a curve for each method.

    --over train_share=0.1,0.2,...,1.0: mAP against the number of labels
    (add bce to the methods to see what all labels give).

    --over keep=0.1,0.2,...,1.0: each positive is seen with this probability.

    --over expected_positives=1.0,1.5,2.0: what a wrong k does.

    What is done is skipped when the command is run again.

    Example: [bold]plusone sweep labels.csv -m em --over options.alpha=0.1,0.2[/bold]
    """
    from plusone.compare.plan import make_source
    from plusone.compare.sweep import parse_over, run_sweep, write_sweep
    from plusone.recipe import parse_settings

    check_folder(to)
    name, values = parse_over(over)
    if lrs and name == "lr":
        raise InputError("--over lr and --lr are the same setting; give one of them")
    result = run_sweep(
        make_source(data, features or (), form, meaning),
        parts(names, str, "--methods"),
        name,
        values,
        to,
        seeds=[seed] if seed is not None else parts(seeds, int, "--seeds"),
        rates=parts(lrs, float, "--lr") if lrs else [None],
        settings=parse_settings(settings or []),
        rules=rules,
        baseline=baseline,
        command=command_line(context, ("as_json", "workers")),
        run=lambda jobs: run_shown(jobs, to, workers),
    )
    written = write_sweep(result, to)
    if as_json:
        emit(result.to_dict())
    else:
        _show_sweep(result)
    say(f"written: {', '.join(map(str, written))}")


def ablate(
    context: typer.Context,
    data: Data,
    method: Annotated[str, typer.Option("--method", "-m", help="The method to take apart.")] = "gr",
    seeds: Seeds = "0,1,2",
    lrs: Rates = None,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.")] = Path("ablation"),
    features: Features = None,
    settings: Set = None,
    rules: Rules = True,
    workers: Workers = 2,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: OneSeed = None,
    as_json: Json = False,
) -> None:
    """Switch the parts of a method off, one by one, as the tables of its paper do.

    A method without such parts is refused, with the names of those that have some.

    What is done is skipped when the command is run again.

    Example: [bold]plusone ablate VOCdevkit -x features -m gr --lr 1e-3,1e-4[/bold]
    """
    from plusone.compare.ablate import run_ablation, write_ablation
    from plusone.compare.plan import make_source
    from plusone.recipe import parse_settings

    check_folder(to)
    result = run_ablation(
        make_source(data, features or (), form, meaning),
        method,
        to,
        seeds=[seed] if seed is not None else parts(seeds, int, "--seeds"),
        rates=parts(lrs, float, "--lr") if lrs else [None],
        settings=parse_settings(settings or []),
        rules=rules,
        command=command_line(context, ("as_json", "workers")),
        run=lambda jobs: run_shown(jobs, to, workers),
    )
    written = write_ablation(result, to)
    if as_json:
        emit(result.to_dict())
    else:
        _show_ablation(result)
    say(f"written: {written}")


def _show_sweep(result: Sweep) -> None:
    """A line per value, a column per method."""
    from plusone.compare.sweep import sweep_table

    wide = 24 + 16 * len({row.point.method for row in result.rows}) <= out.width
    measure = "test mAP" if result.rows[0].outcome.test_map is not None else "validation mAP"
    out.print(f"{result.title} ({measure})", markup=False, soft_wrap=True)
    out.print(table("", *sweep_table(result, with_sd=wide)))


def _show_ablation(result: Ablation) -> None:
    from plusone.compare.ablate import ablation_table

    out.print(table(result.title, *ablation_table(result)))
    for note in result.notes:
        say(note)
