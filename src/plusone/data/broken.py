"""Items without a usable input, which are left out: image files that cannot be decoded.

Their rows are dropped from the data set, so that one bad file among 100,000 does not stop a long
run. If more than a tenth of the files are bad, something else is wrong and the data is refused.

The result is cached under a key of the files' paths, sizes and modification times: files that have
not changed are not decoded again.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from plusone.data.dataset import Dataset, Skipped
from plusone.data.images import IMAGE_KINDS, fault
from plusone.errors import Problems
from plusone.io.files import cache_folder, in_turn, write_json, write_text
from plusone.io.keys import content_key, file_state
from plusone.io.readers import read_json

MOST = 0.1  # share of the images that may be broken
AT_ONCE = 1024
THREADS = 4
VERSION = 1  # increase it when decoding changes
FILE = "broken.csv"
NO_TEXT = "has no text"  # why a text is left out


def without_broken(dataset: Dataset, on_image: Callable[[int, int], None] | None = None) -> Dataset:
    """The data set without the items whose image file cannot be decoded; `broken` names them."""
    table = dataset.table
    if dataset.features is not None or table.root is None or not len(table):
        return dataset
    paths = [table.path(row) for row in range(len(table))]
    faults = find_faults(paths, on_image)
    if not faults:
        return dataset
    if len(faults) > MOST * len(paths):
        problems = Problems(dataset.name)
        if len(faults) > 1:  # added first, because only the first problems are shown
            problems.add(f"{len(faults)} of {len(paths)} images cannot be read; too many to go on")
        for row, reason in faults.items():
            problems.add(reason, source=paths[row])
        problems.raise_if_any()
    good = np.setdiff1d(np.arange(len(table)), np.fromiter(faults, dtype=np.int64))
    broken = tuple(Skipped(str(table.ids[row]), reason) for row, reason in faults.items())
    return replace(dataset, table=table.take(good), broken=dataset.broken + broken)


def find_faults(
    paths: Sequence[Path], on_image: Callable[[int, int], None] | None = None
) -> dict[int, str]:
    """The files that cannot be decoded: position in `paths` -> reason."""
    cache = _cache_file(paths)
    if cache is None:
        return _decode_all(paths, on_image)
    if (faults := _read_cache(cache, len(paths))) is not None:
        return faults
    with in_turn(cache.with_suffix(".lock")):  # one of several processes decodes for all of them
        if (faults := _read_cache(cache, len(paths))) is None:
            faults = _decode_all(paths, on_image)
            with suppress(OSError):
                write_json(cache, {str(row): reason for row, reason in faults.items()})
    return faults


def _decode_all(
    paths: Sequence[Path], on_image: Callable[[int, int], None] | None = None
) -> dict[int, str]:
    faults: dict[int, str] = {}
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, len(paths), AT_ONCE):
            for row, reason in enumerate(pool.map(fault, paths[start : start + AT_ONCE]), start):
                if reason is not None:
                    faults[row] = reason
                if on_image is not None:
                    on_image(row + 1, len(paths))
    return faults


def write_broken(folder: Path, broken: Sequence[Skipped]) -> None:
    """Writes `broken.csv` with one row `image,reason` per file; nothing if there are none."""
    if not broken:
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("image", "reason"))
    writer.writerows((one.id, one.reason) for one in broken)
    write_text(folder / FILE, text.getvalue())


def sentence(broken: Sequence[Skipped]) -> str:
    """A sentence that names the items that were left out.

    >>> sentence([Skipped("a.jpg", "cannot be read as an image (the file is empty)")])
    'left out, as it cannot be read as an image: a.jpg'
    >>> sentence([Skipped("7", "has no text"), Skipped("9", "has no text")])
    '2 items left out, as they have no text: 7, 9'
    """
    names = ", ".join(one.id for one in broken[:3])
    several = len(broken) > 1
    if any(one.reason == NO_TEXT for one in broken):
        why = "they have no text" if several else "it has no text"
    else:
        why = "they cannot be read as images" if several else "it cannot be read as an image"
    more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
    return f"{f'{len(broken)} items ' if several else ''}left out, as {why}: {names}{more}"


def _cache_file(paths: Sequence[Path]) -> Path | None:
    """The cache file for these images; None without a cache folder or if an image is missing."""
    folder = cache_folder()
    if folder is None:
        return None
    states = [file_state(path) for path in paths]
    if None in states:
        return None  # a missing file can reappear with the same state
    names = [str(path.absolute()) for path in paths]
    key = content_key((VERSION, IMAGE_KINDS), *zip(names, states, strict=True))
    return folder / "checked" / f"{key}.json"


def _read_cache(path: Path, count: int) -> dict[int, str] | None:
    """The cached faults; None if the file is missing or cannot be used."""
    try:
        faults = {int(row): str(reason) for row, reason in dict(read_json(path)).items()}
    except (OSError, ValueError, TypeError):
        return None
    return faults if all(0 <= row < count for row in faults) else None
