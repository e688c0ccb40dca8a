"""Seen and missing positives of each class (GR, Fig. 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from plusone.analysis.counts import ClassCounts
from plusone.report.style import BLUE, INK, ORANGE, canvas, headline, plain, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMED = 45  # classes up to which each gets its name
ROOM = 2.5  # times the highest bar up to which the number of items is drawn


@styled
def seen_and_missing(counts: ClassCounts) -> Figure:
    """Stacked bars, most frequent class first."""
    rows = counts.rows
    named = len(rows) <= NAMED
    figure, (axes,) = canvas(3.0 if named else 2.6)
    places = np.arange(len(rows))
    width = 0.75 if named else 1.0
    seen = np.array([row.seen for row in rows])
    axes.bar(places, seen, width, color=BLUE, label="seen")
    axes.bar(
        places, [row.missing for row in rows], width, bottom=seen, color=ORANGE, label="missing"
    )
    if named:
        axes.set_xticks(places, [plain(row.name, 18) for row in rows])
        if len(rows) > 12 or max((len(row.name) for row in rows), default=0) > 7:
            for name in axes.get_xticklabels():
                name.set(rotation=45, ha="right", rotation_mode="anchor")
    else:
        axes.set_xticks([])
        axes.set_xlabel(f"{len(rows)} classes, most frequent first")
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)
    axes.set_xlim(-0.7, len(rows) - 0.3)
    axes.set_ylabel("training positives")
    if 0 < counts.items <= ROOM * max((row.true for row in rows), default=0):
        axes.axhline(counts.items, color=INK, linestyle="--", linewidth=1.0, label="items")
    axes.legend(loc="center right")
    headline(figure, finding(counts))
    return figure


def finding(counts: ClassCounts) -> str:
    """How much is hidden, and where most."""
    data, share = plain(counts.data), counts.missing_share
    if share is None:
        return f"{data}: no class has a positive"
    if not share:
        return f"{data}: no positive is missing"
    most = max((row for row in counts.rows if row.true), key=lambda row: row.missing / row.true)
    return (
        f"{data}: {100 * share:.0f} % of the training positives are missing, most of "
        f"{plain(most.name)} ({100 * most.missing / most.true:.0f} %)"
    )
