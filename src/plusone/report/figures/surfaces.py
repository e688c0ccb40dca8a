"""The loss around the solutions that methods found, on two random directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from plusone.report.style import PAPER, canvas, headline, plain, plain_ticks, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 6
LEVELS = 12


@styled
def loss_surfaces(surfaces: Sequence[dict[str, Any]]) -> Figure:
    """Contours of how much the loss rises, with the same levels for all methods.

    Args:
        surfaces: What `surface.json` files hold.
    """
    shown = list(surfaces[:SHOWN])
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    side = 5.4 / columns if columns > 1 else 3.4
    figure, axes = canvas(0.7 + rows * side, rows, columns, sharex=True, sharey=True)
    rises = [rise(surface) for surface in shown]
    top = max(float(np.nanmax(table)) for table in rises) or 1.0
    levels = top * np.linspace(0, 1, LEVELS + 1) ** 2  # close together where it is flat
    drawn = None
    for axis, surface, table in zip(axes, shown, rises, strict=False):
        x, y = surface["alphas"], surface["betas"]
        drawn = axis.contourf(x, y, table.T, levels=levels, cmap="cividis", extend="both")
        axis.plot(0, 0, "+", color=PAPER, markersize=8)
        axis.set_title(f"{plain(surface['method'], 16)}  flat {flatness(surface):.2g}")
        axis.set_aspect("equal")
        axis.grid(visible=False)
    for axis in axes[len(shown) :]:
        axis.set_visible(False)
    if drawn is not None:
        bar = figure.colorbar(drawn, ax=axes, shrink=0.8, pad=0.02)
        bar.set_label("relative rise of the loss")
        bar.set_ticks([float(f"{level:.2g}") for level in levels[::3]])
        plain_ticks(bar.ax.yaxis)
        bar.ax.grid(visible=False)
    headline(figure, finding(surfaces))
    return figure


def rise(surface: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """How much the loss exceeds that of the solution, in units of the solution's loss."""
    table = np.array(surface["loss"], dtype=np.float64)
    middle = _middle(surface, table)
    return (table - middle) / (abs(middle) or 1.0)


def flatness(surface: dict[str, Any]) -> float:
    """Mean relative rise at half the extent; small is flat."""
    from plusone.analysis.surface import Surface, mean_rise

    known = Surface(**{field.name: surface[field.name] for field in fields(Surface)})
    return mean_rise(known, known.extent / 2) / (abs(known.centre) or 1.0)


def finding(surfaces: Sequence[dict[str, Any]]) -> str:
    """Which method's solution lies in the flattest place."""
    flat = sorted((flatness(surface), plain(surface["method"])) for surface in surfaces)
    if len(flat) < 2:
        return f"The loss of {flat[0][1]} rises by {100 * flat[0][0]:.0f} % halfway to the border"
    return (
        f"{flat[0][1]} lies flattest: its loss rises by {100 * flat[0][0]:.0f} % halfway to the "
        f"border, that of {flat[-1][1]} by {100 * flat[-1][0]:.0f} %"
    )


def _middle(surface: dict[str, Any], table: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    row = int(np.argmin(np.abs(surface["alphas"])))
    column = int(np.argmin(np.abs(surface["betas"])))
    return float(table[row, column])
