"""Where the model finds a suggested label: computed for the pictures that are looked at."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from plusone.errors import InputError, RunError, first_line

if TYPE_CHECKING:
    from plusone.prediction.clearest import Box, ClearestParts

MODEL = "model.safetensors"  # of a finished run
SUFFIX = "-suggestions"  # of the folder that `plusone suggest RUN` writes beside the run


class Outlines:
    """The clearest parts of the pictures of a review (`plusone.prediction.clearest`).

    The model is loaded when a part is first asked for. Where it cannot be, there are none, and the
    terminal says why.

    Args:
        run: The run behind the suggestions.
    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self._clearest: ClearestParts | None = None
        self._known: dict[tuple[Path, tuple[str, ...]], dict[str, Box]] = {}
        self._failed = False

    def of(self, path: Path, names: Sequence[str]) -> dict[str, Box]:
        """Left, top, right and bottom of the parts of an image file, by class."""
        if self._failed:
            return {}
        key = (path, tuple(names))
        if key not in self._known:
            from plusone.prediction.clearest import ClearestParts  # torch takes a second to load

            self._clearest = self._clearest or ClearestParts(self.run)
            try:
                self._known[key] = self._clearest.of(path, names)
            except (InputError, RunError, OSError) as error:
                self._failed = True
                sys.stderr.write(f"plusone: no outlines on the pictures: {first_line(error)}\n")
                return {}
        return self._known[key]


def run_beside(folder: Path) -> Path | None:
    """The run that a folder of suggestions is named after, if it is beside it."""
    folder = folder.resolve()
    run = folder.with_name(folder.name.removesuffix(SUFFIX))
    return run if run != folder and (run / MODEL).is_file() else None
