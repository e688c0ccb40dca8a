"""Losses by themselves: their slopes, the surface around solutions; and what k they may be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from plusone.analysis.runs import read_epochs
from plusone.errors import InputError
from plusone.report.blocks import Drawing, Note, Section
from plusone.report.material import Document, Group, Material, Result
from plusone.report.style import (
    BLUE,
    INK,
    MUTED,
    PAPER,
    canvas,
    colours,
    headline,
    plain,
    plain_ticks,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@styled
def k_intervals(found: Sequence[dict[str, Any]]) -> Figure:
    """A bar from low to high for each sample size, the true k as a line.

    Args:
        found: What `intervals.json` files hold.
    """
    tall = 0.9 + sum(0.26 * (len(one["rows"]) + 1) for one in found)
    figure, (axes,) = canvas(max(1.8, tall))
    names, places, place = [], [], 0.0
    for one in found:
        top = place
        for row in sorted(one["rows"], key=lambda row: row["size"]):
            axes.plot([row["low"], row["high"]], [place, place], color=BLUE, linewidth=5,
                      solid_capstyle="butt")  # fmt: skip
            axes.annotate(
                f"{row['low']:.1f} – {row['high']:.1f}",
                (row["high"], place),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
            )
            names.append(f"{plain(one['data'], 16)}, {row['size']} items")
            places.append(place)
            place -= 1.0
        axes.plot([one["k"]] * 2, [top + 0.4, place + 0.6], color=INK, linewidth=1.2)
        axes.annotate(f"k = {one['k']:.2f}", (one["k"], top + 0.4), xytext=(0, 2),
                      textcoords="offset points", ha="center", fontsize=8)  # fmt: skip
        place -= 0.6
    axes.set_yticks(places, names)
    axes.set_ylim(place + 0.4, 1.0)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.12)
    axes.set_xlabel("positives per item, as a sample of that size would tell")
    headline(figure, interval_finding(found))
    return figure


def interval_finding(found: Sequence[dict[str, Any]]) -> str:
    """How far off the largest samples are."""
    parts = []
    for one in found:
        row = max(one["rows"], key=lambda row: row["size"])
        off = max(row["high"] - one["k"], one["k"] - row["low"])
        text = f"{plain(one['data'])}: {row['size']} items tell k to within {off:.1f}"
        parts.append(f"{text} in {100 * float(one.get('level', 0.9)):g} % of draws")
    return "; ".join(parts)


DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))  # one per epoch shown
REGIMES_SHOWN = 12
CONFIDENT = 0.9  # the probability that the headline speaks of


@styled
def gradient_regimes(data: dict[str, Any]) -> Figure:
    """Loss and its slope against the probability, for seen positives and unobserved labels.

    Args:
        data: What `gradients.json` holds: `p` and `curves`, each with `method`, `label`, `epoch`,
            and `observed` and `unobserved` with their `loss` and `grad` along `p`.
    """
    p, curves = data["p"], data["curves"][:REGIMES_SHOWN]
    figure, axes = canvas(5.4, 2, 2, sharex=True)
    ink = colours([curve["method"] for curve in curves])
    seen: dict[str, int] = {}
    for curve in curves:
        turn = seen[curve["method"]] = seen.get(curve["method"], -1) + 1
        look: dict[str, Any] = {
            "color": ink[curve["method"]],
            "linestyle": DASHES[turn % len(DASHES)],
        }
        label = plain(curve.get("label") or curve["method"])
        for column, kind in enumerate(("observed", "unobserved")):
            axes[column].plot(p, _numbers(curve[kind]["loss"]), label=label, **look)
            axes[2 + column].plot(p, _numbers(curve[kind]["grad"]), **look)
    for place, title in ((0, "Seen positive"), (1, "Unobserved label")):
        axes[place].set_title(title)
        axes[place].set_xlim(0, 1)
        axes[2 + place].set_xlabel("predicted probability p")
        axes[2 + place].axhline(0, color=INK, linewidth=0.7)
        _limit(axes[place], [curve[("observed", "unobserved")[place]]["loss"] for curve in curves])
    axes[0].set_ylabel("loss")
    axes[2].set_ylabel("slope d loss / d logit")
    for word, height, side in (("pushes p down", 1.0, "top"), ("pushes p up", 0.0, "bottom")):
        axes[3].text(1.015, height, word, transform=axes[3].transAxes, va=side, color=MUTED,
                     fontsize=8, rotation=270)  # fmt: skip
    names = axes[0].get_legend_handles_labels()
    figure.legend(*names, loc="outside lower center", ncols=min(4, max(1, len(curves))))
    headline(figure, regime_finding(data))
    return figure


def regime_finding(data: dict[str, Any]) -> str:
    """Which loss pushes a confident unobserved label hardest, and which least."""
    place = min(range(len(data["p"])), key=lambda number: abs(data["p"][number] - CONFIDENT))
    slopes = sorted(
        (curve["unobserved"]["grad"][place], plain(curve.get("label") or curve["method"]))
        for curve in data["curves"][:REGIMES_SHOWN]
        if curve["unobserved"]["grad"][place] is not None
    )
    if not slopes:
        return "Loss and slope of a label against its predicted probability"
    (low, least), (high, most) = slopes[0], slopes[-1]
    text = f"An unobserved label at p = {CONFIDENT:g}: {most} {_push(high)}"
    return text if len(slopes) == 1 else f"{text}, {least} {_push(low)}"


def _push(slope: float) -> str:
    if abs(slope) < 0.005:
        return "leaves it alone"
    return f"pushes it {'down' if slope > 0 else 'up'} (slope {slope:.2f})"


def _numbers(values: list[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def _limit(axes: Axes, tables: list[list[float | None]]) -> None:
    """Losses grow without end at the borders: the axis shows where most of them are."""
    flat = sorted(value for table in tables for value in table if value is not None)
    if flat:
        low, high = flat[0], flat[min(len(flat) - 1, int(0.97 * len(flat)))]
        room = 0.06 * (high - low or 1.0)
        axes.set_ylim(low - room, high + room)


SURFACES_SHOWN = 6
LEVELS = 12


@styled
def loss_surfaces(surfaces: Sequence[dict[str, Any]]) -> Figure:
    """Contours of how much the loss rises; each panel from 0 to its own highest rise.

    Losses of different methods have different units, so only shapes can be compared.

    Args:
        surfaces: What `surface.json` files of one data set hold; their centres must be known.
    """
    shown = list(surfaces[:SURFACES_SHOWN])
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    side = 5.4 / columns if columns > 1 else 3.4
    figure, axes = canvas(0.9 + rows * (side + 0.15), rows, columns, sharex=True, sharey=True)
    levels = np.linspace(0, 1, LEVELS + 1) ** 2  # close together where it is flat
    drawn = None
    for axis, surface, name in zip(axes, shown, names(shown), strict=False):
        table = rise(surface)
        top = max(float(np.nanmax(table)), 0.0)
        share = np.ma.masked_invalid(table.T / (top or 1.0))
        x, y = surface["alphas"], surface["betas"]
        drawn = axis.contourf(x, y, share, levels=levels, cmap="cividis", extend="both")
        axis.plot(0, 0, "+", color=PAPER, markersize=8)
        axis.set_title(f"{plain(name, 24)}\nrises by up to {top:.2g}")
        axis.set_aspect("equal")
        axis.grid(visible=False)
    for axis in axes[len(shown) :]:
        axis.set_visible(False)
    if drawn is not None:
        bar = figure.colorbar(drawn, ax=axes, shrink=0.8, pad=0.02)
        bar.set_label("share of the highest rise")
        bar.set_ticks([float(f"{level:.2g}") for level in levels[::3]])
        plain_ticks(bar.ax.yaxis)
        bar.ax.grid(visible=False)
    headline(figure, surface_finding(surfaces))
    return figure


def names(surfaces: Sequence[dict[str, Any]]) -> list[str]:
    """What to call each surface: its method, with the run folder where methods repeat."""
    methods = [str(surface["method"]) for surface in surfaces]
    return [
        method if methods.count(method) == 1 else f"{method} ({_run(surface)})"
        for method, surface in zip(methods, surfaces, strict=True)
    ]


def rise(surface: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """How much the loss exceeds that of the solution; NaN where it is not finite."""
    table = np.array(surface["loss"], dtype=np.float64)
    middle = table[len(table) // 2, len(table[0]) // 2]
    found: np.ndarray[Any, np.dtype[np.float64]] = table - middle
    return found


def rise_halfway(surface: dict[str, Any]) -> float:
    """Mean rise at half the extent, in the units of the loss."""
    from plusone.analysis.surface import Surface, mean_rise

    known = Surface(**{field.name: surface[field.name] for field in fields(Surface)})
    return mean_rise(known, known.extent / 2)


def surface_finding(surfaces: Sequence[dict[str, Any]]) -> str:
    """How much each loss rises; units differ, so nothing is ranked."""
    shown = list(surfaces[:SURFACES_SHOWN])
    parts = [
        f"{plain(name)} {_number(rise_halfway(surface))}"
        for name, surface in zip(names(shown), shown, strict=True)
    ]
    units = " (each in its own units)" if len(parts) > 1 else ""
    data = plain(shown[0].get("data") or "")
    start = f"{data}: rise" if data else "Rise"
    return f"{start} of the loss halfway to the border: {', '.join(parts)}{units}"


def _run(surface: dict[str, Any]) -> str:
    return PurePath(str(surface.get("run") or "")).name or f"seed {surface['seed']}"


def _number(value: float) -> str:
    return "not finite" if value != value else f"{value:.2g}"


MOST = 6  # methods in a figure that is made for the report
UNKNOWN_EPOCHS = 10  # of a training whose records are gone


def regimes(material: Material) -> Section | None:
    """Loss and slope against the probability (GR, Fig. 1; EM)."""
    draws = [partial(gradient_regimes, document) for document in material.of("gradients")]
    if not draws and material.groups and (names := _curved(material.groups)):
        draws = [partial(_regimes, material.groups[0], names)]
    if not draws:
        return None
    return Section(
        "regimes",
        "What losses ask for",
        "Loss and slope d loss / d logit of one label against the model's probability of it, for a "
        "seen positive and for an unobserved label (GR, Fig. 1; EM). They follow from the formulas "
        "alone: nothing is trained. A positive slope pushes the probability down. Losses that move "
        "over the epochs are shown in the first and in the last one. "
        "More: plusone gradients METHOD...",
        tuple(Drawing(f"regimes-{place}", draw) for place, draw in enumerate(draws, start=1)),
    )


def _curved(groups: tuple[Group, ...]) -> list[str]:
    """Methods in focus whose loss has such a curve."""
    from plusone.methods import METHODS

    names = [entry.method for entry in groups[0].focus if not entry.reference]
    return [name for name in names if name in METHODS and not METHODS[name].no_curve][:MOST]


def _regimes(group: Group, names: list[str]) -> Figure:
    from plusone.analysis.gradients import gradient_curves

    options: dict[str, Any] = {}
    classes, k = 20, 1.5
    known = []
    for name in names:
        entry = group.find(name)
        assert entry is not None
        options[name] = entry.row.get("options") or {}
        for run in entry.runs[:1]:
            known.append(_last_epochs(run))
            classes = max(len(run["labels"]["classes"]), 3) if run.get("labels") else classes
            k = float(run.get("k") or k)
    epochs = max(known, default=0) or UNKNOWN_EPOCHS
    found = gradient_curves(
        names,
        at=sorted({1, epochs}),
        epochs=epochs,
        options=options,
        classes=classes,
        k=k,
        points=59,
    )
    return gradient_regimes(found.to_dict())


def _last_epochs(run: Result) -> int:
    """Epochs of the last stage of a training; 0 if they were not kept."""
    try:
        stages = [int(epoch.get("stage", 0)) for epoch in read_epochs(run)]
    except InputError:
        return 0
    return stages.count(stages[-1]) if stages else 0


def intervals(material: Material) -> Section | None:
    """Intervals of k from a few labelled items (Cole et al. 2021, App. B)."""
    found = [document for document in material.of("intervals") if document["rows"]]
    if not found:
        return None
    level = 100 * float(found[0].get("level", 0.9))
    return Section(
        "intervals",
        "How many labelled items tell k",
        "Some methods must be told k, the mean number of positives per item. If it is counted on a "
        f"few fully labelled items, {level:.0f} % of such samples give a k inside these bars (Cole "
        "et al. 2021, App. B and Table A2; by drawing many samples without replacement).",
        (Drawing("k-intervals", partial(k_intervals, found)),),
    )


def surfaces(material: Material) -> Section | None:
    """The loss around solutions (EM)."""
    by_data: dict[str, list[Document]] = {}
    notes = []
    for document in material.of("surface"):
        if (middle := _centre(document)) is None or middle != middle:
            notes.append(Note(f"{document['method']}: its loss is not finite at the solution."))
        else:
            by_data.setdefault(str(document.get("data")), []).append(document)
    if not by_data:
        return None
    pages = [found[place : place + MOST] for found in by_data.values()
             for place in range(0, len(found), MOST)]  # fmt: skip
    return Section(
        "surfaces",
        "The loss around the solutions",
        "Each method's own training loss while the weights are moved away from the solution along "
        "two random directions, scaled so that 1 moves every filter by its own norm (EM, after "
        "Li et al. 2018). Losses have different units, so each panel goes from 0 at the solution "
        "to its own highest rise: compare shapes, not heights.",
        (
            *(Drawing(f"surface-{number}", partial(loss_surfaces, page))
              for number, page in enumerate(pages, start=1)),
            *notes,
        ),
    )  # fmt: skip


def _centre(document: Document) -> float | None:
    table = document["loss"]
    found: float | None = table[len(table) // 2][len(table[0]) // 2]
    return found
