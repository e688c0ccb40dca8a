"""What models say about hidden labels while they learn."""

from __future__ import annotations

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
from plusone.errors import InputError
from plusone.methods.lasd import LasdOptions
from plusone.report.blocks import Block, Drawing, Section
from plusone.report.figures import hidden as figures
from plusone.report.figures.hidden import ENOUGH
from plusone.report.figures.lines import Line
from plusone.report.material import Group, Material, Result
from plusone.report.sections.curves import NAN, courses, line_of

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
            ("positives", _bands, "Line: median; dark: middle half; pale: middle 80 %."),
            ("distance", _distances, "Mean over seeds; the band is one standard deviation."),
            ("densities", _densities, "Logarithmic; both densities have the same area."),
            (
                "false-negatives",
                _false_negatives,
                f"Grey: after the first epoch; colour: after the last; pale: fewer than {ENOUGH} "
                "labels; dashed: khat, what GR takes for this share in the last epoch.",
            ),
            (
                "predictive",
                _predictive,
                f"PPV is left out where fewer than {ENOUGH} labels are above the threshold.",
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
                probes_of(read_epochs(run))
            except InputError:
                continue
            found[entry.method] = run
    return found


def _bands(group: Group) -> Figure:
    found = {name: hidden_positives(read_epochs(run)) for name, run in probed(group).items()}
    return figures.positive_bands(found, group.ink, group.name)


def _distances(group: Group) -> Figure:
    lines = [
        line_of(curve.method, curve.epochs, curve.distance)
        for curve in courses(group)
        if _known(curve)
    ]
    return figures.distance_curves(lines, group.ink, group.name)


def _known(curve: LearningCurve) -> bool:
    return any(value is not None for value in curve.distance.mean)


def _densities(group: Group) -> Figure:
    found: dict[str, list[tuple[str, Densities]]] = {}
    apart = False  # whether any best epoch is not the last one
    for name, run in probed(group).items():
        places, probes = probes_of(read_epochs(run))
        values = [epoch["val_map"] for epoch in read_epochs(run) if epoch.get("probe") is not None]
        best, last = max(range(len(values)), key=lambda place: values[place]), len(probes) - 1
        apart = apart or best != last
        found[name] = [
            (f"{word}: epoch {places.epoch[place]}", densities(probes[place]))
            for word, place in (("first", 0), ("best", best), ("last", last))
        ]
    if not apart:
        found = {name: [moments[0], moments[-1]] for name, moments in found.items()}
    return figures.density_grid(found, group.name)


def _false_negatives(group: Group) -> Figure:
    found: dict[str, tuple[FalseNegatives, FalseNegatives]] = {}
    believed: dict[str, KHat] = {}
    for name, run in probed(group).items():
        epochs = read_epochs(run)
        _, probes = probes_of(epochs)
        found[name] = (false_negatives(probes[0]), false_negatives(probes[-1]))
        if name == "gr":
            believed[name] = gr_k_hat(len(epochs), len(epochs), run["options"])
    return figures.false_negative_dots(found, believed, group.ink, group.name)


def _predictive(group: Group) -> Figure:
    tau = LasdOptions().tau
    values: dict[float, tuple[list[Line], list[Line]]] = {}
    for level in (HALF, tau):
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
    return figures.predictive_lines(values, group.ink, group.name)


def _counted(found: PredictiveValues) -> list[float | None]:
    """PPV where enough labels are above the threshold to speak of a share."""
    pairs = zip(found.ppv, found.above, strict=True)
    return [value if above >= ENOUGH else None for value, above in pairs]


def _line(name: str, found: PredictiveValues, values: Sequence[float | None]) -> Line:
    return Line(name, found.places.epoch, [NAN if value is None else value for value in values])
