"""`write_report`: one HTML file from what trainings left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from plusone.io.files import write_text
from plusone.report.blocks import Block, Drawing, Picture, Section, Work
from plusone.report.material import Material, collect
from plusone.report.page import embed, render
from plusone.report.sections import make_sections
from plusone.report.style import NARROW

Progress = Callable[[str, int, int], None]
NO_FIGURES = "There are no figures here: pip install 'plusone[plots]' brings what draws them."


def write_report(
    places: Sequence[Path],
    out: Path,
    *,
    title: str | None = None,
    figures: Path | None = None,
    images: bool = True,
    on_progress: Progress | None = None,
) -> Path:
    """Writes a report of all that is finished at or below some places.

    Args:
        places: Run, bench, sweep and ablation folders, or folders that hold them.
        out: The HTML file.
        title: Its heading; made from the data by default.
        figures: Folder for the figures as PNG and SVG; `figures` beside `out` by default.
        images: Whether images of items are shown; not where the data may not be passed on.
        on_progress: Called with what is being made, how much is done, and how much there is.

    Returns:
        `out`.

    Raises:
        InputError: If there is nothing to report.
    """
    out = Path(out)
    material = collect([Path(place) for place in places])
    sections = make_sections(material, out.parent / ".report-cache", images=images)
    folder = Path(figures) if figures is not None else out.parent / "figures"
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


def default_title(material: Material) -> str:
    """What the report is about."""
    kinds = ("bench", "sweep", "ablation", "loop")
    titles = [str(one["title"]) for kind in kinds for one in material.of(kind) if one.get("title")]
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
    """A block with everything drawn."""
    if isinstance(block, Work):
        yield from block.make()
    elif isinstance(block, Drawing):
        figure = block.draw()
        title, code = embed(figure, folder, block.name)
        yield Picture(block.name, title, code, block.note, figure.get_figwidth() <= NARROW)
    else:
        yield block


def _without_figures(sections: Sequence[Section]) -> list[Section]:
    """The sections that are more than figures."""
    kept = [
        replace(
            section,
            blocks=tuple(block for block in section.blocks if not isinstance(block, Drawing)),
        )
        for section in sections
    ]
    return [section for section in kept if section.blocks]
