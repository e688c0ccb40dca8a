"""The command that was given, written again, so that a result can say how it came about."""

from __future__ import annotations

import shlex
from typing import Any

import typer


def command_line(context: typer.Context, leave_out: tuple[str, ...] = ()) -> str:
    """The command with all that was given to it, as one would type it.

    Args:
        context: Of the command that runs.
        leave_out: Names of parameters that change nothing in the result.
    """
    words: list[str] = []
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if name in leave_out or source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[name]
        if parameter.param_type_name == "argument":
            words[:0] = [str(part) for part in _several(value)]
        elif value is False:
            words.append(parameter.secondary_opts[0])
        elif value is True:
            words.append(parameter.opts[0])
        else:
            words += [word for part in _several(value) for word in (parameter.opts[0], str(part))]
    return shlex.join(["plusone", str(context.info_name), *words])


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
