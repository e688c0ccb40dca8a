"""Arrow: tables in arrow, parquet and Lance files, and those of other libraries in memory.

Arrow and parquet files with a column of images are read in place. Arrow files are memory-mapped. Of
a parquet file, the row group of the requested image is decoded, and the last ones are kept: reading
in order decodes each once, also if several threads do.
"""

from __future__ import annotations

import os
import re
import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.table import ID_COLUMNS
from plusone.errors import InputError, first_line
from plusone.extras import install_command
from plusone.io.keys import file_state
from plusone.io.readers import UNPACKED_RATIO, unpacked_limit

ARROW = ".arrow"
PARQUET = (".parquet", ".pq")
SUFFIXES = (ARROW, *PARQUET)
LANCE = ".lance"  # a folder
GROUPS_KEPT = 2
ROWS_AT_ONCE = 2**20  # of all but images
ROWS_OF_LANCE = 2**14
IMAGES_AT_ONCE = 16
ROW, VALUE = 64, 4  # bytes that a row and each value in it take at least, once they are read
FILE_MAGIC = b"ARROW1\0\0"  # of the random access form, which is a stream between two marks

# The name of a row: of one part, printable, and no step to another folder.
PLAIN = re.compile(r"(?!\.\.?$|[A-Za-z]:)[^/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")

# One for each process: a process may be forked while a thread holds the lock of its parent.
_LOCKS: dict[int, Lock] = {}


def pyarrow(path: Path) -> Any:
    """The module, with `ipc` and `parquet`; `InputError` if it is not installed."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            f"{path}: {_kind(path)} needs pyarrow: {install_command('parquet')}"
        ) from None
    return pyarrow


@contextmanager
def reading(path: Path) -> Iterator[Any]:
    """The module, for reading a file; what it raises in the block becomes an `InputError`."""
    pa = pyarrow(path)
    try:
        yield pa
    except InputError:
        raise
    except UnicodeDecodeError:
        raise InputError(f"{path}: has text in it that is not UTF-8") from None
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise InputError(
            f"{path}: is not a readable {_kind(path)} file ({first_line(error)})"
        ) from None


def _kind(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix == LANCE:
        return "Lance"
    return "arrow" if suffix == ARROW else "parquet" if suffix in PARQUET else "arrow or parquet"


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
    if path.suffix.lower() == ARROW:
        return _mapped(path, file_state(path)).schema
    if path.suffix.lower() == LANCE:
        return _lance(path).schema
    with reading(path) as pa, pa.parquet.ParquetFile(path, memory_map=False) as file:
        return file.schema_arrow


def table_of(path: Path, columns: Sequence[str]) -> Any:
    """Some columns of a file, decoded within bounds; for all but images.

    Texts in parquet files become dictionaries: one text in many rows is decoded once.
    """
    with reading(path) as pa:
        if path.suffix.lower() == ARROW:
            return without_views(pa, _mapped(path, file_state(path)).select(list(columns)))
        if path.suffix.lower() == LANCE:
            return _of_lance(pa, path, columns)
        with pa.parquet.ParquetFile(path, memory_map=False) as file:
            wanted = {name.split(".")[0] for name in columns}
            every = ((n, file.schema.column(n)) for n in range(file.metadata.num_columns))
            leaves = {n: leaf for n, leaf in every if leaf.path.split(".")[0] in wanted}
            _check_size(path, _claimed_size(file.metadata, leaves))
        texts = [leaf.path for leaf in leaves.values() if leaf.physical_type == "BYTE_ARRAY"]
        return _decoded(pa, path, columns, ROWS_AT_ONCE, texts=texts)


def _lance(path: Path) -> Any:
    """A Lance data set, all of whose files are in its folder."""
    try:
        import lance
    except ImportError:
        raise InputError(f"{path}: a Lance data set needs: pip install pylance") from None
    try:
        data = lance.dataset(str(path.resolve()))
        files = [file for part in data.get_fragments() for file in part.data_files()]
    except Exception as error:  # errors of a library in another language are of many types
        raise InputError(
            f"{path}: is not a readable Lance data set ({first_line(error)})"
        ) from None
    for file in files:
        if (
            file.base_id is not None
            or Path(file.path).is_absolute()
            or ".." in Path(file.path).parts
        ):
            raise InputError(f"{path}: names files outside its folder; copy it with its data")
    return data


def _of_lance(pa: Any, path: Path, columns: Sequence[str]) -> Any:
    """Columns of a Lance data set, decoded in batches of rows."""
    data = _lance(path)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    limit, read, batches = unpacked_limit(size), 0, []
    schema = pa.schema([data.schema.field(name) for name in columns])
    wide = [kind.list_size for kind in schema.types if pa.types.is_fixed_size_list(kind)]
    try:
        if data.count_rows() * VALUE * sum(wide) // 2 > limit:  # float16 take half of it
            raise ValueError(f"it claims more than {limit:,} bytes, {UNPACKED_RATIO} times itself")
        for batch in data.to_batches(columns=list(columns), batch_size=ROWS_OF_LANCE):
            read += batch.nbytes
            if read > limit:
                raise ValueError(
                    f"it becomes more than {limit:,} bytes, {UNPACKED_RATIO} times itself"
                )
            batches.append(batch)
    except Exception as error:
        raise InputError(
            f"{path}: is not a readable Lance data set ({first_line(error)})"
        ) from None
    return pa.Table.from_batches(batches, schema)


def is_table(value: object) -> bool:
    """Whether an object is a table of arrow: of polars, DuckDB, pyarrow or another library."""
    return hasattr(value, "__arrow_c_stream__")


def in_memory(value: Any, name: str = "table") -> Any:
    """A table of another library, as one of pyarrow."""
    pa = pyarrow(Path(name))
    try:
        return without_views(pa, pa.table(value))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"{name}: cannot be read by pyarrow ({first_line(error)})") from None


def without_views(pa: Any, table: Any) -> Any:
    """A table whose views of texts, which polars writes, are plain texts."""
    for place, field in enumerate(table.schema):
        kind = field.type
        plain = None
        if pa.types.is_string_view(kind):
            plain = pa.large_string()
        elif is_list(pa, kind) and pa.types.is_string_view(kind.value_type):
            plain = pa.large_list(pa.large_string())
        if plain is not None:
            table = table.set_column(place, field.name, table.column(place).cast(plain))
    return table


def numbers(value: Any) -> Any:
    """The numbers `[N, D]` of a table of arrow: its one column of lists, or its columns of numbers.

    Anything else is returned as it is, as are data frames that NumPy can read.
    """
    if not is_table(value) or hasattr(value, "iloc"):
        return value
    table = in_memory(value)
    pa = pyarrow(Path("table"))
    if table.num_columns == 1 and is_list(pa, table.schema.types[0]):
        return vectors(pa, "table", table.column(0))
    if hasattr(value, "__array__"):
        return value
    for field in table.schema:
        kind = field.type
        if not (
            pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
        ):
            raise InputError(
                f"table: column {field.name!r} has the type {kind}, but a feature is a number; "
                "give one column of lists of numbers, or a column of numbers for each feature"
            )
    return np.stack([floats(column) for column in table.columns], axis=1)


def is_list(pa: Any, kind: Any) -> bool:
    """Whether a column of this type has lists in it."""
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def floats(column: Any) -> npt.NDArray[Any]:
    """A column of numbers as float16 or float32; null becomes NaN, which is reported."""
    values = np.asarray(column.to_numpy())
    return values if values.dtype in (np.float16, np.float32) else values.astype(np.float32)


def vectors(
    pa: Any, source: object, column: Any, ids: Sequence[str] | npt.NDArray[Any] | None = None
) -> npt.NDArray[Any]:
    """A column of lists of numbers of one length, as a matrix; ids name the rows in messages."""
    inner = column.type.value_type
    if not (pa.types.is_floating(inner) or pa.types.is_integer(inner)):
        raise InputError(f"{source}: its vectors are lists of {inner}, not of numbers")
    lengths = np.asarray(pa.compute.list_value_length(column).fill_null(0), dtype=np.int64)
    other = np.flatnonzero(lengths != lengths[:1])
    if len(other):
        row = int(other[0])
        raise InputError(
            f"{source}, row {row}: the vector{'' if ids is None else f' of {str(ids[row])!r}'} has "
            f"{lengths[row]} values, that of row 0 has {lengths[0]}"
        )
    flat = floats(pa.compute.list_flatten(column))
    return flat.reshape(len(lengths), int(lengths[0]) if len(lengths) else 0)


def _claimed_size(metadata: Any, leaves: Mapping[int, Any]) -> int:
    """The bytes that columns of a parquet file take, by its metadata; the texts are not known."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    size = ROW * metadata.num_rows
    for number, leaf in leaves.items():
        count = metadata.num_rows
        if leaf.max_repetition_level:  # a list
            count = sum(group.column(number).num_values for group in groups)
        size += count * max(VALUE, leaf.length)
    return int(size)


def _check_size(path: Path, size: int) -> None:
    """Refuses what becomes too large: a few bytes can encode a huge number of values."""
    if size > (limit := unpacked_limit(path.stat().st_size)):
        raise ValueError(f"it becomes more than {limit:,} bytes, {UNPACKED_RATIO} times the file")


def _decoded(
    pa: Any,
    path: Path,
    columns: Sequence[str],
    rows: int,
    *,
    group: int | None = None,
    texts: Sequence[str] = (),
) -> Any:
    """Columns of a parquet file, or of a row group of it, decoded in batches of rows.

    `texts` become dictionaries. pyarrow can join those of several row groups in a table, but not
    in a batch, so that each group is read by itself.
    """
    batches, size = [], 0
    with pa.parquet.ParquetFile(
        path, memory_map=False, pre_buffer=False, read_dictionary=texts
    ) as file:
        for number in range(file.num_row_groups) if group is None else (group,):
            for batch in file.iter_batches(
                rows, row_groups=[number], columns=list(columns), use_threads=group is None
            ):
                size += sum(_plain_size(pa, column) for column in batch.columns)
                _check_size(path, size)
                batches.append(batch)
        schema = batches[0].schema if batches else file.schema_arrow
        return pa.Table.from_batches(batches, schema).replace_schema_metadata(
            file.schema_arrow.metadata
        )


def _plain_size(pa: Any, column: Any) -> int:
    """The bytes of an array, as if its dictionaries were plain texts."""
    if pa.types.is_dictionary(column.type):
        lengths = pa.compute.binary_length(column.dictionary).take(column.indices)
        return int(column.indices.nbytes + (pa.compute.sum(lengths).as_py() or 0))
    if pa.types.is_struct(column.type):
        return sum(_plain_size(pa, part) for part in column.flatten())
    if pa.types.is_nested(column.type):  # a list
        return _plain_size(pa, column.flatten())
    return int(column.nbytes)


def row_names(path: Path) -> list[str]:
    """A name for each row of a file with images, unique in the file.

    The names are those of a column such as `id`, else those of the paths beside the images; row
    numbers from 0 if neither are plain names or one occurs twice.
    """
    with reading(path) as pa:  # also two columns of one name
        return _names(pa, path)


def _names(pa: Any, path: Path) -> list[str]:
    schema, image = schema_of(path), _image_column(pa, path)
    if (count := count_rows(path)) > path.stat().st_size:
        raise ValueError(f"it claims {count:,} rows of images")
    lowered = {name.lower(): name for name in reversed(schema.names)}
    for name in (lowered[name] for name in ID_COLUMNS if name in lowered):
        kind = schema.field(name).type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind):
            names = table_of(path, [name]).column(0).to_pylist()
            if _proper(names):
                return [str(cell) for cell in names]
    if pa.types.is_struct(schema.field(image).type):
        names = [
            None if cell is None else re.split(r"[/\\]", cell)[-1] for cell in _paths(path, image)
        ]
        if _proper(names):
            return [str(cell) for cell in names]
    return [f"{row:06d}" for row in range(count)]


def _image_column(pa: Any, path: Path) -> str:
    """The column of images; `InputError` if there is none."""
    schema = schema_of(path)
    image = image_column(pa, schema)
    if image is None:
        raise InputError(f"{path}: has no column of images (found: {', '.join(schema.names)})")
    return image


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
    cells: list[str | None] = pa.compute.struct_field(column, "path").to_pylist()
    return cells


def _proper(names: Sequence[object]) -> bool:
    texts = [str(name) for name in names if name is not None]
    return len(texts) == len(names) == len(set(texts)) and all(
        PLAIN.fullmatch(text) and text.strip() == text for text in texts
    )


def count_rows(path: Path) -> int:
    """The rows of a file."""
    if path.suffix.lower() == ARROW:
        return int(_mapped(path, file_state(path)).num_rows)
    return int(_row_groups(path, file_state(path))[-1])


def image_bytes(path: Path, row: int) -> memoryview:
    """The bytes of the image in a row.

    Raises:
        ValueError: There are none.
        InputError: The file is damaged.
    """
    if path.suffix.lower() == ARROW:
        content = _mapped_images(path, file_state(path))[row].as_buffer()
    else:
        state = file_state(path)
        starts = _row_groups(path, state)
        group = bisect_right(starts, row) - 1
        with _LOCKS.setdefault(os.getpid(), Lock()):  # another thread may be decoding this group
            images = _group(path, state, group)
        content = images[row - starts[group]].as_buffer()
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
    with reading(path) as pa:
        source = pa.memory_map(str(path))
        start = len(FILE_MAGIC) if source.read(len(FILE_MAGIC)) == FILE_MAGIC else 0
        source.seek(start)
        _refuse_packed(pa, source)
        source.seek(start)
        table = pa.ipc.open_stream(source).read_all()
        table.validate(full=True)
        return table


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
def _row_groups(path: Path, state: object) -> list[int]:
    """The first row of each row group of a parquet file, and the number of all rows."""
    with reading(path) as pa, pa.parquet.ParquetFile(path, memory_map=False) as file:
        counts = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
        if min(counts, default=0) < 0:
            raise ValueError(f"it claims a group of {min(counts):,} rows")
    return [0, *accumulate(counts)]


@lru_cache(maxsize=GROUPS_KEPT)
def _group(path: Path, state: object, number: int) -> Any:
    """The images of one row group of a parquet file, decoded."""
    with reading(path) as pa:
        image = _image_column(pa, path)
        is_struct = pa.types.is_struct(schema_of(path).field(image).type)
        columns = [f"{image}.bytes" if is_struct else image]
        return _images(pa, _decoded(pa, path, columns, IMAGES_AT_ONCE, group=number))
