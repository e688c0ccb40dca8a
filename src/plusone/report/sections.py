"""The sections of a report; each is there only where its data are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from plusone.report.blocks import Section
from plusone.report.classes import per_class
from plusone.report.curves import learning
from plusone.report.examples import examples
from plusone.report.hidden import hidden_labels
from plusone.report.labels import missing_positives, recovery
from plusone.report.loop import answers
from plusone.report.losses import intervals, regimes, surfaces
from plusone.report.maps import attention
from plusone.report.material import Material
from plusone.report.results import results
from plusone.report.settings import settings
from plusone.report.summary import summary
from plusone.report.sweeps import ablations, sweeps

SECTIONS: tuple[Callable[[Material], Section | None], ...] = (
    summary,
    results,
    learning,
    recovery,
    hidden_labels,
    missing_positives,
    sweeps,
    ablations,
    answers,
    regimes,
    intervals,
    surfaces,
    per_class,
)


def make_sections(material: Material, cache: Path, *, images: bool = True) -> list[Section]:
    """All sections that have something to show, in order.

    Args:
        material: What was found.
        cache: Folder for what takes long to compute.
        images: Whether images of items may be shown.
    """
    made = [make(material) for make in SECTIONS]
    made += [examples(material), attention(material, cache)] if images else []
    made.append(settings(material))
    return [section for section in made if section is not None]
