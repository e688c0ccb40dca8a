"""Average precision of each class."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from plusone.bench.statistics import mean_per_class
from plusone.report.blocks import Drawing, Section
from plusone.report.figures.classes import class_dots
from plusone.report.material import Entry, Group, Material
from plusone.report.style import colours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAN = float("nan")
COMPARED = 3


def per_class(material: Material) -> Section | None:
    """The best method beside AN and BCE, class by class."""
    groups = [group for group in material.groups if _scores(group)]
    if not groups:
        return None
    return Section(
        "classes",
        "Class by class",
        "Average precision on the test items of each class, mean over seeds. The best method "
        "stands beside assuming negatives (an) and training with all labels (bce), or beside the "
        "next best methods where these are not there.",
        tuple(Drawing(f"classes-{group.slug}", partial(_draw, group)) for group in groups),
    )


def _scores(group: Group) -> dict[str, list[float]]:
    """Test AP per class of the methods compared, the best first."""
    rivals = [entry for entry in group.ranked if not entry.reference and entry is not group.best]
    low = group.find("an")
    second = low if low is not None and low is not group.best else next(iter(rivals), None)
    wanted = [group.best, second, group.find("bce"), *group.ranked]
    found: dict[str, list[float]] = {}
    for entry in wanted:
        values = _mean(entry) if entry is not None and len(found) < COMPARED else []
        alike = all(len(values) == len(others) for others in found.values())
        if entry is not None and values and alike:  # else it had other classes
            found[entry.method] = values
    return found


def _mean(entry: Entry) -> list[float]:
    tables = [run["test_ap"] for run in entry.runs if run.get("test_ap") and run.get("labels")]
    means = mean_per_class(tables) if tables else []
    known = [NAN if value is None else value for value in means]
    return known if any(value == value for value in known) else []


def _draw(group: Group) -> Figure:
    scores = _scores(group)
    first = group.find(next(iter(scores)))
    assert first is not None
    classes = next(run["labels"]["classes"] for run in first.runs if run.get("labels"))
    return class_dots(classes, scores, colours(list(scores)), group.name)
