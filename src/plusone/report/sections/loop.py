"""Training again with a reviewer's answers."""

from __future__ import annotations

from functools import partial

from plusone.bench.tables import spread
from plusone.report.blocks import Block, Cell, Code, Drawing, Section, Table
from plusone.report.documents import Document
from plusone.report.figures.loop import NAMES, answer_curves
from plusone.report.material import Material


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
