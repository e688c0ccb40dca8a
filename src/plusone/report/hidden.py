"""Unobserved labels during training: the papers' figures, computed from the probes of a run.

A probe (`plusone.results.Probe`) holds two histograms of predicted probabilities over the
unobserved labels of the training items: those of hidden positives (FN) and of true negatives (TN).
GR counts on validation items and LASD on test items, with all of their labels: `probe_on`. With
`probe = "full"` GR's Fig. 5 begins before training, and LASD's Fig. 2 is the mean over classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from plusone.compare.jobs import JobResult
from plusone.compare.rows import base
from plusone.errors import InputError
from plusone.methods import gr, lasd
from plusone.report.blocks import Block, Drawing, Section
from plusone.report.curves import averaged, line_of
from plusone.report.material import Group, Material
from plusone.report.runs import read_epochs
from plusone.report.style import (
    BLUE,
    INK,
    MUTED,
    NAN,
    ORANGE,
    Line,
    canvas,
    draw_lines,
    grey_note,
    headline,
    plain,
    plain_ticks,
    styled,
)
from plusone.results import BINS, EpochRecord, Probe

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Numbers = tuple[float, ...]
Gaps = tuple[float | None, ...]

MIDDLES: Numbers = tuple(round((place + 0.5) / BINS, 4) for place in range(BINS))

Ink = Mapping[str, str]
GR, LASD = gr.INFOS[0], lasd.INFOS[1]
Probed = dict[str, tuple[JobResult, list[EpochRecord]]]  # by method
PANELS = 6  # methods shown in panels of their own
DENSITY_ROWS = 4  # methods shown in the grid of densities
HISTOGRAM_BINS = 50  # per epoch; 100 bins are ragged
DENSITY_BINS = 25
SHADE_EXPONENT = 0.5  # below 1, so that small shares stay visible beside large ones
ENOUGH = 20  # labels in a bin; bins with fewer are drawn pale
HALF = 0.5
CONFIDENT = 0.9


@dataclass(frozen=True)
class HiddenPositives:
    """Distribution of the probabilities of hidden positives, per epoch (Cole et al. 2021, Fig. 2).

    Args:
        shares: Share of the hidden positives in each bin, `[epochs][100]`; a row sums to 1.
    """

    epochs: tuple[int, ...]
    p: Numbers
    shares: tuple[Numbers, ...]


@dataclass(frozen=True)
class Distances:
    """Distance between hidden positives and true negatives, per epoch (GR, Fig. 3a; EM).

    Args:
        distance: Wasserstein distance between their probabilities; None where one kind is empty.
    """

    epochs: tuple[int, ...]
    distance: Gaps


@dataclass(frozen=True)
class Densities:
    """Densities of the probabilities in one epoch (GR, Fig. 3b and c; EM).

    Args:
        positives: Density of hidden positives over [0, 1]; its mean is 1.
        distance: Wasserstein distance between the two.
    """

    p: Numbers
    positives: Numbers
    negatives: Numbers
    distance: float | None


@dataclass(frozen=True)
class FalseNegatives:
    """Share of positives among unobserved labels, by confidence (GR, Fig. 5).

    Args:
        share: FN / (FN + TN) in each bin, None where the bin is empty.
        labels: FN + TN in each bin.
        overall: FN / (FN + TN) of all bins: the constant of GR's Assumption 1.
    """

    p: Numbers
    share: Gaps
    labels: tuple[int, ...]
    overall: float | None


@dataclass(frozen=True)
class PredictiveValues:
    """Predictive values of a threshold, per epoch (LASD, Fig. 2).

    Args:
        ppv: TP / (TP + FP), the share of positives above tau; None where nothing is above.
        npv: TN / (TN + FN), the share of negatives below tau; None where nothing is below.
        above: How many labels are above tau.
        classes: Over how many classes PPV and NPV are averaged; None if all labels are pooled.
    """

    epochs: tuple[int, ...]
    tau: float
    ppv: Gaps
    npv: Gaps
    above: tuple[int, ...]
    classes: int | None = None


def probes_of(epochs: Iterable[EpochRecord]) -> tuple[tuple[int, ...], list[Probe]]:
    """The numbers of the epochs that were probed, from 1 through all stages, and their probes."""
    probes = {n: epoch.probe for n, epoch in enumerate(epochs, 1) if epoch.probe is not None}
    if not probes:
        raise InputError(
            "this run has no probes of its hidden labels: they need data with all labels "
            "known, and on images --set probe=on"
        )
    return tuple(probes), list(probes.values())


def hidden_positives(epochs: Iterable[EpochRecord]) -> HiddenPositives:
    """Distribution of the hidden positives over the epochs (Cole et al. 2021, Fig. 2)."""
    numbers, probes = probes_of(epochs)
    return HiddenPositives(numbers, MIDDLES, tuple(_shares(probe.positives) for probe in probes))


def distances(epochs: Iterable[EpochRecord]) -> Distances:
    """Distance between hidden positives and true negatives over the epochs (GR, Fig. 3a)."""
    numbers, probes = probes_of(epochs)
    return Distances(numbers, tuple(probe.distance for probe in probes))


def densities(probe: Probe, cls: int | None = None) -> Densities:
    """Densities of hidden positives and true negatives in one epoch (GR, Fig. 3b and c).

    Of one class (EM), by its number, where the run was probed with `probe = "full"`.
    """
    counts, distance = (probe.positives, probe.negatives), probe.distance
    if cls is not None:
        counts = _classes_of(probe)[cls]
        ones, zeros = (np.cumsum(_shares(each)) for each in counts)
        distance = float(np.abs(ones - zeros).mean()) if all(map(any, counts)) else None
    positives, negatives = (tuple(share * BINS for share in _shares(each)) for each in counts)
    return Densities(MIDDLES, positives, negatives, distance)


def false_negatives(probe: Probe) -> FalseNegatives:
    """FN / (FN + TN) over 100 intervals of confidence (GR, Fig. 5)."""
    labels = tuple(fn + tn for fn, tn in zip(probe.positives, probe.negatives, strict=True))
    return FalseNegatives(
        p=MIDDLES,
        share=tuple(_ratio(fn, n) for fn, n in zip(probe.positives, labels, strict=True)),
        labels=labels,
        overall=_ratio(sum(probe.positives), sum(labels)),
    )


def predictive_values(epochs: Iterable[EpochRecord], tau: float) -> PredictiveValues:
    """PPV and NPV at a threshold over the epochs (LASD, Fig. 2).

    They are exact: tau must lie on the edge of a bin, a multiple of 0.01 between 0 and 1. A
    probability equal to tau counts as above it. Where all epochs were probed with `probe = "full"`
    they are means over the classes, as LASD has them, else of all labels together.
    """
    edge = round(tau * BINS)
    if not 0 < edge < BINS or abs(tau * BINS - edge) > 1e-6:
        raise InputError(
            f"tau = {tau:g} is not a multiple of {1 / BINS:g} between 0 and 1, and probabilities "
            f"are counted in {BINS} bins; the nearest is {min(max(edge, 1), BINS - 1) / BINS:g}"
        )
    numbers, probes = probes_of(epochs)
    by_class = all(probe.by_class is not None for probe in probes)
    ppv, npv, above = [], [], []
    for probe in probes:
        tables = _classes_of(probe) if by_class else ((probe.positives, probe.negatives),)
        ppv.append(_mean(_ratio(sum(p[edge:]), sum(p[edge:]) + sum(n[edge:])) for p, n in tables))
        npv.append(_mean(_ratio(sum(n[:edge]), sum(n[:edge]) + sum(p[:edge])) for p, n in tables))
        above.append(sum(probe.positives[edge:]) + sum(probe.negatives[edge:]))
    classes = len(_classes_of(probes[0])) if by_class else None
    return PredictiveValues(numbers, edge / BINS, tuple(ppv), tuple(npv), tuple(above), classes)


def _classes_of(probe: Probe) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    if probe.by_class is None:
        raise InputError("this run was not probed for each class: --set probe=full")
    return probe.by_class


def _mean(values: Iterable[float | None]) -> float | None:
    """Of the classes that have one."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _shares(counts: Sequence[int]) -> Numbers:
    """Counts as shares of their sum; zeros if that is zero."""
    return tuple(count / max(sum(counts), 1) for count in counts)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


@dataclass(frozen=True)
class KHat:
    """GR's estimate of the probability that an unobserved label is positive (Eq. 7).

    Args:
        k_hat: sigmoid(w p + b), the estimate that the loss uses in this epoch.
    """

    p: tuple[float, ...]
    k_hat: tuple[float, ...]
    w: float
    b: float


def gr_k_hat(
    epoch: int,
    epochs: int,
    options: Mapping[str, Any] | None = None,
    p: Sequence[float] = MIDDLES,
) -> KHat:
    """The estimate that `gr` uses in an epoch."""
    from plusone.data.matrix import LabelMatrix
    from plusone.types import Clock, TrainLabels

    if not 1 <= epoch <= epochs:
        raise InputError(f"epoch {epoch} is not one of the epochs 1 to {epochs}")
    labels = TrainLabels(LabelMatrix.from_dense([[1, 0]]))
    method = gr.Gr(labels, GR.make_options(options or {}))
    scheduled = method.schedule(Clock(0, epoch - 1, epochs, 0, 1))
    w, b = float(scheduled["w"]), float(scheduled["b"])
    values = 1 / (1 + np.exp(-(w * np.asarray(p, dtype=np.float64) + b)))
    return KHat(tuple(p), tuple(values.tolist()), w, b)


def posterior(p: Sequence[float], k: float) -> tuple[float, ...]:
    """Probability that an unobserved label is positive, for a calibrated model (GR, Eq. 6).

    It is (1 - a) p / (1 - a p) with a = 1 / k: the blue curve of Fig. 5, where k is 1.46 (VOC) and
    2.94 (COCO).

    >>> posterior([0.0, 0.5, 1.0], k=2.0)
    (0.0, 0.3333333333333333, 1.0)
    """
    if k < 1:
        raise InputError(f"k = {k:g}: an item has at least one positive, the seen one")
    a = 1 / k
    return tuple((1 - a) * at / max(1 - a * at, 1e-12) for at in p)


def hidden_labels(material: Material) -> Section:
    """Distributions, distances, shares of false negatives, predictive values."""
    blocks: list[Block] = []
    for group in material.groups:
        runs = probed(group)
        if not runs:
            continue
        figures: tuple[tuple[str, Callable[[Group, Probed], Figure], str], ...] = (
            ("positives", _positives, "The shares of an epoch sum to 1; line: median."),
            ("distance", _distances, "Mean over seeds; the band is one standard deviation."),
            ("densities", _densities, "Logarithmic; both densities have the same area."),
            (
                "false-negatives",
                _false_negatives,
                "Grey: after the first epoch, or before it with probe = full; colour: after the "
                f"last; pale: fewer than {ENOUGH} labels. Line: the share under a calibrated model "
                "(Eq. 6), with k positives per item; dashed: khat, the estimate that GR uses in "
                "the last epoch (Eq. 7).",
            ),
            (
                "predictive",
                _predictive,
                f"PPV is left out where fewer than {ENOUGH} labels are above the threshold. "
                f"Thresholds: {HALF:g}, and the tau of lasd, {lasd_tau(group):g}, where any method "
                "has labels above it.",
            ),
        )
        blocks += [
            Drawing(f"{name}-{group.slug}", partial(draw, group, runs), note + whose(runs))
            for name, draw, note in figures
        ]
        if split := {name: run for name, run in runs.items() if _class_shown(run[1]) is not None}:
            note = "The class with the most hidden positives (EM); as the densities above."
            note += whose(split)
            draw = partial(_class_densities, group, split)
            blocks.append(Drawing(f"class-densities-{group.slug}", draw, note))
    return Section(
        "hidden",
        "Hidden labels during training",
        "After every epoch the model predicted the labels of its training items that are "
        "unobserved: hidden positives and true negatives; or all labels of validation or test "
        "items (probe_on), where a figure says so. The figures follow Cole et al. 2021, "
        "Fig. 2 (probabilities of hidden positives), GR, Fig. 3 (Wasserstein distance between the "
        "probabilities of hidden positives and true negatives, and their densities), GR, Fig. 5 "
        "(share of positives among unobserved labels, in 100 bins of probability), and LASD, "
        "Fig. 2 (PPV: share of positives among labels above a threshold; NPV: share of negatives "
        "among those below). Distributions are of the first seed.",
        tuple(blocks),
    )


def whose(runs: Probed) -> str:
    """Whose labels the probes are of, where they are not those of the training items."""
    where = {_where(run) for run, _ in runs.values()} - {"training"}
    return f" All labels of {' and '.join(sorted(where))} items." if where else ""


def _where(run: JobResult) -> str:
    return str(run.recipe.get("probe_on", "training"))


def probed(group: Group) -> Probed:
    """The first run of each method in focus with its epochs, if these have probes.

    They are of the same items: those of the first run.
    """
    runs: Probed = {}
    for entry in group.focus:
        for run in entry.runs[:1]:
            try:
                epochs = read_epochs(run)
                _, probes = probes_of(epochs)
            except InputError:
                continue
            same = all(_where(run) == _where(other) for other, _ in runs.values())
            if same and any(any(probe.positives) and any(probe.negatives) for probe in probes):
                runs[entry.method] = run, epochs  # else it saw all labels
    return runs


def panels(count: int, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with a number of panels of a height that share their axes."""
    columns = _columns(count)
    rows = -(-count // columns)
    figure, axes = canvas(0.5 + height * rows, rows, columns, sharex=True, sharey=True)
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes


def name_outer(axes: Sequence[Axes], x: str, y: str) -> None:
    """Names of the axes, once per row and column."""
    columns = _columns(len(axes))
    for number, axis in enumerate(axes):
        if number % columns == 0:
            axis.set_ylabel(y)
        if number + columns >= len(axes):
            axis.set_xlabel(x)
            axis.tick_params(labelbottom=True)


def _columns(count: int) -> int:
    return 2 if count in (2, 4) else min(3, max(count, 1))


# Probabilities of hidden positives


def _positives(group: Group, runs: Probed) -> Figure:
    shares = {name: hidden_positives(epochs) for name, (_, epochs) in runs.items()}
    return positive_shades(shares, group.name)


@styled
def positive_shades(methods: Mapping[str, HiddenPositives], data: str) -> Figure:
    """Probabilities of hidden positives: a histogram per epoch, as shades, and the median."""
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm, to_rgb
    from matplotlib.ticker import MaxNLocator

    shown = dict(list(methods.items())[:PANELS])
    figure, axes = panels(len(shown), 2.0)
    tables = {name: histograms(shares) for name, shares in shown.items()}
    colour = to_rgb(BLUE)
    cmap = LinearSegmentedColormap.from_list("shade", [(*colour, 0.0), (*colour, 1.0)])
    highest = max(float(np.nanmax(table)) for table in tables.values()) or 1.0
    norm = PowerNorm(SHADE_EXPONENT, 0, highest)
    image, last_medians = None, {}
    for axis, (name, shares) in zip(axes, shown.items(), strict=False):
        x = shares.epochs
        image = axis.imshow(
            tables[name].T,
            origin="lower",
            extent=(x[0] - 0.5, x[-1] + 0.5, 0, 1),
            aspect="auto",
            cmap=cmap,
            norm=norm,
            interpolation="nearest",
        )
        medians = [median(histogram) for histogram in shares.shares]
        axis.plot(x, medians, color=INK, linewidth=1.2, marker="o" if len(x) == 1 else None)
        axis.set_title(plain(name, 20))
        axis.set_ylim(0, 1)
        axis.grid(visible=False)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
        last_medians[name] = medians[-1]
    name_outer(axes[: len(shown)], "epoch", "probability")
    if image is not None:
        bar = figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02)
        bar.set_label("share of hidden positives")
        plain_ticks(bar.ax.yaxis)
        bar.ax.grid(visible=False)
    headline(figure, _median_finding(last_medians, data))
    return figure


def histograms(shares: HiddenPositives) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Shares of the hidden positives, `[epochs][HISTOGRAM_BINS]`; NaN in epochs without a probe."""
    x = shares.epochs
    table = np.full((x[-1] - x[0] + 1, HISTOGRAM_BINS), np.nan)
    for epoch, histogram in zip(x, shares.shares, strict=True):
        table[epoch - x[0]] = np.asarray(histogram).reshape(HISTOGRAM_BINS, -1).sum(1)
    return table


def median(shares: Sequence[float]) -> float:
    """The median of a histogram over [0, 1], interpolated within its bin; NaN if it is empty."""
    below = np.concatenate([[0.0], np.cumsum(shares)])
    if not below[-1]:
        return NAN
    return float(np.interp(0.5, below / below[-1], np.linspace(0, 1, len(below))))


def _median_finding(medians: Mapping[str, float], data: str) -> str:
    """The highest and the lowest median after the last epoch."""
    known = sorted((value, name) for name, value in medians.items() if value == value)
    if not known:
        return f"{plain(data)}: nothing is hidden"
    (low, worst), (high, best) = known[0], known[-1]
    text = f"{plain(data)}: the median probability of hidden positives ends at {high:.2f} with "
    text += plain(best)
    return text if best == worst else f"{text}, at {low:.2f} with {plain(worst)}"


# Distance between hidden positives and true negatives


def _distances(group: Group, runs: Probed) -> Figure:
    curves = [
        curve
        for curve in averaged(group)
        if any(value is not None for value in curve.distance.mean)
    ]
    lines = [line_of(curve, curve.distance) for curve in curves]
    return distance_curves(lines, group.ink, group.name)


@styled
def distance_curves(lines: Sequence[Line], ink: Ink, data: str) -> Figure:
    """Wasserstein distance between hidden positives and true negatives, per epoch."""
    figure, (axes,) = canvas(2.9)
    draw_lines(axes, lines, ink)
    grey_note(axes, lines, ink)
    axes.set_xlabel("epoch")
    axes.set_ylabel("Wasserstein distance")
    headline(figure, distance_finding(lines, ink, data))
    return figure


def distance_finding(lines: Sequence[Line], ink: Ink, data: str) -> str:
    """Which method has the largest distance after its last epoch."""
    known = {line.name: [value for value in line.mean if value == value] for line in lines}
    last = {name: values[-1] for name, values in known.items() if values}
    kinds = "hidden positives and negatives"
    if not last:
        return f"{plain(data)}: distance between {kinds}"
    order = sorted(last, key=lambda name: -last[name])
    best, rest = order[0], order[1:]
    value = f"{last[best]:.2f}"
    if not rest:
        return f"{plain(data)}: the distance between {kinds} ends at {value} with {plain(best)}"
    equal = [name for name in rest if f"{last[name]:.2f}" == value]
    if equal:
        others = plain(equal[0]) if len(equal) == 1 else f"{len(equal)} others"
        return (
            f"{plain(data)}: {plain(best)} and {others} separate {kinds} equally well (distance "
            f"{value})"
        )
    named = [name for name in ink if name in rest] or rest
    beside = ", ".join(f"{plain(name)} {last[name]:.2f}" for name in named[:3])
    return f"{plain(data)}: {plain(best)} separates {kinds} best (distance {value}; {beside})"


# Densities of both in the first, the best and the last epoch


def _class_shown(epochs: Sequence[EpochRecord]) -> int | None:
    """The class with the most hidden positives, where every class was probed."""
    probe = next((epoch.probe for epoch in epochs if epoch.probe is not None), None)
    if probe is None or probe.by_class is None:
        return None
    return int(np.argmax([sum(positives) for positives, _ in probe.by_class]))


def _class_densities(group: Group, runs: Probed) -> Figure:
    cls = _class_shown(next(iter(runs.values()))[1])
    run = next(iter(runs.values()))[0]
    named = (
        run.labels.classes[cls] if run.labels is not None and cls is not None else f"class {cls}"
    )
    return _densities(group, runs, cls, f", {named}")


def _densities(group: Group, runs: Probed, cls: int | None = None, named: str = "") -> Figure:
    moments: dict[str, list[tuple[str, Densities]]] = {}
    best_is_last = True
    for name, (_, epochs) in runs.items():
        numbers, probes = probes_of(epochs)
        scores = [
            -math.inf if (score := epoch.val_score) is None else score
            for epoch in epochs
            if epoch.probe is not None
        ]
        best, last = scores.index(max(scores)), len(probes) - 1
        best_is_last = best_is_last and best == last
        moments[name] = [
            (f"{word}: epoch {numbers[place]}", densities(probes[place], cls))
            for word, place in (("first", 0), ("best", best), ("last", last))
        ]
    if best_is_last:
        moments = {name: [columns[0], columns[-1]] for name, columns in moments.items()}
    seeds = {run.seed for run, _ in runs.values()}
    return density_grid(moments, group.name + named, seeds.pop() if len(seeds) == 1 else None)


@styled
def density_grid(
    methods: Mapping[str, Sequence[tuple[str, Densities]]], data: str, seed: int | None = None
) -> Figure:
    """Densities of hidden positives and true negatives: a row per method, a column per epoch."""
    shown = dict(list(methods.items())[:DENSITY_ROWS])
    columns = max(len(moments) for moments in shown.values())
    figure, axes = canvas(0.9 + 1.35 * len(shown), len(shown), columns, sharex=True, sharey=True)
    for row, (name, moments) in enumerate(shown.items()):
        for column in range(columns):
            axis = axes[row * columns + column]
            if column >= len(moments):
                axis.set_visible(False)
                continue
            moment, density = moments[column]
            _draw_density(axis, density.negatives, MUTED, "true negatives")
            _draw_density(axis, density.positives, ORANGE, "hidden positives")
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
    headline(
        figure, _density_finding(shown, data if seed is None else f"{plain(data)}, seed {seed}")
    )
    return figure


def _draw_density(axes: Axes, density: Sequence[float], colour: str, label: str) -> None:
    from matplotlib.colors import to_rgb

    coarse = np.asarray(density).reshape(DENSITY_BINS, -1).mean(1)
    axes.stairs(
        np.maximum(coarse, 1e-3),
        np.linspace(0, 1, DENSITY_BINS + 1),
        baseline=1e-3,
        label=label,
        fill=True,
        facecolor=(*to_rgb(colour), 0.28),
        edgecolor=colour,
        linewidth=1.2,
    )


def _density_finding(methods: Mapping[str, Sequence[tuple[str, Densities]]], data: str) -> str:
    """The largest and the smallest distance after the last epoch."""
    last = {name: moments[-1][1].distance for name, moments in methods.items()}
    known = {name: distance for name, distance in last.items() if distance is not None}
    if not known:
        return f"{plain(data, 40)}: probabilities of hidden positives and true negatives"
    order = sorted(known, key=lambda name: known[name])
    worst, best = order[0], order[-1]
    text = f"{plain(data, 40)}: after the last epoch the distance is {known[best]:.2f} with "
    text += plain(best)
    return text if best == worst else f"{text}, {known[worst]:.2f} with {plain(worst)}"


# Share of positives among unobserved labels, by probability


def _false_negatives(group: Group, runs: Probed) -> Figure:
    shares: dict[str, tuple[FalseNegatives, FalseNegatives]] = {}
    k_hat: dict[str, KHat] = {}
    for name, (run, epochs) in runs.items():
        _, probes = probes_of(epochs)
        first = epochs[0].probe_before or probes[0]
        shares[name] = false_negatives(first), false_negatives(probes[-1])
        if base(name) == GR.name:
            k_hat[name] = gr_k_hat(len(epochs), len(epochs), run.options)
    k = positives_per_item([run for run, _ in runs.values()])
    return false_negative_dots(shares, k_hat, group.ink, group.name, k)


def positives_per_item(runs: Sequence[JobResult]) -> float | None:
    """Positives per training item where they are known and more than one."""
    for run in runs:
        items = run.items.get("train")
        if items and run.labels is not None and sum(run.labels.true) > items:
            return sum(run.labels.true) / items
    return None


@styled
def false_negative_dots(
    shares: Mapping[str, tuple[FalseNegatives, FalseNegatives]],
    k_hat: Mapping[str, KHat],
    ink: Ink,
    data: str,
    k: float | None = None,
) -> Figure:
    """Share of positives among unobserved labels of one probability, first and last epoch.

    `k_hat` is GR's estimate of that share in the last epoch, for its variants; k, the positives per
    item, gives the share under a calibrated model (Eq. 6).
    """
    shown = dict(list(shares.items())[:PANELS])
    figure, axes = panels(len(shown), 2.0)
    for axis, (name, (first, last)) in zip(axes, shown.items(), strict=False):
        colour = ink.get(name, MUTED)
        for counts, dot, label in ((first, MUTED, "first epoch"), (last, colour, "last epoch")):
            for enough, alpha in ((True, 0.85), (False, 0.3)):
                points = [
                    (p, share)
                    for p, share, n in zip(counts.p, counts.share, counts.labels, strict=True)
                    if share is not None and (n >= ENOUGH) == enough
                ]
                axis.plot(
                    [p for p, _ in points],
                    [share for _, share in points],
                    "o",
                    color=dot,
                    alpha=alpha,
                    markersize=3.2,
                    markeredgewidth=0,
                    label=label if enough else None,
                )
        if k is not None:
            axis.plot(MIDDLES, posterior(MIDDLES, k), color=INK, linewidth=1.2,
                      label=f"Eq. 6, k = {k:.2f}")  # fmt: skip
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
    headline(figure, _share_finding({name: last for name, (_, last) in shown.items()}, data))
    return figure


def _share_finding(shares: Mapping[str, FalseNegatives], data: str) -> str:
    """The overall share of positives, and the share among confident predictions."""
    overall = next(iter(shares.values())).overall or 0.0
    digits = f"{100 * overall:.2g}" if overall < 0.1 else f"{100 * overall:.0f}"
    text = f"{plain(data)}: {digits} % of unobserved labels are positive"
    confident = {
        name: share
        for name, counts in shares.items()
        if (share := _share_above(counts, CONFIDENT)) is not None
    }
    if not confident:
        return text
    best = max(confident, key=lambda name: confident[name])
    return (
        f"{text}; of those that {plain(best)} gives p ≥ {CONFIDENT:g}, "
        f"{100 * confident[best]:.0f} % are"
    )


def _share_above(counts: FalseNegatives, p: float) -> float | None:
    """Share of positives among the labels at or above p; None for too few labels."""
    bins = zip(counts.p, counts.share, counts.labels, strict=True)
    above = [(share, n) for at, share, n in bins if at >= p and share is not None]
    total = sum(n for _, n in above)
    return sum(share * n for share, n in above) / total if total >= ENOUGH else None


# Predictive values of thresholds


def _predictive(group: Group, runs: Probed) -> Figure:
    values: dict[float, tuple[list[Line], list[Line]]] = {}
    for tau in dict.fromkeys((HALF, lasd_tau(group))):
        methods = {name: predictive_values(epochs, tau) for name, (_, epochs) in runs.items()}
        ppv = {name: _enough(method) for name, method in methods.items()}
        if tau != HALF and not any(value is not None for line in ppv.values() for value in line):
            continue  # no method has enough labels above it
        values[tau] = (
            [_line(name, method, ppv[name]) for name, method in methods.items()],
            [_line(name, method, method.npv) for name, method in methods.items()],
        )
    return predictive_lines(values, group.ink, group.name)


def lasd_tau(group: Group) -> float:
    """LASD's threshold: that of its training if it lies on the edge of a bin, else the default."""
    default = lasd.LasdOptions().tau
    for entry in group.entries:
        if base(entry.method) == LASD.name:
            tau = float(entry.row.options.get("tau", default))
            on_edge = abs(tau * BINS - round(tau * BINS)) < 1e-6
            return tau if on_edge and 0 < round(tau * BINS) < BINS else default
    return default


def _enough(values: PredictiveValues) -> list[float | None]:
    pairs = zip(values.ppv, values.above, strict=True)
    return [ppv if above >= ENOUGH else None for ppv, above in pairs]


def _line(name: str, values: PredictiveValues, y: Sequence[float | None]) -> Line:
    return Line(name, values.epochs, [NAN if value is None else value for value in y])


@styled
def predictive_lines(
    values: Mapping[float, tuple[Sequence[Line], Sequence[Line]]], ink: Ink, data: str
) -> Figure:
    """PPV and NPV at thresholds, per epoch."""
    figure, axes = canvas(0.5 + 2.2 * len(values), len(values), 2, sharex=True)
    ends: list[tuple[float, str, float]] = []  # PPV after the last epoch
    for row, (tau, (ppv, npv)) in enumerate(values.items()):
        axes[2 * row].set_ylim(-0.02, 1.02)
        for axis, name, lines in ((axes[2 * row], "PPV", ppv), (axes[2 * row + 1], "NPV", npv)):
            draw_lines(axis, lines, ink)
            axis.set_title(f"{name} at {tau:g}")
        ends += [(line.mean[-1], line.name, tau) for line in ppv
                 if line.mean and line.mean[-1] == line.mean[-1]]  # fmt: skip
    for axis in axes[-2:]:
        axis.set_xlabel("epoch")
    if ends:
        share, name, tau = max(ends)
        finding = (
            f"of the unobserved labels that {plain(name)} puts above {tau:g}, {100 * share:.0f} % "
            "are positive after the last epoch"
        )
    else:
        finding = "too few unobserved labels are above the thresholds after the last epoch"
    headline(figure, f"{plain(data)}: {finding}")
    return figure
