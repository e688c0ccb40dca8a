"""Average precision of each class, and the thresholds of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from plusone.compare.jobs import JobResult
from plusone.compare.rows import mean_per_class
from plusone.data.checks import unseen_warnings
from plusone.data.classes_file import read_hierarchy
from plusone.errors import InputError
from plusone.methods import ALL_LABELS, ASSUME_NEGATIVE
from plusone.prediction.run_folder import read_description, read_observed
from plusone.probabilities.calibration import read_calibration
from plusone.probabilities.thresholds import read_thresholds
from plusone.report.blocks import Block, Cell, Drawing, Section, Table
from plusone.report.material import Entry, Group, Material
from plusone.report.owner import expected_of
from plusone.report.style import GRID, NAN, NARROW, canvas, colours, headline, plain, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scores = Mapping[str, Sequence[float]]

COMPARED_TEXT = (
    "Average precision on the test items of each class, mean over seeds. The best method is "
    "shown beside assuming negatives (an) and training with all labels (bce), or beside the "
    "next best methods where these are missing."
)
TABLE_TEXT = (
    "A class is predicted for an item if its probability is at least the threshold. Few seen items "
    "make a class hard to learn."
)
COMPARED = 3  # methods in a figure
SHOWN = 40  # classes in a figure
EXAMPLES = 4  # classes of a level that are named


def per_class(material: Material) -> Section:
    """The best method beside AN and BCE, class by class; a table of a single training."""
    blocks: list[Block] = []
    for group in material.groups:
        if group.only is not None and (table := class_table(group.only, group.name)) is not None:
            blocks += [*level_table(group.only), table]
        elif _scores(group):
            blocks.append(Drawing(f"classes-{group.slug}", partial(_draw, group)))
    compared = any(isinstance(block, Drawing) for block in blocks)
    return Section("classes", "Classes", COMPARED_TEXT if compared else TABLE_TEXT, tuple(blocks))


def class_table(run: JobResult, name: str) -> Table | None:
    """The classes of a run: seen positives, thresholds, AP; None if its run folder is gone."""
    found = thresholds_of(run)
    if found is None:
        return None
    thresholds, _ = found
    classes = list(thresholds)
    seen = _seen(run, classes)
    columns: list[tuple[tuple[str, str], list[Cell]]] = [
        (("class", ""), [Cell(each) for each in classes]),
        (
            ("seen", "training items on which it was seen"),
            [Cell("–") if count is None else Cell(f"{count:,}", count) for count in seen],
        ),
        (
            ("threshold", "predicted from this probability on, in %"),
            [Cell(f"{100 * value:.1f}", value) for value in thresholds.values()],
        ),
    ]
    notes: tuple[str, ...] = (
        "thresholds.json in the run folder holds the thresholds and may be edited.",
    )
    if None not in seen:
        notes = (*unseen_warnings(classes, [count or 0 for count in seen]), *notes)
    if (expected := expected_of(run)) is not None:
        notes = (
            "Given: held-out items that the model gives the class to. Right: how many of these "
            "have it; found: how many of the items that have it get it. Both in %, as its "
            "probabilities say.",
            *notes,
        )
        given, right, there = expected.given, expected.right, expected.there
        columns += [
            (
                ("given", "held-out items that the model gives it to"),
                [Cell(f"{value:.0f}", value) for value in given.tolist()],
            ),
            (
                ("right", "of these, in %, as expected"),
                [_share(part, whole) for part, whole in zip(right, given, strict=True)],
            ),
            (
                ("found", "of the items that have it, in %, as expected"),
                [_share(part, whole) for part, whole in zip(right, there, strict=True)],
            ),
        ]
    if run.test_ap and len(run.test_ap) == len(classes):
        aps = [Cell("–") if ap is None else Cell(f"{100 * ap:.1f}", ap) for ap in run.test_ap]
        columns.append((("test AP", "average precision on the test items, in %"), aps))
    return Table(
        name,
        tuple(head for head, _ in columns),
        tuple(zip(*(cells for _, cells in columns), strict=True)),
        notes=notes,
    )


def level_table(run: JobResult) -> list[Table]:
    """The test mAP of each level of the hierarchy of a run, if it has one."""
    if not run.run or not run.test_map_by_level:
        return []
    folder = Path(run.run)
    try:
        classes = read_description(folder).classes
        hierarchy = read_hierarchy(folder, classes)
    except (InputError, OSError):
        return []
    if hierarchy is None:
        return []
    rows = []
    for level, figure in enumerate(run.test_map_by_level, 1):
        own = [name for name, at in zip(classes, hierarchy.level, strict=True) if at == level]
        examples = ", ".join(own[:EXAMPLES]) + (", ..." if len(own) > EXAMPLES else "")
        known = Cell("–") if figure is None else Cell(f"{100 * figure:.2f}", figure)
        rows.append(
            (Cell(str(level), level), Cell(examples), Cell(f"{len(own):,}", len(own)), known)
        )
    columns = (
        ("level", "1 is the top"),
        ("for example", ""),
        ("classes", ""),
        ("test mAP", "mean of the average precision of its classes, in %"),
    )
    return [Table("Levels of the hierarchy", columns, tuple(rows), text=2)]


def _share(part: float, whole: float) -> Cell:
    return Cell(f"{100 * part / whole:.0f}", float(part / whole)) if whole else Cell("–")


def thresholds_of(run: JobResult) -> tuple[dict[str, float], dict[str, float]] | None:
    """Above which probability, and which raw score, each class is predicted; None if unknown."""
    if not run.run:
        return None
    folder = Path(run.run)
    try:
        classes = read_description(folder).classes
        thresholds = read_thresholds(folder, classes)
        scores = thresholds.of_scores(read_calibration(folder, classes))
    except (InputError, OSError):
        return None
    return thresholds.by_name(classes), scores.by_name(classes)


def _seen(run: JobResult, classes: Sequence[str]) -> list[int] | list[None]:
    """Seen positives of each class among the training items, as far as they are known."""
    if run.labels is not None and list(run.labels.classes) == list(classes):
        return list(run.labels.seen)
    try:
        table = read_observed(Path(run.run or ""))
    except (InputError, OSError):
        return [None] * len(classes)
    counts = dict(zip(table.classes, table.labels.per_class(1).tolist(), strict=True))
    return [int(counts.get(name, 0)) for name in classes]


def _scores(group: Group) -> dict[str, list[float]]:
    """Test AP per class of the methods compared, the best first."""
    rivals = [entry for entry in group.ranked if not entry.reference and entry is not group.best]
    an = group.find(ASSUME_NEGATIVE)
    second = an if an is not None and an is not group.best else next(iter(rivals), None)
    scores: dict[str, list[float]] = {}
    for entry in (group.best, second, group.find(ALL_LABELS), *group.ranked):
        if entry is None or len(scores) == COMPARED:
            continue
        values = _mean(entry)
        if values and all(len(values) == len(others) for others in scores.values()):
            scores[entry.method] = values  # else it had other classes
    return scores


def _mean(entry: Entry) -> list[float]:
    """Test AP per class, mean over seeds; empty if it is not known."""
    per_run = [run.test_ap for run in entry.runs if run.test_ap and run.labels is not None]
    means = mean_per_class(per_run) if per_run else []
    known = [NAN if value is None else value for value in means]
    return known if any(value == value for value in known) else []


def _draw(group: Group) -> Figure:
    scores = _scores(group)
    first = group.find(next(iter(scores)))
    assert first is not None
    classes = next(run.labels.classes for run in first.runs if run.labels is not None)
    return class_dots(classes, scores, colours(list(scores)), group.name)


@styled
def class_dots(classes: Sequence[str], scores: Scores, ink: Mapping[str, str], data: str) -> Figure:
    """A row per class, a dot per method, ordered by the first method.

    `scores` are the test AP per class by method, NaN for classes without positives; the first
    method is compared with the second.
    """
    first = np.asarray(next(iter(scores.values())), dtype=np.float64)
    order = [int(number) for number in np.argsort(first) if not np.isnan(first[number])]
    cut = len(order) > SHOWN
    if cut:
        order = order[: SHOWN // 2] + order[-SHOWN // 2 :]
    figure, (axes,) = canvas(1.2 + 0.19 * len(order), width=NARROW)
    for place, number in enumerate(order):
        known = [100 * values[number] for values in scores.values()]
        axes.plot([min(known), max(known)], [place, place], color=GRID, linewidth=2.2, zorder=1)
    for name, values in scores.items():
        axes.plot([100 * values[number] for number in order], range(len(order)), "o",
                  color=ink[name], markersize=5, label=plain(name), zorder=3)  # fmt: skip
    axes.set_yticks(range(len(order)), [plain(classes[number]) for number in order])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.8, len(order) - 0.2)
    axes.grid(axis="y", visible=False)
    note = f" ({SHOWN // 2} lowest and {SHOWN // 2} highest classes)" if cut else ""
    axes.set_xlabel(f"test AP in %{note}")
    figure.legend(loc="outside lower center", ncols=min(6, len(scores)))
    headline(figure, finding(classes, scores, data))
    return figure


def finding(classes: Sequence[str], scores: Scores, data: str) -> str:
    """In how many classes the first method beats the second, and where most."""
    names = list(scores)
    first = np.asarray(scores[names[0]], dtype=np.float64)
    if len(names) < 2:
        if np.isnan(first).all():
            return f"{plain(data)}: no class has positives to test on"
        low = int(np.nanargmin(first))
        return f"{plain(data)}: {plain(classes[low])} is hardest ({100 * first[low]:.0f} % AP)"
    gain = first - np.asarray(scores[names[1]], dtype=np.float64)
    known, one, other = int((~np.isnan(gain)).sum()), plain(names[0]), plain(names[1])
    if not known:
        return f"{plain(data)}: {one} and {other} have no class in common"
    best = int(np.nanargmax(gain))
    where, points = plain(classes[best]), 100 * gain[best]
    if points <= 0:
        behind = int((gain < 0).sum())
        count = f"all {known}" if behind == known else f"{behind} of {known}"
        text = f"{plain(data)}: {one} is behind {other} in {count} classes, least in {where}"
        return f"{text} ({-points + 0.0:.1f} points)"
    return (
        f"{plain(data)}: {one} beats {other} in {int((gain > 0).sum())} of {known} classes, most "
        f"in {where} ({points:+.1f} points)"
    )
