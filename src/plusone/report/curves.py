"""Learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from plusone.analysis.curves import LearningCurve
from plusone.analysis.curves import Line as Course
from plusone.analysis.curves import learning_curves as averaged
from plusone.errors import InputError
from plusone.report.blocks import Drawing, Section
from plusone.report.lines import Line, draw_lines, grey_note
from plusone.report.material import Group, Material
from plusone.report.style import canvas, headline, plain, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def learning_curves(
    val: Sequence[Line], loss: Sequence[Line], ink: Mapping[str, str], data: str
) -> Figure:
    """Validation mAP and training loss per epoch.

    Args:
        val: mAP in per cent.
        loss: Sums of the loss terms, each stretched to the range 0 to 1.
        ink: Colours of the methods to bring out.
        data: Name of the data set.
    """
    figure, axes = canvas(3.1, 1, 2)
    draw_lines(axes[0], val, ink)
    grey_note(axes[0], val, ink)
    draw_lines(axes[1], loss, ink)
    axes[0].set_title("Validation mAP in %")
    axes[1].set_title("Training loss, each in its own range")
    for axis in axes:
        axis.set_xlabel("epoch")
    headline(figure, finding(val, data))
    return figure


def finding(val: Sequence[Line], data: str) -> str:
    """Whose best epoch comes early and is lost again by the last one."""
    falls = []
    longest = 0
    for line in val:
        known = [(value, x) for value, x in zip(line.mean, line.x, strict=True) if value == value]
        longest = max(longest, len(known))
        if known:
            best, epoch = max(known, key=lambda pair: pair[0])
            falls.append((best - known[-1][0], line.name, epoch))
    if longest < 2:
        return f"{plain(data)}: validation mAP and training loss of a single epoch"
    fall, name, epoch = max(falls)
    if fall >= 0.5:
        return (
            f"{plain(data)}: {plain(name)} peaks in epoch {epoch:g} and loses {fall:.1f} points "
            "of validation mAP by the last"
        )
    return f"{plain(data)}: no method loses more than half a point after its best epoch"


NAN = float("nan")


def learning(material: Material) -> Section | None:
    """Validation mAP and loss per epoch."""
    groups = [group for group in material.groups if courses(group)]
    if not groups:
        return None
    return Section(
        "learning",
        "Learning curves",
        "Validation mAP and training loss after every epoch: mean over seeds as far as all "
        "got, the band is one standard deviation. A loss is the sum of its terms; each is "
        "stretched to its own range, because losses of different methods have different units. "
        "The best epoch on validation is the one that counts.",
        tuple(Drawing(f"learning-{group.slug}", partial(_draw, group)) for group in groups),
    )


def courses(group: Group) -> list[LearningCurve]:
    """The averaged course of every method that recorded one."""
    found = []
    for entry in group.entries:
        try:
            curves = averaged(entry.runs)
        except InputError:  # a run whose records are gone
            continue
        found += [curve for curve in curves[:1] if curve.stage]  # else its records are empty
    return found


def line_of(curve: LearningCurve, course: Course, scale: float = 1.0) -> Line:
    """A course as a line to draw, as far as all seeds got."""
    whole = sum(reached == curve.seeds for reached in curve.reached)
    spread = [0.0 if sd is None else scale * sd for sd in course.sd[:whole]]
    return Line(
        curve.method,
        curve.epochs[:whole],
        [NAN if mean is None else scale * mean for mean in course.mean[:whole]],
        spread if any(spread) else None,
    )


def _stretched(line: Line) -> Line:
    """A line between its lowest value, 0, and its highest, 1."""
    known = [value for value in line.mean if value == value]
    low, high = min(known, default=0.0), max(known, default=0.0)
    range_ = high - low or 1.0
    return Line(line.name, line.x, [(value - low) / range_ for value in line.mean])


def _draw(group: Group) -> Figure:
    val, loss = [], []
    for curve in courses(group):
        val.append(line_of(curve, curve.val_map, 100.0))
        total = curve.losses.get("total") or next(iter(curve.losses.values()), None)
        if total is not None:
            loss.append(_stretched(line_of(curve, total)))
    return learning_curves(val, loss, group.ink, group.name)
