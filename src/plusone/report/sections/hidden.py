"""What models say about hidden labels while they learn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from plusone.analysis.curves import LearningCurve
from plusone.analysis.hidden import (
    Densities,
    FalseNegatives,
    PredictiveValues,
    densities,
    false_negatives,
    hidden_positives,
    predictive_values,
    probes_of,
)
from plusone.analysis.k_hat import KHat, gr_k_hat
from plusone.analysis.load import read_epochs
from plusone.analysis.probe import BINS
from plusone.errors import InputError
from plusone.methods.lasd import LasdOptions
from plusone.report.blocks import Block, Drawing, Section
from plusone.report.figures import hidden as figures
from plusone.report.figures import shares
from plusone.report.figures.lines import Line
from plusone.report.figures.shares import ENOUGH
from plusone.report.material import Group, Material
from plusone.report.places import Result
from plusone.report.sections.curves import NAN, courses, line_of
from plusone.report.variants import base

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
            if any(probe.positives.any() and probe.negatives.any() for probe in probes):
                found[entry.method] = run  # else nothing is hidden from it
    return found


def _shades(group: Group) -> Figure:
    found = {name: hidden_positives(read_epochs(run)) for name, run in probed(group).items()}
    return figures.positive_shades(found, group.name)


def _distances(group: Group) -> Figure:
    lines = [line_of(curve, curve.distance) for curve in courses(group) if _known(curve)]
    return figures.distance_curves(lines, group.ink, group.name)


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
    return figures.density_grid(found, group.name, seeds.pop() if len(seeds) == 1 else None)


def _false_negatives(group: Group) -> Figure:
    found: dict[str, tuple[FalseNegatives, FalseNegatives]] = {}
    believed: dict[str, KHat] = {}
    for name, run in probed(group).items():
        epochs = read_epochs(run)
        _, probes = probes_of(epochs)
        found[name] = (false_negatives(probes[0]), false_negatives(probes[-1]))
        if base(name) == "gr":
            believed[name] = gr_k_hat(len(epochs), len(epochs), run["options"])
    return shares.false_negative_dots(found, believed, group.ink, group.name, _positives(group))


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
    return shares.predictive_lines(values, group.ink, group.name)


def _counted(found: PredictiveValues) -> list[float | None]:
    """PPV where enough labels are above the threshold to speak of a share."""
    pairs = zip(found.ppv, found.above, strict=True)
    return [value if above >= ENOUGH else None for value, above in pairs]


def _line(name: str, found: PredictiveValues, values: Sequence[float | None]) -> Line:
    return Line(name, found.places.epoch, [NAN if value is None else value for value in values])
