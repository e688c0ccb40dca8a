"""What models say about hidden labels while they learn (Cole et al., Fig. 2; GR, Figs. 3 and 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from plusone.analysis.hidden import Densities, FalseNegatives, HiddenPositives
from plusone.analysis.k_hat import KHat
from plusone.report.figures.lines import Line, draw_lines, grey_note
from plusone.report.style import INK, MUTED, ORANGE, canvas, headline, plain, plain_ticks, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Ink = Mapping[str, str]
PANELS = 6  # methods shown in panels of their own
ENOUGH = 20  # labels in a bin; bins with fewer are drawn pale
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


@styled
def positive_bands(found: Mapping[str, HiddenPositives], ink: Ink, data: str) -> Figure:
    """Probabilities of hidden positives over the epochs: median, middle half, middle 80 %."""
    shown = dict(list(found.items())[:PANELS])
    figure, axes = _panels(len(shown), 2.0)
    medians = {}
    for axis, (name, course) in zip(axes, shown.items(), strict=False):
        bands = [quantiles(shares) for shares in course.shares]
        low, lower, middle, upper, high = (list(band) for band in zip(*bands, strict=True))
        colour, x = ink.get(name, MUTED), course.places.epoch
        axis.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
        axis.fill_between(x, lower, upper, color=colour, alpha=0.30, linewidth=0)
        axis.plot(x, middle, color=colour, marker="o" if len(x) == 1 else None)
        axis.set_title(plain(name, 20))
        axis.set_ylim(0, 1)
        _whole(axis)
        medians[name] = middle[-1]
    _outer(axes[: len(shown)], "epoch", "probability")
    headline(figure, _medians(medians, data))
    return figure


@styled
def distance_curves(lines: Sequence[Line], ink: Ink, data: str) -> Figure:
    """Wasserstein distance between hidden positives and true negatives, per epoch."""
    figure, (axes,) = canvas(2.9)
    draw_lines(axes, lines, ink)
    grey_note(axes, lines, ink)
    axes.set_xlabel("epoch")
    axes.set_ylabel("Wasserstein distance")
    last = {line.name: line.mean[-1] for line in lines if line.mean}
    best = max(last, key=lambda name: last[name])
    text = f"{plain(data)}: {plain(best)} tells hidden positives from negatives best"
    others = [f"{plain(name)} {last[name]:.2f}" for name in ink if name in last and name != best]
    rest = f"; {', '.join(others[:3])}" if others else ""
    headline(figure, f"{text} (distance {last[best]:.2f} in the last epoch{rest})")
    return figure


@styled
def density_grid(found: Mapping[str, Sequence[tuple[str, Densities]]], data: str) -> Figure:
    """Densities of both kinds of hidden labels, a row per method, a column per moment.

    Args:
        found: For each method some moments, each with a name such as "first epoch".
        data: Name of the data set.
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
    ends = {name: moments[-1][1].distance or 0.0 for name, moments in shown.items()}
    best, worst = max(ends, key=lambda name: ends[name]), min(ends, key=lambda name: ends[name])
    text = f"{plain(data)}: at the end {plain(best)} keeps the two kinds {ends[best]:.2f} apart"
    headline(figure, text if best == worst else f"{text}, {plain(worst)} {ends[worst]:.2f}")
    return figure


@styled
def false_negative_dots(
    found: Mapping[str, tuple[FalseNegatives, FalseNegatives]],
    k_hat: Mapping[str, KHat],
    ink: Ink,
    data: str,
) -> Figure:
    """Share of positives among unobserved labels of one confidence, first and last epoch.

    Args:
        found: For each method the counts after the first and after the last epoch.
        k_hat: What methods take for that share in the last epoch, where they say so.
        ink: Colours of the methods.
        data: Name of the data set.
    """
    shown = dict(list(found.items())[:PANELS])
    figure, axes = _panels(len(shown), 2.0)
    for axis, (name, (first, last)) in zip(axes, shown.items(), strict=False):
        colour = ink.get(name, MUTED)
        for counts, dot, label in ((first, MUTED, "first epoch"), (last, colour, "last epoch")):
            for enough, alpha in ((True, 0.85), (False, 0.3)):
                known = [
                    (p, share)
                    for p, share, n in zip(counts.p, counts.share, counts.labels, strict=True)
                    if share is not None and (n >= ENOUGH) == enough
                ]
                axis.plot(
                    [p for p, _ in known],
                    [share for _, share in known],
                    "o",
                    color=dot,
                    alpha=alpha,
                    markersize=3.2,
                    markeredgewidth=0,
                    label=label if enough else None,
                )
        if name in k_hat:
            curve = k_hat[name]
            axis.plot(curve.p, curve.k_hat, color=INK, linewidth=1.2, linestyle="--")
            axis.annotate("khat", (curve.p[-1], curve.k_hat[-1]), xytext=(-3, 4), ha="right",
                          va="bottom", textcoords="offset points", fontsize=8)  # fmt: skip
        axis.set_title(plain(name, 20))
        axis.set_xlim(0, 1)
        axis.set_ylim(0, 1)
    _outer(axes[: len(shown)], "probability", "FN / (FN + TN)")
    overall = next(iter(shown.values()))[1].overall or 0.0
    sure = {name: _above(last, 0.9) for name, (_, last) in shown.items()}
    known_sure = {name: share for name, share in sure.items() if share is not None}
    text = f"{plain(data)}: {100 * overall:.0f} % of unobserved labels are positive"
    if known_sure:
        best = max(known_sure, key=lambda name: known_sure[name])
        text += (
            f"; where {plain(best)} is sure of them (p ≥ 0.9), {100 * known_sure[best]:.0f} % are"
        )
    headline(figure, text)
    return figure


@styled
def predictive_lines(
    values: Mapping[float, tuple[Sequence[Line], Sequence[Line]]], ink: Ink, data: str
) -> Figure:
    """PPV and NPV at thresholds, per epoch.

    Args:
        values: For each threshold the lines of PPV and of NPV.
        ink: Colours of the methods.
        data: Name of the data set.
    """
    figure, axes = canvas(0.5 + 2.2 * len(values), len(values), 2, sharex=True)
    best: tuple[float, str, float] | None = None
    for row, (tau, pair) in enumerate(values.items()):
        for column, (name, lines) in enumerate(zip(("PPV", "NPV"), pair, strict=True)):
            axis = axes[2 * row + column]
            if name == "PPV":
                axis.set_ylim(-0.02, 1.02)
            draw_lines(axis, lines, ink)
            axis.set_title(f"{name} at {tau:g}")
            if name == "PPV":
                ends = [(line.mean[-1], line.name, tau) for line in lines
                        if line.mean and line.mean[-1] == line.mean[-1]]  # fmt: skip
                best = max([*ends, *([best] if best else [])], default=None)
    for axis in axes[-2:]:
        axis.set_xlabel("epoch")
    if best is None:
        headline(figure, f"{plain(data)}: no method is sure of enough unobserved labels at the end")
    else:
        headline(
            figure,
            f"{plain(data)}: of the unobserved labels that {plain(best[1])} puts above "
            f"{best[2]:g}, {100 * best[0]:.0f} % are positive at the end",
        )
    return figure


def quantiles(shares: Sequence[float]) -> tuple[float, ...]:
    """Where some shares of a histogram over [0, 1] lie below, in between bins by a line."""
    below = np.concatenate([[0.0], np.cumsum(shares)])
    edges = np.linspace(0, 1, len(below))
    if not below[-1]:
        return (float("nan"),) * len(QUANTILES)
    return tuple(np.interp(QUANTILES, below / below[-1], edges).tolist())


def _medians(medians: Mapping[str, float], data: str) -> str:
    known = sorted(((value, name) for name, value in medians.items() if value == value))
    if not known:
        return f"{plain(data)}: nothing is hidden"
    (low, worst), (high, best) = known[0], known[-1]
    text = f"{plain(data)}: half of the hidden positives end above {high:.2f} with {plain(best)}"
    return text if best == worst else f"{text}, above {low:.2f} with {plain(worst)}"


def _above(counts: FalseNegatives, p: float) -> float | None:
    pairs = [(share, n) for at, share, n in zip(counts.p, counts.share, counts.labels, strict=True)
             if at >= p and share is not None]  # fmt: skip
    total = sum(n for _, n in pairs)
    return sum(share * n for share, n in pairs) / total if total >= ENOUGH else None


def _panels(count: int, height: float) -> tuple[Figure, list[Axes]]:
    columns = _columns(count)
    rows = -(-count // columns)
    figure, axes = canvas(0.5 + height * rows, rows, columns, sharex=True, sharey=True)
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes


def _columns(count: int) -> int:
    return 2 if count in (2, 4) else min(3, max(count, 1))


def _outer(axes: Sequence[Axes], x: str, y: str) -> None:
    """Names of the axes, once per row and column."""
    columns = _columns(len(axes))
    for number, axis in enumerate(axes):
        if number % columns == 0:
            axis.set_ylabel(y)
        if number + columns >= len(axes):
            axis.set_xlabel(x)
            axis.tick_params(labelbottom=True)


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
