"""Image files that cannot be decoded: found before the work begins, and left out of it.

A data set is read as if their rows were not there, so one bad file among 100,000 does not end a
night of training. Where more than a tenth is bad, something else is wrong, and nothing begins.

What was found is kept in the cache folder, under a name made of the files' paths, sizes and times
of change: files that have not changed are not looked at again.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from plusone.data.dataset import Broken, Dataset
from plusone.data.images import fault
from plusone.errors import Problems
from plusone.io.files import cache_folder, in_turn, write_json, write_text
from plusone.io.keys import content_key, file_state
from plusone.io.readers import read_json

MOST = 0.1  # share of the images that may be broken
AT_ONCE = 1024
THREADS = 4
VERSION = 1  # to be raised when decoding changes
FILE = "broken.csv"


def without_broken(dataset: Dataset, on_image: Callable[[int, int], None] | None = None) -> Dataset:
    """The data set without the items whose image file cannot be decoded; `broken` names them.

    Args:
        dataset: The data; features, and items without files, are given back as they are.
        on_image: Called with how many files were looked at, and how many there are.

    Raises:
        InputError: More than a tenth of the files are broken.
    """
    table = dataset.table
    if dataset.features is not None or table.root is None or not len(table):
        return dataset
    paths = [table.path(row) for row in range(len(table))]
    faults = find_faults(paths, on_image)
    if not faults:
        return dataset
    if len(faults) > MOST * len(paths):
        problems = Problems(dataset.name)
        if len(faults) > 1:  # first: of many problems only the first ones are shown
            problems.add(f"{len(faults)} of {len(paths)} images cannot be read; too many to go on")
        for row, reason in faults.items():
            problems.add(reason, source=paths[row])
        problems.raise_if_any()
    good = np.setdiff1d(np.arange(len(table)), np.fromiter(faults, dtype=np.int64))
    broken = tuple(Broken(str(table.ids[row]), reason) for row, reason in faults.items())
    return replace(dataset, table=table.take(good), broken=dataset.broken + broken)


def find_faults(
    paths: Sequence[Path], on_image: Callable[[int, int], None] | None = None
) -> dict[int, str]:
    """Which files cannot be decoded, by their number, and why."""
    kept = _kept(paths)
    if kept is None:
        return _look(paths, on_image)
    if (known := _read(kept, len(paths))) is not None:
        return known
    with in_turn(kept.with_suffix(".lock")):  # of several processes one looks, for all of them
        if (known := _read(kept, len(paths))) is None:
            known = _look(paths, on_image)
            _write(kept, known)
    return known


def _look(
    paths: Sequence[Path], on_image: Callable[[int, int], None] | None = None
) -> dict[int, str]:
    """The same, by decoding every file."""
    found: dict[int, str] = {}
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, len(paths), AT_ONCE):
            for row, why in enumerate(pool.map(fault, paths[start : start + AT_ONCE]), start):
                if why is not None:
                    found[row] = why
                if on_image is not None:
                    on_image(row + 1, len(paths))
    return found


def write_broken(folder: Path, broken: Sequence[Broken]) -> None:
    """Writes `broken.csv`, with `image,reason` for each file, if there are any."""
    if not broken:
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("image", "reason"))
    writer.writerows((one.id, one.reason) for one in broken)
    write_text(folder / FILE, text.getvalue())


def sentence(broken: Sequence[Broken]) -> str:
    """What to tell a person about files that were left out.

    >>> sentence([Broken("a.jpg", "cannot be read as an image (the file is empty)")])
    'left out, as it cannot be read as an image: a.jpg'
    """
    names = ", ".join(one.id for one in broken[:3])
    if len(broken) == 1:
        return f"left out, as it cannot be read as an image: {names}"
    more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
    return f"{len(broken)} items left out, as they cannot be read as images: {names}{more}"


def _kept(paths: Sequence[Path]) -> Path | None:
    """The file with what is known of these files; None without a cache folder."""
    folder = cache_folder()
    if folder is None:
        return None
    states = [file_state(path) for path in paths]
    if None in states:
        return None  # it may be back at any time, unchanged
    names = [str(path.absolute()) for path in paths]
    return folder / "checked" / f"{content_key(VERSION, *zip(names, states, strict=True))}.json"


def _read(path: Path, count: int) -> dict[int, str] | None:
    """What a file of the cache says; None if it cannot be used."""
    try:
        found = {int(row): str(why) for row, why in dict(read_json(path)).items()}
    except (OSError, ValueError, TypeError):
        return None
    return found if all(0 <= row < count for row in found) else None


def _write(path: Path, found: dict[int, str]) -> None:
    """Keeps what was found; a cache that cannot be written is no error."""
    try:
        write_json(path, {str(row): why for row, why in found.items()})
    except OSError:
        return
