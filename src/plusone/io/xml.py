"""Parsing untrusted XML: document types and entities are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.parsers import expat

from plusone.errors import InputError
from plusone.io.readers import SMALL_FILE


def parse_xml(
    path: Path,
    start: Callable[[str, dict[str, str], int], None],
    end: Callable[[str], None] | None = None,
    text: Callable[[str], None] | None = None,
) -> None:
    """Calls functions for what is in an XML file.

    Args:
        path: The file.
        start: Called with the name, the attributes and the row of each element that begins.
        end: Called with the name of each element that ends.
        text: Called with pieces of text.

    Raises:
        InputError: It is not XML, too large, or has a document type or entities in it.
    """
    if (size := path.stat().st_size) > SMALL_FILE:
        raise InputError(f"{path}: has {size:,} bytes, more than the {SMALL_FILE:,} that are read")
    parser = expat.ParserCreate()

    def refuse(*_: object) -> None:
        raise InputError(f"{path}: has a document type or entities in it, which are not read")

    parser.StartElementHandler = lambda tag, given: start(tag, given, parser.CurrentLineNumber)
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(path.read_bytes(), True)
    except expat.ExpatError as error:
        raise InputError(
            f"{path}, row {error.lineno}, column {error.offset + 1}: is not XML "
            f"({expat.ErrorString(error.code)})"
        ) from None
    except (LookupError, ValueError) as error:  # unknown encodings
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: is not readable as XML ({error})") from None
