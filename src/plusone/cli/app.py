"""The command line: parse, call, print. Heavy imports happen inside the commands."""

from __future__ import annotations

import sys

import click
import typer

from plusone.cli import compare, labels, train, use
from plusone.errors import InputError, RunError
from plusone.version import __version__

app = typer.Typer(
    name="plusone",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Multi-label learning from one positive label per item.",
    epilog="Start with [bold]plusone demo[/bold], then [bold]plusone train ./photos[/bold].",
)
for module in (compare, labels, train, use):
    module.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _global(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Runs a command: exit code 0 done, 1 failed run, 2 bad input or usage, 130 Ctrl-C."""
    try:
        code = app(args=arguments, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = 2
    except InputError as error:
        sys.stderr.write(f"plusone: {error}\n")
        code = 2
    except (RunError, OSError, MemoryError) as error:
        sys.stderr.write(f"plusone: {type(error).__name__}: {error}\n")
        code = 1
    except (KeyboardInterrupt, click.Abort):
        sys.stderr.write("plusone: stopped by Ctrl-C\n")
        code = 130
    sys.exit(code if isinstance(code, int) else 0)
