"""The command review."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_file
from plusone.cli.printing import emit, out, say, table
from plusone.errors import InputError
from plusone.extras import install_command
from plusone.io.text import percent

if TYPE_CHECKING:
    from plusone.reviewing.desk import Desk


def review(
    suggestions: Annotated[
        Path | None, typer.Argument(help="A folder that plusone suggest made.")
    ] = None,
    annotate: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA",
            help="Label new items instead, by yes/no questions until a yes: a folder of images, "
            "a CSV of names, texts, or a label table.",
        ),
    ] = None,
    classes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Class names for --annotate, one a line."),
    ] = None,
    order: Annotated[
        str,
        typer.Option(
            help="worth (the default), item, uncertain, frequent, balanced, likely or random."
        ),
    ] = "",
    budget: Annotated[
        int | None,
        typer.Option(min=1, help="Ask this many questions in all, also counting earlier answers."),
    ] = None,
    least: Annotated[
        float | None,
        typer.Option(
            "--min-probability",
            min=0,
            max=1,
            help="Ask about suggestions of at least this probability; 0.2 by default, 0 with a "
            "budget.",
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the labels (.csv, .npz, .parquet) and stop."),
    ] = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="Print how far it is and stop.")
    ] = False,
    db: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File of the answers; review.sqlite by default."),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="The run behind the suggestions, which shows where in a picture it finds a label; "
            "by default RUN beside RUN-suggestions.",
        ),
    ] = None,
    port: opt.Port = 0,
    browser: opt.OpenBrowser = True,
    stop_after: opt.StopAfter = None,
    seed: opt.Seed = 0,
    plugin: opt.Plugin = None,
    as_json: opt.Json = False,
) -> None:
    """Accept or reject suggested labels on a page of your own computer.

    One key each: Y yes, N no, S skip, U undo, → next. A seen label may be called wrong, and one
    that was not suggested added. Every answer is kept at once; stop at any time and start again.
    --export writes a label table with positives and confirmed negatives that plusone train takes.

    Example: [bold]plusone review suggestions --budget 500[/bold], then
    [bold]plusone review suggestions --export labels.csv[/bold]
    """
    if (suggestions is None) == (annotate is None):
        raise InputError("name either a folder of suggestions or --annotate DATA")
    if export is not None:
        check_file(export, flag="--export")
    desk = _open(suggestions, annotate, classes, order, budget, least, seed, db, run)
    try:
        if summary or export is not None:
            _report(desk, export, summary, as_json)
            return
        title = (suggestions or annotate or Path()).resolve().name
        serve_page(desk, title, port, browser, stop_after, as_json)
    finally:
        desk.store.close()


def _open(
    suggestions: Path | None,
    annotate: Path | None,
    classes: Path | None,
    order: str,
    budget: int | None,
    least: float | None,
    seed: int,
    db: Path | None,
    run: Path | None,
) -> Desk:
    from plusone.reviewing.opening import open_new_items, open_suggestions
    from plusone.reviewing.questions import select_by_default

    if annotate is not None:
        if order or budget is not None or least is not None or run is not None:
            raise InputError(
                "--order, --budget, --min-probability and --run are for suggestions, not for "
                "--annotate"
            )
        return open_new_items(annotate, classes, seed=seed, database=db)
    if classes is not None:
        raise InputError("--classes is for --annotate; suggestions have their classes")
    assert suggestions is not None
    selection = select_by_default(order, budget, least, seed)
    return open_suggestions(suggestions, selection=selection, database=db, run=run)


def _report(desk: Desk, export: Path | None, summary: bool, as_json: bool) -> None:
    from plusone.data.formats import write
    from plusone.reviewing import class_counts, reviewed_table

    result: dict[str, Any] = {"progress": desk.progress()}
    if export is not None:
        reviewed = reviewed_table(desk)
        write(reviewed.table, export)
        counts = ("yes", "no", "wrong", "left_out")
        result |= {"out": str(export)} | {name: getattr(reviewed, name) for name in counts}
        say(f"{reviewed.yes} positives and {reviewed.no} negatives from answers in {export}")
        if reviewed.wrong:
            say(f"{reviewed.wrong} of them replace seen labels that are wrong")
        if reviewed.left_out:
            count = reviewed.left_out
            say(f"{count} answers are about items or classes that no longer exist")
    if summary:
        result["classes"] = class_counts(desk)
        if not as_json:
            _print_summary(result)
    if as_json:
        emit(result)


def _print_summary(result: dict[str, Any]) -> None:
    shares = ("accepted", "expected", "agreement", "rest")

    def rounded(name: str, value: Any) -> object:
        if value is None or name in shares:
            return percent(value)
        return round(value, 1) if isinstance(value, float) else value

    rows = [
        (f"{name} %" if name in shares else name, rounded(name, value))
        for name, value in result["progress"].items()
        if name != "last"
    ]
    out.print(table("review", ("", "value"), rows))
    if result["classes"]:
        counts = [tuple(one.values()) for one in result["classes"]]
        out.print(table("", ("class", "yes", "no", "skipped"), counts))


def serve_page(
    desk: Desk,
    title: str,
    port: int,
    browser: bool,
    stop_after: float | None,
    as_json: bool,
) -> None:
    """Serves a review until it is stopped, and says how far it is."""
    from contextlib import nullcontext

    from plusone.reviewing.audit_desk import AuditDesk
    from plusone.reviewing.desk import SuggestionDesk

    try:
        from plusone.reviewing.review_page import make_server, opened_in_browser
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette"):
            raise
        raise InputError(
            f"the review page needs a web server: {install_command('review')}"
        ) from None
    server = make_server(desk, title=title, port=port)
    progress = desk.progress()
    what = "items" if desk.mode == "annotate" else "questions"
    say(f"{progress['left']} of {progress['questions']} {what} are open; Ctrl-C stops the server")
    if isinstance(desk, SuggestionDesk) and not isinstance(desk, AuditDesk):
        selection = desk.selection()
        left_out = selection["suggestions"] - progress["questions"]
        if left_out:
            say(f"{left_out} suggestions are left out; the page, or --min-probability 0, asks all")
    try:
        if as_json:
            emit({"url": server.url, "port": server.port, "db": str(desk.store.path)} | progress)
        else:
            out.print(server.url, soft_wrap=True)
        with opened_in_browser(server.url, desk.store.path) if browser else nullcontext():
            server.run(stop_after)
    except KeyboardInterrupt:
        pass  # Ctrl-C before the server had started
    progress = desk.progress()
    say(f"stopped; {progress['answered']} answered, all in {desk.store.path}")
