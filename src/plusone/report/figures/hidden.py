"""Where models put hidden labels while they learn (Cole et al., Fig. 2; GR, Fig. 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from plusone.analysis.hidden import Densities, HiddenPositives
from plusone.report.figures.lines import Line, draw_lines, grey_note
from plusone.report.figures.panels import PANELS, name_outer, panels
from plusone.report.style import (
    BLUE,
    INK,
    MUTED,
    ORANGE,
    canvas,
    headline,
    plain,
    plain_ticks,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Ink = Mapping[str, str]
BINS = 50  # of the histograms over the epochs: 100 are ragged
DARKER = 0.5  # exponent of the shade: small shares stay visible beside large ones


@styled
def positive_shades(found: Mapping[str, HiddenPositives], data: str) -> Figure:
    """Probabilities of hidden positives: a histogram per epoch, as shades, and the median."""
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm, to_rgb

    shown = dict(list(found.items())[:PANELS])
    figure, axes = panels(len(shown), 2.0)
    tables = {name: shades(course) for name, course in shown.items()}
    colour = to_rgb(BLUE)
    cmap = LinearSegmentedColormap.from_list("shade", [(*colour, 0.0), (*colour, 1.0)])
    norm = PowerNorm(DARKER, 0, max(float(np.nanmax(table)) for table in tables.values()) or 1.0)
    drawn, medians = None, {}
    for axis, (name, course) in zip(axes, shown.items(), strict=False):
        x = course.places.epoch
        drawn = axis.imshow(
            tables[name].T,
            origin="lower",
            extent=(x[0] - 0.5, x[-1] + 0.5, 0, 1),
            aspect="auto",
            cmap=cmap,
            norm=norm,
            interpolation="nearest",
        )
        middle = [median(shares) for shares in course.shares]
        axis.plot(x, middle, color=INK, linewidth=1.2, marker="o" if len(x) == 1 else None)
        axis.set_title(plain(name, 20))
        axis.set_ylim(0, 1)
        axis.grid(visible=False)
        _whole(axis)
        medians[name] = middle[-1]
    name_outer(axes[: len(shown)], "epoch", "probability")
    if drawn is not None:
        bar = figure.colorbar(drawn, ax=axes, shrink=0.8, pad=0.02)
        bar.set_label("share of hidden positives")
        plain_ticks(bar.ax.yaxis)
        bar.ax.grid(visible=False)
    headline(figure, _medians(medians, data))
    return figure


def shades(course: HiddenPositives) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Shares of the hidden positives, `[epochs][BINS]`; NaN in epochs without a probe."""
    x = course.places.epoch
    table = np.full((x[-1] - x[0] + 1, BINS), np.nan)
    for epoch, shares in zip(x, course.shares, strict=True):
        table[epoch - x[0]] = np.asarray(shares).reshape(BINS, -1).sum(1)
    return table


@styled
def distance_curves(lines: Sequence[Line], ink: Ink, data: str) -> Figure:
    """Wasserstein distance between hidden positives and true negatives, per epoch."""
    figure, (axes,) = canvas(2.9)
    draw_lines(axes, lines, ink)
    grey_note(axes, lines, ink)
    axes.set_xlabel("epoch")
    axes.set_ylabel("Wasserstein distance")
    headline(figure, apart(lines, ink, data))
    return figure


def apart(lines: Sequence[Line], ink: Ink, data: str) -> str:
    """Who keeps hidden positives and true negatives farthest apart at the end."""
    known = {line.name: [value for value in line.mean if value == value] for line in lines}
    last = {name: values[-1] for name, values in known.items() if values}
    if not last:
        return f"{plain(data)}: distance of hidden positives and negatives"
    order = sorted(last, key=lambda name: -last[name])
    best, rest = order[0], order[1:]
    value = f"{last[best]:.2f}"
    what = "hidden positives and negatives"
    if not rest:
        return f"{plain(data)}: the distance of {what} ends at {value} with {plain(best)}"
    equal = [name for name in rest if f"{last[name]:.2f}" == value]
    if equal:
        others = plain(equal[0]) if len(equal) == 1 else f"{len(equal)} others"
        return f"{plain(data)}: {plain(best)} and {others} keep {what} equally far apart ({value})"
    named = [name for name in ink if name in rest] or rest
    beside = ", ".join(f"{plain(name)} {last[name]:.2f}" for name in named[:3])
    return f"{plain(data)}: {plain(best)} keeps {what} farthest apart ({value}; {beside})"


@styled
def density_grid(
    found: Mapping[str, Sequence[tuple[str, Densities]]], data: str, seed: int | None = None
) -> Figure:
    """Densities of both kinds of hidden labels, a row per method, a column per moment.

    Args:
        found: For each method some moments, each with a name such as "first epoch".
        data: Name of the data set.
        seed: Seed of the trainings, if it is the same for all.
    """
    shown = dict(list(found.items())[:4])
    columns = max(len(moments) for moments in shown.values())
    figure, axes = canvas(0.9 + 1.35 * len(shown), len(shown), columns, sharex=True, sharey=True)
    for row, (name, moments) in enumerate(shown.items()):
        for column in range(columns):
            axis = axes[row * columns + column]
            if column >= len(moments):
                axis.set_visible(False)
                continue
            moment, density = moments[column]
            _density(axis, density.p, density.negatives, MUTED, "true negatives")
            _density(axis, density.p, density.positives, ORANGE, "hidden positives")
            axis.set_yscale("log")
            plain_ticks(axis.yaxis)
            axis.minorticks_off()
            axis.set_xlim(0, 1)
            axis.set_xticks([0, 0.5, 1])
            axis.set_ylim(0.008, 120)
            axis.set_title(moment, fontsize=8.5, weight="normal")
            if density.distance is not None:
                axis.text(0.97, 0.93, f"distance {density.distance:.2f}", ha="right", va="top",
                          transform=axis.transAxes, fontsize=8)  # fmt: skip
        axes[row * columns].set_ylabel(plain(name, 14), weight="bold")
    for axis in axes[-columns:]:
        axis.set_xlabel("probability")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    headline(figure, _ends(shown, data if seed is None else f"{plain(data)}, seed {seed}"))
    return figure


def _ends(found: Mapping[str, Sequence[tuple[str, Densities]]], data: str) -> str:
    """How far apart the two kinds are at the end, for the best and the worst method."""
    last = {name: moments[-1][1].distance for name, moments in found.items()}
    known = {name: distance for name, distance in last.items() if distance is not None}
    if not known:
        return f"{plain(data, 40)}: probabilities of hidden positives and true negatives"
    order = sorted(known, key=lambda name: known[name])
    worst, best = order[0], order[-1]
    text = f"{plain(data, 40)}: at the end {plain(best)} keeps the two kinds"
    text += f" {known[best]:.2f} apart"
    return text if best == worst else f"{text}, {plain(worst)} {known[worst]:.2f}"


def median(shares: Sequence[float]) -> float:
    """Where half of a histogram over [0, 1] lies below, in between bins by a line."""
    below = np.concatenate([[0.0], np.cumsum(shares)])
    if not below[-1]:
        return float("nan")
    return float(np.interp(0.5, below / below[-1], np.linspace(0, 1, len(below))))


def _medians(medians: Mapping[str, float], data: str) -> str:
    known = sorted(((value, name) for name, value in medians.items() if value == value))
    if not known:
        return f"{plain(data)}: nothing is hidden"
    (low, worst), (high, best) = known[0], known[-1]
    text = f"{plain(data)}: half of the hidden positives end above {high:.2f} with {plain(best)}"
    return text if best == worst else f"{text}, above {low:.2f} with {plain(worst)}"


def _density(
    axes: Axes, p: Sequence[float], density: Sequence[float], colour: str, label: str
) -> None:
    from matplotlib.colors import to_rgb

    wide = np.asarray(density).reshape(-1, 4).mean(1)  # 25 bins: 100 are ragged
    edges = np.linspace(0, 1, len(wide) + 1)
    axes.stairs(
        np.maximum(wide, 1e-3),
        edges,
        baseline=1e-3,
        label=label,
        fill=True,
        facecolor=(*to_rgb(colour), 0.28),
        edgecolor=colour,
        linewidth=1.2,
    )


def _whole(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
