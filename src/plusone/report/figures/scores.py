"""Test mAP of every method, in order: the figure to look at first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plusone.report.style import (
    BLUE,
    INK,
    MUTED,
    NARROW,
    VERMILLION,
    canvas,
    headline,
    plain,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Score:
    """One method on one data set.

    Args:
        name: What to call it.
        method: Its name in the method table.
        mean: mAP, 0 to 1, mean over seeds.
        sd: Its standard deviation over seeds; None for one seed.
        reference: Whether it saw more labels than the others.
        top: Whether it is the best, or within noise of it.
    """

    name: str
    method: str
    mean: float
    sd: float | None
    reference: bool = False
    top: bool = False


@styled
def score_dots(scores: Sequence[Score], data: str, *, split: str = "test") -> Figure:
    """A dot per method, the best on top, with the spread over seeds.

    Args:
        scores: The methods; references are drawn apart, below.
        data: Name of the data set.
        split: What the mAP was measured on.
    """
    ordered = sorted(scores, key=lambda score: (not score.reference, score.mean))
    references = sum(score.reference for score in ordered)
    places = [
        float(row) + (0.6 if references and row >= references else 0.0)
        for row in range(len(ordered))
    ]
    figure, (axes,) = canvas(0.95 + 0.2 * (len(ordered) + 1), width=NARROW)
    by_method = {score.method: score for score in scores}
    for name, colour in (("an", VERMILLION), ("bce", INK)):
        if name in by_method:
            axes.axvline(100 * by_method[name].mean, color=colour, linewidth=0.9, linestyle="--")
    for place, score in zip(places, ordered, strict=True):
        colour = INK if score.reference else BLUE if score.top else MUTED
        if score.method == "an":
            colour = VERMILLION
        mean, sd = 100 * score.mean, 100 * (score.sd or 0.0)
        axes.errorbar(mean, place, xerr=sd or None, color=colour, capsize=2.5, linewidth=1.3)
        axes.plot(mean, place, "o", color=colour, markersize=5.5)
        weight = "bold" if score.top else "normal"
        axes.annotate(
            f"{mean:.1f}",
            (1.0, place),
            xytext=(6, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            weight=weight,
        )
    axes.set_yticks(places, [plain(score.name) for score in ordered])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.7, (places[-1] if places else 0) + 0.7)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"{split} mAP in %, bar = standard deviation over seeds")
    headline(figure, finding(by_method, scores, data, split))
    return figure


def finding(
    by_method: Mapping[str, Score], scores: Sequence[Score], data: str, split: str = "test"
) -> str:
    """Who won, if anybody did, and where that lies between AN and all labels."""
    rivals = [score for score in scores if not score.reference]
    if not rivals:
        return f"{plain(data)}: only references with more labels"
    best = max(rivals, key=lambda score: score.mean)
    near = [score for score in rivals if score.top and score is not best]
    what = "mAP" if split == "test" else f"{split} mAP"
    if near:
        second = max(near, key=lambda score: score.mean)
        others = plain(second.name) if len(near) == 1 else f"{len(near)} others"
        text = f"{plain(best.name)} and {others} cannot be told apart at the top"
        text += f": {100 * best.mean:.1f} % {what}"
    else:
        text = f"{plain(best.name)} is best with {100 * best.mean:.1f} % {what}"
    marks = [
        f"{100 * by_method[name].mean:.1f} {words}"
        for name, words in (("an", "assuming negatives"), ("bce", "with all labels"))
        if name in by_method and name != best.method
    ]
    text = f"{plain(data)}: {text}"
    return f"{text} ({', '.join(marks)})" if marks else text
