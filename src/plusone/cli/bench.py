"""The command `bench`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from plusone.cli import options as opt
from plusone.cli.board import run_shown
from plusone.cli.checks import check_folder
from plusone.cli.comparison import finish
from plusone.cli.printing import command_line, say
from plusone.errors import InputError

if TYPE_CHECKING:
    from plusone.compare.spec import BenchSpec


def bench(
    context: typer.Context,
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="Data sets as for plusone train, or one TOML file with the whole comparison; "
            "default digits.",
        ),
    ] = None,
    names: Annotated[
        str | None, typer.Option("--methods", "-m", help="Methods, comma-separated, or all.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds, comma-separated; default 0,1,2.")
    ] = None,
    modes: Annotated[
        str | None,
        typer.Option(help="linear, finetune, linear_init, comma-separated; default by the data."),
    ] = None,
    lrs: opt.Rates = None,
    epochs: opt.Epochs = None,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.")] = Path("bench"),
    features: opt.Features = None,
    hints: opt.Hints = None,
    classes: opt.Classes = None,
    settings: opt.Set = None,
    device: opt.Device = None,
    rules: Annotated[
        bool | None,
        typer.Option(
            "--rules/--no-rules",
            help="Choose what is not set by rules that look at the data; by default unless there "
            "is a TOML file.",
        ),
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Also choose each method's options on validation.")
    ] = False,
    search: Annotated[
        str | None,
        typer.Option(help="How to tune: grid (default), rate or optuna; implies --tune."),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Trials per method for optuna; default 20.")
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="PLUSONE_STORAGE",
            show_envvar=False,
            help="Database that several machines share, for optuna; default a file. "
            "PLUSONE_STORAGE keeps its password off the command line.",
        ),
    ] = None,
    protocol: Annotated[
        Literal["papers", "product"] | None,
        typer.Option(
            help="papers (default): the same head and items for all rows; product: each row as "
            "plusone train runs it."
        ),
    ] = None,
    draws: Annotated[
        bool, typer.Option("--draws", help="Seeds also draw observed labels and validation items.")
    ] = False,
    extend: Annotated[
        bool | None,
        typer.Option(
            "--extend/--no-extend",
            help="Try further learning rates where one at the edge is best; the default.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Parallel runs, one core each; default 2.")
    ] = None,
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    seed: opt.OneSeed = None,
    as_json: opt.Json = False,
    report: opt.Report = True,
    plugin: opt.Plugin = None,
) -> None:
    """Compare methods over data sets, modes and seeds.

    All rows have the same head and learn from the same items, unless --protocol
    product runs each method as plusone train does. What you do not set is chosen
    as plusone train chooses it: on features, validation picks the learning rate
    among several, or among those of --lr, and further ones where the best is at
    the edge. With --tune the first seed chooses the rate, then the method's own
    options at that rate (each method has a small grid); with --search rate the
    rate alone, with --search optuna both among trials.
    The choice is trained with all seeds. With --draws each seed also draws which
    labels are observed, so that the spread and the tests contain it.

    What is done is skipped when the command is run again. On features, all
    learning rates and seeds of a method are trained at once where it allows it.

    Example: [bold]plusone bench labels.csv -x photos.npz -m an,em,gr --lr 1e-3,1e-4[/bold]
    Example: [bold]plusone bench digits-features yeast.npz -m all --seeds 0,1[/bold]
    Example: [bold]plusone bench comparison.toml[/bold]
    """
    check_folder(to)
    from plusone.compare.bench import run_bench
    from plusone.recipe import parse_settings

    optuna_only = {"--trials": trials, "--storage": storage}
    flags: dict[str, Any] = {
        "methods": opt.parts(names, str, "--methods"),
        "seeds": [seed] if seed is not None else opt.parts(seeds, int, "--seeds"),
        "modes": opt.parts(modes, str, "--modes"),
        "lr": opt.parts(lrs, float, "--lr"),
        "tune": True if tune or search else None,
        "search": search,
        "trials": trials,
        "storage": storage,
        "workers": workers,
        "rules": rules,
        "protocol": protocol,
        "draws": True if draws else None,
        "extend": extend,
    }
    flags = {name: value for name, value in flags.items() if value not in (None, [])}
    given_settings = parse_settings(opt.with_device(settings, device))
    given_settings |= {} if epochs is None else {"epochs": epochs}
    block = {
        "features": [str(path) for path in features or []],
        "hints": None if hints is None else str(hints),
        "classes": None if classes is None else str(classes),
        "format": form,
        "labels": meaning,
    }
    spec = _spec(data or ["digits"], block, flags, given_settings)
    if spec.search != "optuna" and (idle := [name for name, value in optuna_only.items() if value]):
        raise InputError(f"{idle[0]}: needs --search optuna")
    done = run_bench(spec, to, lambda jobs: run_shown(jobs, to, spec.workers), say)
    count = len(spec.seeds)
    names_of_data = dict.fromkeys(row.data for row in done.summary.rows)
    finish(
        done,
        spec,
        to,
        title=f"{', '.join(names_of_data)}, {count} seed{'s' if count > 1 else ''}",
        command=command_line(context, ("as_json", "workers", "report", "storage")),
        as_json=as_json,
        report=report,
    )


def _spec(
    data: Sequence[str],
    block: dict[str, Any],
    flags: dict[str, Any],
    settings: dict[str, Any],
) -> BenchSpec:
    """The comparison described by the command line, and by the TOML file it may name."""
    from plusone.compare.spec import make_spec, read_spec
    from plusone.methods import COMPARED

    files = [name for name in data if name.lower().endswith(".toml")]
    if files and len(data) > 1:
        raise InputError(f"{files[0]}: describes a whole comparison; name no other data with it")
    plain: dict[str, Any] = {"features": [], "hints": None, "classes": None}
    plain |= {"format": "auto", "labels": "auto"}
    if files and block != plain:
        raise InputError(f"{files[0]}: {', '.join(plain)} belong in its [[data]] blocks")
    if files:
        return read_spec(Path(files[0]), flags, settings)
    if (block["features"] or block["hints"]) and len(data) > 1:
        raise InputError(
            "--features and --hints can belong to one data set only; write a TOML file with a "
            "[[data]] block for each"
        )
    values = {
        "methods": list(COMPARED),
        "rules": True,
        "settings": settings,
        "data": [{"path": name} | block for name in data],
    }
    return make_spec(values | flags, source="settings")
