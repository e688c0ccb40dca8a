"""Commands that train many methods and compare them: demo, bench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
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
    check_folder,
    emit,
    going_on,
    out,
    percent,
    progress,
    say,
    table,
)
from plusone.errors import InputError

if TYPE_CHECKING:
    from plusone.bench.jobs import Job, Source
    from plusone.bench.summary import Row

Settings = dict[str, Any]
DEMO_METHODS = ("an", "an_ls", "wan", "epr", "em", "gr", "softmax", "bce")

Workers = Annotated[int, typer.Option(min=1, help="Parallel trainings, one core each.")]


def demo(
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("demo"),
    workers: Workers = 2,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train eight methods on the embedded digits, one positive label per image, and compare.

    Example: [bold]plusone demo[/bold] (under three minutes on two cores)
    """
    check_folder(to)
    from plusone.bench.summary import summarise

    grids: dict[str, list[Settings]] = {name: [{}] for name in DEMO_METHODS}
    jobs = _jobs(_source("digits", (), "auto", "auto"), DEMO_METHODS, [seed], grids, {})
    rows = summarise(_run(jobs, to, workers))
    _finish(rows, to, "Scenes of handwritten digits, one positive label per image", as_json)


def bench(
    data: Data = "digits",
    names: Annotated[
        str, typer.Option("--methods", "-m", help="Methods, comma-separated, or all.")
    ] = ",".join(DEMO_METHODS),
    seeds: Annotated[str, typer.Option(help="Seeds, comma-separated.")] = "0,1,2",
    lrs: Annotated[
        str | None,
        typer.Option("--lr", help="Learning rates, comma-separated; validation picks one each."),
    ] = None,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.")] = Path("bench"),
    features: Features = None,
    settings: Set = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Also choose each method's options on validation.")
    ] = False,
    workers: Workers = 2,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: Annotated[int | None, typer.Option(help="One seed instead of --seeds.")] = None,
    as_json: Json = False,
) -> None:
    """Compare methods over seeds; the learning rate is chosen on validation.

    With --tune the first seed chooses the learning rate, then the method's own options at that
    rate (each method has a small grid); the choice is trained with the other seeds too.

    What is done is skipped when the command is run again.

    Example: [bold]plusone bench labels.csv -x photos.npz -m an,em,gr --lr 1e-3,1e-4[/bold]
    """
    from plusone.bench.summary import summarise
    from plusone.bench.tuning import option_grid, rate_grid
    from plusone.methods import METHODS
    from plusone.recipe import parse_settings

    check_folder(to)
    chosen = list(METHODS) if names.strip() == "all" else _parts(names, str, "--methods")
    numbers = [seed] if seed is not None else _parts(seeds, int, "--seeds")
    rates = _parts(lrs, float, "--lr") if lrs else [None]
    given = parse_settings(settings or [])
    source = _source(data, features or (), form, meaning)
    grids = {name: rate_grid(rates) for name in chosen}
    if tune:

        def choose(tried: Mapping[str, Sequence[Settings]]) -> dict[str, Settings]:
            jobs = _jobs(source, chosen, numbers[:1], tried, given)
            return _best(tried, _run(jobs, to, workers))

        rate = choose(grids)
        pinned = given.get("options", {})
        settled = choose({name: option_grid(name, rate[name], pinned) for name in chosen})
        grids = {name: [settled[name]] for name in chosen}
    results = _run(_jobs(source, chosen, numbers, grids, given), to, workers)
    rows = summarise(results)
    plural = "s" if len(numbers) > 1 else ""
    _finish(rows, to, f"{data}, {len(numbers)} seed{plural}", as_json)


def _parts(text: str, kind: type, flag: str) -> list[Any]:
    """The different values of a comma-separated list."""
    try:
        found = [kind(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError:
        found = []
    if not found:
        what = "names" if kind is str else "numbers"
        raise InputError(f"{flag} {text!r}: write {what} separated by commas")
    return list(dict.fromkeys(found))


def _jobs(
    source: Source,
    names: Sequence[str],
    seeds: Sequence[int],
    grids: Mapping[str, Sequence[Settings]],
    settings: Settings,
) -> list[Job]:
    """One job per method, settings to try and seed; wrong settings are refused here, at once."""
    from plusone.bench.jobs import Job
    from plusone.data.source import DATA_DEFAULTS
    from plusone.methods import get_method
    from plusone.recipe import make_recipe

    jobs = []
    for name in names:
        info = get_method(name)
        for tried in grids[name]:
            for seed in seeds:
                first = [DATA_DEFAULTS.get(source.data, {}), info.defaults, settings, tried]
                recipe = make_recipe(*first, {"method": name, "seed": seed}, source="settings")
                info.make_options(recipe.options)
                jobs.append(Job(source, recipe))
    return jobs


def _source(data: str, features: Sequence[Path], form: str, meaning: str) -> Source:
    from plusone.bench.jobs import Source
    from plusone.data.source import EMBEDDED

    place = data if data in EMBEDDED else str(Path(data).resolve())
    if place != data and not Path(data).exists():
        raise InputError(f"{data}: no such file or folder")
    return Source(place, tuple(str(path.resolve()) for path in features), form, meaning)


def _best(
    tried: Mapping[str, Sequence[Settings]], results: Sequence[dict[str, Any]]
) -> dict[str, Settings]:
    """The best of the tried settings of each method; `results` come in the order of `tried`."""
    from plusone.bench.tuning import best_settings

    found = iter(results)
    return {
        name: best_settings(grid, list(islice(found, len(grid)))) for name, grid in tried.items()
    }


def _run(jobs: Sequence[Job], folder: Path, workers: int) -> list[dict[str, Any]]:
    from plusone.bench.jobs import run_jobs

    again = going_on(f"run the same command again to go on ({folder} keeps what is done)")
    with again, progress("training", len(jobs)) as (bar, task):

        def on_done(result: dict[str, Any], before: bool) -> None:
            bar.advance(task)
            tried = "".join(f"  {name} {value}" for name, value in result["options"].items())
            bar.console.print(
                f"{result['method']:12s} seed {result['seed']}  lr {result['lr']:g}{tried}  "
                f"val mAP {percent(result['val_map'])}  {result['seconds']:.1f} s"
                f"{'  (done before)' if before else ''}",
                soft_wrap=True,
            )

        return run_jobs(jobs, folder / "journal.jsonl", workers=workers, on_done=on_done)


def _finish(rows: Sequence[Row], folder: Path, title: str, as_json: bool) -> None:
    """Prints the table and writes `results.json` and `table.md`."""
    from plusone.bench.summary import gap_closed, markdown
    from plusone.files import write_json, write_text

    closed = gap_closed(rows)
    columns = (
        "method", "test mAP", "sd", "val mAP", "recovered", "gap closed", "lr", "options", "seconds"
    )  # fmt: skip
    cells = [
        (
            row.method,
            percent(row.test_map),
            percent(row.test_sd),
            percent(row.val_map),
            percent(row.recovery_map),
            f"{100 * closed[row.method]:.0f} %" if row.method in closed else "-",
            f"{row.lr:g}",
            ", ".join(f"{name} {value}" for name, value in row.options.items()),
            f"{row.seconds:.1f}",
        )
        for row in rows
    ]
    result = {"rows": [row.to_dict() | {"gap_closed": closed.get(row.method)} for row in rows]}
    write_json(folder / "results.json", result)
    write_text(folder / "table.md", markdown(columns, cells))
    if as_json:
        emit(result)
    else:
        kept = [place for place, name in enumerate(columns) if _shown(name, rows)]
        short = [[line[place] for place in kept] for line in (columns, *cells)]
        out.print(table(title, [str(name) for name in short[0]], short[1:]))
        say("recovered: mAP on the training items against all their labels, hidden ones included")
        say("gap closed: 0 % is AN (unseen = negative), 100 % is training with all labels (bce)")
    say(f"written: {folder / 'results.json'}, {folder / 'table.md'}")


def _shown(column: str, rows: Sequence[Row]) -> bool:
    """Whether a column is worth its width: narrow terminals get the ones that matter most."""
    if column == "sd":
        return out.width >= 80 and any(row.test_sd is not None for row in rows)
    if column == "options":
        return out.width >= 120 and any(row.options for row in rows)
    return out.width >= 80 or column not in ("val mAP", "lr")
