"""Losses by themselves: their slopes, the surface around solutions; and what k they may be told."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from plusone.analysis.load import read_epochs
from plusone.errors import InputError
from plusone.report.blocks import Drawing, Note, Section
from plusone.report.documents import Document
from plusone.report.figures.intervals import k_intervals
from plusone.report.figures.regimes import gradient_regimes
from plusone.report.figures.surfaces import loss_surfaces
from plusone.report.material import Group, Material
from plusone.report.places import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    from plusone.analysis.gradients import REFUSED
    from plusone.methods import METHODS

    names = [entry.method for entry in groups[0].focus if not entry.reference]
    return [name for name in names if name in METHODS and name not in REFUSED][:MOST]


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
