"""From sections to HTML."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from plusone.report.blocks import Section
from plusone.version import __version__

CHIPS = {
    "seen": ("●", "seen in training"),
    "found": ("✓", "hidden and found"),
    "missed": ("○", "hidden and missed"),
    "wrong": ("✕", "named but not true"),
    "likely": ("?", "likely; the truth is not known"),
}


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("plusone.report"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["own"] = Markup  # HTML that this package made itself
    return environment


def render(title: str, sections: Sequence[Section], notes: Sequence[str] = ()) -> str:
    """The whole page.

    Args:
        title: Its heading.
        sections: Its parts; all drawings must be drawn.
        notes: Sentences above everything.
    """
    return (
        _environment()
        .get_template("page.html")
        .render(
            title=title,
            sections=sections,
            notes=notes,
            version=__version__,
            date=date.today().isoformat(),
            chips=CHIPS,
        )
    )
