"""Public data sets in their download layout as label tables, checked against published counts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from plusone.data.public.base import WAYS, Count, Expected, PublicData, compare, settle_images
from plusone.data.public.coco import COCO
from plusone.data.public.cub import CUB
from plusone.data.public.nuswide import NUSWIDE
from plusone.data.public.voc import VOC
from plusone.data.table import LabelTable
from plusone.errors import InputError

__all__ = ["PUBLIC", "SPLITS", "WAYS", "Count", "Expected", "Prepared", "PublicData", "prepare"]

PUBLIC: dict[str, PublicData] = {"voc": VOC, "coco": COCO, "nuswide": NUSWIDE, "cub": CUB}
SPLITS = ("papers", "official")


@dataclass(frozen=True)
class Prepared:
    """The result of `prepare`."""

    data: PublicData
    table: LabelTable
    expected: Expected
    counts: tuple[Count, ...]

    @property
    def differences(self) -> tuple[Count, ...]:
        """The counts that do not agree with the published ones."""
        return tuple(count for count in self.counts if not count.fits)

    @property
    def warnings(self) -> list[str]:
        """One sentence for each count that is not the published one."""
        title, source = self.data.title, self.expected.source
        return [f"{title}, {count.sentence} ({source})" for count in self.differences]


def prepare(
    name: str,
    root: Path | str,
    *,
    split: str = "papers",
    missing: str | None = None,
    seed: int = 1200,
) -> Prepared:
    """Reads a public data set in its download layout.

    The splits "papers" and "official" differ for NUS-WIDE only, whose split of the papers is drawn
    by the seed. Items whose image is missing are handled as `missing`, one of `WAYS`, or as usual
    for the data set.
    """
    root = Path(root)
    for value, allowed, what in (
        (name, tuple(PUBLIC), "data set"),
        (split, SPLITS, "split"),
        (missing or WAYS[0], WAYS, "choice of missing images"),
    ):
        if value not in allowed:
            raise InputError(f"{value!r} is no {what}; choose one of {', '.join(allowed)}")
    data = PUBLIC[name]
    if not root.is_dir():
        raise InputError(
            f"{root}: is not a folder; download {data.title} from {data.page} and unpack it there"
        )
    try:
        table = data.read(root)
    except OSError as error:
        raise InputError(f"{error.filename or root}: cannot be read ({error.strerror})") from None
    way = missing or data.missing
    table = settle_images(table, way, title=data.title, page=data.page)
    expected = data.expected
    if data.draw is not None and split == "papers":
        table = data.draw(table, seed)
    elif data.official is not None:
        expected = data.official
    return Prepared(data, table, expected, compare(table, expected))
