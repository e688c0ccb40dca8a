"""Gradient regimes: loss and gradient of one label against its predicted probability."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from plusone.analysis.gradients import Gradients, gradient_curves
from plusone.analysis.runs import read_epochs
from plusone.errors import InputError
from plusone.methods import METHODS
from plusone.report.blocks import Drawing, Section
from plusone.report.material import Group, Material
from plusone.report.style import INK, MUTED, canvas, colours, headline, plain, styled
from plusone.results import RunResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))  # one per epoch shown
METHODS_SHOWN = 6  # in a figure that is made for the report
CURVES_SHOWN = 12
UNKNOWN_EPOCHS = 10  # of a training whose records are gone
CONFIDENT = 0.9  # the probability in the headline
FLAT = 0.005  # a gradient that is rounded to zero


def regimes(material: Material) -> Section | None:
    """Loss and gradient against the probability (GR, Fig. 1; EM)."""
    draws = [partial(gradient_regimes, gradients) for gradients in material.of(Gradients)]
    if not draws and material.groups and (names := _with_curves(material.groups[0])):
        draws = [partial(_of_group, material.groups[0], names)]
    if not draws:
        return None
    return Section(
        "regimes",
        "Gradient regimes",
        "Loss and gradient d loss / d logit of one label against its predicted probability, for a "
        "seen positive and for an unobserved label (GR, Fig. 1; EM). They follow from the formulas "
        "alone: nothing is trained. A positive gradient pushes the probability down. Losses with a "
        "schedule are shown in the first and in the last epoch. "
        "More: plusone analyse gradients METHOD...",
        tuple(Drawing(f"regimes-{place}", draw) for place, draw in enumerate(draws, start=1)),
    )


def _with_curves(group: Group) -> list[str]:
    """Methods in focus whose loss has such a curve."""
    names = [entry.method for entry in group.focus if not entry.reference]
    able = [name for name in names if name in METHODS and not METHODS[name].no_curve]
    return able[:METHODS_SHOWN]


def _of_group(group: Group, names: list[str]) -> Figure:
    """The figure for the options, classes and epochs of a group's trainings."""
    options: dict[str, dict[str, Any]] = {}
    classes, k = 20, 1.5
    epochs = 0
    for name in names:
        entry = group.find(name)
        assert entry is not None
        options[name] = entry.row.options
        for run in entry.runs[:1]:
            epochs = max(epochs, last_stage_epochs(run))
            classes = max(len(run.labels.classes), 3) if run.labels is not None else classes
            k = run.k or k
    epochs = epochs or UNKNOWN_EPOCHS
    return gradient_regimes(
        gradient_curves(
            names,
            at=sorted({1, epochs}),
            epochs=epochs,
            options=options,
            classes=classes,
            k=k,
            points=59,
        )
    )


def last_stage_epochs(run: RunResult) -> int:
    """Epochs of the last stage of a training; 0 if its records are gone."""
    try:
        stages = [epoch.stage for epoch in read_epochs(run)]
    except InputError:
        return 0
    return stages.count(stages[-1]) if stages else 0


@styled
def gradient_regimes(gradients: Gradients) -> Figure:
    """Loss and gradient against the probability, for seen positives and unobserved labels."""
    curves = gradients.curves[:CURVES_SHOWN]
    figure, axes = canvas(5.4, 2, 2, sharex=True)
    ink = colours([curve.method for curve in curves])
    drawn: dict[str, int] = {}
    for curve in curves:
        number = drawn.get(curve.method, 0)
        drawn[curve.method] = number + 1
        look: dict[str, Any] = {
            "color": ink[curve.method],
            "linestyle": DASHES[number % len(DASHES)],
        }
        for column, side in enumerate((curve.observed, curve.unobserved)):
            axes[column].plot(gradients.p, side.loss, label=plain(curve.label), **look)
            axes[2 + column].plot(gradients.p, side.grad, **look)
    for column, title in enumerate(("Seen positive", "Unobserved label")):
        axes[column].set_title(title)
        axes[column].set_xlim(0, 1)
        axes[2 + column].set_xlabel("predicted probability p")
        axes[2 + column].axhline(0, color=INK, linewidth=0.7)
    _limit(axes[0], [curve.observed.loss for curve in curves])
    _limit(axes[1], [curve.unobserved.loss for curve in curves])
    axes[0].set_ylabel("loss")
    axes[2].set_ylabel("gradient d loss / d logit")
    for word, height, side_ in (("pushes p down", 1.0, "top"), ("pushes p up", 0.0, "bottom")):
        axes[3].text(1.015, height, word, transform=axes[3].transAxes, va=side_, color=MUTED,
                     fontsize=8, rotation=270)  # fmt: skip
    names = axes[0].get_legend_handles_labels()
    figure.legend(*names, loc="outside lower center", ncols=min(4, max(1, len(curves))))
    headline(figure, _finding(gradients))
    return figure


def _limit(axes: Axes, losses: Sequence[Sequence[float]]) -> None:
    """Limits the axis to where most values are: losses are unbounded at p = 0 and 1."""
    values = sorted(value for loss in losses for value in loss)
    if values:
        low, high = values[0], values[min(len(values) - 1, int(0.97 * len(values)))]
        room = 0.06 * (high - low or 1.0)
        axes.set_ylim(low - room, high + room)


def _finding(gradients: Gradients) -> str:
    """Which loss pushes a confident unobserved label down most, and which least."""
    nearest = min(range(len(gradients.p)), key=lambda place: abs(gradients.p[place] - CONFIDENT))
    slopes = sorted(
        (curve.unobserved.grad[nearest], plain(curve.label))
        for curve in gradients.curves[:CURVES_SHOWN]
    )
    if not slopes:
        return "Loss and gradient of a label against its predicted probability"
    (low, least), (high, most) = slopes[0], slopes[-1]
    text = f"An unobserved label at p = {CONFIDENT:g}: {most} {_push(high)}"
    return text if len(slopes) == 1 else f"{text}, {least} {_push(low)}"


def _push(slope: float) -> str:
    if abs(slope) < FLAT:
        return "leaves it alone"
    return f"pushes it {'down' if slope > 0 else 'up'} (gradient {slope:.2f})"
