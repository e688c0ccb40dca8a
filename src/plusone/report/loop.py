"""Training again with a reviewer's answers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from plusone.compare.tables import spread
from plusone.report.blocks import Block, Cell, Code, Drawing, Section, Table
from plusone.report.material import Document, Material
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


def answers(material: Material) -> Section | None:
    """MAP before and after questions, against random questions."""
    found = [document for document in material.of("loop") if document["rows"]]
    if not found:
        return None
    blocks: list[Block] = []
    for number, document in enumerate(found, start=1):
        blocks.append(Drawing(f"loop-{number}", partial(answer_curves, document)))
        blocks.append(_table(document))
        if document.get("command"):
            blocks.append(Code("made by", str(document["command"])))
    return Section(
        "answers",
        "What a reviewer's answers are worth",
        "A model is trained from one label per item and suggests the missing ones; a reviewer, "
        "played by the truth, answers questions about them with yes or no; the model is "
        "trained again with the answers. Random questions are about any unobserved label. "
        "Epochs are chosen on seen labels alone; means over seeds, the bar is one standard "
        "deviation. All trainings have the same learning rate and settings; the last row, bce "
        "with all labels, is not tuned by itself.",
        tuple(blocks),
    )


def _table(document: Document) -> Table:
    columns = (
        ("order", "how the questions were chosen"),
        ("questions", "how many were answered"),
        ("yes", "answers that found a missing label, mean over seeds"),
        ("test mAP in %", "mean ± standard deviation over seeds"),
        ("gain", "points of mAP against no answers"),
    )
    rows = [
        _row("no questions", 0, 0, document["before"], document.get("before_sd"), None),
        *(
            _row(NAMES.get(row["order"], row["order"]), row["questions"], row["yes"],
                 row["test_map"], row["test_sd"], row["gain"])
            for row in document["rows"]
        ),
        _row("all labels known (bce, same lr)", None, None, document["all_labels"], None,
             document["all_labels"] - document["before"]),
    ]  # fmt: skip
    caption = (
        f"{document['method']} on {document['data']}: {document['items']:,} items with "
        f"{document['hidden']:,} hidden positives, seeds: {len(document['seeds'])}"
    )
    last = frozenset({0, len(rows) - 1})
    return Table(caption, columns, tuple(rows), text=1, quiet=last)


def _row(
    name: str,
    questions: int | None,
    yes: float | None,
    mean: float,
    sd: float | None,
    gain: float | None,
) -> tuple[Cell, ...]:
    return (
        Cell(str(name)),
        Cell("–") if questions is None else Cell(f"{questions:,}", questions),
        Cell("–") if yes is None else Cell(f"{yes:.0f}", yes),
        Cell(spread(mean, sd), mean),
        Cell("–") if gain is None else Cell(f"{100 * gain:+.2f}", gain),
    )
