"""A reviewer's answers: mAP after training again with them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from plusone.compare.documents import Loop
from plusone.compare.results_table import spread
from plusone.methods import ALL_LABELS
from plusone.report import style
from plusone.report.blocks import Block, Cell, Code, Drawing, Section, Table
from plusone.report.material import Material

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RANDOM = "any"
NAMES = {RANDOM: "random questions"}


def answers(material: Material) -> Section:
    """The mAP before and after questions, against random questions."""
    loops = [loop for loop in material.of(Loop) if loop.rows]
    blocks: list[Block] = []
    for number, loop in enumerate(loops, start=1):
        blocks.append(Drawing(f"loop-{number}", partial(answer_curves, loop)))
        blocks.append(_table(loop))
        if loop.command:
            blocks.append(Code("made by", loop.command))
    return Section(
        "answers",
        "What a reviewer's answers are worth",
        "A model is trained from one label per item and suggests the missing ones; a reviewer, "
        "simulated by the true labels, answers questions about them with yes or no; the model is "
        "trained again with the answers. Random questions are about any unobserved label. "
        "Epochs are chosen on seen labels alone; means over seeds, the bar is one standard "
        "deviation. All runs have the same learning rate and settings; the last row, trained "
        "with all labels, is not tuned separately.",
        tuple(blocks),
    )


def _table(loop: Loop) -> Table:
    columns = (
        ("order", "how the questions were chosen"),
        ("questions", "how many were answered"),
        ("yes", "answers that found a missing label, mean over seeds"),
        ("test mAP in %", "mean ± standard deviation over seeds"),
        ("gain", "points of mAP against no answers"),
        ("over random", "points of mAP against as many random questions"),
    )
    same = ", same lr" if loop.reference == ALL_LABELS else ""
    rows = [
        _row("no questions", 0, 0, loop.before, loop.before_sd, None, None),
        *(
            _row(NAMES.get(row.order, row.order), row.questions, row.yes, row.test_map,
                 row.test_sd, row.gain, row.over_random)
            for row in loop.rows
        ),
        _row(f"all labels known ({loop.reference}{same})", None, None, loop.all_labels, None,
             loop.all_labels - loop.before, None),
    ]  # fmt: skip
    caption = (
        f"{loop.method} on {loop.data}: {loop.items:,} items with {loop.hidden:,} hidden "
        f"positives, seeds: {len(loop.seeds)}"
    )
    return Table(caption, columns, tuple(rows), quiet=frozenset({0, len(rows) - 1}))


def _row(
    name: str,
    questions: int | None,
    yes: float | None,
    mean: float,
    sd: float | None,
    gain: float | None,
    over_random: float | None,
) -> tuple[Cell, ...]:
    return (
        Cell(name),
        Cell("–") if questions is None else Cell(f"{questions:,}", questions),
        Cell("–") if yes is None else Cell(f"{yes:.0f}", yes),
        Cell(spread(mean, sd), mean),
        *(
            Cell("–") if value is None else Cell(f"{100 * value:+.2f}", value)
            for value in (gain, over_random)
        ),
    )


@style.styled
def answer_curves(loop: Loop) -> Figure:
    """A line per order of questions, starting without answers; random questions are dashed."""
    figure, (axes,) = style.canvas(3.4)
    before = 100 * loop.before
    ends = []
    orders = list(dict.fromkeys(row.order for row in loop.rows))
    ink = dict(zip((name for name in orders if name != RANDOM), style.COLOURS * 2, strict=False))
    for order in orders:
        rows = sorted(
            (row for row in loop.rows if row.order == order), key=lambda row: row.questions
        )
        x = [0, *(row.questions for row in rows)]
        y = [before, *(100 * row.test_map for row in rows)]
        sd = [100 * (value or 0.0) for value in (loop.before_sd, *(row.test_sd for row in rows))]
        colour = ink.get(order, style.VERMILLION)
        line = "--" if order == RANDOM else "-"
        axes.errorbar(x, y, yerr=sd if any(sd) else None, color=colour, marker="o", markersize=4,
                      capsize=2, linewidth=1.5, linestyle=line)  # fmt: skip
        ends.append((y[-1], NAMES.get(order, style.plain(order)), colour))
    axes.axhline(before, color=style.MUTED, linewidth=0.9, linestyle=":")
    axes.annotate("before", (0, before), xytext=(3, -3), textcoords="offset points", va="top",
                  color=style.INK, fontsize=8)  # fmt: skip
    axes.set_xlabel("questions answered")
    axes.set_ylabel("test mAP in %")
    style.end_labels(axes, ends)
    style.headline(figure, finding(loop))
    return figure


def finding(loop: Loop) -> str:
    """The gain of the best order, and of random questions."""
    most = max(row.questions for row in loop.rows)
    gains = {row.order: 100 * row.gain for row in loop.rows if row.questions == most}
    chosen = {order: gain for order, gain in gains.items() if order != RANDOM}
    if not chosen:
        return f"{most} random questions: {gains[RANDOM]:+.1f} points of mAP"
    order = max(chosen, key=lambda name: chosen[name])
    text = (
        f"{most} questions in the order “{style.plain(order)}”: {chosen[order]:+.1f} points of mAP"
    )
    return text + (f"; random ones: {gains[RANDOM]:+.1f}" if RANDOM in gains else "")
