"""Items on any storage that fsspec knows (`s3://`, `gs://`, `hf://`, a folder), in pieces.

A source is a folder, a pattern or a file: parquet files with a column of images or vectors, or
image files. It is divided into pieces of a few thousand rows, which are read and computed one by
one; the result of each is a parquet file of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from plusone.data.images import IMAGE_SUFFIXES
from plusone.errors import InputError, first_line
from plusone.extras import install_command
from plusone.io.files import replacing
from plusone.io.keys import content_key
from plusone.io.readers import UNPACKED_RATIO, parse_json, unpacked_limit

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 4096  # of a piece, for image files; parquet files are divided by their row groups
AT_ONCE = 64  # rows that are held at a time
PARQUET = (".parquet", ".pq")
ABOUT = "_batch.json"  # what the parts of a folder are; readers of a folder skip such names
LARGEST = 2**20  # bytes of it


@dataclass(frozen=True)
class Piece:
    """Rows that are computed together.

    Args:
        number: Its place among all pieces.
        files: Image files, or one parquet file.
        names: Names of the image files.
        group: The row group of the parquet file.
    """

    number: int
    files: tuple[str, ...]
    names: tuple[str, ...] = ()
    group: int | None = None

    @property
    def part(self) -> str:
        """The name of its result."""
        return f"part-{self.number:06d}.parquet"


@dataclass(frozen=True)
class Pieces:
    """All pieces of a source, and a key of the files they come from."""

    pieces: tuple[Piece, ...]
    key: str


def opened(url: str) -> tuple[Any, str]:
    """The file system of a URL or path, and the path in it."""
    from fsspec.core import url_to_fs

    try:
        system, path = url_to_fs(url)
    except ImportError as error:
        raise InputError(f"{url}: {str(error).strip()}") from None
    except (ValueError, OSError) as error:
        raise InputError(f"{url}: cannot be opened ({error})") from None
    return system, str(path)


def find_pieces(source: str, rows: int = ROWS) -> Pieces:
    """The pieces of a source: parquet files where there are any, else image files.

    Args:
        source: A folder, a pattern or a file.
        rows: Image files of a piece.

    Raises:
        InputError: There are no such files.
    """
    system, path = opened(source)
    try:
        pattern = any(mark in path for mark in "*?[")
        found = sorted(system.glob(path) if pattern else system.find(path))
    except (OSError, ValueError) as error:
        raise InputError(f"{source}: cannot be listed ({error})") from None
    tables = [file for file in found if PurePosixPath(file).suffix.lower() in PARQUET]
    images = [file for file in found if PurePosixPath(file).suffix.lower() in IMAGE_SUFFIXES]
    states = [_state(system, file) for file in tables or images]
    if tables:
        groups = [(file, group) for file in tables for group in range(_groups(system, file))]
        pieces = [Piece(n, (file,), (), group) for n, (file, group) in enumerate(groups)]
    else:
        root = _root(path, images, pattern)
        names = [file.removeprefix(root).lstrip("/") for file in images]
        pieces = [
            Piece(number, tuple(images[start : start + rows]), tuple(names[start : start + rows]))
            for number, start in enumerate(range(0, len(images), rows))
        ]
    if not pieces:
        raise InputError(f"{source}: has neither parquet files nor images")
    return Pieces(tuple(pieces), content_key((tables or images, states, rows)))


def tables_of(source: str, piece: Piece) -> Iterator[pa.Table]:
    """The rows of a piece, some at a time."""
    import pyarrow

    system, _ = opened(source)
    if piece.group is None:
        for start in range(0, len(piece.files), AT_ONCE):
            contents = [_content(system, file) for file in piece.files[start : start + AT_ONCE]]
            names = pyarrow.array(piece.names[start : start + AT_ONCE])
            yield pyarrow.table({"id": names, "image": pyarrow.array(contents, pyarrow.binary())})
        return
    with _parquet(system, piece.files[0]) as file:
        for batch in file.iter_batches(AT_ONCE, row_groups=[piece.group], use_threads=False):
            yield pyarrow.Table.from_batches([batch])


def write_part(out: str, name: str, table: pa.Table) -> None:
    """Writes a result whole, or not at all."""
    import pyarrow.parquet

    content = BytesIO()
    pyarrow.parquet.write_table(table, content)
    _write(out, name, content.getvalue())


def finished_parts(out: str, about: Mapping[str, Any]) -> set[str]:
    """The parts that a folder has; it is made, and described, if it is new.

    Args:
        out: The folder.
        about: What its parts are.

    Raises:
        InputError: The folder has other parts, or other files.
    """
    system, path = opened(out)
    try:
        held = {PurePosixPath(file).name for file in system.ls(path, detail=False)}
    except FileNotFoundError:
        held = set()
    if ABOUT in held:
        with system.open(f"{path}/{ABOUT}", "rb") as file:
            before = parse_json(file.read(LARGEST).decode("utf-8", "replace"))
        if before != parse_json(json.dumps(dict(about))):
            raise InputError(f"{out}: has results of other items or settings; choose another --out")
        return {name for name in held if name.startswith("part-") and name.endswith(".parquet")}
    if held:
        raise InputError(f"{out}: is not empty; choose another --out")
    _write(out, ABOUT, json.dumps(dict(about), indent=1).encode())
    return set()


def _write(out: str, name: str, content: bytes) -> None:
    system, path = opened(out)
    if "file" in _protocols(system):
        with replacing(Path(path) / name) as temporary:
            temporary.write_bytes(content)
    else:
        system.pipe_file(f"{path}/{name}", content)  # objects of a store appear whole


def _protocols(system: Any) -> Sequence[str]:
    protocol = system.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _state(system: Any, file: str) -> tuple[object, ...]:
    """What tells whether a file was changed, where the storage knows it."""
    info = system.info(file)
    return tuple(str(info.get(name)) for name in ("size", "mtime", "ETag", "etag", "LastModified"))


def _root(path: str, files: Sequence[str], pattern: bool) -> str:
    """What names of image files leave out: the folder that was given, or that they share."""
    if not pattern and files != [path]:
        return path.rstrip("/")
    parents = [PurePosixPath(file).parent.parts for file in files]
    shared = []
    for parts in zip(*parents, strict=False):
        if len({*parts}) > 1:
            break
        shared.append(parts[0])
    return str(PurePosixPath(*shared)) if shared else ""


def _content(system: Any, file: str) -> bytes | None:
    try:
        content: bytes = system.cat_file(file)
    except OSError:  # it has gone since; the row says that it cannot be read
        return None
    return content


def _groups(system: Any, file: str) -> int:
    with _parquet(system, file) as table:
        return int(table.num_row_groups)


def _parquet(system: Any, name: str) -> Any:
    """An open parquet file whose row groups do not claim far more than the file can hold."""
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise InputError(f"{name}: parquet needs pyarrow: {install_command('parquet')}") from None
    try:
        file = ParquetFile(system.open(name, "rb"), pre_buffer=False)
        metadata = file.metadata
        claimed = sum(
            metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)
        )
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{name}: is not a readable parquet file ({first_line(error)})") from None
    limit = unpacked_limit(int(system.info(name)["size"] or 0))
    if claimed > limit:
        raise InputError(
            f"{name}: becomes more than {limit:,} bytes, {UNPACKED_RATIO} times the file"
        )
    return file
