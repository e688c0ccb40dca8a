"""The features of photos that this computer has computed, in one SQLite file.

A vector is found by the content of its photo and by the space it is in: a key of everything else
that it depends on (`plusone.features.extraction.key_of`). All commands and all models with the same
backbone, size and crops share it, wherever the photo is and whatever it is called. SQLite makes
writing safe for several processes at a time, and for those that are killed.

The file keeps at most `LARGEST` bytes, and drops what was added first. What cannot be read or
written is computed again: deleting the file costs time only.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from plusone.data.shards import photo_key
from plusone.io.files import cache_folder
from plusone.io.keys import content_key, file_state

FILE = "features.sqlite"
LARGEST = 4 << 30  # bytes: 800,000 vectors of lite0
PATIENCE = 60.0  # seconds until a file that another process locks is left alone
THREADS = 4  # that read photos
GIVEN = "(SELECT value FROM json_each(?))"  # in a query: any of a list
TABLES = """
CREATE TABLE IF NOT EXISTS photos (state TEXT PRIMARY KEY, photo TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS features (
    space TEXT, photo TEXT, shape TEXT NOT NULL, x BLOB NOT NULL, PRIMARY KEY (space, photo)
);
"""

Vector = npt.NDArray[np.float32]
T = TypeVar("T")


class FeatureStore:
    """Features float32 of photos, by space and content.

    Args:
        folder: Where the file is.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE

    def get(self, space: str, photos: Iterable[str]) -> dict[str, Vector]:
        """Those features of some photos that are there."""
        wanted = [*dict.fromkeys(photos)]

        def read(db: sqlite3.Connection) -> dict[str, Vector]:
            query = f"SELECT photo, shape, x FROM features WHERE space = ? AND photo IN {GIVEN}"
            known: dict[str, Vector] = {}
            for photo, shape, x in db.execute(query, (space, json.dumps(wanted))):
                with suppress(ValueError):
                    sides = [int(side) for side in shape.split()]
                    known[photo] = np.frombuffer(x, dtype="<f4").reshape(sides)
            return known

        return self._with(read, {}) if wanted and self.file.exists() else {}

    def put(self, space: str, features: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Adds features of some photos."""
        rows = []
        for photo, x in features.items():
            values = np.asarray(x, dtype="<f4")
            rows.append((space, photo, " ".join(map(str, values.shape)), values.tobytes()))

        def write(db: sqlite3.Connection) -> None:
            db.executemany("INSERT OR REPLACE INTO features VALUES (?, ?, ?, ?)", rows)
            while _used(db) > LARGEST:
                for table in ("photos", "features"):
                    db.execute(
                        f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} ORDER BY "
                        f"rowid LIMIT (SELECT 1 + count(*) / 10 FROM {table}))"
                    )

        self._with(write, None)

    def photos(self, paths: Sequence[Path]) -> list[str | None]:
        """A key of the content of each photo; None for what is no file.

        A file is read once: after that its path, size and modification time stand for it.
        """
        states = [content_key((str(p.resolve()), file_state(p)), length=32) for p in paths]

        def read(db: sqlite3.Connection) -> dict[str, str]:
            query = f"SELECT state, photo FROM photos WHERE state IN {GIVEN}"
            return dict(db.execute(query, (json.dumps(states),)))

        none: dict[str, str] = {}
        known = self._with(read, none) if self.file.exists() else none
        new = {s: path for s, path in zip(states, paths, strict=True) if s not in known}
        with ThreadPoolExecutor(THREADS) as pool:
            found = dict(zip(new, pool.map(photo_key, new.values()), strict=True))
        fresh = [(state, photo) for state, photo in found.items() if photo is not None]
        if fresh:
            add = "INSERT OR REPLACE INTO photos VALUES (?, ?)"
            self._with(lambda db: db.executemany(add, fresh), None)
        return [known.get(state, found.get(state)) for state in states]

    def _with(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """What some work on the file returns, in one transaction; `otherwise` if it fails."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.file, timeout=PATIENCE)) as db, db:
                db.executescript(TABLES)
                return work(db)
        except (sqlite3.OperationalError, OSError):
            return otherwise  # no room, no right to write, or locked for long
        except sqlite3.DatabaseError:  # damaged
            with suppress(OSError):
                self.file.unlink()
            return otherwise


def _used(db: sqlite3.Connection) -> int:
    pages, free, size = (
        int(db.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def features_folder() -> Path:
    """Where commands keep features: the cache folder, or one that ends with this process."""
    folder = cache_folder()
    return Path(_temporary().name) if folder is None else folder


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="plusone.")
