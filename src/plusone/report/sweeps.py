"""Sweeps over a setting, and methods with parts switched off."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from plusone.compare.tables import options_text, spread
from plusone.methods import METHODS
from plusone.report.blocks import Block, Cell, Drawing, Section, Table
from plusone.report.material import Document, Material
from plusone.report.style import (
    MUTED,
    VERMILLION,
    canvas,
    colours,
    end_labels,
    headline,
    plain,
    plain_ticks,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Rows = Sequence[dict[str, Any]]
WORDS = {
    "train_share": "share of the training items used",
    "keep": "share of positives kept",
    "expected_positives": "expected positives per item given to the method (k)",
}

STILL = 0.0005  # a change of mAP that is none when it is told with a digit


@styled
def sweep_curves(sweep: dict[str, Any]) -> Figure:
    """MAP against the values of a setting, a line per method, a panel per data set.

    Args:
        sweep: What `sweep.json` holds.
    """
    rows = [row for row in sweep["rows"] if score(row) is not None]
    sets = list(dict.fromkeys(row["data"] for row in rows)) or [""]
    columns = min(2, len(sets))
    lines = -(-len(sets) // columns)
    figure, axes = canvas(0.5 + 2.7 * lines, lines, columns)
    methods = list(dict.fromkeys(row["method"] for row in rows))
    ink = colours(methods)
    for axis, data in zip(axes, sets, strict=False):
        here = [row for row in rows if row["data"] == data]
        _panel(axis, sweep, here, ink)
        if len(sets) > 1:
            axis.set_title(plain(data))
    for axis in axes[len(sets) :]:
        axis.set_visible(False)
    headline(figure, finding(sweep))
    return figure


def _panel(axes: Axes, sweep: dict[str, Any], rows: Rows, ink: dict[str, str]) -> None:
    values = list(sweep["values"])
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool)
                  for value in values)  # fmt: skip
    labels = "labels" if rows and all(row.get("labels") for row in rows) else None
    place = {_key(value): number for number, value in enumerate(values)}
    ends = []
    drawn: list[float] = []
    for method, colour in ink.items():
        of = [row for row in rows if row["method"] == method]
        x = [row[labels] if labels else row["value"] if numbers else place[_key(row["value"])]
             for row in of]  # fmt: skip
        of = [row for _, row in sorted(zip(x, of, strict=True), key=lambda pair: pair[0])]
        x = sorted(x)
        if not of:
            continue
        y = [100 * (score(row) or 0.0) for row in of]
        sd = [100 * (row.get("test_sd") or 0.0) for row in of]
        axes.errorbar(x, y, yerr=sd if any(sd) else None, color=colour, marker="o", markersize=4,
                      capsize=2, linewidth=1.5)  # fmt: skip
        ends.append((y[-1], method, colour))
        drawn += x
    base = sweep.get("baseline")
    if base and (found := score(base)) is not None:
        level = 100 * found
        axes.axhline(level, color=VERMILLION, linestyle="--", linewidth=1.2)
        ends.append((level, base["name"], VERMILLION))
    if labels and len(set(drawn)) > 1:
        _scale(axes, drawn, always=True)
        axes.set_xlabel("seen labels used in training")
    else:
        axes.set_xlabel(plain(sweep.get("label") or WORDS.get(sweep["over"], sweep["over"]), 60))
    if not numbers and not labels:
        axes.set_xticks(range(len(values)), [plain(value, 14) for value in values])
    elif not labels:
        _scale(axes, drawn)
        default = sweep.get("default")
        if isinstance(default, (int, float)) and not isinstance(default, bool):
            axes.axvline(default, color=MUTED, linewidth=0.9, linestyle=":")
            axes.annotate("default", (default, 1), xycoords=("data", "axes fraction"),
                          xytext=(3, -2), textcoords="offset points", va="top", color=MUTED,
                          fontsize=8)  # fmt: skip
    if numbers or labels:
        plain_ticks(axes.xaxis)
    axes.set_ylabel(f"{split_of(sweep['rows'])} in %")
    end_labels(axes, ends)


def _scale(axes: Axes, values: Sequence[float], *, always: bool = False) -> None:
    """A logarithmic axis where the values span more than 20 times; ticks at the values if few."""
    from matplotlib.ticker import FixedLocator

    known = sorted(set(values))
    if known and known[0] > 0 and (always or known[-1] > 20 * known[0]):
        axes.set_xscale("log")
        axes.minorticks_off()
    if 0 < len(known) <= 8:
        axes.xaxis.set_major_locator(FixedLocator(known))


def score(row: dict[str, Any]) -> float | None:
    """What a row is drawn by: test mAP, or validation mAP where there is no test split."""
    value = row.get("test_map")
    found: float | None = row.get("val_map") if value is None else value
    return found


def split_of(rows: Rows) -> str:
    """What `score` is of some rows: test or validation mAP, or some of each."""
    tested = [row.get("test_map") is not None for row in rows]
    return "test mAP" if all(tested) else "mAP" if any(tested) else "validation mAP"


def finding(sweep: dict[str, Any]) -> str:
    """Where the best value lies, and how much hangs on it."""
    rows = [row for row in sweep["rows"] if score(row) is not None]
    name = plain(str(sweep["over"]).removeprefix("options."))
    spans = []
    for key in dict.fromkeys((row["data"], row["method"]) for row in rows):
        of = [row for row in rows if (row["data"], row["method"]) == key]
        best, worst = max(of, key=_ranked), min(of, key=_ranked)
        spans.append((_ranked(best) - _ranked(worst), key[1], best["value"], key[0]))
    if not spans:
        return f"mAP against {name}"
    span, method, value, data = max(spans, key=lambda found: found[0])
    several = len({found[3] for found in spans}) > 1
    where = f" on {plain(data)}" if several else ""
    if span < STILL:
        who = f"{plain(method)} does not move" if len(spans) == 1 else "no method moves"
        return f"{who} with {name}: mAP stays within {100 * span:.2f} points"
    most = "" if len(spans) == 1 else ", more than any other"
    return (
        f"{plain(method)}{where} moves by {100 * span:.1f} points of mAP with {name}{most}; "
        f"it is best at {plain(value)}"
    )


def _ranked(row: dict[str, Any]) -> float:
    return score(row) or 0.0


def _key(value: Any) -> str:
    return repr(value)


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
    info = METHODS.get(str(document["method"]))
    full = {part.name for part in info.ablation if part.is_full} if info else set()
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
