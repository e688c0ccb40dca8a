"""Lines over epochs: highlighted methods in colour, named at the end; the rest in grey."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plusone.report.style import GRID, MUTED, end_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes


NAN = float("nan")


@dataclass(frozen=True)
class Line:
    """One line with its standard deviation.

    Args:
        name: Of the method.
        x: Ascending.
        mean: As many values; NaN where there is none.
        sd: Half the height of the band around it; None without one.
    """

    name: str
    x: Sequence[float]
    mean: Sequence[float]
    sd: Sequence[float] | None = None


def draw_lines(
    axes: Axes, lines: Sequence[Line], ink: Mapping[str, str], *, names: bool = True
) -> None:
    """Draws lines; those without a colour in `ink` are grey, behind the others."""
    from matplotlib.ticker import MaxNLocator

    for line in lines:
        if line.name not in ink:
            axes.plot(line.x, line.mean, color=GRID, linewidth=1.0, zorder=1)
    ends = []
    for line in lines:
        if line.name not in ink:
            continue
        colour = ink[line.name]
        last = [value for value in line.mean if value == value]
        dot: Any = {"marker": "o", "markersize": 4} if len(last) == 1 else {}
        axes.plot(line.x, line.mean, color=colour, zorder=3, **dot)
        if line.sd is not None:
            low = [mean - sd for mean, sd in zip(line.mean, line.sd, strict=True)]
            high = [mean + sd for mean, sd in zip(line.mean, line.sd, strict=True)]
            axes.fill_between(line.x, low, high, color=colour, alpha=0.15, linewidth=0, zorder=2)
        if last:
            ends.append((last[-1], line.name, colour))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    if names:
        end_labels(axes, ends)


def grey_note(axes: Axes, lines: Sequence[Line], ink: Mapping[str, str]) -> None:
    """Writes how many methods are drawn in grey."""
    count = sum(line.name not in ink for line in lines)
    if count:
        axes.text(
            0.99, 0.02, f"grey: {count} other methods", transform=axes.transAxes,
            ha="right", va="bottom", color=MUTED, fontsize=8,
        )  # fmt: skip
