"""The command line: parse, call, print. Heavy imports happen inside the commands."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer

from plusone.cli.commands import LazyGroup
from plusone.cli.several import check_command, tell, together
from plusone.errors import InputError, RunError
from plusone.io.files import room
from plusone.version import __version__

SHOW_TRACEBACKS = "PLUSONE_TRACEBACK"

# Trouble with a path that somebody named: theirs to mend, so exit code 2.
PATH_ERRORS = (
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
DECODER_DIED = (
    "a process that decodes images was killed (out of memory, perhaps: -s workers=0 needs less); "
    "train goes on with --resume, the other commands when they are run again"
)


class _CtrlC(Exception):  # noqa: N818 (it is no error)
    """Ctrl-C, under a name for which typer has no answer of its own."""


class _Commands(LazyGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _CtrlC from None


app = typer.Typer(
    name="plusone",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Multi-label learning from one positive label per item.",
    epilog="Example: [bold]plusone demo[/bold], then [bold]plusone train ./photos[/bold]. "
    "COMMAND [bold]--help[/bold] explains a command.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _global(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    check_command(context.invoked_subcommand)


def main(arguments: list[str] | None = None) -> None:
    """Runs a command: exit code 0 done, 1 failed run, 2 bad input or usage, 130 Ctrl-C."""
    try:
        with together():
            app(args=arguments, prog_name="plusone")  # always leaves by SystemExit or an error
    except (_CtrlC, KeyboardInterrupt):
        tell("plusone: stopped by Ctrl-C\n")
        sys.exit(130)
    except Exception as error:
        if os.environ.get(SHOW_TRACEBACKS):
            raise
        sentence, code = explain(error)
        tell(f"plusone: {sentence}\n")
        sys.exit(code)


def explain(error: Exception) -> tuple[str, int]:
    """What to tell the user about an error, and the exit code."""
    text = str(error).strip()
    if "Original Traceback" in text:  # from a process that decodes images; the last line counts
        text = text.splitlines()[-1].removeprefix("plusone.errors.InputError: ")
    if isinstance(error, InputError):
        return (f"the input has problems:\n{text}" if "\n" in text else text), 2
    if isinstance(error, OSError):
        if (sentence := room(error)) is not None:
            return sentence, 1
        where = error.filename2 or error.filename
        text = f"{where}: {error.strerror}" if where and error.strerror else text
        return text, 2 if isinstance(error, PATH_ERRORS) else 1
    if isinstance(error, RunError):
        return text, 1
    if "DataLoader worker" in text:
        return DECODER_DIED, 1
    if isinstance(error, MemoryError):
        return f"there is not enough memory ({text or 'no details'})", 1
    what = f"{type(error).__name__}: {text}".splitlines()[0]
    return f"this should not have happened ({what}); {SHOW_TRACEBACKS}=1 shows where it did", 1
