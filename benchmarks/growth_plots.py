"""Figures of `benchmarks/growth.py`: time and memory against N, L and D, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

WHAT = {
    "time": ("epoch_s", "seconds of an epoch"),
    "memory": ("peak_mb", "peak memory, MB"),
}
AXES = {"N": "items N", "L": "classes L", "D": "features D"}
COLOURS = {
    "pointwise": "#1b6ca8",
    "count": "#0f9d8a",
    "ranking": "#7a9a01",
    "one label": "#c79a00",
    "sampled": "#8a6d3b",
    "correcting": "#d1495b",
    "estimating": "#7b3fa0",
    "two views": "#444444",
    "label-wise": "#e07a1f",
}
STYLES = (("-", "o"), ("--", "s"), (":", "^"), ("-.", "D"))


def draw(
    rows: Sequence[Mapping[str, Any]],
    sizes: Mapping[str, Sequence[int]],
    base: Mapping[str, int],
    lines: Iterable[Any],
    folder: Path,
) -> None:
    """Writes `growth-time.svg` and `growth-memory.svg`.

    Args:
        rows: Points as `growth.sweep` gives them.
        sizes: The sizes along each axis.
        base: The sizes of the other axes meanwhile.
        lines: The methods, each with a name and a family.
        folder: Where to write.
    """
    folder.mkdir(parents=True, exist_ok=True)
    used: dict[str, int] = {}
    looks = {}
    for line in lines:
        place = used[line.family] = used.get(line.family, -1) + 1
        looks[line.name] = (COLOURS[line.family], *STYLES[place], line.family)
    settings = {"svg.fonttype": "none", "svg.hashsalt": "growth", "font.size": 9}
    with mpl.rc_context(settings):
        for name, (key, label) in WHAT.items():
            figure = Figure(figsize=(10.5, 4.6), layout="constrained")
            for panel, (axis, along) in zip(figure.subplots(1, 3, sharey=True), sizes.items(),
                                            strict=True):  # fmt: skip
                _panel(panel, rows, axis, key, looks)
                panel.set_xticks(along, [f"{size:,}" for size in along])
                panel.xaxis.set_minor_locator(NullLocator())
                panel.set_xlabel(AXES[axis])
                rest = ", ".join(f"{n} = {base[n]:,}" for n in AXES if n != axis)
                panel.set_title(rest, fontsize=9)
            first = figure.axes[0]
            first.set_ylabel(label)
            if name == "memory":
                first.set_yticks([250, 500, 1_000, 2_000, 4_000, 8_000])
                first.set_ylim(220, 8_500)
            first.yaxis.set_minor_locator(NullLocator())
            first.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
            handles, names = first.get_legend_handles_labels()
            figure.legend(handles, names, loc="outside right center", frameon=False, fontsize=8,
                          handlelength=3)  # fmt: skip
            figure.savefig(folder / f"growth-{name}.svg", metadata={"Date": None})


def _panel(
    panel: Any,
    rows: Sequence[Mapping[str, Any]],
    axis: str,
    key: str,
    looks: Mapping[str, tuple[str, str, str, str]],
) -> None:
    """One axis: a line per method."""
    for name, (colour, dash, marker, family) in looks.items():
        own = [row for row in rows if row["name"] == name and row["axis"] == axis and key in row]
        panel.plot(
            [row["size"] for row in own],
            [row[key] for row in own],
            color=colour,
            linestyle=dash,
            marker=marker,
            markersize=3.5,
            linewidth=1.2,
            label=f"{name} ({family})",
        )
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.grid(True, which="major", color="#dddddd", linewidth=0.6)
    panel.spines[["top", "right"]].set_visible(False)
