"""What predict writes about photos: a gallery, a folder per tag, XMP sidecars."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plusone.cli.checks import check_file, check_folder
from plusone.cli.processes import leads
from plusone.data.shards import shard_of
from plusone.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plusone.export.tag_folders import TagFolders
    from plusone.export.xmp import XmpTags
    from plusone.prediction.items import Items
    from plusone.prediction.tags import Sink
    from plusone.probabilities.thresholds import Thresholds

GalleryFile = Annotated[
    Path | None,
    typer.Option(
        "--gallery",
        metavar="FILE",
        help="An HTML page of the photos with tags and confidences, to filter and to sort.",
    ),
]
CopyTo = Annotated[
    Path | None,
    typer.Option(
        "--copy-to",
        metavar="FOLDER",
        help="Copy each photo into the folder of each of its tags; nothing is overwritten.",
    ),
]
Links = Annotated[
    bool, typer.Option("--links", help="With --copy-to: symbolic links instead of copies.")
]
WriteXmp = Annotated[
    bool,
    typer.Option(
        "--write-xmp",
        help="Write the tags to XMP files beside the photos (photo.jpg.xmp), for photo programs.",
    ),
]


@dataclass
class PhotoOutputs:
    """The outputs that need photos; all can be asked for at once."""

    gallery: Path | None
    copy_to: Path | None
    links: bool
    xmp: bool
    written: list[TagFolders | XmpTags] = field(default_factory=list)

    def __bool__(self) -> bool:
        return self.gallery is not None or self.copy_to is not None or self.xmp

    def check(self) -> None:
        """Refuses outputs that cannot be written, before any work is done for them."""
        if self.links and self.copy_to is None:
            raise InputError("--links: needs --copy-to FOLDER, where the links are made")
        if self.gallery is not None:
            check_file(self.gallery, flag="--gallery")
        if self.copy_to is not None:
            check_folder(self.copy_to, flag="--copy-to")

    def check_items(self, arguments: Sequence[str], items: Sequence[Items]) -> None:
        """Refuses items that are not image files."""
        for argument, one in zip(arguments, items, strict=True):
            if self and one.inputs is not None:
                raise InputError(
                    f"{argument}: has no image files, which --gallery, --copy-to and --write-xmp "
                    "need"
                )
            if (self.copy_to is not None or self.xmp) and any(map(shard_of, one.paths[:1])):
                raise InputError(
                    f"{argument}: its photos are inside of other files, and --copy-to and "
                    "--write-xmp need photos that are files of their own; --gallery shows them"
                )
        if self.copy_to is not None:
            from plusone.export.tag_folders import refuse_own_copies

            refuse_own_copies(self.copy_to, (path for one in items for path in one.paths))

    def sinks(
        self, files: ExitStack, title: str, classes: Sequence[str], cuts: Thresholds
    ) -> list[Sink]:
        """What predictions are written to; rank 0 writes."""
        from plusone.export.tag_folders import TagFolders
        from plusone.export.xmp import XmpTags
        from plusone.io.files import replacing
        from plusone.report.gallery import GalleryTags

        if not leads():
            return []
        if self.copy_to is not None:
            self.written.append(TagFolders(self.copy_to, classes, cuts, links=self.links))
        if self.xmp:
            self.written.append(XmpTags(cuts))
        if self.gallery is None:
            return [*self.written]
        temporary = files.enter_context(replacing(self.gallery))
        file = files.enter_context(temporary.open("w", encoding="utf-8"))
        return [*self.written, GalleryTags(file, title, classes, cuts)]

    def sentences(self) -> list[str]:
        """What was written."""
        lines = [line for one in self.written for line in one.sentences()]
        if self.gallery is not None and leads():
            size = self.gallery.stat().st_size / 1e6
            lines.append(f"gallery in {self.gallery} ({size:.1f} MB)")
        return lines
