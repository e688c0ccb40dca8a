"""Output paths are refused before any work is done for them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from plusone.cli.processes import leads
from plusone.errors import InputError
from plusone.io.files import NO_ROOM, naming, output_file

TRIAL = 1 << 16  # bytes that are written to a folder as a test before any work is done


def check_folder(path: Path, *, flag: str = "--out") -> None:
    """Refuses a folder that cannot be written, before any work is done for it."""
    if not leads():
        return
    for place in (path, *path.parents):
        if place.exists():
            if not place.is_dir():
                raise InputError(f"{place}: is a file, not a folder; choose another {flag}")
            if not os.access(place, os.W_OK | os.X_OK):
                raise InputError(f"{place}: cannot be written to; choose another {flag}")
            try:
                with naming(path), tempfile.TemporaryFile(dir=place) as trial:
                    trial.write(bytes(TRIAL))
            except OSError as error:
                if error.errno in NO_ROOM:
                    raise
                raise InputError(
                    f"{path}: cannot be written to ({error.strerror}); choose another {flag}"
                ) from None
            return


def check_file(path: Path, *, flag: str = "--out") -> None:
    """Refuses a file that cannot be written, before any work is done for it."""
    if not leads():
        return
    try:
        target = output_file(path)
    except InputError as error:
        raise InputError(str(error).replace("another output", f"another {flag}")) from None
    check_folder(target.parent, flag=flag)
