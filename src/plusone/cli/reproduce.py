"""The command reproduce: a table of a paper, trained again and compared with the published one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plusone.cli import options as opt
from plusone.cli.board import run_shown
from plusone.cli.checks import check_folder
from plusone.cli.comparison import write_report_of
from plusone.cli.loading import given_settings
from plusone.cli.printing import command_line, emit, out, progress, say, table
from plusone.errors import InputError

if TYPE_CHECKING:
    from plusone.compare.bench import Bench
    from plusone.compare.reproduce import Line, Part
    from plusone.data.public import Prepared

LABELS = "labels.npz"  # as plusone prepare calls them
CHOSEN = 6  # columns of the table before those of single batch sizes


def reproduce(
    context: typer.Context,
    data: Annotated[str, typer.Argument(help="voc, coco, nuswide, cub or species.")],
    root: Annotated[Path, typer.Argument(help="Folder of the downloaded, unpacked files.")],
    name: Annotated[
        str,
        typer.Option(
            "--table",
            "-t",
            help="The paper: cole, em, lasd, gr or lac; or another table of it: cole-2, cole-a2, "
            "cole-a3, lasd-3, gr-3, lac-3.",
        ),
    ] = "cole",
    features: opt.Features = None,
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for results; default DATA-TABLE.")
    ] = None,
    names: Annotated[
        str | None,
        typer.Option(
            "--methods", "-m", help="Rows, comma-separated, or all methods; default the table's."
        ),
    ] = None,
    modes: Annotated[
        str | None,
        typer.Option(
            help="linear, finetune, linear_init, labelwise, comma-separated; default the table's."
        ),
    ] = None,
    seeds: opt.Seeds = "0,1,2",
    lrs: Annotated[
        str | None,
        typer.Option("--lr", help="Learning rates to search, comma-separated."),
    ] = None,
    batches: Annotated[
        str | None, typer.Option("--batch-size", help="Batch sizes to search, comma-separated.")
    ] = None,
    background: Annotated[
        int, typer.Option(min=0, help="species: unlabelled background sites to learn from.")
    ] = 0,
    epochs: opt.Epochs = None,
    settings: opt.Set = None,
    device: opt.Device = None,
    workers: opt.Workers = 2,
    seed: opt.OneSeed = None,
    as_json: opt.Json = False,
    report: opt.Report = True,
    plugin: opt.Plugin = None,
) -> None:
    """Train the rows of a published table, and compare the figures.

    Labels are prepared as by plusone prepare, settings come from the recipes. In
    the mode linear, learning rate (1e-2, 1e-3, 1e-4, 1e-5) and batch size (8, 16)
    are searched, as Cole et al. do: the first seed picks the rate of each batch
    size by validation mAP, all seeds train with it, and their mean validation mAP
    picks the batch size. Other modes take both from the recipe; --lr and
    --batch-size search there too.

    With --features the linear rows are trained on these features, and others are
    left out. Without it the images are needed, and in practice a GPU.

    cole-2 is the mAP of the training labels. lasd-3, gr-3 and lac-3 are ablations,
    trained with the recipe of the method. cole-a2 and cole-a3 count labels and
    train nothing.

    species is no table of a paper: its folder holds npz files with records of
    people for training and complete surveys for testing. All methods, or --methods,
    are trained in the kernel head beside the baselines forest and maxent-like, and
    the figure is the mean AUC over species.

    What is done is skipped when the command is run again.

    Example: [bold]plusone reproduce species FOLDER -m recovery,ridge,forest[/bold]
    Example: [bold]plusone reproduce voc VOCdevkit --table cole -x features.npz[/bold]
    Example: [bold]plusone reproduce coco COCO --table gr --device cuda --seeds 0[/bold]
    """
    from plusone.cli.ablate import show_ablation
    from plusone.compare.reproduce import (
        ABLATIONS,
        COUNTS,
        FILES,
        make_parts,
        remarks,
        reproduce_ablation,
        write_reproduction,
    )
    from plusone.data.public import PUBLIC

    command = command_line(context, ("as_json", "workers", "report"))
    given = given_settings(None, opt.with_device(settings, device), {"epochs": epochs})
    methods = opt.parts(names, str, "--methods")
    numbers = [seed] if seed is not None else opt.parts(seeds, int, "--seeds")
    if data == "species":
        if features or modes or lrs or batches:
            raise InputError("species takes no --features, --modes, --lr or --batch-size")
        folder = to or Path(data)
        _species(root, folder, methods, numbers, background, given, command, as_json=as_json)
        return
    _check_data(data, background)
    folder = to or Path(f"{data}-{name}")
    check_folder(folder)
    title = f"{PUBLIC[data].title}, table {name}"

    rates, mode_names = opt.parts(lrs, float, "--lr"), opt.parts(modes, str, "--modes")
    if name in COUNTS or name in ABLATIONS:
        counts = {"--modes": modes, "--lr": lrs} if name in COUNTS else {}
        _refuse(name, {"--methods": names, "--batch-size": batches} | counts, mode_names)
        prepared, files = _prepare(data, root, folder, features or [], images=name not in COUNTS)
        if name in COUNTS:
            _counts(name, prepared, folder, title, command, as_json=as_json)
            return
        mode = mode_names[0] if mode_names else "linear" if files else "finetune"
        result = reproduce_ablation(
            name, data, folder / LABELS, files, folder, mode=mode, seeds=numbers, rates=rates,
            settings=given, notes=remarks(prepared), command=command,
            run=partial(run_shown, folder=folder, workers=workers),
        )  # fmt: skip
        show_ablation(result, folder, as_json=as_json)
        return

    def plan(files: Sequence[Path]) -> list[Part]:
        block = {"path": str(folder / LABELS), "features": [str(file) for file in files]}
        return make_parts(
            name,
            data,
            block | {"name": PUBLIC[data].title},
            methods=methods,
            modes=mode_names or ["linear"] * bool(files),
            seeds=numbers,
            rates=rates,
            batches=opt.parts(batches, int, "--batch-size"),
            settings=given,
            workers=workers,
        )

    plan(features or [])  # wrong names are refused before anything is read
    prepared, files = _prepare(data, root, folder, features or [])
    done, folders = [], []
    for part in plan(files):
        home = folder / part.name
        bench = _run_part(part, home, data, f"{title}, {part.name}", command, workers)
        done.append((part, bench))
        folders.append(home)
        lines, document = write_reproduction(
            folder, done, prepared, data, title=title, command=command
        )
    if as_json:
        emit(document)
    else:
        _print_lines(lines, title)
    for note in document["notes"]:
        say(note)
    say(f"written: {', '.join(str(folder / file) for file in FILES)}")
    if report:
        write_report_of(folders, folder / "report.html")


def _run_part(part: Part, home: Path, data: str, title: str, command: str, workers: int) -> Bench:
    """Trains one comparison and writes its files."""
    from plusone.compare.bench import run_bench
    from plusone.compare.reproduce import with_figures
    from plusone.compare.results_files import write_outputs

    run = partial(run_shown, folder=home, workers=workers)
    bench = with_figures(run_bench(part.spec, home, run), part, data)
    rows, rule = bench.summary, bench.rule
    write_outputs(home, part.spec, bench.results, rows, title=title, command=command, rule=rule)
    return bench


def _check_data(data: str, background: int) -> None:
    from plusone.data.public import PUBLIC

    if data not in PUBLIC:
        choices = ", ".join([*PUBLIC, "species"])
        raise InputError(f"{data!r} is no data set; choose one of {choices}")
    if background:
        raise InputError("--background is for species alone")


def _prepare(
    data: str, root: Path, folder: Path, features: Sequence[Path], *, images: bool = True
) -> tuple[Prepared, list[Path]]:
    """Writes the labels; without `images` they are not looked for."""
    from plusone.compare.reproduce import prepare_labels

    with progress("preparing labels", None):
        prepared, files = prepare_labels(data, root, folder / LABELS, features, images=images)
    for warning in prepared.warnings:
        say(f"warning: {warning}")
    return prepared, files


def _counts(
    name: str,
    prepared: Prepared,
    folder: Path,
    title: str,
    command: str,
    *,
    as_json: bool,
) -> None:
    from plusone.compare.reproduce import FILES, reproduce_counts

    document, header, cells = reproduce_counts(name, prepared, folder, title=title, command=command)
    if as_json:
        emit(document)
    else:
        out.print(table(title, header, cells))
    say(f"written: {', '.join(str(folder / file) for file in FILES)}")


def _refuse(name: str, unused: Mapping[str, str | None], modes: Sequence[str]) -> None:
    """Refuses flags that a table has no use for."""
    if flags := [flag for flag, value in unused.items() if value]:
        raise InputError(f"the table {name} takes no {', '.join(flags)}")
    if len(modes) > 1:
        raise InputError(f"the table {name} takes one of --modes, not {len(modes)}")


def _species(
    root: Path,
    folder: Path,
    methods: Sequence[str],
    seeds: Sequence[int],
    background: int,
    settings: dict[str, Any],
    command: str,
    *,
    as_json: bool,
) -> None:
    from plusone.compare.species import (
        BASELINES,
        FILES,
        learning_methods,
        measure,
        table_of,
        write_species,
    )
    from plusone.data.species_files import species_files

    check_folder(folder)
    figures = measure(
        species_files(root),
        methods if methods and "all" not in methods else [*learning_methods(), *BASELINES],
        seeds,
        folder,
        background=background,
        settings=settings,
        on_figure=lambda f: say(f"{f.data}, {f.method}, seed {f.seed}: AUC {100 * f.auc:.2f}"),
    )
    document = write_species(folder, figures, command)
    if as_json:
        emit(document)
    else:
        out.print(table("mean AUC over species in per cent", *table_of(figures)))
    say(f"written: {', '.join(str(folder / file) for file in FILES)}")


def _print_lines(lines: Sequence[Line], title: str) -> None:
    """Prints one table per mode; narrow terminals get the chosen batch size alone."""
    from plusone.compare.reproduce import table_of
    from plusone.compare.results_table import WIDE

    for mode in dict.fromkeys(line.mode for line in lines):
        header, cells = table_of([line for line in lines if line.mode == mode])
        shown = len(header) if out.width >= WIDE else CHOSEN
        rows = [row[:shown] for row in cells]
        out.print(table(f"{title}, {mode}", header[:shown], rows))
