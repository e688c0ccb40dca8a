"""Reading untrusted files: no code is executed, and memory stays within these bounds.

| what | bound |
| --- | --- |
| JSON of our own folders | 256 MiB; COCO files 4 GiB; nesting as deep as Python parses |
| npz, stored arrays | together no more than the file itself |
| npz, compressed arrays | together 1 GiB, or 100 times the size of the file if that is more |
| npz, every array | its header claims exactly the bytes it has |
| parquet, decoded | 1 GiB, or 100 times the size of the file if that is more |
| parquet with images | a row group at a time, within the same bound |
| arrow and parquet with images | no more rows than bytes |
| arrow | mapped; compressed files are refused |
| tar | a member at a time: 512 MiB, labels 16 MiB; compressed files are refused |
| sparse ARFF | 1 GiB, or 100 times the size of the file if that is more |
| names of items in memory | 2 GiB: their number x the longest |
| images | 178,956,970 pixels, 65,535 a side |
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.parsers import expat

from plusone.errors import InputError

SMALL_FILE = 2**28
LARGE_FILE = 2**32
UNPACKED = 2**30
UNPACKED_RATIO = 100
NAMES = 2**31
MAX_PIXELS = 178_956_970  # of an image; where Pillow refuses it as a bomb, too
MAX_SIDE = 65_535  # as in JPEG; a few bytes of TIFF can claim a row of millions of pixels


def read_json(path: Path) -> Any:
    """The content of a JSON file; `ValueError` if it is too large, or not JSON."""
    return parse_json(read_text(path))


def read_text(path: Path, *, largest: int = SMALL_FILE, encoding: str = "utf-8") -> str:
    """The text of a file; `ValueError` if it has more bytes than `largest`."""
    if (size := path.stat().st_size) > largest:
        raise ValueError(f"it has {size:,} bytes, more than the {largest:,} that are read")
    return path.read_bytes().decode(encoding)


def parse_json(
    text: str | bytes, object_hook: Callable[[dict[str, Any]], Any] | None = None
) -> Any:
    r"""The value of a JSON text; `ValueError` if it is invalid.

    Nesting that is too deep for Python is refused, and so are lone surrogates (`"\ud800"`), which
    cannot be printed or written.
    """
    try:
        value = json.loads(text, object_hook=object_hook)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    surrogate = b"\\ud" if isinstance(text, bytes) else "\\ud"
    if surrogate in text or surrogate.upper() in text:  # type: ignore[operator]
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def unpacked_limit(size: int) -> int:
    """Largest allowed size, decompressed, of a compressed file of `size` bytes."""
    return max(UNPACKED, UNPACKED_RATIO * size)


def parse_xml(
    source: Path | bytes,
    start: Callable[[str, dict[str, str], int], None],
    end: Callable[[str], None] | None = None,
    text: Callable[[str], None] | None = None,
    *,
    namespaces: bool = False,
    name: str = "",
) -> None:
    """Calls functions for the elements and the text of XML; entities are refused.

    Args:
        source: The file, or its content.
        start: Called with the name of an element, its attributes and its row.
        end: Called with the name of an element that ends.
        text: Called with the text between.
        namespaces: Whether names are "URI name".
        name: What errors call it; the path of the file by default.
    """
    path = name or str(source)
    size = source.stat().st_size if isinstance(source, Path) else len(source)
    if size > SMALL_FILE:
        raise InputError(f"{path}: has {size:,} bytes, more than the {SMALL_FILE:,} that are read")
    parser = expat.ParserCreate(namespace_separator=" " if namespaces else None)

    def refuse(*_: object) -> None:
        raise InputError(f"{path}: has a document type or entities in it, which are not read")

    parser.StartElementHandler = lambda tag, given: start(tag, given, parser.CurrentLineNumber)
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(source.read_bytes() if isinstance(source, Path) else source, True)
    except expat.ExpatError as error:
        raise InputError(
            f"{path}, row {error.lineno}, column {error.offset + 1}: is not XML "
            f"({expat.ErrorString(error.code)})"
        ) from None
    except (LookupError, ValueError) as error:  # unknown encodings
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: is not readable as XML ({error})") from None
