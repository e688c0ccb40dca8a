"""What unobserved labels of some confidence are (GR, Fig. 5; LASD, Fig. 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from plusone.analysis.hidden import MIDDLES, FalseNegatives
from plusone.analysis.k_hat import KHat, posterior
from plusone.report.figures.lines import Line, draw_lines
from plusone.report.figures.panels import PANELS, name_outer, panels
from plusone.report.style import INK, MUTED, canvas, headline, plain, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Ink = Mapping[str, str]
ENOUGH = 20  # labels in a bin; bins with fewer are drawn pale


@styled
def false_negative_dots(
    found: Mapping[str, tuple[FalseNegatives, FalseNegatives]],
    k_hat: Mapping[str, KHat],
    ink: Ink,
    data: str,
    ideal: float | None = None,
) -> Figure:
    """Share of positives among unobserved labels of one confidence, first and last epoch.

    Args:
        found: For each method the counts after the first and after the last epoch.
        k_hat: What methods take for that share in the last epoch, where they say so.
        ink: Colours of the methods.
        data: Name of the data set.
        ideal: Positives per item (k), for the share under a well trained model (Eq. 6).
    """
    shown = dict(list(found.items())[:PANELS])
    figure, axes = panels(len(shown), 2.0)
    for axis, (name, (first, last)) in zip(axes, shown.items(), strict=False):
        colour = ink.get(name, MUTED)
        for counts, dot, label in ((first, MUTED, "first epoch"), (last, colour, "last epoch")):
            for enough, alpha in ((True, 0.85), (False, 0.3)):
                known = [
                    (p, share)
                    for p, share, n in zip(counts.p, counts.share, counts.labels, strict=True)
                    if share is not None and (n >= ENOUGH) == enough
                ]
                axis.plot(
                    [p for p, _ in known],
                    [share for _, share in known],
                    "o",
                    color=dot,
                    alpha=alpha,
                    markersize=3.2,
                    markeredgewidth=0,
                    label=label if enough else None,
                )
        if ideal is not None:
            axis.plot(MIDDLES, posterior(MIDDLES, ideal), color=INK, linewidth=1.2,
                      label=f"Eq. 6, k = {ideal:.2f}")  # fmt: skip
        if name in k_hat:
            curve = k_hat[name]
            axis.plot(curve.p, curve.k_hat, color=INK, linewidth=1.2, linestyle="--",
                      label="khat, Eq. 7")  # fmt: skip
        axis.set_title(plain(name, 20))
        axis.set_xlim(0, 1)
        axis.set_ylim(0, 1)
    name_outer(axes[: len(shown)], "probability", "FN / (FN + TN)")
    lines = {label: handle for axis in axes
             for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
             if label.startswith(("Eq.", "khat"))}  # fmt: skip
    if lines:
        figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=2)
    overall = next(iter(shown.values()))[1].overall or 0.0
    sure = {name: _above(last, 0.9) for name, (_, last) in shown.items()}
    known_sure = {name: share for name, share in sure.items() if share is not None}
    text = f"{plain(data)}: {_percent(overall)} % of unobserved labels are positive"
    if known_sure:
        best = max(known_sure, key=lambda name: known_sure[name])
        text += (
            f"; where {plain(best)} is sure of them (p ≥ 0.9), {100 * known_sure[best]:.0f} % are"
        )
    headline(figure, text)
    return figure


@styled
def predictive_lines(
    values: Mapping[float, tuple[Sequence[Line], Sequence[Line]]], ink: Ink, data: str
) -> Figure:
    """PPV and NPV at thresholds, per epoch.

    Args:
        values: For each threshold the lines of PPV and of NPV.
        ink: Colours of the methods.
        data: Name of the data set.
    """
    figure, axes = canvas(0.5 + 2.2 * len(values), len(values), 2, sharex=True)
    best: tuple[float, str, float] | None = None
    for row, (tau, pair) in enumerate(values.items()):
        for column, (name, lines) in enumerate(zip(("PPV", "NPV"), pair, strict=True)):
            axis = axes[2 * row + column]
            if name == "PPV":
                axis.set_ylim(-0.02, 1.02)
            draw_lines(axis, lines, ink)
            axis.set_title(f"{name} at {tau:g}")
            if name == "PPV":
                ends = [(line.mean[-1], line.name, tau) for line in lines
                        if line.mean and line.mean[-1] == line.mean[-1]]  # fmt: skip
                best = max([*ends, *([best] if best else [])], default=None)
    for axis in axes[-2:]:
        axis.set_xlabel("epoch")
    if best is None:
        headline(figure, f"{plain(data)}: no method is sure of enough unobserved labels at the end")
    else:
        headline(
            figure,
            f"{plain(data)}: of the unobserved labels that {plain(best[1])} puts above "
            f"{best[2]:g}, {100 * best[0]:.0f} % are positive at the end",
        )
    return figure


def _above(counts: FalseNegatives, p: float) -> float | None:
    pairs = [(share, n) for at, share, n in zip(counts.p, counts.share, counts.labels, strict=True)
             if at >= p and share is not None]  # fmt: skip
    total = sum(n for _, n in pairs)
    return sum(share * n for share, n in pairs) / total if total >= ENOUGH else None


def _percent(share: float) -> str:
    """A share in per cent, with two digits if it is small."""
    return f"{100 * share:.2g}" if share < 0.1 else f"{100 * share:.0f}"
