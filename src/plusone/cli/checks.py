"""Output paths are refused before any work is done for them; the file of a token is checked."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from stat import S_ISREG
from typing import Any

from plusone.cli.processes import leads
from plusone.errors import InputError
from plusone.io.files import NO_ROOM, clear_leftovers, naming, output_file

# Arguments of commands that name a file to write.
OUTPUTS = {
    "to": "--out",
    "gallery": "--gallery",
    "export": "--export",
    "more_labels": "--accepted",
}
TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")
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
    clear_leftovers(target.parent, target.name)


def refuse_inputs_as_outputs(arguments: Mapping[str, Any]) -> None:
    """Refuses an output that is one of the inputs of a command: it would replace it."""
    for name, flag in OUTPUTS.items():
        target = arguments.get(name)
        if not isinstance(target, Path) or not target.is_file():
            continue
        for other in (value for key, value in arguments.items() if key not in OUTPUTS):
            for one in other if isinstance(other, list | tuple) else (other,):
                if isinstance(one, str | Path) and _same_file(Path(one), target):
                    raise InputError(
                        f"{target}: is an input and would be replaced; choose another {flag}"
                    )


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.is_file() and one.samefile(other)
    except (OSError, ValueError):  # text that cannot be a path
        return False


def read_token(path: Path) -> str:
    """The token in a file that only its owner can read."""
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if os.name == "posix" and S_ISREG(mode) and mode & 0o077:
            raise InputError(
                f"{path}: other people on this computer can use the file; "
                f"run chmod 600 {quote(str(path))}"
            )
        text = file.read(1000).decode("ascii", "replace").strip()
    if not TOKEN.fullmatch(text):
        raise InputError(
            f"{path}: a token has 16 to 512 letters, digits and . _ ~ + / = - on one line"
        )
    return text
