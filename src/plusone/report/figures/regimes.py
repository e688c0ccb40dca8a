"""What a loss asks of a label at every probability (GR, Fig. 1; EM)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plusone.report.style import INK, MUTED, canvas, colours, headline, plain, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))  # one per epoch shown
SHOWN = 12
CONFIDENT = 0.9  # the probability that the headline speaks of


@styled
def gradient_regimes(data: dict[str, Any]) -> Figure:
    """Loss and its slope against the probability, for seen positives and unobserved labels.

    Args:
        data: What `gradients.json` holds: `p` and `curves`, each with `method`, `label`, `epoch`,
            and `observed` and `unobserved` with their `loss` and `grad` along `p`.
    """
    p, curves = data["p"], data["curves"][:SHOWN]
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
    headline(figure, finding(data))
    return figure


def finding(data: dict[str, Any]) -> str:
    """Which loss pushes a confident unobserved label hardest, and which least."""
    place = min(range(len(data["p"])), key=lambda number: abs(data["p"][number] - CONFIDENT))
    slopes = sorted(
        (curve["unobserved"]["grad"][place], plain(curve.get("label") or curve["method"]))
        for curve in data["curves"][:SHOWN]
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
