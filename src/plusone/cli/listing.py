"""The first help: what there is. It looks like typer's own pages, at half of their price.

Typer's pages load a Markdown reader and a printer of tracebacks; this list needs neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text


def show(group: Any, ctx: Any) -> None:
    """Prints how the program is called, its options and its commands.

    Args:
        group: The group of commands, as typer made it.
        ctx: Its context.
    """
    console = Console(highlight=False)
    usage = " ".join([ctx.command_path, *group.collect_usage_pieces(ctx)])
    options = [param.get_help_record(ctx) for param in group.get_params(ctx)]
    names = group.list_commands(ctx)
    commands = [(name, group.get_command(ctx, name).help) for name in names]
    console.print(Padding(Text.assemble(("Usage: ", "yellow"), (usage, "bold")), 1))
    console.print(Padding(Text(group.help), (0, 1, 1, 1)))
    console.print(_panel("Options", [record for record in options if record is not None]))
    console.print(_panel("Commands", commands))
    console.print(Padding(Text.from_markup(group.epilog), 1))


def _panel(title: str, rows: Sequence[tuple[str, str]]) -> Panel:
    grid = Table(show_header=False, expand=True, box=None, pad_edge=False, padding=(0, 1))
    grid.add_column(style="bold cyan", no_wrap=True)
    grid.add_column(ratio=10)
    for name, said in rows:
        grid.add_row(Text(name), Text(said))
    return Panel(grid, title=title, title_align="left", border_style="dim")
