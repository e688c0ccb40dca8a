"""The command `bench`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plusone.cli.bench_progress import run_shown
from plusone.cli.common import Features, Form, Json, Meaning, Set, check_folder
from plusone.cli.compared import finish
from plusone.cli.demo import DEMO_METHODS
from plusone.cli.repeat import command_line
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
    lrs: Annotated[
        str | None,
        typer.Option("--lr", help="Learning rates, comma-separated; validation picks one each."),
    ] = None,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.")] = Path("bench"),
    features: Features = None,
    settings: Set = None,
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
        str | None, typer.Option(help="How to tune: grid (default) or optuna; implies --tune.")
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
    workers: Annotated[
        int | None, typer.Option(min=1, help="Parallel trainings, one core each; default 2.")
    ] = None,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: Annotated[int | None, typer.Option(help="One seed instead of --seeds.")] = None,
    as_json: Json = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write report.html too.")
    ] = True,
) -> None:
    """Compare methods over data sets, modes and seeds.

    What you do not set is chosen as plusone train chooses it, for each method.
    Validation picks the learning rate, if --lr names several. With --tune the
    first seed chooses the rate, then the method's own options at that rate (each
    method has a small grid); with --search optuna it chooses both among trials.
    The choice is trained with all seeds.

    What is done is skipped when the command is run again. On features, all
    learning rates and seeds of a method are trained at once where it allows it.

    Example: [bold]plusone bench labels.csv -x photos.npz -m an,em,gr --lr 1e-3,1e-4[/bold]
    Example: [bold]plusone bench digits-features yeast.npz -m all --seeds 0,1[/bold]
    Example: [bold]plusone bench comparison.toml[/bold]
    """
    check_folder(to)
    from plusone.compare.run import run_bench
    from plusone.recipe import parse_settings

    optuna_only = {"--trials": trials, "--storage": storage}
    given: dict[str, Any] = {
        "methods": _parts(names, str, "--methods"),
        "seeds": [seed] if seed is not None else _parts(seeds, int, "--seeds"),
        "modes": _parts(modes, str, "--modes"),
        "lr": _parts(lrs, float, "--lr"),
        "tune": True if tune or search else None,
        "search": search,
        "trials": trials,
        "storage": storage,
        "workers": workers,
        "rules": rules,
    }
    flags = {name: value for name, value in given.items() if value is not None}
    said = parse_settings(settings or [])
    spec = _spec(data or ["digits"], features or [], form, meaning, flags, said)
    if spec.search != "optuna" and (idle := [name for name, value in optuna_only.items() if value]):
        raise InputError(f"{idle[0]}: is for --search optuna")
    done = run_bench(spec, to, lambda jobs: run_shown(jobs, to, spec.workers))
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


def _parts(text: str | None, kind: type, flag: str) -> list[Any] | None:
    return None if text is None else parts(text, kind, flag)


def _spec(
    data: Sequence[str],
    features: Sequence[Path],
    form: str,
    meaning: str,
    flags: dict[str, Any],
    settings: dict[str, Any],
) -> BenchSpec:
    """The comparison that the command line, and the TOML file it may name, ask for."""
    from plusone.compare.spec import make_spec, read_spec

    files = [name for name in data if name.lower().endswith(".toml")]
    if files and len(data) > 1:
        raise InputError(f"{files[0]}: stands for a whole comparison; name no other data beside it")
    if files and (features or form != "auto" or meaning != "auto"):
        raise InputError(f"{files[0]}: features, format and labels belong into its [[data]] blocks")
    if files:
        return read_spec(Path(files[0]), flags, settings)
    if features and len(data) > 1:
        raise InputError(
            "--features can belong to one data set only; write a TOML file with a [[data]] block "
            "for each"
        )
    block = {"features": [str(path) for path in features], "format": form, "labels": meaning}
    values = {
        "methods": list(DEMO_METHODS),
        "rules": True,
        "settings": settings,
        "data": [{"path": name} | block for name in data],
    }
    return make_spec(values | flags, source="settings")


def parts(text: str, kind: type, flag: str) -> list[Any]:
    """The different values of a comma-separated list."""
    try:
        found = [kind(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError:
        found = []
    if not found:
        what = "names" if kind is str else "numbers"
        raise InputError(f"{flag} {text!r}: write {what} separated by commas")
    return list(dict.fromkeys(found))
