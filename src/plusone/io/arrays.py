"""Arrays in npy files, written whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from plusone.io.files import replacing


class _Plain:
    """A file that numpy writes to through Python.

    To a file it knows, numpy writes by itself, and says nothing if the disk takes only a part.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, content: bytes) -> int:
        return self._file.write(content)


def write_array(path: Path, values: npt.NDArray[Any]) -> None:
    """Writes an npy file in one step."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(_Plain(file), values, allow_pickle=False)
