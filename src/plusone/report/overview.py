"""Summary: what was compared, the command to repeat it, and the scores of all methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from plusone.compare.documents import Ablation, Bench, Sweep
from plusone.methods import ALL_LABELS, ASSUME_NEGATIVE
from plusone.report import style
from plusone.report.blocks import Block, Code, Drawing, Facts, Section
from plusone.report.material import Group, Material
from plusone.results import RunResult
from plusone.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS_LISTED = 12


def summary(material: Material) -> Section:
    """Facts, a figure of the scores of each group, and the commands."""
    blocks: list[Block] = [Facts(tuple(_facts(material)))]
    for group in material.groups:
        if len(group.entries) > 1:
            blocks.append(Drawing(f"scores-{group.slug}", partial(_scores, group), _legend(group)))
    documents = [*material.of(Bench), *material.of(Sweep), *material.of(Ablation)]
    commands = [document.command for document in documents if document.command]
    if commands:
        blocks.append(Code("To repeat it", "\n".join(dict.fromkeys(commands))))
    elif material.runs:
        blocks.append(Code("To repeat a run", "plusone train DATA --recipe RUN/recipe.toml"))
    intro = (
        "Models were trained to predict all labels of an item although training saw only some of "
        "them, most often one positive per item. Scores are mean average precision (mAP)."
    )
    if any(entry.reference for group in material.groups for entry in group.entries):
        intro += " Reference methods saw more labels; they are listed separately and not ranked."
    return Section("summary", "Summary", intro, tuple(blocks))


def _facts(material: Material) -> Iterable[tuple[str, str]]:
    groups = material.groups
    if len(groups) == 1 and (run := groups[0].only) is not None:
        yield "result", result(run, solved=groups[0].entries[0].row.solved)
    described: set[str] = set()
    for group in groups:
        if group.runs and group.data not in described:
            described.add(group.data)
            yield group.data, _describe(group.runs[0])
    entries = [entry for group in groups for entry in group.entries]
    methods = list(dict.fromkeys(entry.method for entry in entries))
    if methods:
        listed = ", ".join(methods[:METHODS_LISTED])
        count = "" if len(methods) == 1 else f"{len(methods)}: "
        more = ", …" * (len(methods) > METHODS_LISTED)
        yield "methods" if count else "method", f"{count}{listed}{more}"
    if runs := [run for entry in entries for run in entry.runs]:
        yield "seeds", ", ".join(map(str, sorted({run.seed for run in runs})))
    if steps := [run for entry in entries if not entry.row.solved for run in entry.runs]:
        yield "chosen on", _selection(steps)
    benches = material.of(Bench)
    for rule in dict.fromkeys(bench.settings.rule for bench in benches if bench.settings.rule):
        yield "settings", rule
    if dates := [bench.date for bench in benches if bench.date]:
        yield "trained until", max(dates)
    versions = sorted({run.version for run in runs if run.version})
    yield "made by", f"plusone {', '.join(versions) or __version__}"


def result(run: RunResult, *, solved: bool = False) -> str:
    """What one run reached, in a line."""
    words = {"truth": "", "known": " (against known labels)"}
    on = words.get(run.against, " (against seen labels alone)")
    parts = [] if run.test_map is None else [f"{100 * run.test_map:.1f} % test mAP{run.test_note}"]
    parts.append(f"{100 * run.val_map:.1f} % validation mAP{on}")
    stage = " of the last stage" if len(run.stage_val_map) > 1 else ""
    return ", ".join(parts) + ("" if solved else f"; epoch {run.best_epoch}{stage} was kept")


def _describe(run: RunResult) -> str:
    names = (("train", "training"), ("val", "validation"), ("test", "test"))
    parts = [f"{run.items[name]:,} {word} items" for name, word in names if run.items.get(name)]
    if run.labels is not None:
        parts.append(f"{len(run.labels.classes)} classes")
        if items := run.items.get("train"):
            parts.append(f"{sum(run.labels.true) / items:.2f} positives per training item")
    return ", ".join(parts)


def _selection(runs: Sequence[RunResult]) -> str:
    labels = {"truth": "all labels of the validation items", "observed": "their seen labels alone"}
    pairs = sorted({(run.selected_on, run.selected_by) for run in runs}, reverse=True)
    return "the epoch by validation " + ", ".join(
        f"{'mAP' if by == 'map' else by} against {labels.get(on, on)}" for on, by in pairs
    )


def _legend(group: Group) -> str:
    """The legend of the marks that the figure has."""
    words = ["Bold numbers, blue dots: the best method and all within noise of it."]
    if group.find(ASSUME_NEGATIVE):
        words.append(f"Red dot: {ASSUME_NEGATIVE}, wherever it ranks.")
    if any(entry.reference for entry in group.entries):
        words.append("Separate, below: references that saw more labels.")
    if ends := [name for name in style.FIXED if group.find(name)]:
        words.append(f"Dashed: {' and '.join(ends)}.")
    return " ".join(words)


@dataclass(frozen=True)
class Score:
    """One method on one data set."""

    method: str
    mean: float
    sd: float | None
    reference: bool = False
    top: bool = False


def _scores(group: Group) -> Figure:
    """The figure of a group: test mAP if all methods have it, else validation mAP."""
    known = [entry.row.test_map is not None for entry in group.entries]
    tested = all(known)
    marked = tested or not any(known)  # else the marks belong to numbers that are not drawn
    scores = [
        Score(
            method=entry.method,
            mean=entry.row.score if tested else entry.row.val_map,
            sd=entry.row.test_sd if tested else None,
            reference=entry.reference,
            top=marked and (entry.row.best or entry.row.within_noise),
        )
        for entry in group.entries
    ]
    return score_dots(scores, group.name, split="test" if tested else "validation")


@style.styled
def score_dots(scores: Sequence[Score], data: str, *, split: str = "test") -> Figure:
    """A dot per method, the best on top, with the standard deviation over seeds."""
    ordered = sorted(scores, key=lambda score: (not score.reference, score.mean))
    references = sum(score.reference for score in ordered)
    places = [
        float(row) + (0.6 if references and row >= references else 0.0)
        for row in range(len(ordered))
    ]
    figure, (axes,) = style.canvas(0.95 + 0.2 * (len(ordered) + 1), width=style.NARROW)
    by_method = {score.method: score for score in scores}
    for name, colour in style.FIXED.items():
        if name in by_method:
            axes.axvline(100 * by_method[name].mean, color=colour, linewidth=0.9, linestyle="--")
    for place, score in zip(places, ordered, strict=True):
        colour = style.INK if score.reference else style.BLUE if score.top else style.MUTED
        if score.method == ASSUME_NEGATIVE:
            colour = style.FIXED[score.method]
        mean, sd = 100 * score.mean, 100 * (score.sd or 0.0)
        axes.errorbar(mean, place, xerr=sd or None, color=colour, capsize=2.5, linewidth=1.3)
        axes.plot(mean, place, "o", color=colour, markersize=5.5)
        axes.annotate(
            f"{mean:.1f}",
            (1.0, place),
            xytext=(6, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            weight="bold" if score.top else "normal",
        )
    axes.set_yticks(places, [style.plain(score.method) for score in ordered])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.7, (places[-1] if places else 0) + 0.7)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"{split} mAP in %, bar = standard deviation over seeds")
    style.headline(figure, _finding(by_method, data, split))
    return figure


def _finding(scores: Mapping[str, Score], data: str, split: str) -> str:
    """Which method is best, and the scores of AN and of training with all labels."""
    rivals = [score for score in scores.values() if not score.reference]
    if not rivals:
        return f"{style.plain(data)}: only references, which saw more labels"
    best = max(rivals, key=lambda score: score.mean)
    tied = [score for score in rivals if score.top and score is not best]
    metric = "mAP" if split == "test" else f"{split} mAP"
    if tied:
        second = max(tied, key=lambda score: score.mean)
        others = style.plain(second.method) if len(tied) == 1 else f"{len(tied)} others"
        text = f"{style.plain(best.method)} and {others} are best, within noise of each other"
        text += f": {100 * best.mean:.1f} % {metric}"
    else:
        text = f"{style.plain(best.method)} is best with {100 * best.mean:.1f} % {metric}"
    marks = [
        f"{100 * scores[name].mean:.1f} {words}"
        for name, words in (
            (ASSUME_NEGATIVE, "assuming negatives"),
            (ALL_LABELS, "with all labels"),
        )
        if name in scores and name != best.method
    ]
    return f"{style.plain(data)}: {text}" + (f" ({', '.join(marks)})" if marks else "")
