"""How well a few fully labelled items tell the number of positives k (Cole et al. 2021, App. B)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from plusone.report.style import BLUE, INK, canvas, headline, plain, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def k_intervals(found: Sequence[dict[str, Any]]) -> Figure:
    """A bar from low to high for each sample size, the true k as a line.

    Args:
        found: What `intervals.json` files hold.
    """
    tall = 0.9 + sum(0.26 * (len(one["rows"]) + 1) for one in found)
    figure, (axes,) = canvas(max(1.8, tall))
    names, places, place = [], [], 0.0
    for one in found:
        top = place
        for row in sorted(one["rows"], key=lambda row: row["size"]):
            axes.plot([row["low"], row["high"]], [place, place], color=BLUE, linewidth=5,
                      solid_capstyle="butt")  # fmt: skip
            axes.annotate(
                f"{row['low']:.1f} – {row['high']:.1f}",
                (row["high"], place),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
            )
            names.append(f"{plain(one['data'], 16)}, {row['size']} items")
            places.append(place)
            place -= 1.0
        axes.plot([one["k"]] * 2, [top + 0.4, place + 0.6], color=INK, linewidth=1.2)
        axes.annotate(f"k = {one['k']:.2f}", (one["k"], top + 0.4), xytext=(0, 2),
                      textcoords="offset points", ha="center", fontsize=8)  # fmt: skip
        place -= 0.6
    axes.set_yticks(places, names)
    axes.set_ylim(place + 0.4, 1.0)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.12)
    axes.set_xlabel("positives per item, as a sample of that size would tell")
    headline(figure, finding(found))
    return figure


def finding(found: Sequence[dict[str, Any]]) -> str:
    """How far off the largest samples are."""
    parts = []
    for one in found:
        row = max(one["rows"], key=lambda row: row["size"])
        off = max(row["high"] - one["k"], one["k"] - row["low"])
        text = f"{plain(one['data'])}: {row['size']} items tell k to within {off:.1f}"
        parts.append(f"{text} in {100 * float(one.get('level', 0.9)):g} % of draws")
    return "; ".join(parts)
