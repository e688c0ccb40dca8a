"""Measured values that survive a stop: one line each, found again by their key."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plusone.bounded import parse_json
from plusone.errors import InputError
from plusone.files import write_text

Value = dict[str, Any]


class Journal:
    """Values by key, kept in a file from the moment they are known.

    Args:
        path: The file; its first line says what it belongs to.
        about: What it belongs to: plain values. A file about something else is refused.
    """

    def __init__(self, path: Path, about: Value) -> None:
        self.path = path
        self.values: dict[str, Value] = {}
        lines = self._lines()
        if lines and lines[0] != about:
            raise InputError(
                f"{path}: belongs to other settings or other data; choose another --out"
            )
        self.values = {line["key"]: line["value"] for line in lines[1:]}
        if not lines:
            write_text(path, json.dumps(about) + "\n")

    def get(self, key: str, make: Callable[[], Value]) -> Value:
        """The value of a key: as kept, or made now and kept."""
        if key not in self.values:
            self.values[key] = make()
            line = json.dumps({"key": key, "value": self.values[key]})
            with self.path.open("ab", buffering=0) as file:
                file.write(line.encode() + b"\n")
        return self.values[key]

    def _lines(self) -> list[Value]:
        """All whole lines; what a kill cut off is cut off the file too."""
        if not self.path.exists():
            return []
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            os.truncate(self.path, len(whole))
        try:
            lines = [parse_json(line) for line in whole.splitlines()]
            for line in lines[1:]:
                if not isinstance(line["key"], str) or not isinstance(line["value"], dict):
                    raise ValueError("a line has no key and value")
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{self.path}: is damaged ({error}); remove it") from None
        return lines
