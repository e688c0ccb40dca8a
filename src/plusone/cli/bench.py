"""Commands that train many models: demo, bench, sweep, ablate, choose, loop."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from plusone.cli.common import (
    KEPT,
    Data,
    Device,
    Features,
    Form,
    Hints,
    Json,
    Meaning,
    Rules,
    Seed,
    Set,
    Steps,
    check_folder,
    command_line,
    emit,
    err,
    is_watched,
    kept_features,
    load,
    out,
    percent,
    progress,
    resume_hint,
    say,
    table,
    with_device,
)
from plusone.errors import InputError, RunError
from plusone.io.files import alone_in, clear_leftovers

if TYPE_CHECKING:
    from plusone.compare.ablate import Ablation
    from plusone.compare.bench import Bench
    from plusone.compare.choose import Choice
    from plusone.compare.jobs import Job, JobResult
    from plusone.compare.spec import BenchSpec
    from plusone.compare.summary import Row
    from plusone.compare.sweep import Sweep
    from plusone.data.dataset import Dataset
    from plusone.recipe import Recipe


DEMO_METHODS = ("an", "an_ls", "wan", "epr", "em", "gr", "softmax", "bce")
TITLE = "Scenes of handwritten digits, one positive label per image"
# the methods that were best on some data set, and an
CANDIDATES = ("gr", "em", "softmax", "wan", "hill", "en", "an")
RATES = (1e-2, 1e-3, 1e-4, 1e-5)
LISTED = 12  # candidates that are printed
LINES_AROUND = 7  # lines of the live display around the rows of its table
NEAR = "= "  # before a figure that is within noise of the best
NARROW, WIDE = 80, 120  # widths of the terminal from which more columns are shown

Kind = tuple[str, str, str]  # data, method, mode
Seeds = Annotated[str, typer.Option(help="Seeds, comma-separated.")]
Rates = Annotated[
    str | None,
    typer.Option("--lr", help="Learning rates, comma-separated; validation picks one each."),
]
Workers = Annotated[int, typer.Option(min=1, help="Parallel trainings, one core each.")]
OneSeed = Annotated[int | None, typer.Option("--seed", help="One seed instead of --seeds.")]


def demo(
    context: typer.Context,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("demo"),
    workers: Annotated[int, typer.Option(min=1, help="Parallel trainings, one core each.")] = 2,
    seed: Seed = 0,
    as_json: Json = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write report.html too.")
    ] = True,
) -> None:
    """Train and compare eight methods on the embedded digits with one positive label per image.

    Example: [bold]plusone demo[/bold] (under three minutes on two cores)
    """
    check_folder(to)
    from plusone.compare.bench import run_bench
    from plusone.compare.spec import make_spec

    values = {
        "data": [{"path": "digits"}],
        "methods": DEMO_METHODS,
        "seeds": [seed],
        "settings": {"probe": "on"},
        "workers": workers,
    }
    spec = make_spec(values, source="demo")
    bench = run_bench(spec, to, lambda jobs: run_shown(jobs, to, workers))
    finish(
        bench,
        spec,
        to,
        title=TITLE,
        titles={"digits": TITLE},
        command=command_line(context, ("as_json", "workers")),
        as_json=as_json,
        report=report,
    )


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
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Epochs, as -s epochs=N; by the data by default.")
    ] = None,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.")] = Path("bench"),
    features: Features = None,
    hints: Hints = None,
    settings: Set = None,
    device: Device = None,
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
    method has a small grid); with --search rate the rate alone, with --search
    optuna both among trials.
    The choice is trained with all seeds.

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
    flags = {name: value for name, value in flags.items() if value is not None}
    given_settings = parse_settings(with_device(settings, device))
    given_settings |= {} if epochs is None else {"epochs": epochs}
    block = {
        "features": [str(path) for path in features or []],
        "hints": None if hints is None else str(hints),
        "format": form,
        "labels": meaning,
    }
    spec = _spec(data or ["digits"], block, flags, given_settings)
    if spec.search != "optuna" and (idle := [name for name, value in optuna_only.items() if value]):
        raise InputError(f"{idle[0]}: needs --search optuna")
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
    block: dict[str, Any],
    flags: dict[str, Any],
    settings: dict[str, Any],
) -> BenchSpec:
    """The comparison described by the command line, and by the TOML file it may name.

    Args:
        data: Data sets, or one TOML file.
        block: What belongs to the data: features, hints, format and labels.
        flags: Fields of the comparison.
        settings: Recipe settings.
    """
    from plusone.compare.spec import make_spec, read_spec

    files = [name for name in data if name.lower().endswith(".toml")]
    if files and len(data) > 1:
        raise InputError(f"{files[0]}: describes a whole comparison; name no other data with it")
    plain: dict[str, Any] = {"features": [], "hints": None, "format": "auto", "labels": "auto"}
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
        "methods": list(DEMO_METHODS),
        "rules": True,
        "settings": settings,
        "data": [{"path": name} | block for name in data],
    }
    return make_spec(values | flags, source="settings")


def parts(text: str, kind: type, flag: str) -> list[Any]:
    """The distinct values of a comma-separated list."""
    try:
        values = [kind(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError:
        values = []
    if not values:
        what = "names" if kind is str else "numbers"
        raise InputError(f"{flag} {text!r}: write {what} separated by commas")
    return list(dict.fromkeys(values))


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
    hints: Hints = None,
    settings: Set = None,
    device: Device = None,
    rules: Rules = True,
    workers: Workers = 2,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: OneSeed = None,
    as_json: Json = False,
) -> None:
    """Train with several values of one setting: one curve per method.

    --over train_share=0.1,0.2,...,1.0: mAP against the number of labels
    (add bce to the methods to see what all labels give).

    --over keep=0.1,0.2,...,1.0: each positive is seen with this probability.

    --over expected_positives=1.0,1.5,2.0: what a wrong k does.

    What is done is skipped when the command is run again.

    Example: [bold]plusone sweep labels.csv -m em --over options.alpha=0.1,0.2[/bold]
    """
    from plusone.compare.jobs import make_source
    from plusone.compare.sweep import parse_over, run_sweep, write_sweep
    from plusone.recipe import parse_settings

    check_folder(to)
    name, values = parse_over(over)
    if lrs and name == "lr":
        raise InputError("--over lr and --lr are the same setting; give one of them")
    result = run_sweep(
        make_source(data, features or (), form, meaning, hints),
        parts(names, str, "--methods"),
        name,
        values,
        to,
        seeds=[seed] if seed is not None else parts(seeds, int, "--seeds"),
        rates=parts(lrs, float, "--lr") if lrs else [None],
        settings=parse_settings(with_device(settings, device)),
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
    method: Annotated[str, typer.Option("--method", "-m", help="The method to ablate.")] = "gr",
    seeds: Seeds = "0,1,2",
    lrs: Rates = None,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.")] = Path("ablation"),
    features: Features = None,
    hints: Hints = None,
    settings: Set = None,
    device: Device = None,
    rules: Rules = True,
    workers: Workers = 2,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: OneSeed = None,
    as_json: Json = False,
) -> None:
    """Switch off the parts of a method one by one, as in the ablation tables of its paper.

    A method without such parts is refused, with the names of those that have some.

    What is done is skipped when the command is run again.

    Example: [bold]plusone ablate VOCdevkit -x features -m gr --lr 1e-3,1e-4[/bold]
    """
    from plusone.compare.ablate import run_ablation, write_ablation
    from plusone.compare.jobs import make_source
    from plusone.recipe import parse_settings

    check_folder(to)
    result = run_ablation(
        make_source(data, features or (), form, meaning, hints),
        method,
        to,
        seeds=[seed] if seed is not None else parts(seeds, int, "--seeds"),
        rates=parts(lrs, float, "--lr") if lrs else [None],
        settings=parse_settings(with_device(settings, device)),
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


def choose(
    data: Data = "digits-features",
    names: Annotated[
        str | None,
        typer.Option("--methods", "-m", help=f"Comma-separated; default {','.join(CANDIDATES)}."),
    ] = None,
    lrs: Annotated[
        str | None,
        typer.Option("--lr", help="Learning rates, comma-separated; default 1e-2,1e-3,1e-4,1e-5."),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", help="The score to choose by; see docs/selection.md.")
    ] = None,
    features: Features = None,
    hints: Hints = None,
    settings: Set = None,
    device: Device = None,
    rules: Rules = True,
    backbone: Annotated[
        str | None,
        typer.Option(help="For images: cnn, lite0, lite1, lite2 or timm/NAME; lite0 if installed."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs; default 25.")] = None,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Choose method, learning rate and epoch by seen labels alone.

    Trains every candidate on a part of the items and ranks them by how well they
    place the seen labels of the others. No item needs all its labels; where they
    are known they are hidden first and never looked at. Images are turned into
    features once, and linear models are trained on these.

    Example: [bold]plusone choose labels.csv -x photos.npz[/bold]
    Example: [bold]plusone choose photos -m gr,em,an --lr 1e-3,1e-4 --epochs 10[/bold]
    """
    from plusone.autorecipe import compose, facts_of
    from plusone.compare.choose import choose as choose_among
    from plusone.methods import get_method
    from plusone.recipe import make_recipe, parse_settings

    methods = list(CANDIDATES) if names is None else parts(names, str, "--methods")
    rates = list(RATES) if lrs is None else parts(lrs, float, "--lr")
    flags = {"backbone": backbone, "epochs": epochs, "select_by": by}
    given = {name: value for name, value in flags.items() if value is not None}
    given_settings = parse_settings(with_device(settings, device)) | given | {"seed": seed}
    for name in methods:  # refused before anything is read
        get_method(name).make_options(make_recipe(given_settings, {"method": name}).options)
    dataset = load(data, features, form, meaning, hints=hints)
    facts = partial(facts_of, dataset) if rules else None
    recipes = [
        compose(
            facts, given_settings, {"method": name, "mode": "linear", "lr": rate}, name=data
        ).recipe
        for name in methods
        for rate in (rates[:1] if get_method(name).closed_form else rates)
    ]
    stages = [
        stage
        for recipe in recipes
        for stage in recipe.resolved_stages(images=True, phases=get_method(recipe.method).phases)
    ]
    with resume_hint(KEPT), progress("training", None) as bar_and_task:
        steps = Steps(*bar_and_task)
        total, done = sum(stage.epochs for stage in stages), 0

        def on_epoch(count: int) -> None:
            nonlocal done
            done += count
            steps.to("training", done, total)

        choice = choose_among(
            dataset,
            recipes,
            on_epoch=on_epoch,
            on_extract=lambda count: steps.extracted(count, len(dataset.table)),
            features_folder=kept_features(),
        )
    words = _train_words(data, features or [], form, meaning, choice.best.recipe, given_settings)
    words += [] if hints is None else ["--hints", str(hints)]
    command = shlex.join(["plusone", "train", *words])
    if as_json:
        emit({"data": dataset.name, "command": command} | choice.to_dict())
        return
    _print_choice(choice, dataset.name)
    images = dataset.features is None or dataset.features.ndim == 4
    if images and choice.best.recipe.backbone in ("auto", "cnn"):
        say("the features come from random weights; those of a pretrained backbone are better")
    say(f"next: {command}")


def _train_words(
    data: str,
    features: Sequence[Path],
    form: str,
    meaning: str,
    best: Recipe,
    given_settings: Mapping[str, Any],
) -> list[str]:
    """The arguments of `plusone train` for the winner."""
    words = [data, *(word for path in features for word in ("-x", str(path)))]
    words += ["--format", form] if form != "auto" else []
    words += ["--labels", meaning] if meaning != "auto" else []
    words += ["-m", best.method, "--lr", f"{best.lr:g}", "--mode", "linear"]
    for name, value in given_settings.items():
        if name == "options":
            words += [word for key in value for word in ("-s", f"options.{key}={value[key]}")]
        elif name != "seed" or value:
            words += ["-s", f"{name}={value}"]
    return words


def _print_choice(choice: Choice, data: str) -> None:
    """The candidates, best first, and what they were ranked by."""
    rows = [
        (each.recipe.method, f"{each.recipe.lr:g}", each.epoch, f"{each.score:.4f}")
        for each in choice.candidates[:LISTED]
    ]
    out.print(table(f"{data}, best first", ("method", "lr", "epoch", choice.score), rows))
    if len(choice.candidates) > LISTED:
        say(f"and {len(choice.candidates) - LISTED} more; --json lists all")
    for recipe, why in choice.failed:
        say(f"left out: {recipe.method} with lr {recipe.lr:g}: {why}")
    best = choice.best
    say(
        f"chosen: {best.recipe.method}, lr {best.recipe.lr:g}, epoch {best.epoch}, by "
        f"{choice.score} on {choice.seen} seen labels of {choice.items} validation items"
    )


def loop(
    context: typer.Context,
    data: Data = "digits-features",
    questions: Annotated[
        str, typer.Option(help="Numbers of questions to measure after, comma-separated.")
    ] = "500",
    orders: Annotated[
        str,
        typer.Option(help="worth, uncertain, frequent, balanced, likely, random, item."),
    ] = "worth,likely",
    method: Annotated[
        str | None,
        typer.Option("--method", "-m", help="A name in plusone methods; by the data by default."),
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate; by the data by default.")] = None,
    seeds: Annotated[str, typer.Option(help="Seeds, comma-separated.")] = "0,1,2",
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-fitting.")] = 5,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.")] = Path("loop"),
    features: Features = None,
    backbone: Annotated[
        str, typer.Option(help="For images: what extracts their features, once.")
    ] = "lite0",
    settings: Set = None,
    device: Device = None,
    rules: Rules = True,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write report.html too.")
    ] = True,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: Annotated[int | None, typer.Option("--seed", help="One seed instead of --seeds.")] = None,
    as_json: Json = False,
) -> None:
    """Measure how much a reviewer's answers improve a model, on fully labelled data.

    All labels but one per item are hidden. A model is trained and suggests the missing ones, the
    truth answers questions about them, and the model is trained again; beside it, the same
    number of random questions, and all labels: bce with the same learning rate, or the method
    itself if it has a closed form. Models on features. A stopped measurement can be continued,
    also with more questions.

    Example: [bold]plusone loop ucmerced/labels.csv --questions 100,500[/bold]
    """
    check_folder(to)
    from plusone.autorecipe import compose, facts_of
    from plusone.compare.loop import ANY, check, simulate, steps
    from plusone.compare.tables import spread
    from plusone.io.files import write_json
    from plusone.recipe import make_recipe, parse_settings

    flags = {"method": method, "lr": lr}
    given: list[dict[str, Any]] = [
        {name: value for name, value in flags.items() if value is not None},
        parse_settings(with_device(settings, device)),
    ]
    make_recipe(*given, source="settings")  # refused before anything is read
    numbers = parts(questions, int, "--questions")
    names = parts(orders, str, "--orders")
    chosen = [seed] if seed is not None else parts(seeds, int, "--seeds")
    dataset = load(data, features, form, meaning)
    if dataset.features is None:
        trial = compose(None, *given, name=data).recipe
        check(dataset, trial, numbers, names, chosen)  # before features are extracted
        dataset = _with_features(dataset, to / "features.npz", backbone, trial)
        given[1].pop("crops", None)
    facts = partial(facts_of, dataset) if rules else None
    recipe = compose(facts, *given, name=data).recipe
    check(dataset, recipe, numbers, names, chosen)
    total = steps(numbers, names, chosen)
    again = resume_hint(f"run the same command again to continue ({to})")
    with again, progress("simulating", total) as (bar, task):
        result = simulate(
            dataset,
            recipe,
            to,
            questions=numbers,
            orders=names,
            seeds=chosen,
            folds=folds,
            on_progress=lambda what: bar.update(task, advance=1, description=what),
        )
    command = command_line(context, ("as_json",))
    document = result.to_dict() | {"command": command, "title": f"Answers on {result.data}"}
    write_json(to / "loop.json", document)
    if report:
        from plusone.report.build import write_report

        write_report([to / "loop.json"], to / "report.html")
    if as_json:
        emit(document)
    else:
        left = result.all_labels - result.before
        before = ("no questions", 0, None, spread(result.before, result.before_sd))
        rows = [
            (
                "random questions" if row.order == ANY else row.order,
                row.questions,
                f"{row.yes:.0f}",
                spread(row.test_map, row.test_sd),
                f"{100 * row.gain:+.2f}",
                None if row.over_random is None else f"{100 * row.over_random:+.2f}",
                f"{100 * row.gain / left:.0f} %" if left > 0 else None,
            )
            for row in result.rows
        ]
        same = ", same lr" if result.reference == "bce" else ""
        name, gain = f"all labels ({result.reference}{same})", f"{100 * left:+.2f}"
        first = (*before, None, None, None)
        end = (name, None, None, percent(result.all_labels), gain, None, None)
        columns = (
            "questions chosen by", "asked", "yes", "test mAP", "gain", "over random", "gap closed",
        )  # fmt: skip
        rate = "" if result.reference == result.method else f", lr {result.lr:g}"  # a closed form
        title = f"{result.method} on {result.data}{rate}, seeds: {len(chosen)}"
        out.print(table(title, columns, [first, *rows, end]))
    say(f"written: {to / 'loop.json'}{', ' + str(to / 'report.html') if report else ''}")


def _with_features(dataset: Dataset, path: Path, backbone: str, recipe: Recipe) -> Dataset:
    """The data with features of its images, extracted once into a file."""
    from plusone.data.features import align, read_features
    from plusone.features.extraction import extract_to_file

    again = resume_hint("run the same command again to continue")
    with again, progress("extracting features", len(dataset.table)) as (bar, task):
        extract_to_file(
            dataset,
            path,
            backbone,
            on_progress=lambda done: bar.update(task, completed=done),
            crops=recipe.crops,
            device=recipe.device,
        )
    return replace(dataset, features=align(read_features([path]), dataset.table))


def run_shown(jobs: Sequence[Job], folder: Path, workers: int) -> list[JobResult]:
    """Runs the jobs that are not in the journal of `folder`; returns the results of all, in order.

    A terminal shows a live table; anything else gets a line per training.

    Args:
        jobs: The trainings.
        folder: Where their journal is.
        workers: Parallel processes.
    """
    from rich.live import Live

    from plusone.compare.jobs import run_jobs

    board = Board(jobs, workers)
    again = resume_hint(f"run the same command again to continue ({folder} keeps what is done)")
    live = is_watched()
    shown = Live(board, console=err, refresh_per_second=2, transient=True)

    def on_done(result: JobResult, before: bool) -> None:
        board.add(result)
        if not live:
            name = f"{result.data}  " if board.several else ""
            err.print(name + line_of(result, before), markup=False, soft_wrap=True)

    with again, alone_in(folder), shown if live else nullcontext():
        clear_leftovers(folder)
        return run_jobs(jobs, folder / "journal.jsonl", workers=workers, on_done=on_done)


def line_of(result: JobResult, before: bool) -> str:
    """A finished training in a line."""
    options = "".join(f"  {name} {value}" for name, value in result.options.items())
    return (
        f"{result.method:12s} seed {result.seed}  lr {result.lr:g}{options}  "
        f"val mAP {percent(result.val_map)}  {result.seconds:.1f} s"
        f"{'  (done before)' if before else ''}"
    )


class Board:
    """A table of what is done, and a bar with the time left.

    Args:
        jobs: All trainings.
        workers: How many run at a time.
    """

    def __init__(self, jobs: Sequence[Job], workers: int) -> None:
        self.workers = workers
        self.open: dict[str, Kind] = {
            job.key: (job.source.name, job.recipe.method, job.recipe.mode) for job in jobs
        }
        self.total = len(self.open)
        self.several = len({data for data, _, _ in self.open.values()}) > 1
        self.done: list[tuple[Kind, float]] = []
        self.rows: dict[Kind, list[JobResult]] = {kind: [] for kind in self.open.values()}
        self.expected = {kind: [*self.open.values()].count(kind) for kind in self.rows}
        self.touched = time.monotonic()

    def add(self, result: JobResult) -> None:
        """Adds a finished training."""
        kind = self.open.pop(result.key)
        self.done.append((kind, result.seconds))
        self.rows[kind] = [*self.rows.pop(kind), result]  # what changed last comes last
        self.touched = time.monotonic()

    def left(self) -> str:
        """The time left, in words."""
        seconds = seconds_left([*self.open.values()], self.done, self.workers)
        if seconds is None:
            return "time left: unknown yet"
        whole = round(max(0.0, seconds - (time.monotonic() - self.touched)))
        hours, minutes = whole // 3600, whole // 60 % 60
        return f"about {hours}:{minutes:02d}:{whole % 60:02d} left"

    def table(self, height: int) -> Table:
        """The rows that fit: those that changed last, then those not started."""
        begun = [kind for kind, results in reversed(self.rows.items()) if results]
        shown = [*begun, *(kind for kind, results in self.rows.items() if not results)]
        cells = []
        for kind in shown[: max(1, height - LINES_AROUND)]:
            results = self.rows[kind]
            best = max(results, key=lambda result: result.choice_score, default=None)
            cells.append(
                (
                    *kind[: 3 if self._modes() else 2],
                    f"{len(results)}/{self.expected[kind]}",
                    percent(best.val_map if best else None),
                    percent(best.test_map if best else None),
                )
            )
        names = ("data", "method", *(("mode",) if self._modes() else ()))
        more = len(shown) - len(cells)
        title = f"and {more} more rows" if more else ""
        return table(
            title, (*names, "done", "best val mAP", "its test mAP"), cells, text=len(names)
        )

    def _modes(self) -> bool:
        return len({mode for _, _, mode in self.rows}) > 1

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        count = self.total - len(self.open)
        bar = ProgressBar(total=max(1, self.total), completed=count, width=30)
        below = Table.grid(padding=(0, 1))
        below.add_row(bar, Text(f"{count} of {self.total} done, {self.left()}"))
        yield Group(self.table(console.height), below)


def seconds_left(
    open_jobs: Sequence[Kind], done: Sequence[tuple[Kind, float]], workers: int
) -> float | None:
    """An estimate in seconds; None before anything is done.

    A training is expected to take the mean time of those of its kind; if none is done yet, of those
    on the same data, and failing these of all.

    Args:
        open_jobs: Kinds of the trainings that are not done.
        done: Kinds and seconds of those that are.
        workers: Number of parallel trainings.
    """
    if not done:
        return None
    by_kind: dict[Kind, list[float]] = {}
    by_data: dict[str, list[float]] = {}
    for kind, seconds in done:
        by_kind.setdefault(kind, []).append(seconds)
        by_data.setdefault(kind[0], []).append(seconds)
    every = [seconds for _, seconds in done]
    total = sum(fmean(by_kind.get(kind) or by_data.get(kind[0]) or every) for kind in open_jobs)
    return total / max(1, min(workers, len(open_jobs)))


def finish(
    bench: Bench,
    spec: BenchSpec,
    folder: Path,
    *,
    title: str,
    command: str,
    as_json: bool,
    report: bool,
    titles: Mapping[str, str] | None = None,
) -> None:
    """Writes the results of a comparison and prints its tables.

    Args:
        bench: The comparison.
        spec: Its description.
        folder: The folder to write into.
        title: A line for reports.
        command: The command that repeats it.
        as_json: Print JSON instead of tables.
        report: Also write the report.
        titles: Data set -> a line above its tables.
    """
    from plusone.compare.tables import FILES, alone, write_outputs

    whole = write_outputs(
        folder, spec, bench.results, bench.summary, title=title, command=command, rule=bench.rule
    )
    if as_json:
        emit(whole)
    else:
        for (data, mode), rows in bench.summary.tables().items():
            seeds = max(row.seeds for row in rows)
            plain = f"{data}, {mode}, {seeds} seed{'s' if seeds > 1 else ''}"
            _print_table(rows, (titles or {}).get(data, plain))
        _print_legend(bench.summary.rows)
        say(f"settings: {bench.rule}")
    for data, count in {
        result.data: result.broken for result in bench.results if result.broken
    }.items():
        say(f"{data}: {count} items left out because their images cannot be read (plusone inspect)")
    if single := alone(bench.results):
        listed = ", ".join(f"{method} ({why})" for method, why in single.items())
        say(f"trained one by one: {listed}")
    say(f"written: {', '.join(str(folder / name) for name in FILES)}")
    if report:
        write_report_of([folder], folder / "report.html")


def _print_table(rows: Sequence[Row], title: str) -> None:
    """Prints one table, with the columns that fit into the terminal."""
    from plusone.compare.summary import was_solved

    columns: dict[str, list[str]] = {
        "method": [row.method for row in rows],
        "test mAP": [NEAR * row.within_noise + percent(row.test_map) for row in rows],
        "sd": [percent(row.test_sd) for row in rows],
        "if negative": [percent(row.if_negative) for row in rows],
        "if positive": [percent(row.if_positive) for row in rows],
        "val mAP": [percent(row.val_map) for row in rows],
        "val score": [row.chosen_by for row in rows],
        "recovered": [percent(row.recovery_map) for row in rows],
        "gap closed": [
            "-" if row.gap_closed is None else f"{100 * row.gap_closed:.0f} %" for row in rows
        ],
        "published": [f"{row.published:g}" if row.published else "-" for row in rows],
        "lr": ["-" if was_solved(row.method, row.mode) else f"{row.lr:.3g}" for row in rows],
        "options": [_options(row.options) for row in rows],
        "seconds": [f"{row.seconds:.1f}" for row in rows],
    }
    shown = {name: cells for name, cells in columns.items() if _shown(name, rows)}
    grid = table(title, list(shown), list(zip(*shown.values(), strict=True)))
    for drawn, row in zip(grid.rows, rows, strict=True):
        drawn.style = "bold" if row.best else None
    out.print(grid)


def _options(options: Mapping[str, Any]) -> str:
    from plusone.compare.tables import options_text

    return options_text(options)


def _shown(column: str, rows: Sequence[Row]) -> bool:
    """Whether a column is shown: narrow terminals get the most important ones."""
    needed = {
        "sd": out.width >= NARROW and any(row.test_sd is not None for row in rows),
        "published": out.width >= WIDE and any(row.published is not None for row in rows),
        "options": out.width >= WIDE and any(row.options for row in rows),
        "val mAP": out.width >= NARROW,
        "val score": any(row.chosen_by != "-" for row in rows),
        "lr": out.width >= NARROW,
        "gap closed": any(row.gap_closed is not None for row in rows),
        "if negative": any(row.if_negative is not None for row in rows),
        "if positive": any(row.if_positive is not None for row in rows),
    }
    return needed.get(column, True)


def _print_legend(rows: Sequence[Row]) -> None:
    """Prints what the columns and marks mean."""
    from plusone.compare.tables import UNKNOWN

    if any(row.if_negative is not None for row in rows):
        say(UNKNOWN)
    say("recovered: mAP on the training items against all their labels, hidden ones included")
    if any(row.gap_closed is not None for row in rows):
        say("gap closed: 0 % is AN (unseen = negative), 100 % is training with all labels (bce)")
    near = f"; {NEAR}within noise of it" if any(row.within_noise for row in rows) else ""
    if any(row.best for row in rows):
        say(f"bold: the best that sees one positive per item{near}")


def write_report_of(folders: Sequence[Path], to: Path) -> None:
    """Writes the report of finished comparisons and says where it is."""
    from plusone.report.build import write_report

    with progress("report", None) as (bar, task):

        def on_progress(what: str, done: int, total: int) -> None:
            bar.update(task, description=f"report: {what}", completed=done, total=total)

        try:
            place = write_report(folders, to, on_progress=on_progress)
        except Exception as error:  # hours of training must not be lost over a figure
            raise RunError(
                f"the results are written, but the report could not be ({type(error).__name__}: "
                f"{error}); plusone report {shlex.join(map(str, folders))} tries again"
            ) from error
    say(f"report: {place}")
