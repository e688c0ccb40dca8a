"""Photos sorted into one folder per tag, as copies or as links."""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from plusone.errors import InputError
from plusone.io.files import replacing
from plusone.prediction.items import Skipped
from plusone.prediction.tags import Predictions
from plusone.probabilities.thresholds import Thresholds

UNSAFE = frozenset('/\\:*?"<>|')  # in names of folders, on one system or another
DEVICES = frozenset(
    ("con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(1, 10)))
)  # names that Windows reserves, whatever follows the first dot
LONGEST = 120  # bytes of a folder name; file systems allow 255 and encrypted ones fewer
SHOWN = 5  # renamed folders that are listed


def folder_name(name: str) -> str:
    """A class name as the name of one folder that every system accepts.

    >>> folder_name("../etc"), folder_name("sea/lake"), folder_name("NUL"), folder_name("cat")
    ('_._etc', 'sea_lake', '_NUL', 'cat')
    """
    text = "".join("_" if c in UNSAFE or not c.isprintable() else c for c in name)
    text = text.encode("utf-8", "replace")[:LONGEST].decode("utf-8", "ignore")
    text = text.strip().rstrip(".").rstrip()
    if text.startswith("."):  # hidden, or a step to another folder
        text = f"_{text[1:]}"
    if not text or text.split(".")[0].strip().lower() in DEVICES:
        text = f"_{text}"
    return text


def folder_names(classes: Iterable[str]) -> list[str]:
    """A different folder name for each class, also where case does not count.

    >>> folder_names(["a/b", "a_b", "A_B", "c"])
    ['a_b', 'a_b-2', 'A_B-3', 'c']
    """
    taken: set[str] = set()
    names = []
    for name in classes:
        choices = _numbered(folder_name(name), "")
        names.append(next(text for text in choices if text.casefold() not in taken))
        taken.add(names[-1].casefold())
    return names


def _numbered(stem: str, suffix: str) -> Iterator[str]:
    yield stem + suffix
    number = 2
    while True:
        yield f"{stem}-{number}{suffix}"
        number += 1


class TagFolders:
    """Copies or links each photo into the folder of each of its tags.

    Nothing is overwritten and nothing is written outside the folder. A photo that is there already
    is not copied again; another file of the same name leads to a name with a number.
    """

    def __init__(
        self, folder: Path, classes: Sequence[str], thresholds: Thresholds, *, links: bool = False
    ) -> None:
        self.folder, self.links = folder, links
        self.cuts = thresholds.array
        self.names = dict(zip(classes, folder_names(classes), strict=True))
        self.new = self.there = self.untagged = 0
        self.used: set[str] = set()

    def add(self, predictions: Predictions) -> None:
        """Copies or links some photos."""
        for row, path in enumerate(predictions.paths):
            labels = predictions.labels(row, self.cuts)
            self.untagged += not labels
            for label in labels:
                self.used.add(label)
                if self._put(path, self._tag_folder(label)):
                    self.new += 1
                else:
                    self.there += 1

    def _tag_folder(self, label: str) -> Path:
        folder = self.folder / self.names[label]
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise InputError(
                f"{folder}: is not a folder of its own, and photos are only written inside "
                f"{self.folder}; remove it, or choose another --copy-to"
            )
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _put(self, path: Path, folder: Path) -> bool:
        """Copies or links a photo; False if it is there already."""
        source = Path(os.path.realpath(path))
        for name in _numbered(path.stem, path.suffix):
            target = folder / name
            if not os.path.lexists(target):
                if self.links:
                    target.symlink_to(source)
                else:
                    with replacing(target) as part:
                        shutil.copy2(source, part)
                return True
            if self._is_same(source, target):
                return False
        raise AssertionError  # there is always a free number

    def _is_same(self, source: Path, target: Path) -> bool:
        if target.is_symlink():
            return self.links and os.path.realpath(target) == str(source)
        return not self.links and target.is_file() and filecmp.cmp(source, target, shallow=False)

    def end(self, skipped: Sequence[Skipped]) -> None:
        """Does nothing: every photo is whole."""

    def sentences(self) -> list[str]:
        """What was written, what was there, and which folders do not have the name of their tag."""
        kind = "links" if self.links else "copies"
        lines = [f"{self.new} {kind} in {self.folder}, one folder per tag"]
        if self.there:
            lines.append(f"{self.there} were there already")
        if self.untagged:
            lines.append(f"{self.untagged} photos have no tag and are in no folder")
        renamed = [label for label in sorted(self.used) if self.names[label] != label]
        lines += [f"the folder of {tag!r} is {self.names[tag]}" for tag in renamed[:SHOWN]]
        if len(renamed) > SHOWN:
            lines.append(f"... and {len(renamed) - SHOWN} more have other names than their tags")
        return lines


def refuse_own_copies(folder: Path, paths: Iterable[Path]) -> None:
    """Refuses to sort photos that are in the folder that they would be sorted into."""
    inside = os.path.abspath(folder) + os.sep
    if own := next((path for path in paths if os.path.abspath(path).startswith(inside)), None):
        raise InputError(
            f"{own}: is inside {folder}, where photos are copied to; choose another --copy-to"
        )
