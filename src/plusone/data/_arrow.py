"""Arrow and parquet files with a column of images, read in place.

Arrow files are memory-mapped. Of a parquet file, the row group of the requested image is decoded,
and the last ones are kept: reading in order decodes each once.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from plusone.errors import InputError
from plusone.extras import install_command
from plusone.io.keys import file_state
from plusone.io.readers import UNPACKED_RATIO, unpacked_limit

ARROW = ".arrow"
SUFFIXES = (ARROW, ".parquet", ".pq")
NAME_COLUMNS = ("id", "image_id", "item", "file", "file_name", "filename", "path")
GROUPS_KEPT = 2
PIECE = 65_536  # rows of labels decoded at once
IMAGES_AT_ONCE = 16
FILE_MAGIC = b"ARROW1\0\0"  # of the random access form, which is a stream between two marks

# The name of a row: of one part, printable, and no step to another folder.
PLAIN = re.compile(r"(?!\.\.?$|[A-Za-z]:)[^/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")


def pyarrow(path: Path) -> Any:
    """The module, with `ipc` and `parquet`; `InputError` if it is not installed."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        kind = "arrow" if path.suffix.lower() == ARROW else "parquet"
        raise InputError(f"{path}: {kind} needs pyarrow: {install_command('parquet')}") from None
    return pyarrow


def image_column(pa: Any, schema: Any) -> str | None:
    """The column of images: `bytes` and `path`, as `datasets` writes them, or bytes named image."""
    for field in schema:
        kind = field.type
        if pa.types.is_struct(kind) and (place := kind.get_field_index("bytes")) >= 0:
            if _is_binary(pa, kind.field(place).type):
                return str(field.name)
        elif _is_binary(pa, kind) and field.name.lower() in ("image", "img"):
            return str(field.name)
    return None


def _is_binary(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def has_images(path: Path) -> bool:
    """Whether a file has a column of images; False if it cannot be read."""
    try:
        return image_column(pyarrow(path), schema_of(path)) is not None
    except InputError:
        return False


def schema_of(path: Path) -> Any:
    """The schema of a file; `InputError` if it is damaged."""
    pa = pyarrow(path)
    if path.suffix.lower() == ARROW:
        return _mapped(path, file_state(path)).schema
    try:
        with pa.parquet.ParquetFile(path, memory_map=False) as file:
            return file.schema_arrow
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(path, error) from None


def damaged(path: Path, error: Exception) -> InputError:
    """The sentence for a file that pyarrow cannot read."""
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    kind = "arrow" if path.suffix.lower() == ARROW else "parquet"
    return InputError(f"{path}: is not a readable {kind} file ({first})")


def table_of(path: Path, columns: Sequence[str]) -> Any:
    """Some columns of a file, decoded within bounds; for all but images."""
    pa = pyarrow(path)
    if path.suffix.lower() == ARROW:
        return _mapped(path, file_state(path)).select(list(columns))
    try:
        return _bounded(pa, path, list(columns))
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(path, error) from None


def _bounded(pa: Any, path: Path, columns: list[str]) -> Any:
    """Read in batches, because a few bytes can encode a huge number of rows."""
    limit = unpacked_limit(path.stat().st_size)
    with pa.parquet.ParquetFile(path, memory_map=False) as file:
        batches, size = [], 0
        for batch in file.iter_batches(PIECE, columns=columns):
            size += batch.nbytes
            if size > limit:
                raise ValueError(
                    f"it becomes more than {limit:,} bytes, {UNPACKED_RATIO} times the file"
                )
            batches.append(batch)
        schema = batches[0].schema if batches else file.schema_arrow
        return pa.Table.from_batches(batches, schema).replace_schema_metadata(
            file.schema_arrow.metadata
        )


def row_names(path: Path) -> list[str]:
    """A name for each row of a file with images, unique in the file.

    The names are those of a column such as `id`, else those of the paths beside the images; row
    numbers from 0 if neither are plain names or one occurs twice.
    """
    pa = pyarrow(path)
    try:
        return _names(pa, path)
    except (pa.ArrowException, KeyError) as error:  # also two columns of one name
        raise damaged(path, error) from None


def _names(pa: Any, path: Path) -> list[str]:
    schema = schema_of(path)
    lowered = {name.lower(): name for name in reversed(schema.names)}
    image = image_column(pa, schema)
    columns = [lowered[name] for name in NAME_COLUMNS if name in lowered]
    for name in columns:
        kind = schema.field(name).type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind):
            names = _cells(path, table_of(path, [name]).column(0))
            if _proper(names):
                return [str(cell) for cell in names]
    if image is not None and pa.types.is_struct(schema.field(image).type):
        names = [
            None if cell is None else re.split(r"[/\\]", cell)[-1] for cell in _paths(path, image)
        ]
        if _proper(names):
            return [str(cell) for cell in names]
    return [f"{row:06d}" for row in range(count_rows(path))]


def _paths(path: Path, image: str) -> list[str | None]:
    pa = pyarrow(path)
    kind = schema_of(path).field(image).type
    place = kind.get_field_index("path")
    if place < 0 or not pa.types.is_string(kind.field(place).type):
        return [None]
    if path.suffix.lower() == ARROW:
        column = _mapped(path, file_state(path)).column(image)
    else:
        column = table_of(path, [f"{image}.path"]).column(0)
    return _cells(path, pa.compute.struct_field(column, "path"))


def _cells(path: Path, column: Any) -> list[Any]:
    """A column as Python values; `InputError` for text that is not UTF-8."""
    try:
        cells: list[Any] = column.to_pylist()
        return cells
    except UnicodeDecodeError:
        raise InputError(f"{path}: has text in it that is not UTF-8") from None


def _proper(names: Sequence[object]) -> bool:
    texts = [str(name) for name in names if name is not None]
    return len(texts) == len(names) == len(set(texts)) and all(
        PLAIN.fullmatch(text) and text.strip() == text for text in texts
    )


def count_rows(path: Path) -> int:
    """The rows of a file."""
    pa = pyarrow(path)
    if path.suffix.lower() == ARROW:
        return int(_mapped(path, file_state(path)).num_rows)
    return int(_row_groups(pa, path, file_state(path))[-1])


def image_bytes(path: Path, row: int) -> memoryview:
    """The bytes of the image in a row.

    Raises:
        ValueError: There are none.
        InputError: The file is damaged.
    """
    pa = pyarrow(path)
    if path.suffix.lower() == ARROW:
        content = _mapped_images(path, file_state(path))[row].as_buffer()
    else:
        state = file_state(path)
        starts = _row_groups(pa, path, state)
        group = bisect_right(starts, row) - 1
        content = _group(path, state, group)[row - starts[group]].as_buffer()
    if content is None or not content.size:
        raise ValueError(
            f"row {row} has no bytes of an image; a file that its path names is not opened"
        )
    return memoryview(content)


def _images(pa: Any, table: Any) -> Any:
    """The bytes of the images of a table, a chunked array."""
    column = table.column(image_column(pa, table.schema))
    return pa.compute.struct_field(column, "bytes") if pa.types.is_struct(column.type) else column


@cache
def _mapped(path: Path, state: object) -> Any:
    """The table of an arrow file, mapped and checked: offsets in it must not leave it."""
    pa = pyarrow(path)
    try:
        source = pa.memory_map(str(path))
        start = len(FILE_MAGIC) if source.read(len(FILE_MAGIC)) == FILE_MAGIC else 0
        source.seek(start)
        _refuse_packed(pa, source)
        source.seek(start)
        table = pa.ipc.open_stream(source).read_all()
        table.validate(full=True)
        return table
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise damaged(path, error) from None


@cache
def _mapped_images(path: Path, state: object) -> Any:
    return _images(pyarrow(path), _mapped(path, state))


def _refuse_packed(pa: Any, source: Any) -> None:
    """Refuses what cannot be mapped: a few compressed bytes could fill the memory."""
    reader = pa.ipc.MessageReader.open_stream(source)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        if message.type == "dictionary":
            raise ValueError("it has a column of type dictionary; save it as plain text")
        if message.type == "record batch" and _is_compressed(message.metadata.to_pybytes()):
            raise ValueError("it is compressed and cannot be mapped; save it without compression")


def _is_compressed(message: bytes) -> bool:
    """Whether the message of a record batch says that its buffers are compressed.

    The message is a flatbuffer: `header` is the third field of `Message`, `compression` the fourth
    of `RecordBatch`.
    """

    def field(table: int, number: int) -> int | None:
        start = table - struct.unpack_from("<i", message, table)[0]
        place = 4 + 2 * number
        if place >= struct.unpack_from("<H", message, start)[0]:
            return None
        offset = int(struct.unpack_from("<H", message, start + place)[0])
        return table + offset if offset else None

    header = field(struct.unpack_from("<I", message, 0)[0], 2)
    if header is None:
        raise ValueError("a record batch has no header")
    return field(header + struct.unpack_from("<I", message, header)[0], 3) is not None


@cache
def _row_groups(pa: Any, path: Path, state: object) -> list[int]:
    """The first row of each row group of a parquet file, and the number of all rows."""
    try:
        with pa.parquet.ParquetFile(path, memory_map=False) as file:
            counts = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
        if min(counts, default=0) < 0 or sum(counts) > path.stat().st_size:
            raise ValueError(f"it claims {sum(counts):,} rows of images")
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(path, error) from None
    starts = [0]
    for count in counts:
        starts.append(starts[-1] + count)
    return starts


@lru_cache(maxsize=GROUPS_KEPT)
def _group(path: Path, state: object, number: int) -> Any:
    """The images of one row group of a parquet file, decoded."""
    pa = pyarrow(path)
    limit = unpacked_limit(path.stat().st_size)
    try:
        with pa.parquet.ParquetFile(path, memory_map=False, pre_buffer=False) as file:
            image = image_column(pa, file.schema_arrow)
            is_struct = pa.types.is_struct(file.schema_arrow.field(image).type)
            columns = [f"{image}.bytes" if is_struct else image]
            batches, size = [], 0
            for batch in file.iter_batches(
                IMAGES_AT_ONCE, row_groups=[number], columns=columns, use_threads=False
            ):
                size += batch.nbytes
                if size > limit:
                    raise ValueError(
                        f"it becomes more than {limit:,} bytes, {UNPACKED_RATIO} times the file"
                    )
                batches.append(batch)
            return _images(pa, pa.Table.from_batches(batches))
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(path, error) from None


CACHES = (_mapped, _mapped_images, _row_groups, _group)
