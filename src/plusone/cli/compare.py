"""Commands that compare: methods, demo, bench, report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plusone.cli.common import (
    Data,
    Features,
    Form,
    Json,
    Meaning,
    Seed,
    Set,
    UnusedSeed,
    emit,
    out,
    percent,
    progress,
    say,
    table,
)
from plusone.errors import InputError

if TYPE_CHECKING:
    from plusone.bench.jobs import Job
    from plusone.bench.summary import Row

DEMO_METHODS = ("an", "an_ls", "wan", "epr", "em", "gr", "softmax", "bce")


def register(app: typer.Typer) -> None:
    """Adds these commands."""
    app.command()(demo)
    app.command()(methods)
    app.command()(bench)
    app.command()(report)


def methods(
    name: Annotated[str | None, typer.Argument(help="Show one method with its options.")] = None,
    seed: UnusedSeed = 0,
    as_json: Json = False,
) -> None:
    """List the methods with their papers and options.

    Example: [bold]plusone methods gr[/bold]
    """
    import dataclasses

    from plusone.methods import METHODS, get_method

    chosen = {name: get_method(name)} if name else METHODS
    rows = {
        key: {
            "paper": info.paper,
            "year": info.year,
            "summary": info.summary,
            "labels_seen": info.scheme,
            "needs_k": info.needs_k,
            "options": {f.name: f.default for f in dataclasses.fields(info.options)},
        }
        for key, info in chosen.items()
    }
    if as_json:
        emit(rows)
        return
    if name:
        out.print(table(name, ("what", ""), list(rows[name].items())))
        return
    listed = [(key, row["year"], row["summary"]) for key, row in rows.items()]
    out.print(table("", ("method", "year", "what it does"), listed))
    say("plusone methods NAME shows the paper and the options of one method")


def demo(
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("demo"),
    workers: Annotated[int, typer.Option(help="Parallel trainings, one core each.")] = 2,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train eight methods on the embedded digits, one positive label per image, and compare.

    Example: [bold]plusone demo[/bold] (under three minutes on two cores)
    """
    jobs = _jobs("digits", (), DEMO_METHODS, [seed], [None], [])
    rows = _run(jobs, to, workers)
    _finish(rows, to, "Scenes of handwritten digits, one positive label per image", as_json)


def bench(
    data: Data = "digits",
    names: Annotated[
        str, typer.Option("--methods", "-m", help="Methods, comma-separated, or all.")
    ] = ",".join(DEMO_METHODS),
    seeds: Annotated[str, typer.Option(help="Seeds, comma-separated.")] = "0,1,2",
    lrs: Annotated[
        str | None, typer.Option("--lr", help="Learning rates; validation picks one a method.")
    ] = None,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.")] = Path("bench"),
    features: Features = None,
    settings: Set = None,
    workers: Annotated[int, typer.Option(help="Parallel trainings, one core each.")] = 2,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: Annotated[int | None, typer.Option(help="One seed instead of --seeds.")] = None,
    as_json: Json = False,
) -> None:
    """Compare methods over seeds; the learning rate is chosen on validation.

    What is done is skipped when the command is run again. Example:
    [bold]plusone bench labels.csv -x photos.npz -m an,em,gr --lr 1e-3,1e-4[/bold]
    """
    from plusone.methods import METHODS

    chosen = list(METHODS) if names == "all" else [name.strip() for name in names.split(",")]
    numbers = [seed] if seed is not None else _numbers(seeds, int, "--seeds")
    rates = _numbers(lrs, float, "--lr") if lrs else [None]
    jobs = _jobs(data, features or (), chosen, numbers, rates, settings or [], form, meaning)
    rows = _run(jobs, to, workers)
    _finish(rows, to, f"{data}, {len(numbers)} seeds", as_json)


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that hold runs.")],
    to: Annotated[Path | None, typer.Option("--out", "-o", help="Markdown file.")] = None,
    seed: UnusedSeed = 0,
    as_json: Json = False,
) -> None:
    """Put finished runs into one table.

    Example: [bold]plusone report runs[/bold]
    """
    from plusone.bench.summary import markdown
    from plusone.engine.run_files import read_metrics
    from plusone.files import write_text

    folders = sorted({file.parent for run in runs for file in run.rglob("metrics.json")})
    if not folders:
        raise InputError(f"no finished run in {', '.join(str(run) for run in runs)}")
    found = [read_metrics(folder) for folder in folders]
    if as_json:
        emit({"runs": found})
        return
    columns = ("method", "data", "seed", "lr", "best epoch", "val mAP", "test mAP", "seconds")
    rows = [
        (
            run["method"],
            run["data"],
            run["seed"],
            run["lr"],
            run["best_epoch"],
            percent(run["val_map"]),
            percent(run["test_map"]),
            run["seconds"],
        )
        for run in found
    ]
    if to is not None:
        write_text(to, markdown(columns, rows))
        say(f"{len(rows)} runs in {to}")
        return
    out.print(table("", columns, rows))


def _numbers(text: str, kind: type, flag: str) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{flag} {text!r}: write numbers separated by commas") from None


def _jobs(
    data: str,
    features: Sequence[Path],
    names: Sequence[str],
    seeds: Sequence[int],
    rates: Sequence[float | None],
    settings: list[str],
    form: str = "auto",
    meaning: str = "auto",
) -> list[Job]:
    from plusone.bench.jobs import Job, Source
    from plusone.data.source import DATA_DEFAULTS
    from plusone.methods import get_method
    from plusone.recipe import make_recipe, parse_settings

    source = Source(data, tuple(str(path) for path in features), form, meaning)
    jobs = []
    for name in names:
        for rate in rates:
            for seed in seeds:
                grid = {"method": name, "seed": seed} | ({"lr": rate} if rate else {})
                layers = [DATA_DEFAULTS.get(data, {}), get_method(name).defaults]
                jobs.append(Job(source, make_recipe(*layers, parse_settings(settings), grid)))
    return jobs


def _run(jobs: Sequence[Job], folder: Path, workers: int) -> list[Row]:
    from plusone.bench.jobs import run_jobs
    from plusone.bench.summary import summarise

    with progress("training", len(jobs)) as (bar, task):

        def on_done(result: dict[str, Any]) -> None:
            bar.advance(task)
            bar.console.print(
                f"{result['method']:12s} seed {result['seed']}  lr {result['lr']:g}  "
                f"val mAP {percent(result['val_map'])}  {result['seconds']:.1f} s"
            )

        results = run_jobs(jobs, folder / "journal.jsonl", workers=workers, on_done=on_done)
    return summarise(results)


def _finish(rows: Sequence[Row], folder: Path, title: str, as_json: bool) -> None:
    """Prints the table and writes `results.json` and `table.md`."""
    from plusone.bench.summary import gap_closed, markdown
    from plusone.files import write_json, write_text

    closed = gap_closed(rows)
    columns = (
        "method",
        "test mAP",
        "sd",
        "val mAP",
        "recovered labels mAP",
        "gap closed",
        "lr",
        "s",
    )
    cells = [
        (
            row.method,
            percent(row.test_map),
            percent(row.test_sd),
            percent(row.val_map),
            percent(row.recovery_map),
            f"{100 * closed[row.method]:.0f} %" if row.method in closed else "-",
            f"{row.lr:g}",
            f"{row.seconds:.1f}",
        )
        for row in rows
    ]
    result = {"rows": [row.to_dict() | {"gap_closed": closed.get(row.method)} for row in rows]}
    write_json(folder / "results.json", result)
    write_text(folder / "table.md", markdown(columns, cells))
    if as_json:
        emit(result)
        return
    out.print(table(title, columns, cells))
    say("gap closed: 0 % is AN (unseen = negative), 100 % is training with all labels (bce)")
    say(f"written: {folder / 'results.json'}, {folder / 'table.md'}")
