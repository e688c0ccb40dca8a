"""mAP against any setting (LASD, Fig. 1; GR, Fig. 2; LAC, Figs. 3-5; Cole et al., Fig. 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
