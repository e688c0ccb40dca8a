"""A panel per method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from plusone.report.style import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = 6  # methods shown in panels of their own


def panels(count: int, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels of a height, on the same axes."""
    columns = _columns(count)
    rows = -(-count // columns)
    figure, axes = canvas(0.5 + height * rows, rows, columns, sharex=True, sharey=True)
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes


def _columns(count: int) -> int:
    return 2 if count in (2, 4) else min(3, max(count, 1))


def name_outer(axes: Sequence[Axes], x: str, y: str) -> None:
    """Names of the axes, once per row and column."""
    columns = _columns(len(axes))
    for number, axis in enumerate(axes):
        if number % columns == 0:
            axis.set_ylabel(y)
        if number + columns >= len(axes):
            axis.set_xlabel(x)
            axis.tick_params(labelbottom=True)
