"""What was compared, and the figure to look at first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from plusone.report.blocks import Block, Code, Drawing, Facts, Section
from plusone.report.material import Group, Material, Result
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
from plusone.version import __version__

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


def summary(material: Material) -> Section:
    """Facts, commands, and a dot per method."""
    blocks: list[Block] = [Facts(tuple(_facts(material)))]
    for group in material.groups:
        if len(group.entries) > 1:
            blocks.append(Drawing(f"scores-{group.slug}", partial(_scores, group), _marks(group)))
    commands = [
        document["command"]
        for kind in ("bench", "sweep", "ablation")
        for document in material.of(kind)
        if document.get("command")
    ]
    if commands:
        blocks.append(Code("To repeat it", "\n".join(dict.fromkeys(commands))))
    elif material.runs:
        text = "plusone train DATA --recipe RUN/recipe.toml"
        blocks.append(Code("To repeat a run", text))
    intro = (
        "Models were trained to name all labels of an item although training saw only some of "
        "them, most often one positive per item. Scores are mean average precision (mAP)."
    )
    if any(entry.reference for group in material.groups for entry in group.entries):
        intro += " Reference methods saw more labels; they are shown apart and not ranked."
    return Section("summary", "Summary", intro, tuple(blocks))


def _facts(material: Material) -> Iterable[tuple[str, str]]:
    groups = material.groups
    seen: set[str] = set()
    for group in groups:
        run = group.example
        if run is not None and group.data not in seen:
            seen.add(group.data)
            yield group.data, describe(run)
    methods = list(dict.fromkeys(entry.method for group in groups for entry in group.entries))
    if methods:
        shown = ", ".join(methods[:12]) + (", …" if len(methods) > 12 else "")
        yield "methods", f"{len(methods)}: {shown}"
    runs = [run for group in groups for entry in group.entries for run in entry.runs]
    if runs:
        seeds = sorted({int(run["seed"]) for run in runs})
        yield "seeds", ", ".join(map(str, seeds))
        if on := {
            (str(run["selected_on"]), str(run.get("selected_by", "map")))
            for run in runs if run.get("selected_on")
        }:  # fmt: skip
            yield "chosen on", _chosen(on)
    rules = [str(document["settings"]["rule"]) for document in material.of("bench")
             if document.get("settings", {}).get("rule")]  # fmt: skip
    for rule in dict.fromkeys(rules):
        yield "settings", rule
    dates = [str(document["date"]) for document in material.of("bench") if document.get("date")]
    if dates:
        yield "trained until", max(dates)
    versions = sorted({str(run["version"]) for run in runs if run.get("version")})
    yield "made by", f"plusone {', '.join(versions) or __version__}"


def describe(run: Result) -> str:
    """A data set in a line."""
    items = run.get("items", {})
    parts = [f"{items[name]:,} {word} items"
             for name, word in (("train", "training"), ("val", "validation"), ("test", "test"))
             if items.get(name)]  # fmt: skip
    labels = run.get("labels")
    if labels:
        n, true = len(labels["classes"]), sum(labels["true"])
        parts.append(f"{n} classes")
        if items.get("train"):
            parts.append(f"{true / items['train']:.2f} positives per training item")
    return ", ".join(parts)


def _chosen(on: set[tuple[str, str]]) -> str:
    words = {"truth": "all labels of the validation items", "observed": "their seen labels alone"}
    return "the epoch by validation " + ", ".join(
        f"{'mAP' if by == 'map' else by} against {words.get(name, name)}"
        for name, by in sorted(on, reverse=True)
    )


def _marks(group: Group) -> str:
    """What the colours mean, as far as they are there."""
    words = ["Bold numbers, blue dots: the best and all within noise of it."]
    if group.find("an"):
        words.append("Red dot: an, whatever its place.")
    if any(entry.reference for entry in group.entries):
        words.append("Below, apart: references that saw more labels.")
    if ends := [name for name in ("an", "bce") if group.find(name)]:
        words.append(f"Dashed: {' and '.join(ends)}.")
    return " ".join(words)


def _scores(group: Group) -> Figure:
    known = [entry.row.get("test_map") is not None for entry in group.entries]
    tested = all(known)
    mixed = any(known) and not tested  # the marks are of other numbers than those drawn
    scores = [
        Score(
            name=entry.method,
            method=entry.method,
            mean=entry.score if tested else float(entry.row["val_map"]),
            sd=entry.row.get("test_sd") if tested else None,
            reference=entry.reference,
            top=bool(entry.row.get("best") or entry.row.get("within_noise")) and not mixed,
        )
        for entry in group.entries
    ]
    return score_dots(scores, group.name, split="test" if tested else "validation")
