"""The loss around the solutions that methods found, on two random directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from plusone.report.style import PAPER, canvas, headline, plain, plain_ticks, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 6
LEVELS = 12


@styled
def loss_surfaces(surfaces: Sequence[dict[str, Any]]) -> Figure:
    """Contours of how much the loss rises; each panel from 0 to its own highest rise.

    Losses of different methods have different units, so only shapes can be compared.

    Args:
        surfaces: What `surface.json` files of one data set hold; their centres must be known.
    """
    shown = list(surfaces[:SHOWN])
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    side = 5.4 / columns if columns > 1 else 3.4
    figure, axes = canvas(0.9 + rows * (side + 0.15), rows, columns, sharex=True, sharey=True)
    levels = np.linspace(0, 1, LEVELS + 1) ** 2  # close together where it is flat
    drawn = None
    for axis, surface, name in zip(axes, shown, names(shown), strict=False):
        table = rise(surface)
        top = max(float(np.nanmax(table)), 0.0)
        share = np.ma.masked_invalid(table.T / (top or 1.0))
        x, y = surface["alphas"], surface["betas"]
        drawn = axis.contourf(x, y, share, levels=levels, cmap="cividis", extend="both")
        axis.plot(0, 0, "+", color=PAPER, markersize=8)
        axis.set_title(f"{plain(name, 24)}\nrises by up to {top:.2g}")
        axis.set_aspect("equal")
        axis.grid(visible=False)
    for axis in axes[len(shown) :]:
        axis.set_visible(False)
    if drawn is not None:
        bar = figure.colorbar(drawn, ax=axes, shrink=0.8, pad=0.02)
        bar.set_label("share of the highest rise")
        bar.set_ticks([float(f"{level:.2g}") for level in levels[::3]])
        plain_ticks(bar.ax.yaxis)
        bar.ax.grid(visible=False)
    headline(figure, finding(surfaces))
    return figure


def names(surfaces: Sequence[dict[str, Any]]) -> list[str]:
    """What to call each surface: its method, with the run folder where methods repeat."""
    methods = [str(surface["method"]) for surface in surfaces]
    return [
        method if methods.count(method) == 1 else f"{method} ({_run(surface)})"
        for method, surface in zip(methods, surfaces, strict=True)
    ]


def rise(surface: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """How much the loss exceeds that of the solution; NaN where it is not finite."""
    table = np.array(surface["loss"], dtype=np.float64)
    middle = table[len(table) // 2, len(table[0]) // 2]
    found: np.ndarray[Any, np.dtype[np.float64]] = table - middle
    return found


def rise_halfway(surface: dict[str, Any]) -> float:
    """Mean rise at half the extent, in the units of the loss."""
    from plusone.analysis.surface import Surface, mean_rise

    known = Surface(**{field.name: surface[field.name] for field in fields(Surface)})
    return mean_rise(known, known.extent / 2)


def finding(surfaces: Sequence[dict[str, Any]]) -> str:
    """How much each loss rises; units differ, so nothing is ranked."""
    shown = list(surfaces[:SHOWN])
    parts = [
        f"{plain(name)} {_number(rise_halfway(surface))}"
        for name, surface in zip(names(shown), shown, strict=True)
    ]
    units = " (each in its own units)" if len(parts) > 1 else ""
    data = plain(shown[0].get("data") or "")
    start = f"{data}: rise" if data else "Rise"
    return f"{start} of the loss halfway to the border: {', '.join(parts)}{units}"


def _run(surface: dict[str, Any]) -> str:
    return PurePath(str(surface.get("run") or "")).name or f"seed {surface['seed']}"


def _number(value: float) -> str:
    return "not finite" if value != value else f"{value:.2g}"
