"""Templates of pages, for servers and for the files that a report is."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape


@cache
def templates(package: str) -> Environment:
    """The templates of a package; what they show is escaped."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
