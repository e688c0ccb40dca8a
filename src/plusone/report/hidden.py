"""What models say about hidden labels while they learn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from plusone.analysis.curves import LearningCurve
from plusone.analysis.hidden import (
    MIDDLES,
    Densities,
    FalseNegatives,
    HiddenPositives,
    KHat,
    PredictiveValues,
    densities,
    false_negatives,
    gr_k_hat,
    hidden_positives,
    posterior,
    predictive_values,
    probes_of,
)
from plusone.analysis.runs import read_epochs
from plusone.errors import InputError
from plusone.methods.lasd import LasdOptions
from plusone.report.blocks import Block, Drawing, Section
from plusone.report.curves import NAN, courses, line_of
from plusone.report.lines import Line, draw_lines, grey_note
from plusone.report.material import Group, Material, Result, base
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
from plusone.results import BINS

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


Ink = Mapping[str, str]
HISTOGRAM_BINS = 50  # of the histograms over the epochs: 100 are ragged
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
    """Shares of the hidden positives, `[epochs][HISTOGRAM_BINS]`; NaN in epochs without a probe."""
    x = course.places.epoch
    table = np.full((x[-1] - x[0] + 1, HISTOGRAM_BINS), np.nan)
    for epoch, shares in zip(x, course.shares, strict=True):
        table[epoch - x[0]] = np.asarray(shares).reshape(HISTOGRAM_BINS, -1).sum(1)
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


ENOUGH = 20  # labels in a bin; bins with fewer are drawn pale


@styled
def false_negative_dots(
    found: Mapping[str, tuple[FalseNegatives, FalseNegatives]],
    k_hat: Mapping[str, KHat],
    ink: Ink,
    data: str,
    ideal: float | None = None,
) -> Figure:
    """Share of positives among unobserved labels of one confidence, first and last epoch.

    Args:
        found: For each method the counts after the first and after the last epoch.
        k_hat: What methods take for that share in the last epoch, where they say so.
        ink: Colours of the methods.
        data: Name of the data set.
        ideal: Positives per item (k), for the share under a well trained model (Eq. 6).
    """
    shown = dict(list(found.items())[:PANELS])
    figure, axes = panels(len(shown), 2.0)
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
        if ideal is not None:
            axis.plot(MIDDLES, posterior(MIDDLES, ideal), color=INK, linewidth=1.2,
                      label=f"Eq. 6, k = {ideal:.2f}")  # fmt: skip
        if name in k_hat:
            curve = k_hat[name]
            axis.plot(curve.p, curve.k_hat, color=INK, linewidth=1.2, linestyle="--",
                      label="khat, Eq. 7")  # fmt: skip
        axis.set_title(plain(name, 20))
        axis.set_xlim(0, 1)
        axis.set_ylim(0, 1)
    name_outer(axes[: len(shown)], "probability", "FN / (FN + TN)")
    lines = {label: handle for axis in axes
             for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
             if label.startswith(("Eq.", "khat"))}  # fmt: skip
    if lines:
        figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=2)
    overall = next(iter(shown.values()))[1].overall or 0.0
    sure = {name: _above(last, 0.9) for name, (_, last) in shown.items()}
    known_sure = {name: share for name, share in sure.items() if share is not None}
    text = f"{plain(data)}: {_percent(overall)} % of unobserved labels are positive"
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


def _above(counts: FalseNegatives, p: float) -> float | None:
    pairs = [(share, n) for at, share, n in zip(counts.p, counts.share, counts.labels, strict=True)
             if at >= p and share is not None]  # fmt: skip
    total = sum(n for _, n in pairs)
    return sum(share * n for share, n in pairs) / total if total >= ENOUGH else None


def _percent(share: float) -> str:
    """A share in per cent, with two digits if it is small."""
    return f"{100 * share:.2g}" if share < 0.1 else f"{100 * share:.0f}"


HALF = 0.5


def hidden_labels(material: Material) -> Section | None:
    """Distributions, distances, shares of false negatives, predictive values."""
    blocks: list[Block] = []
    for group in material.groups:
        if not probed(group):
            continue
        kinds: tuple[tuple[str, Callable[[Group], Figure], str], ...] = (
            ("positives", _shades, "Each epoch's shades sum to 1; line: median."),
            ("distance", _distances, "Mean over seeds; the band is one standard deviation."),
            ("densities", _densities, "Logarithmic; both densities have the same area."),
            (
                "false-negatives",
                _false_negatives,
                f"Grey: after the first epoch; colour: after the last; pale: fewer than {ENOUGH} "
                "labels. Line: the share under a well trained model (Eq. 6), with k positives per "
                "item; dashed: khat, what GR takes for it in the last epoch (Eq. 7).",
            ),
            (
                "predictive",
                _predictive,
                f"PPV is left out where fewer than {ENOUGH} labels are above the threshold. "
                f"Thresholds: {HALF:g}, and the tau of lasd, {_tau(group):g}, where any method is "
                "that sure.",
            ),
        )
        blocks += [
            Drawing(f"{name}-{group.slug}", partial(draw, group), note)
            for name, draw, note in kinds
        ]
    if not blocks:
        return None
    return Section(
        "hidden",
        "Hidden labels during training",
        "After every epoch the model was asked for the labels of its training items that it was "
        "not shown: hidden positives and true negatives. The figures follow Cole et al. 2021, "
        "Fig. 2 (probabilities of hidden positives), GR, Fig. 3 (Wasserstein distance between the "
        "two kinds, and their densities), GR, Fig. 5 (share of positives among unobserved labels, "
        "in 100 intervals of confidence), and LASD, Fig. 2 (PPV: share of positives among labels "
        "above a threshold; NPV: share of negatives among those below). Distributions are of the "
        "first seed.",
        tuple(blocks),
    )


def probed(group: Group) -> dict[str, Result]:
    """The first training of each method in focus that looked at hidden labels."""
    found = {}
    for entry in group.focus:
        for run in entry.runs[:1]:
            try:
                _, probes = probes_of(read_epochs(run))
            except InputError:
                continue
            if any(any(probe.positives) and any(probe.negatives) for probe in probes):
                found[entry.method] = run  # else nothing is hidden from it
    return found


def _shades(group: Group) -> Figure:
    found = {name: hidden_positives(read_epochs(run)) for name, run in probed(group).items()}
    return positive_shades(found, group.name)


def _distances(group: Group) -> Figure:
    lines = [line_of(curve, curve.distance) for curve in courses(group) if _known(curve)]
    return distance_curves(lines, group.ink, group.name)


def _known(curve: LearningCurve) -> bool:
    return any(value is not None for value in curve.distance.mean)


def _densities(group: Group) -> Figure:
    found: dict[str, list[tuple[str, Densities]]] = {}
    apart = False  # whether any best epoch is not the last one
    for name, run in probed(group).items():
        places, probes = probes_of(read_epochs(run))
        values = [
            -math.inf if score is None else float(score)
            for epoch in read_epochs(run)
            if epoch.get("probe") is not None
            for score in [epoch.get("val_score", epoch.get("val_map"))]
        ]
        best, last = max(range(len(values)), key=lambda place: values[place]), len(probes) - 1
        apart = apart or best != last
        found[name] = [
            (f"{word}: epoch {places.epoch[place]}", densities(probes[place]))
            for word, place in (("first", 0), ("best", best), ("last", last))
        ]
    if not apart:
        found = {name: [moments[0], moments[-1]] for name, moments in found.items()}
    seeds = {int(run["seed"]) for run in probed(group).values()}
    return density_grid(found, group.name, seeds.pop() if len(seeds) == 1 else None)


def _false_negatives(group: Group) -> Figure:
    found: dict[str, tuple[FalseNegatives, FalseNegatives]] = {}
    believed: dict[str, KHat] = {}
    for name, run in probed(group).items():
        epochs = read_epochs(run)
        _, probes = probes_of(epochs)
        found[name] = (false_negatives(probes[0]), false_negatives(probes[-1]))
        if base(name) == "gr":
            believed[name] = gr_k_hat(len(epochs), len(epochs), run["options"])
    return false_negative_dots(found, believed, group.ink, group.name, _positives(group))


def _positives(group: Group) -> float | None:
    """Positives per training item where they are known and more than one."""
    for run in probed(group).values():
        items, labels = run.get("items", {}).get("train"), run.get("labels")
        if items and labels and sum(labels["true"]) > items:
            return float(sum(labels["true"]) / items)
    return None


def _tau(group: Group) -> float:
    """LASD's threshold: that of its training, if it lies on the edge of a bin."""
    default = LasdOptions().tau
    for entry in group.entries:
        if base(entry.method) == "lasd":
            tau = float((entry.row.get("options") or {}).get("tau", default))
            on_edge = abs(tau * BINS - round(tau * BINS)) < 1e-6
            return tau if on_edge and 0 < round(tau * BINS) < BINS else default
    return default


def _predictive(group: Group) -> Figure:
    values: dict[float, tuple[list[Line], list[Line]]] = {}
    for level in dict.fromkeys((HALF, _tau(group))):
        found = {
            name: predictive_values(read_epochs(run), level) for name, run in probed(group).items()
        }
        ppv = {name: _counted(one) for name, one in found.items()}
        if level != HALF and not any(value is not None for one in ppv.values() for value in one):
            continue  # nobody is that sure of anything
        values[level] = (
            [_line(name, one, ppv[name]) for name, one in found.items()],
            [_line(name, one, one.npv) for name, one in found.items()],
        )
    return predictive_lines(values, group.ink, group.name)


def _counted(found: PredictiveValues) -> list[float | None]:
    """PPV where enough labels are above the threshold to speak of a share."""
    pairs = zip(found.ppv, found.above, strict=True)
    return [value if above >= ENOUGH else None for value, above in pairs]


def _line(name: str, found: PredictiveValues, values: Sequence[float | None]) -> Line:
    return Line(name, found.places.epoch, [NAN if value is None else value for value in values])
