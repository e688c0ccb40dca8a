"""`write_report`: one HTML file from the results of runs, section by section."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from plusone.compare.documents import Ablation, Bench, Loop, Sweep
from plusone.io.files import write_text
from plusone.report.blocks import Block, Drawing, Picture, Section, Work
from plusone.report.classes import per_class
from plusone.report.curves import learning
from plusone.report.examples import examples
from plusone.report.gradients import regimes
from plusone.report.hidden import hidden_labels
from plusone.report.k_intervals import intervals
from plusone.report.loops import answers
from plusone.report.maps import attention
from plusone.report.material import FIGURES, Material, collect
from plusone.report.overview import summary
from plusone.report.owner import tags
from plusone.report.page import embed, render
from plusone.report.ranking_table import results
from plusone.report.settings import settings
from plusone.report.style import NARROW
from plusone.report.surfaces import surfaces
from plusone.report.sweeps import ablations, sweeps
from plusone.report.training_labels import missing_positives, recovery

__all__ = ["default_title", "figures_of", "write_report"]

Progress = Callable[[str, int, int], None]

# Tags, photos and what was reached come before these, settings and the losses' formulas after them.
SECTIONS: tuple[Callable[[Material], Section | None], ...] = (
    learning,
    recovery,
    hidden_labels,
    missing_positives,
    sweeps,
    ablations,
    answers,
    intervals,
    surfaces,
)
NO_FIGURES = "There are no figures because matplotlib, the extra plots, was not installed."


def write_report(
    places: Sequence[Path],
    out: Path,
    *,
    title: str | None = None,
    figures: Path | None = None,
    images: bool = True,
    on_progress: Progress | None = None,
) -> Path:
    """Writes a report of everything finished at or below some places.

    The figures are also written as PNG and SVG, by default beside `out`: into `figures` for
    `report.html`, into `NAME-figures` for another name, so that two reports do not mix. Images of
    items are not shown if the data must not be shared. `on_progress` is called with the name of the
    current block, the number of blocks done, and their total.
    """
    out = Path(out)
    material = collect([Path(place) for place in places])
    sections = _sections(material, out.parent / ".report-cache", images=images)
    folder = Path(figures) if figures is not None else figures_of(out)
    notes = []
    if find_spec("matplotlib") is None:
        sections, notes = _without_figures(sections), [NO_FIGURES]
    total = sum(isinstance(block, (Drawing, Work)) for part in sections for block in part.blocks)
    done = 0
    finished = []
    for section in sections:
        blocks: list[Block] = []
        for block in section.blocks:
            if isinstance(block, (Drawing, Work)):
                if on_progress is not None:
                    on_progress(block.name, done, total)
                done += 1
            blocks += _made(block, folder)
        finished.append(replace(section, blocks=tuple(blocks)))
    write_text(out, render(title or default_title(material), finished, notes))
    if on_progress is not None:
        on_progress("report", total, total)
    return out


def figures_of(out: Path) -> Path:
    """Where the figures of a report are by default.

    >>> figures_of(Path("report.html")).name, figures_of(Path("second.html")).name
    ('figures', 'second-figures')
    """
    return out.parent / (FIGURES if out.stem == "report" else f"{out.stem}-{FIGURES}")


def _sections(material: Material, cache: Path, *, images: bool) -> list[Section]:
    """All sections that have something to show, in order; others have no blocks."""
    opening, photos = tags(material), examples(material) if images else None
    figures = [summary(material), results(material)]
    if opening is None:
        made = [*figures, photos, per_class(material)]
    else:
        made = [opening, photos, per_class(material), *figures]
    made += [make(material) for make in SECTIONS]
    made += [attention(material, cache) if images else None, settings(material), regimes(material)]
    return [section for section in made if section is not None and section.blocks]


def default_title(material: Material) -> str:
    """A title from the title of the only document, or from methods and data."""
    kinds = (Bench, Sweep, Ablation, Loop)
    titles = [each.title for kind in kinds for each in material.of(kind) if each.title]
    if len(titles) == 1 and not material.runs:
        return titles[0]
    data = list(dict.fromkeys(group.data for group in material.groups))
    methods = {entry.method for group in material.groups for entry in group.entries}
    if not data:
        return titles[0] if titles else "Report"
    listed = ", ".join(data[:3]) + (" and more" if len(data) > 3 else "")
    count = next(iter(methods)) if len(methods) == 1 else f"{len(methods)} methods"
    return f"{count} on {listed}"


def _made(block: Block, folder: Path) -> Iterator[Block]:
    """The finished blocks of a block, with its figure drawn."""
    if isinstance(block, Work):
        yield from block.make()
    elif isinstance(block, Drawing):
        figure = block.draw()
        title, code = embed(figure, folder, block.name)
        yield Picture(block.name, title, code, block.note, figure.get_figwidth() <= NARROW)
    else:
        yield block


def _without_figures(sections: Sequence[Section]) -> list[Section]:
    """The sections without their figures; those that consist of figures only are left out."""
    remaining = [
        replace(
            section,
            blocks=tuple(block for block in section.blocks if not isinstance(block, Drawing)),
        )
        for section in sections
    ]
    return [section for section in remaining if section.blocks]
