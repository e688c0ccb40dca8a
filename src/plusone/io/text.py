"""Text for people: figures, and names that may hold anything."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Control characters but line breaks and tabs, what turns text around, and halves of characters.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def percent(value: float | None) -> str:
    """A share as per cent with two digits, or a dash."""
    return "-" if value is None else f"{100 * value:.2f}"


def by_level(values: Sequence[float | None]) -> str:
    """MAP by level of a hierarchy in a phrase.

    >>> by_level([0.9, None])
    'mAP by level, the top first: 90.00, -'
    """
    return f"mAP by level, the top first: {', '.join(map(percent, values))}"


def printable(text: str) -> str:
    r"""A text without the control characters that names may hold, for a terminal.

    They are shown as escapes, so that no name moves the cursor or hides another line. Line breaks
    stay.

    >>> print(printable("a\x1b[2Jb\udcff"))
    a\x1b[2Jb\xff
    """
    return CONTROL.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code & 0xFF:02x}" if code < 0x100 or code >= 0xD800 else f"\\u{code:04x}"
