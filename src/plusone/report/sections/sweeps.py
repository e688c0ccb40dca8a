"""Sweeps over a setting, and methods with parts switched off."""

from __future__ import annotations

from functools import partial
from typing import Any

from plusone.bench.ablation import ABLATIONS
from plusone.bench.tables import options_text, spread
from plusone.report.blocks import Block, Cell, Drawing, Section, Table
from plusone.report.documents import Document
from plusone.report.figures.sweeps import score, split_of, sweep_curves
from plusone.report.material import Material


def sweeps(material: Material) -> Section | None:
    """A curve per method over the values of a setting."""
    found = [document for document in material.of("sweep") if document["rows"]]
    if not found:
        return None
    blocks: list[Block] = []
    for number, document in enumerate(found, start=1):
        blocks.append(Drawing(f"sweep-{number}", partial(sweep_curves, document), _about(document)))
        blocks.append(_table(document))
    return Section(
        "sweeps",
        "One setting at a time",
        "mAP on the test items, or on the validation items of data without a test split, while one "
        "setting takes several values and everything else stays: mean over seeds, the bar is one "
        "standard deviation. Dashed: a baseline without the setting; dotted: "
        "the default. Such curves are LASD, Fig. 1, GR, Fig. 2 and LAC, Figs. 3-5 for options of "
        "these methods; Cole et al. 2021, Fig. 1 for the number of labels (train_share) and "
        "App. B for a wrong number of positives (expected_positives); the general missing-label "
        "setting of EM for the share of positives kept (keep).",
        tuple(blocks),
    )


def _about(document: Document) -> str:
    return str(document.get("title") or "")


def _table(document: Document) -> Table:
    """The numbers behind a sweep."""
    sd = any(row.get("test_sd") is not None for row in document["rows"])
    columns = [("data", ""), ("method", ""), (str(document["over"]), "value of the setting")]
    columns += [("mAP in %", "test, or validation without a test split")]
    labels = any(row.get("labels") for row in document["rows"])
    columns += [("seen labels", "labels that training saw")] if labels else []
    columns += [("lr", "learning rate"), ("seeds", "trainings behind the row")]
    rows = []
    for row in document["rows"]:
        value = score(row)
        cells = [
            Cell(str(row["data"])),
            Cell(str(row["method"])),
            _value(row["value"]),
            Cell("–") if value is None else Cell(spread(value, row.get("test_sd")), value),
        ]
        cells += [_value(row.get("labels"))] if labels else []
        cells += [_value(row.get("lr")), _value(row.get("seeds"))]
        rows.append(tuple(cells))
    caption = f"{document['over']}: mAP{' ± standard deviation over seeds' if sd else ''}"
    return Table(caption, tuple(columns), tuple(rows), text=2)


def _value(value: Any) -> Cell:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Cell(f"{value:,}" if isinstance(value, int) else f"{value:g}", float(value))
    return Cell("–" if value is None else str(value))


def ablations(material: Material) -> Section | None:
    """Tables of a method without some of its parts."""
    found = [document for document in material.of("ablation") if document["rows"]]
    if not found:
        return None
    return Section(
        "ablations",
        "Parts switched off",
        "What the parts of a method are worth, by leaving them out as in LASD, Table 3, GR, "
        "Table 3 and LAC, Table 3. “Change” is test mAP minus that of the whole method, in points.",
        tuple(_ablation(document) for document in found),
    )


def _ablation(document: Document) -> Table:
    columns = (
        ("what is left", ""),
        ("row of the paper", ""),
        (split_of(document["rows"]), "mean ± standard deviation over seeds, in %"),
        ("change", "points of test mAP against the whole method"),
        ("options", "that switch the rest off"),
        ("seeds", "trainings behind the row"),
    )
    parts = ABLATIONS.get(str(document["method"]), [])
    full = {part.name for part in parts if part.is_full}
    rows = []
    for row in document["rows"]:
        value, change = score(row), row.get("change")
        whole = row["name"] in full
        rows.append(
            (
                Cell(str(row["name"]), strong=whole),
                Cell(str(row.get("paper") or "–")),
                Cell("–")
                if value is None
                else Cell(spread(value, row.get("test_sd")), value, whole),
                Cell("–") if change is None else Cell(f"{100 * change:+.2f}", change),
                Cell(options_text(row.get("options") or {}) or "–"),
                _value(row.get("seeds")),
            )
        )
    caption = f"{document['method']} on {document['data']}"
    notes = tuple(str(note) for note in document.get("notes", ()))
    return Table(caption, columns, tuple(rows), notes, text=2)
