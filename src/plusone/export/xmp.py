"""XMP sidecars: a small file beside each photo with its tags as `dc:subject`.

Photo programs such as digiKam and darktable read `photo.jpg.xmp` beside `photo.jpg`. The photos
themselves are never opened for writing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape, unescape

from plusone.io.files import replacing
from plusone.prediction.items import Skipped
from plusone.prediction.tags import Predictions
from plusone.probabilities.thresholds import Thresholds

SUFFIX = ".xmp"
LARGEST = 1 << 20  # bytes of a sidecar that may be one of ours
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
TAG = re.compile("<rdf:li>(.*)</rdf:li>")


def sidecar(tags: Sequence[str]) -> str:
    """The text of a sidecar with these tags.

    >>> "<rdf:li>salt &amp; pepper</rdf:li>" in sidecar(["salt & pepper"])
    True
    """
    lines = "".join(f"     <rdf:li>{escape(_text(tag))}</rdf:li>\n" for tag in tags)
    return f"""<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="plusone">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/">
   <dc:subject>
    <rdf:Bag>
{lines}    </rdf:Bag>
   </dc:subject>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>
"""


def _text(tag: str) -> str:
    """A tag on one line, without characters that XML cannot hold."""
    return NOT_XML.sub("\ufffd", " ".join(tag.split()))


class XmpTags:
    """Writes a sidecar beside each photo that has a tag.

    A sidecar that is there stays as it is, unless plusone wrote it and nothing changed it since:
    then it gets the new tags.
    """

    def __init__(self, thresholds: Thresholds) -> None:
        self.cuts = thresholds.array
        self.written = 0
        self.kept: list[Path] = []

    def add(self, predictions: Predictions) -> None:
        """Writes the sidecars of some photos."""
        for row, path in enumerate(predictions.paths):
            tags = predictions.labels(row, self.cuts)
            target = path.with_name(path.name + SUFFIX)
            there = target.exists() or target.is_symlink()
            if there and not _is_ours(target):
                self.kept.append(target)
            elif tags or there:
                with replacing(target) as part:
                    part.write_text(sidecar(tags), encoding="utf-8")
                self.written += 1

    def end(self, skipped: Sequence[Skipped]) -> None:
        """Does nothing: every sidecar is whole."""

    def sentences(self) -> list[str]:
        """What was written, and what was not."""
        lines = [f"{self.written} sidecar files with tags beside the photos"]
        if self.kept:
            lines.append(
                f"{len(self.kept)} sidecar files of other programs were left as they are, such as "
                f"{self.kept[0]}"
            )
        return lines


def _is_ours(path: Path) -> bool:
    """Whether a sidecar is exactly what `sidecar` writes for the tags in it."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
        return False
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return text == sidecar([unescape(tag) for tag in TAG.findall(text)])
