"""Learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from plusone.report.figures.lines import Line, draw_lines, grey_note
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
