"""The program: its commands, each imported when it is called, its first help page, its errors.

Heavy imports happen inside the commands. The list of commands shows the first line of each
command's docstring, read from its source without importing it.
"""

from __future__ import annotations

import os
import re
import sys
from collections import UserDict
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from importlib import import_module
from inspect import cleandoc
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from plusone.cli.checks import refuse_inputs_as_outputs
from plusone.cli.processes import (
    Terminated,
    check_command,
    print_error,
    terminated_like_ctrl_c,
    together,
)
from plusone.errors import InputError, RunError
from plusone.io.files import room
from plusone.parallel.environment import children_import_nothing_from_here
from plusone.version import __version__

# Panels of the first help page. The module of a command has a function of the same name (with an
# underscore for a hyphen), and `analyse` one for each analysis.
PANELS = {
    "Start": ("quickstart", "demo", "example", "doctor"),
    "Your data": ("inspect", "train", "predict", "batch", "evaluate", "export", "serve"),
    "Missing labels": ("suggest", "review", "audit", "label-studio", "priors"),
    "Research": (
        "methods", "bench", "sweep", "ablate", "choose", "loop", "reproduce", "observe", "prepare",
        "features", "hints", "report", "leaderboard", "analyse",
    ),
}  # fmt: skip
ANALYSES = ("surface", "intervals", "gradients", "maps")  # of plusone analyse
MODULE = dict.fromkeys(ANALYSES, "analyse") | {"label-studio": "label_studio"}

SHOW_TRACEBACKS = "PLUSONE_TRACEBACK"

# Errors about a path that the user gave: exit code 2.
PATH_ERRORS = (
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
DECODER_DIED = (
    "a process that decodes images was killed (out of memory, perhaps: -s workers=0 needs less); "
    "train continues with --resume, the other commands when they are run again"
)


class _CtrlC(Exception):  # noqa: N818 (it is no error)
    """Ctrl-C or SIGTERM, as an exception that typer does not handle itself."""


class _Loaded(UserDict[str, Any]):
    """Commands by name, each loaded on first use."""

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = _load(name)
        return self.data[name]


class _Command(TyperCommand):
    """A command whose help shows no type of flags, as they take no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters = super().get_params(ctx)
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class LazyGroup(TyperGroup):
    """Lists the commands without loading them, and loads the one that is called."""

    panels: Mapping[str, Sequence[str]] = PANELS

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Loaded(dict.fromkeys(chain.from_iterable(self.panels.values())))

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command's name and summary, for lists and completion."""
        if cmd_name not in self.commands:
            return None
        return TyperCommand(name=cmd_name, help=summary(cmd_name))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        show_help(self, ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, None if command is None else self.commands[str(name)], rest


class _Program(LazyGroup):
    """The commands of the first help page."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise _CtrlC(stop) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in ANALYSES:  # their names up to release 0.2
            print_error(f"plusone {args[0]} is now plusone analyse {args[0]}\n")
            args = ["analyse", *args]
        return super().resolve_command(ctx, args)


class _Analyses(LazyGroup):
    panels: Mapping[str, Sequence[str]] = {"Commands": ANALYSES}


@cache
def summary(name: str) -> str:
    """The first line of a command's docstring, read from its source without importing it."""
    source = (Path(__file__).parent / f"{MODULE.get(name, name)}.py").read_text(encoding="utf-8")
    pattern = r'^"""(.*)' if name == "analyse" else rf'^def {_function(name)}\(.*?^    """(.*?)$'
    found = re.search(pattern, source, re.DOTALL | re.MULTILINE)
    return found[1].partition("\n")[0] if found else ""


def _function(name: str) -> str:
    return name.replace("-", "_")


def _load(name: str) -> Any:
    module = import_module(f"{__package__}.{MODULE.get(name, name)}")
    if name == "analyse":
        names = {"help_option_names": ["-h", "--help"]}
        text = _in_paragraphs(module.__doc__ or "")
        return _Analyses(name=name, help=text, no_args_is_help=True, context_settings=names)
    function = getattr(module, _function(name))
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    help_text = _in_paragraphs(function.__doc__ or "")
    alone.command(name, cls=_Command, help=help_text)(_prepared(function))
    return typer.main.get_command(alone)


def _in_paragraphs(docstring: str) -> str:
    """A docstring with one line per paragraph or example, for the terminal to break."""
    text = re.sub(r"(?<!\n)\n(?!\n|Example: )", " ", cleandoc(docstring))
    return re.sub(r" +", " ", text)


def _prepared(function: Callable[..., None]) -> Callable[..., None]:
    """A command; it replaces no input, and starts with the methods of its `--plugin`, if any."""

    @wraps(function)
    def command(**arguments: Any) -> None:
        refuse_inputs_as_outputs(arguments)
        if plugins := arguments.get("plugin"):
            from plusone.methods import load_plugin

            for file in plugins:
                load_plugin(file)
        function(**arguments)

    return command


def show_help(group: Any, ctx: Any) -> None:
    """Prints usage, options and commands, in the style of typer's help pages.

    Typer's own pages import a Markdown reader and a traceback printer, which would double the time.
    """
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False)
    usage = " ".join([ctx.command_path, *group.collect_usage_pieces(ctx)])
    options = [param.get_help_record(ctx) for param in group.get_params(ctx)]
    console.print(Padding(Text.assemble(("Usage: ", "yellow"), (usage, "bold")), 1))
    console.print(Padding(Text.from_markup(group.help), (0, 1, 1, 1)))
    console.print(_panel("Options", [record for record in options if record is not None]))
    for title, names in group.panels.items():
        console.print(_panel(title, [(name, summary(name)) for name in names]))
    if group.epilog:
        console.print(Padding(Text.from_markup(group.epilog), 1))


def _panel(title: str, rows: Sequence[tuple[str, str]]) -> Any:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    grid = Table(show_header=False, expand=True, box=None, pad_edge=False, padding=(0, 1))
    grid.add_column(style="bold cyan", no_wrap=True)
    grid.add_column(ratio=10)
    for name, text in rows:
        grid.add_row(Text(name), Text(text))
    return Panel(grid, title=title, title_align="left", border_style="dim")


app = typer.Typer(
    name="plusone",
    cls=_Program,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Multi-label learning from one positive label per item.",
    epilog="Example: [bold]plusone demo[/bold], then [bold]plusone train ./photos[/bold]. "
    "COMMAND [bold]--help[/bold] explains a command.",
)


def _version(requested: bool) -> None:
    if requested:
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
    """Runs a command.

    Exit codes: 0 done, 1 failed run, 2 bad input or usage, 130 Ctrl-C, 143 SIGTERM.
    """
    _write_utf8()
    # Threads of torch wait for each other actively by default, and burn what other programs need:
    # on busy cores two threads took five times the processor time of one. Read as torch loads.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        with children_import_nothing_from_here(), terminated_like_ctrl_c(), together():
            app(args=arguments, prog_name="plusone")  # always leaves by SystemExit or an error
    except (_CtrlC, KeyboardInterrupt) as stop:
        by_signal = any(isinstance(cause, Terminated) for cause in (stop, *stop.args))
        print_error(f"plusone: stopped by {'SIGTERM' if by_signal else 'Ctrl-C'}\n")
        sys.exit(143 if by_signal else 130)
    except Exception as error:
        if os.environ.get(SHOW_TRACEBACKS):
            raise
        sentence, code = explain(error)
        print_error(f"plusone: {sentence}\n")
        sys.exit(code)


def _write_utf8() -> None:
    """Writes UTF-8 in any locale: names of classes and items may hold any character."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() not in ("utf-8", "utf8"):
            stream.reconfigure(encoding="utf-8")


def explain(error: Exception) -> tuple[str, int]:
    """The message for the user about an error, and the exit code."""
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
    if isinstance(error, MemoryError) or "out of memory" in text:
        return f"there is not enough memory ({(text or 'no details').splitlines()[0]})", 1
    what = f"{type(error).__name__}: {text}".splitlines()[0]
    return f"this should not have happened ({what}); {SHOW_TRACEBACKS}=1 shows where it did", 1
