"""Loss surfaces: the training loss around the solutions (EM, after Li et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from plusone.analysis.surface import RunSurface, mean_rise
from plusone.report.blocks import Drawing, Note, Section
from plusone.report.material import Material
from plusone.report.style import PAPER, canvas, headline, plain, plain_ticks, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 6  # surfaces in a figure
LEVELS = 12


def surfaces(material: Material) -> Section | None:
    """The loss around solutions, up to six per figure."""
    by_data: dict[str, list[RunSurface]] = {}
    notes = []
    for surface in material.of(RunSurface):
        if surface.centre is None:
            notes.append(Note(f"{surface.method}: its loss is not finite at the solution."))
        else:
            by_data.setdefault(surface.data, []).append(surface)
    if not by_data:
        return None
    figures = [group[place : place + SHOWN] for group in by_data.values()
               for place in range(0, len(group), SHOWN)]  # fmt: skip
    return Section(
        "surfaces",
        "Loss surfaces",
        "Each method's own training loss while the weights are moved away from the solution along "
        "two random directions, scaled so that 1 moves every filter by its own norm (EM, after "
        "Li et al. 2018). Losses have different units, so each panel goes from 0 at the solution "
        "to its own highest rise: compare shapes, not heights.",
        (
            *(Drawing(f"surface-{number}", partial(loss_surfaces, group))
              for number, group in enumerate(figures, start=1)),
            *notes,
        ),
    )  # fmt: skip


@styled
def loss_surfaces(surfaces: Sequence[RunSurface]) -> Figure:
    """Contours of the rise of the loss; each panel goes from 0 to its own highest rise.

    Losses of different methods have different units, so only shapes can be compared.

    Args:
        surfaces: Of one data set; finite at the centre.
    """
    shown = list(surfaces[:SHOWN])
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    side = 5.4 / columns if columns > 1 else 3.4
    figure, axes = canvas(0.9 + rows * (side + 0.15), rows, columns, sharex=True, sharey=True)
    levels = np.linspace(0, 1, LEVELS + 1) ** 2  # close together where it is flat
    contours = None
    for axis, surface, name in zip(axes, shown, names(shown), strict=False):
        rise = np.array(surface.loss, dtype=np.float64) - (surface.centre or 0.0)
        highest = max(float(np.nanmax(rise)), 0.0)
        share = np.ma.masked_invalid(rise.T / (highest or 1.0))
        contours = axis.contourf(
            surface.alphas, surface.betas, share, levels=levels, cmap="cividis", extend="both"
        )
        axis.plot(0, 0, "+", color=PAPER, markersize=8)
        axis.set_title(f"{plain(name, 24)}\nrises by up to {highest:.2g}")
        axis.set_aspect("equal")
        axis.grid(visible=False)
    for axis in axes[len(shown) :]:
        axis.set_visible(False)
    if contours is not None:
        bar = figure.colorbar(contours, ax=axes, shrink=0.8, pad=0.02)
        bar.set_label("share of the highest rise")
        bar.set_ticks([float(f"{level:.2g}") for level in levels[::3]])
        plain_ticks(bar.ax.yaxis)
        bar.ax.grid(visible=False)
    headline(figure, _finding(shown))
    return figure


def names(surfaces: Sequence[RunSurface]) -> list[str]:
    """A name for each surface: its method, with the run folder where methods repeat."""
    methods = [surface.method for surface in surfaces]
    return [
        surface.method
        if methods.count(surface.method) == 1
        else f"{surface.method} ({PurePath(surface.run).name or f'seed {surface.seed}'})"
        for surface in surfaces
    ]


def _finding(surfaces: Sequence[RunSurface]) -> str:
    """The rise of each loss; units differ, so nothing is ranked."""
    rises = [mean_rise(surface, surface.extent / 2) for surface in surfaces]
    parts = [
        f"{plain(name)} {'not finite' if rise != rise else f'{rise:.2g}'}"
        for name, rise in zip(names(surfaces), rises, strict=True)
    ]
    units = " (each in its own units)" if len(parts) > 1 else ""
    data = plain(surfaces[0].data)
    start = f"{data}: mean rise" if data else "Mean rise"
    return f"{start} of the loss halfway to the border: {', '.join(parts)}{units}"
