"""The blocks of a page; `templates/blocks.html` renders each kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Note:
    """A paragraph."""

    text: str
    kind: ClassVar[str] = "note"


@dataclass(frozen=True)
class Facts:
    """Names and values."""

    pairs: tuple[tuple[str, str], ...]
    kind: ClassVar[str] = "facts"


@dataclass(frozen=True)
class Code:
    """Text to copy, such as a command."""

    label: str
    text: str
    kind: ClassVar[str] = "code"


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Args:
        value: What it is sorted by, if that is not the text.
    """

    text: str
    value: float | None = None
    strong: bool = False
    hint: str = ""


@dataclass(frozen=True)
class Table:
    """A table that can be sorted.

    Args:
        columns: Names and tooltips.
        rows: As many cells as columns each.
        text: How many columns from the left are text; the others are numbers.
        words: Names of columns further right that are text, too.
        quiet: Rows in grey, such as references.
    """

    caption: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    text: int = 1
    words: tuple[str, ...] = ("options",)
    quiet: frozenset[int] = frozenset()
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Download:
    """A file inside the page."""

    label: str
    file: str
    uri: str
    kind: ClassVar[str] = "download"


@dataclass(frozen=True)
class Drawing:
    """A figure that is not drawn yet."""

    name: str
    draw: Callable[[], Figure]
    note: str = ""
    kind: ClassVar[str] = "drawing"


@dataclass(frozen=True)
class Picture:
    """A drawn figure."""

    name: str
    title: str
    html: str
    note: str = ""
    narrow: bool = False
    kind: ClassVar[str] = "picture"


@dataclass(frozen=True)
class Chip:
    """A label of an example: seen, found, missed, wrong or likely.

    Args:
        part: The clearest part of the picture, if there is one.
    """

    name: str
    state: str
    part: tuple[float, float, float, float] | None = None


@dataclass(frozen=True)
class GalleryItem:
    """An item with its seen labels and the predictions of methods."""

    name: str
    image: str
    seen: tuple[Chip, ...]
    predicted: tuple[tuple[str, tuple[Chip, ...]], ...]
    text: str = ""

    @property
    def first_part(self) -> tuple[float, float, float, float] | None:
        """The part that is shown first."""
        chips = (chip for _, entries in self.predicted for chip in entries)
        return next((chip.part for chip in chips if chip.part is not None), None)


@dataclass(frozen=True)
class Gallery:
    """Example items, and the states that their chips may have."""

    title: str
    items: tuple[GalleryItem, ...]
    states: tuple[str, ...]
    pixelated: bool = False
    kind: ClassVar[str] = "gallery"


@dataclass(frozen=True)
class Strips:
    """Wide images: data URI and description."""

    images: tuple[tuple[str, str], ...]
    kind: ClassVar[str] = "strips"


@dataclass(frozen=True)
class Work:
    """Blocks that take some time to make."""

    name: str
    make: Callable[[], Sequence[Block]]
    kind: ClassVar[str] = "work"


Block = Note | Facts | Code | Table | Download | Drawing | Picture | Gallery | Strips | Work


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    id: str
    title: str
    intro: str
    blocks: tuple[Block, ...] = field(default=())
