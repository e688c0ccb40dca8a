"""Sweeps over one setting, and ablations of a method's parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from plusone.compare.documents import Ablation, Sweep, SweepRow, split_of
from plusone.compare.results_table import options_text, spread
from plusone.compare.rows import Outcome
from plusone.methods import METHODS
from plusone.report import style
from plusone.report.blocks import Block, Cell, Drawing, Section, Table
from plusone.report.material import Material

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WORDS = {
    "train_share": "share of the training items used",
    "keep": "share of positives kept",
    "expected_positives": "expected positives per item given to the method (k)",
}
CONSTANT = 0.0005  # a change of mAP that rounds to zero
LOGARITHMIC = 20  # ratio of the largest to the smallest value from which the axis is logarithmic
TICKS = 8  # values up to which each gets a tick


def sweeps(material: Material) -> Section:
    """A curve per method over the values of a setting."""
    found = [sweep for sweep in material.of(Sweep) if sweep.rows]
    blocks: list[Block] = []
    for number, sweep in enumerate(found, start=1):
        blocks.append(Drawing(f"sweep-{number}", partial(sweep_curves, sweep), sweep.title))
        blocks.append(_sweep_table(sweep))
    return Section(
        "sweeps",
        "Sensitivity to one setting",
        "mAP on the test items, or on the validation items of data without a test split, for "
        "several values of one setting while everything else stays the same: mean over seeds, the "
        "bar is one standard deviation. Dashed: a baseline without the setting; dotted: the "
        "default. Such curves are LASD, Fig. 1, GR, Fig. 2 and LAC, Figs. 3-5 for options of "
        "these methods; Cole et al. 2021, Fig. 1 for the number of labels (train_share) and "
        "App. B for a wrong number of positives (expected_positives); the general missing-label "
        "setting of EM for the share of positives kept (keep).",
        tuple(blocks),
    )


def _sweep_table(sweep: Sweep) -> Table:
    labels = any(row.labels for row in sweep.rows)
    columns = [("data", ""), ("method", ""), (sweep.over, "value of the setting")]
    columns += [("mAP in %", "test, or validation without a test split")]
    columns += [("seen labels", "labels that training saw")] if labels else []
    columns += [("lr", "learning rate"), ("seeds", "number of runs")]
    rows = []
    for row in sweep.rows:
        cells = [Cell(row.data), Cell(row.method), _value(row.value), _score(row)]
        cells += [_value(row.labels)] if labels else []
        cells += [_value(row.lr), _value(row.seeds)]
        rows.append(tuple(cells))
    sd = any(row.test_sd is not None for row in sweep.rows)
    caption = f"{sweep.over}: mAP{' ± standard deviation over seeds' if sd else ''}"
    return Table(caption, tuple(columns), tuple(rows), text=2)


def _value(value: Any) -> Cell:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Cell(f"{value:,}" if isinstance(value, int) else f"{value:g}", float(value))
    return Cell("–" if value is None else str(value))


def _score(row: Outcome, *, strong: bool = False) -> Cell:
    return Cell(spread(row.score, row.test_sd), row.score, strong)


@style.styled
def sweep_curves(sweep: Sweep) -> Figure:
    """The mAP against the values of a setting: a line per method, a panel per data set."""
    rows = sweep.rows
    sets = list(dict.fromkeys(row.data for row in rows)) or [""]
    columns = min(2, len(sets))
    lines = -(-len(sets) // columns)
    figure, axes = style.canvas(0.5 + 2.7 * lines, lines, columns)
    ink = style.colours(list(dict.fromkeys(row.method for row in rows)))
    for axis, data in zip(axes, sets, strict=False):
        _panel(axis, sweep, [row for row in rows if row.data == data], ink)
        if len(sets) > 1:
            axis.set_title(style.plain(data))
    for axis in axes[len(sets) :]:
        axis.set_visible(False)
    style.headline(figure, finding(sweep))
    return figure


def _panel(axes: Axes, sweep: Sweep, rows: Sequence[SweepRow], ink: dict[str, str]) -> None:
    """The lines of one data set, over the seen labels, the values, or their places in the list."""
    numbers = all(map(_is_number, sweep.values))
    labels = bool(rows) and all(row.labels for row in rows)
    places = {repr(value): place for place, value in enumerate(sweep.values)}

    def position(row: SweepRow) -> float:
        if labels:
            return row.labels or 0
        return float(row.value) if numbers else places[repr(row.value)]

    ends = []
    for method, colour in ink.items():
        line = sorted((row for row in rows if row.method == method), key=position)
        if not line:
            continue
        y = [100 * row.score for row in line]
        sd = [100 * (row.test_sd or 0.0) for row in line]
        axes.errorbar([position(row) for row in line], y, yerr=sd if any(sd) else None,
                      color=colour, marker="o", markersize=4, capsize=2, linewidth=1.5)  # fmt: skip
        ends.append((y[-1], method, colour))
    if sweep.baseline is not None and (score := sweep.baseline.score) is not None:
        axes.axhline(100 * score, color=style.VERMILLION, linestyle="--", linewidth=1.2)
        ends.append((100 * score, sweep.baseline.name, style.VERMILLION))
    drawn = sorted({position(row) for row in rows})
    if labels and len(drawn) > 1:
        _scale(axes, drawn, always=True)
        axes.set_xlabel("seen labels used in training")
    else:
        axes.set_xlabel(style.plain(sweep.label or WORDS.get(sweep.over, sweep.over), 60))
    if not numbers and not labels:
        axes.set_xticks(range(len(places)), [style.plain(value, 14) for value in sweep.values])
    elif not labels:
        _scale(axes, drawn)
        if _is_number(sweep.default):
            axes.axvline(sweep.default, color=style.MUTED, linewidth=0.9, linestyle=":")
            axes.annotate("default", (sweep.default, 1), xycoords=("data", "axes fraction"),
                          xytext=(3, -2), textcoords="offset points", va="top", color=style.MUTED,
                          fontsize=8)  # fmt: skip
    if numbers or labels:
        style.plain_ticks(axes.xaxis)
    axes.set_ylabel(f"{split_of(sweep.rows)} in %")
    style.end_labels(axes, ends)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _scale(axes: Axes, values: Sequence[float], *, always: bool = False) -> None:
    """A logarithmic axis for values of different magnitudes; ticks at the values if few."""
    from matplotlib.ticker import FixedLocator

    if values and values[0] > 0 and (always or values[-1] > LOGARITHMIC * values[0]):
        axes.set_xscale("log")
        axes.minorticks_off()
    if 0 < len(values) <= TICKS:
        axes.xaxis.set_major_locator(FixedLocator(values))


def finding(sweep: Sweep) -> str:
    """Which method depends most on the setting, and its best value."""
    name = style.plain(sweep.over.removeprefix("options."))
    lines: dict[tuple[str, str], list[tuple[float, Any]]] = {}
    for row in sweep.rows:
        lines.setdefault((row.data, row.method), []).append((row.score, row.value))
    if not lines:
        return f"mAP against {name}"
    best = {key: max(line, key=lambda pair: pair[0]) for key, line in lines.items()}
    spans = {key: best[key][0] - min(score for score, _ in line) for key, line in lines.items()}
    data, method = widest = max(spans, key=lambda key: spans[key])
    if spans[widest] < CONSTANT:
        who = style.plain(method) if len(spans) == 1 else "any method"
        return f"{name} does not affect {who}: mAP varies by {100 * spans[widest]:.2f} points"
    where = f" on {style.plain(data)}" if len({data for data, _ in lines}) > 1 else ""
    most = "" if len(spans) == 1 else ", more than of any other"
    return (
        f"mAP of {style.plain(method)}{where} varies by {100 * spans[widest]:.1f} points with "
        f"{name}{most}; it is best at {style.plain(best[widest][1])}"
    )


def ablations(material: Material) -> Section:
    """Tables of a method without some of its parts."""
    tables = [_ablation(ablation) for ablation in material.of(Ablation) if ablation.rows]
    return Section(
        "ablations",
        "Ablations",
        "Methods with some of their parts switched off, as in LASD, Table 3, GR, Table 3 and LAC, "
        "Table 3. “Change” is test mAP minus that of the full method, in points.",
        tuple(tables),
    )


def _ablation(ablation: Ablation) -> Table:
    columns = (
        ("parts", ""),
        ("row of the paper", ""),
        (split_of(ablation.rows), "mean ± standard deviation over seeds, in %"),
        ("change", "points of test mAP against the full method"),
        ("options", "that switch the other parts off"),
        ("seeds", "number of runs"),
    )
    info = METHODS.get(ablation.method)
    full = {part.name for part in info.ablation if part.is_full} if info else set()
    rows = tuple(
        (
            Cell(row.name, strong=row.name in full),
            Cell(row.paper or "–"),
            _score(row, strong=row.name in full),
            Cell("–") if row.change is None else Cell(f"{100 * row.change:+.2f}", row.change),
            Cell(options_text(row.options) or "–"),
            _value(row.seeds),
        )
        for row in ablation.rows
    )
    caption = f"{ablation.method} on {ablation.data}"
    return Table(caption, columns, rows, ablation.notes, text=2)
