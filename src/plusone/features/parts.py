"""Rows of a table computed in parts, so that a stopped command continues where it was.

Finished parts are files in a hidden folder beside the result, named after everything the rows
depend on; when all are there, they are joined and removed. Where several processes run, each
computes a share of the parts.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.errors import RunError
from plusone.io.arrays import write_array
from plusone.parallel.processes import barrier, broadcast, own_rows, world

ITEMS_PER_PART = 512

Array = npt.NDArray[np.floating[Any]]


def compute_in_parts(
    path: Path,
    key: str,
    n: int,
    compute: Callable[[npt.NDArray[np.int64]], Iterable[Array]],
    write: Callable[[Array], None],
    on_progress: Callable[[int], None] | None = None,
) -> list[int]:
    """Computes `n` rows and writes them; returns the shape of the whole table.

    All ranks must call it; rank 0 writes.

    Args:
        path: The file that is written; the parts are kept beside it.
        key: Of everything that the rows depend on.
        n: How many rows there are.
        compute: Gives the values `[m, ...]` of some rows, in order, in batches of any size.
        write: Writes the table `[n, ...]` to `path`.
        on_progress: Called with the number of rows that are done.
    """
    folder = path.with_name(f".{path.name}.{key[:12]}.parts")
    folder.mkdir(parents=True, exist_ok=True)
    missing = broadcast(lambda: missing_parts(folder, n))
    mine = [missing[number] for number in own_rows(len(missing)).tolist()]
    left = sum(len(rows_of(part, n)) for part in missing)
    done, waiting = 0, list[Array]()
    parts = iter(mine)
    part = next(parts, None)
    wanted = np.concatenate([np.empty(0, np.int64), *(rows_of(number, n) for number in mine)])
    for batch in compute(wanted) if len(wanted) else ():
        done += len(batch)
        waiting.append(batch)
        while part is not None and sum(map(len, waiting)) >= (size := len(rows_of(part, n))):
            rows = np.concatenate(waiting)
            write_array(part_file(folder, part), rows[:size])
            waiting, part = [rows[size:]], next(parts, None)
        if on_progress is not None:
            on_progress(n - left + min(left, done * world()[1]))
    barrier()

    def join() -> list[int]:
        if missing_parts(folder, n):
            raise RunError(
                f"{folder.parent}: not all processes see this folder; several machines need a "
                "shared one"
            )
        files = [part_file(folder, number) for number in range(math.ceil(n / ITEMS_PER_PART))]
        whole = np.concatenate([np.load(file, allow_pickle=False) for file in files])
        write(whole)
        shutil.rmtree(folder)
        return list(whole.shape)

    return broadcast(join)


def part_file(folder: Path, number: int) -> Path:
    """The file of a part."""
    return folder / f"{number:06d}.npy"


def rows_of(number: int, n: int) -> npt.NDArray[np.int64]:
    """The rows of a part, of `n` in all."""
    return np.arange(number * ITEMS_PER_PART, min((number + 1) * ITEMS_PER_PART, n))


def missing_parts(folder: Path, n: int) -> list[int]:
    """The parts of `n` rows that are not there yet."""
    numbers = range(math.ceil(n / ITEMS_PER_PART))
    return [number for number in numbers if not part_file(folder, number).exists()]
