"""Measured values that survive a stop: one line each, found again by their key."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plusone.errors import InputError

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
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("", encoding="utf-8")
            self._append(about)

    def get(self, key: str, make: Callable[[], Value]) -> Value:
        """The value of a key: as kept, or made now and kept."""
        if key not in self.values:
            self.values[key] = make()
            self._append({"key": key, "value": self.values[key]})
        return self.values[key]

    def _append(self, line: Value) -> None:
        with self.path.open("ab", buffering=0) as file:
            file.write(json.dumps(line).encode() + b"\n")

    def _lines(self) -> list[Value]:
        """All whole lines; what a kill cut off is cut off the file too."""
        if not self.path.exists():
            return []
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            self.path.write_bytes(whole)
        try:
            return [json.loads(line) for line in whole.splitlines()]
        except ValueError as error:
            raise InputError(f"{self.path}: is damaged ({error}); remove it") from None
