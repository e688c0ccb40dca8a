"""Commands that train many methods and compare them: demo, bench."""

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
    from plusone.bench.jobs import Job
    from plusone.bench.summary import Row

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
        str | None,
        typer.Option("--lr", help="Learning rates, comma-separated; validation picks one each."),
    ] = None,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.")] = Path("bench"),
    features: Features = None,
    settings: Set = None,
    workers: Workers = 2,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: Annotated[int | None, typer.Option(help="One seed instead of --seeds.")] = None,
    as_json: Json = False,
) -> None:
    """Compare methods over seeds; the learning rate is chosen on validation.

    What is done is skipped when the command is run again.

    Example: [bold]plusone bench labels.csv -x photos.npz -m an,em,gr --lr 1e-3,1e-4[/bold]
    """
    from plusone.methods import METHODS

    check_folder(to)
    chosen = list(METHODS) if names.strip() == "all" else _parts(names, str, "--methods")
    numbers = [seed] if seed is not None else _parts(seeds, int, "--seeds")
    rates = _parts(lrs, float, "--lr") if lrs else [None]
    jobs = _jobs(data, features or (), chosen, numbers, rates, settings or [], form, meaning)
    rows = _run(jobs, to, workers)
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
    data: str,
    features: Sequence[Path],
    names: Sequence[str],
    seeds: Sequence[int],
    rates: Sequence[float | None],
    settings: list[str],
    form: str = "auto",
    meaning: str = "auto",
) -> list[Job]:
    """One job per method, learning rate and seed; wrong settings are refused here, at once."""
    from plusone.bench.jobs import Job, Source
    from plusone.data.source import DATA_DEFAULTS, EMBEDDED
    from plusone.methods import get_method
    from plusone.recipe import make_recipe, parse_settings

    place = data if data in EMBEDDED else str(Path(data).resolve())
    if place != data and not Path(data).exists():
        raise InputError(f"{data}: no such file or folder")
    source = Source(place, tuple(str(path.resolve()) for path in features), form, meaning)
    given = parse_settings(settings)
    jobs = []
    for name in names:
        info = get_method(name)
        for rate in rates:
            for seed in seeds:
                grid = {"method": name, "seed": seed} | ({} if rate is None else {"lr": rate})
                layers = [DATA_DEFAULTS.get(data, {}), info.defaults, given, grid]
                recipe = make_recipe(*layers, source="settings")
                info.make_options(recipe.options)
                if info.needs_k and recipe.expected_positives is None:
                    raise InputError(
                        f"the method {name} needs the expected number of positives per item: add "
                        "--set expected_positives=1.5 (count them on a few items), or leave "
                        f"{name} out of --methods"
                    )
                jobs.append(Job(source, recipe))
    return jobs


def _run(jobs: Sequence[Job], folder: Path, workers: int) -> list[Row]:
    from plusone.bench.jobs import run_jobs
    from plusone.bench.summary import summarise

    again = going_on(f"run the same command again to go on ({folder} keeps what is done)")
    with again, progress("training", len(jobs)) as (bar, task):

        def on_done(result: dict[str, Any], before: bool) -> None:
            bar.advance(task)
            bar.console.print(
                f"{result['method']:12s} seed {result['seed']}  lr {result['lr']:g}  "
                f"val mAP {percent(result['val_map'])}  {result['seconds']:.1f} s"
                f"{'  (done before)' if before else ''}",
                soft_wrap=True,
            )

        results = run_jobs(jobs, folder / "journal.jsonl", workers=workers, on_done=on_done)
    return summarise(results)


def _finish(rows: Sequence[Row], folder: Path, title: str, as_json: bool) -> None:
    """Prints the table and writes `results.json` and `table.md`."""
    from plusone.bench.summary import gap_closed, markdown
    from plusone.files import write_json, write_text

    closed = gap_closed(rows)
    columns = ("method", "test mAP", "sd", "val mAP", "recovered", "gap closed", "lr", "seconds")
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
    return out.width >= 80 or column not in ("val mAP", "lr")
