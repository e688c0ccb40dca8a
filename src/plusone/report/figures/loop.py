"""What answers of a reviewer are worth: mAP against the number of questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plusone.report.style import (
    COLOURS,
    INK,
    MUTED,
    VERMILLION,
    canvas,
    end_labels,
    headline,
    plain,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RANDOM = "any"
NAMES = {RANDOM: "random questions"}


@styled
def answer_curves(loop: dict[str, Any]) -> Figure:
    """A line per order of questions, from no answers on; random questions are dashed.

    Args:
        loop: What `loop.json` holds.
    """
    figure, (axes,) = canvas(3.4)
    before = 100 * loop["before"]
    ends = []
    orders = list(dict.fromkeys(row["order"] for row in loop["rows"]))
    ink = dict(zip((name for name in orders if name != RANDOM), COLOURS * 2, strict=False))
    for order in orders:
        rows = sorted(
            (row for row in loop["rows"] if row["order"] == order), key=lambda row: row["questions"]
        )
        x = [0, *(row["questions"] for row in rows)]
        y = [before, *(100 * row["test_map"] for row in rows)]
        sd = [100 * (value or 0) for value in [loop["before_sd"], *(r["test_sd"] for r in rows)]]
        colour = ink.get(order, VERMILLION)
        line = "--" if order == RANDOM else "-"
        axes.errorbar(x, y, yerr=sd if any(sd) else None, color=colour, marker="o", markersize=4,
                      capsize=2, linewidth=1.5, linestyle=line)  # fmt: skip
        ends.append((y[-1], NAMES.get(order, plain(order)), colour))
    axes.axhline(before, color=MUTED, linewidth=0.9, linestyle=":")
    axes.annotate("before", (0, before), xytext=(3, -3), textcoords="offset points", va="top",
                  color=INK, fontsize=8)  # fmt: skip
    axes.set_xlabel("questions answered")
    axes.set_ylabel("test mAP in %")
    end_labels(axes, ends)
    headline(figure, finding(loop))
    return figure


def finding(loop: dict[str, Any]) -> str:
    """What the best order brings, and random questions."""
    most = max(row["questions"] for row in loop["rows"])
    gains = {row["order"]: 100 * row["gain"] for row in loop["rows"] if row["questions"] == most}
    chosen = {order: gain for order, gain in gains.items() if order != RANDOM}
    if not chosen:
        return f"{most} random questions: {gains[RANDOM]:+.1f} points of mAP"
    order = max(chosen, key=lambda name: chosen[name])
    words = f"{most} questions in the order “{plain(order)}”: {chosen[order]:+.1f} points of mAP"
    return words + (f"; random ones: {gains[RANDOM]:+.1f}" if RANDOM in gains else "")
