"""Intervals of k: how precisely a few labelled items give the positives per item."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from plusone.compare.documents import Intervals
from plusone.report.blocks import Drawing, Section
from plusone.report.material import Material
from plusone.report.style import BLUE, INK, canvas, headline, plain, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def intervals(material: Material) -> Section | None:
    """Intervals of k from a few labelled items (Cole et al. 2021, App. B)."""
    sets = [document for document in material.of(Intervals) if document.rows]
    if not sets:
        return None
    return Section(
        "intervals",
        "How well a few labelled items give k",
        "Some methods need k, the mean number of positives per item. If it is counted on a few "
        f"fully labelled items, {100 * sets[0].level:.0f} % of such samples give a k inside these "
        "bars (Cole et al. 2021, App. B and Table A2; many samples drawn without replacement).",
        (Drawing("k-intervals", partial(k_intervals, sets)),),
    )


@styled
def k_intervals(sets: Sequence[Intervals]) -> Figure:
    """A bar from low to high for each sample size, the true k of each data set as a line."""
    tall = 0.9 + sum(0.26 * (len(data.rows) + 1) for data in sets)
    figure, (axes,) = canvas(max(1.8, tall))
    names, places, place = [], [], 0.0
    for data in sets:
        top = place
        for row in sorted(data.rows, key=lambda row: row.size):
            axes.plot([row.low, row.high], [place, place], color=BLUE, linewidth=5,
                      solid_capstyle="butt")  # fmt: skip
            axes.annotate(
                f"{row.low:.1f} – {row.high:.1f}",
                (row.high, place),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
            )
            names.append(f"{plain(data.data, 16)}, {row.size} items")
            places.append(place)
            place -= 1.0
        axes.plot([data.k] * 2, [top + 0.4, place + 0.6], color=INK, linewidth=1.2)
        axes.annotate(f"k = {data.k:.2f}", (data.k, top + 0.4), xytext=(0, 2),
                      textcoords="offset points", ha="center", fontsize=8)  # fmt: skip
        place -= 0.6
    axes.set_yticks(places, names)
    axes.set_ylim(place + 0.4, 1.0)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.12)
    axes.set_xlabel("positives per item, estimated on a sample of that size")
    headline(figure, "; ".join(map(_finding, sets)))
    return figure


def _finding(data: Intervals) -> str:
    """The largest error of the largest samples."""
    row = max(data.rows, key=lambda row: row.size)
    error = max(row.high - data.k, data.k - row.low)
    return (
        f"{plain(data.data)}: {row.size} labelled items give k to within {error:.1f} in "
        f"{100 * data.level:g} % of draws"
    )
