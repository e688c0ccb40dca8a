"""The style of all figures: colour-blind safe colours, plain axes, headlines with the finding."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

from plusone.methods import ALL_LABELS, ASSUME_NEGATIVE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

P = ParamSpec("P")

INK, MUTED, GRID, PAPER = "#1b1f24", "#66707c", "#dde2e8", "#fefefe"
BLUE, GREEN, PINK = "#0072b2", "#009e73", "#cc79a7"
ORANGE, SKY, VERMILLION = "#e69f00", "#56b4e9", "#d55e00"
COLOURS = (BLUE, GREEN, PINK, ORANGE, SKY)  # Okabe and Ito, without the yellow that fades on white
FIXED = {ASSUME_NEGATIVE: VERMILLION, ALL_LABELS: INK}
FOCUS = ("gr", "em", "role", "lasd", "wan", "epr")  # highlighted after the best and the two ends
PREFERRED = {"gr": BLUE, "em": GREEN}  # seen so often that they keep their colours too

WIDTH = 6.8  # inches
NARROW = 4.5  # fits a phone, and two beside each other a wide screen
LETTERS_PER_INCH = 11.4
LETTERS = 8.5  # points; of names at lines
HEADLINE = "headline"
NAN = float("nan")

STYLE: Any = {  # rcParams; matplotlib lists every key in the type, which we need not repeat
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica"],
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.0,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "text.color": INK,
    "text.parse_math": False,  # names may contain $
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "plusone",
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.05,
    "figure.constrained_layout.w_pad": 0.05,
}


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draws with this style, whatever matplotlib's current settings are."""

    @wraps(draw)
    def within(*args: P.args, **kwargs: P.kwargs) -> Figure:
        from matplotlib import rc_context

        with rc_context(STYLE):
            return draw(*args, **kwargs)

    return within


def canvas(
    height: float,
    rows: int = 1,
    columns: int = 1,
    *,
    width: float = WIDTH,
    sharex: bool = False,
    sharey: bool = False,
) -> tuple[Figure, list[Axes]]:
    """A figure of our width with its axes, row by row; it belongs to no window."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    axes = figure.subplots(rows, columns, sharex=sharex, sharey=sharey, squeeze=False)
    return figure, list(axes.flat)


def headline(figure: Figure, finding: str) -> None:
    """Writes what the figure shows above it."""
    wide = max(20, round(figure.get_figwidth() * LETTERS_PER_INCH))
    text = textwrap.fill(plain(finding, 240), wide)
    figure.suptitle(text, x=0.01, ha="left", fontsize=10.5, weight="bold").set_gid(HEADLINE)


def headline_height(figure: Figure) -> float:
    """Points from the top of a figure, once it is laid out, to the lower edge of its headline."""
    found = [text for text in figure.texts if text.get_gid() == HEADLINE]
    if not found:
        return 0.0
    low = float(found[0].get_window_extent().y0) / figure.dpi
    return 72.0 * (float(figure.get_figheight()) - low)


def colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each name; some methods have a fixed one. Grey when they run out.

    >>> colours(["an", "wan"]) == {"an": VERMILLION, "wan": BLUE}
    True
    """
    own = {name: (FIXED | PREFERRED)[name] for name in names if name in FIXED | PREFERRED}
    free = [colour for colour in COLOURS if colour not in own.values()]
    others = [name for name in dict.fromkeys(names) if name not in own]
    chosen = dict(zip(others, free, strict=False))
    return {name: own.get(name) or chosen.get(name, MUTED) for name in names}


def plain(text: object, width: int = 28) -> str:
    """A name as it can be drawn: one line, printable, not too long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def plain_ticks(axis: Axis) -> None:
    """Plain numbers instead of powers of ten, also on logarithmic axes."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def end_labels(axes: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """Writes names at the right end of lines, pushed apart where they would overlap.

    `ends` are the height of the end, the name and the colour of each line; the limits of the axes
    must be final.
    """
    if not ends:
        return
    low, high = axes.get_ylim()
    box = axes.get_position()
    figure = axes.get_figure(root=True)
    assert figure is not None
    inches = box.height * figure.get_figheight()
    gap = (high - low) * LETTERS * 1.15 / 72 / max(inches, 0.1)
    ordered = sorted(ends)
    places = spread([min(max(height, low), high) for height, _, _ in ordered], gap, low, high)
    for place, (_, name, colour) in zip(places, ordered, strict=True):
        axes.annotate(
            plain(name, 16),
            (1.0, place),
            xytext=(5, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=LETTERS,
        )


def spread(values: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Ascending values moved as little as needed so that neighbours are `gap` apart.

    >>> spread([1.0, 1.0, 5.0], 2.0, 0.0, 10.0)
    [0.0, 2.0, 5.0]
    """
    last = len(values) - 1
    gap = min(gap, (high - low) / max(last, 1))
    clusters: list[tuple[float, int]] = []  # middle and size of groups that touch
    for value in values:
        clusters.append((value, 1))
        while len(clusters) > 1:
            (first, n), (second, m) = clusters[-2:]
            if second - first >= gap * (n + m) / 2:
                break
            clusters[-2:] = [((first * n + second * m) / (n + m), n + m)]
    places = [middle + gap * (place - (n - 1) / 2) for middle, n in clusters for place in range(n)]
    return [
        min(max(place, low + gap * number), high - gap * (last - number))
        for number, place in enumerate(places)
    ]


@dataclass(frozen=True)
class Line:
    """One line with its standard deviation.

    Args:
        mean: As many values; NaN where there is none.
        sd: Half the height of the band around it; None without one.
    """

    name: str
    x: Sequence[float]
    mean: Sequence[float]
    sd: Sequence[float] | None = None


def draw_lines(axes: Axes, lines: Sequence[Line], ink: Mapping[str, str]) -> None:
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
    end_labels(axes, ends)


def grey_note(axes: Axes, lines: Sequence[Line], ink: Mapping[str, str]) -> None:
    """Writes how many methods are drawn in grey."""
    count = sum(line.name not in ink for line in lines)
    if count:
        axes.text(
            0.99, 0.02, f"grey: {count} other methods", transform=axes.transAxes,
            ha="right", va="bottom", color=MUTED, fontsize=8,
        )  # fmt: skip
