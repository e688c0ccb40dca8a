"""The page of the demo: how well the tagger does, and the best suggestions with the truth."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from plusone.compare.demo import Demo
from plusone.data.images import open_image
from plusone.io.files import write_text
from plusone.report.blocks import (
    Block,
    Cell,
    Chip,
    Code,
    Gallery,
    GalleryItem,
    Picture,
    Section,
    Table,
)
from plusone.report.page import embed, render
from plusone.report.style import BLUE, GREEN, canvas, headline, styled
from plusone.report.thumbnails import data_uri

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 24  # pictures with suggestions
LEAST_SHOWN = 0.2  # probability up to which the figure goes
TITLE = "Pictures with one tag each: a tagger, and the missing tags"
NEXT = """plusone train YOUR-PHOTOS --out run        # a folder per tag, or a CSV with image,labels
plusone predict run NEW-PHOTOS --gallery tags.html
plusone suggest run --out suggestions      # the tags that are missing
plusone review suggestions                 # yes or no, picture by picture"""


def write_demo(demo: Demo, path: Path) -> None:
    """Writes the page of a demo; its figure needs matplotlib, and is left out without it."""
    found: list[Block] = [_gallery(demo)]
    if find_spec("matplotlib") is not None:
        figure = _precision(demo.suggestions.probability, demo.right)
        title, code = embed(figure, path.parent / "figures", "precision")
        found.insert(0, Picture("precision", title, code))
    sections = (
        Section(
            "tagger",
            "The tagger",
            f"Trained on {demo.items:,} pictures with one tag each; measured on {demo.new:,} "
            "others, against all their labels.",
            (_table(demo),),
        ),
        Section("missing", "The missing tags", demo.sentence(), tuple(found)),
        Section("next", "Your own pictures", "", (Code("Four commands", NEXT),)),
    )
    write_text(path, render(TITLE, sections))


def _table(demo: Demo) -> Table:
    columns = (
        ("method", ""),
        ("mAP", "mean over classes of the average precision, per cent"),
        ("F1", "of all predicted labels, per cent"),
    )
    what = ("the default", "takes every tag that is not given as absent")
    rows = tuple(
        (
            Cell(f"{one.method}: {words}", strong=not place),
            Cell(f"{100 * one.test_map:.1f}"),
            Cell(f"{100 * one.f1:.1f}"),
        )
        for place, (one, words) in enumerate(zip(demo.trained, what, strict=True))
    )
    return Table("test pictures, against all labels", columns, rows)


def _gallery(demo: Demo) -> Gallery:
    """The pictures with the most probable suggestions, and whether these are right."""
    given, table = demo.suggestions, demo.suggestions.table
    best = np.argsort(-given.probability, kind="stable")
    rows = list(dict.fromkeys(given.row[best].tolist()))[:SHOWN]
    items = []
    for row in rows:
        places = [at for at in np.flatnonzero(given.row == row) if given.probability[at] >= 0.5]
        chips = tuple(
            Chip(
                f"{table.classes[given.label[at]]} {100 * given.probability[at]:.0f} %",
                "found" if demo.right[at] else "wrong",
            )
            for at in places
        )
        seen = tuple(Chip(table.classes[label], "seen") for label in table.labels.positives(row))
        image = data_uri(open_image(table.path(row)))
        items.append(GalleryItem(Path(table.ids[row]).name, image, seen, (("suggested", chips),)))
    title = "The most probable suggestions, each with its probability"
    return Gallery(title, tuple(items), ("seen", "found", "wrong"), pixelated=True)


@styled
def _precision(probability: npt.NDArray[np.float32], right: npt.NDArray[np.bool_]) -> Figure:
    """How precise the best suggestions are: as estimated, and in truth."""
    order = np.argsort(-probability, kind="stable")
    count = np.arange(1, len(order) + 1)
    shown = max(10, int((probability >= LEAST_SHOWN).sum()))
    estimated, true = (
        100 * np.cumsum(values[order], dtype=np.float64) / count for values in (probability, right)
    )
    figure, (axes,) = canvas(2.6)
    axes.plot(count, estimated, label="estimated from single tags", color=BLUE)
    axes.plot(count, true, label="true", color=GREEN)
    axes.set(xlabel="suggestions that are accepted, best first", ylabel="precision, %")
    axes.set_xlim(0, shown)
    axes.set_ylim(0, 100)
    axes.legend(frameon=False)
    off = float((estimated - true)[:shown].mean())
    way = "above" if off > 0 else "below"
    headline(figure, f"Without an audit the estimate is {abs(off):.0f} points {way} the truth")
    return figure
