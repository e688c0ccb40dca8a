"""Functions of a batch: an arrow table in, an arrow table out, one row for each row.

They are what `plusone batch` applies, and what Ray Data and other engines can apply themselves:

    ds.map_batches(TagBatches, fn_constructor_args=["run"], batch_format="pyarrow")

A table has a column with the name of each item, and a column `image` (the bytes of an image file,
or a struct with `bytes`, as the library `datasets` writes them) or a column of vectors. An item
that cannot be read has a reason in the column `error`, and nothing in the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from plusone.data._arrow import image_column
from plusone.data.images import Aspect, Crops, decode_crops
from plusone.data.table import ID_ARRAYS, ID_COLUMNS
from plusone.errors import InputError
from plusone.extras import install_command
from plusone.features.encoder import Encoder
from plusone.inputs.loader import ArrayInputs
from plusone.prediction.load import load_run
from plusone.prediction.tags import Predictions
from plusone.probabilities.thresholds import Thresholds, read_thresholds

if TYPE_CHECKING:
    import pyarrow as pa

THREADS = 4  # that decode
ID = "id"  # the column of names in results
ERROR = "error"


class FeatureBatches:
    """Features of images: columns `id`, `features` (float16 `[D]`) and `error`.

    Args:
        backbone: Name in the backbone table.
        size: Image side; the backbone's own by default.
        aspect: How images become square, as for `plusone.data.images.decode`.
        crops: Which crops of each image; several are averaged.
        weights: Weights of the backbone: "auto" for its own, "random", or the path of a file.
        device: What the backbone computes on, see `plusone.device.resolve`.
    """

    def __init__(
        self,
        backbone: str,
        size: int | None = None,
        aspect: Aspect = "stretch",
        crops: Crops = "one",
        weights: str = "auto",
        device: str = "auto",
    ) -> None:
        self.encoder = Encoder(backbone, size, crops=crops, weights=weights, device=device)
        self.aspect = aspect

    def __call__(self, table: pa.Table) -> pa.Table:
        """One row for each row of the table."""
        pa = _pyarrow()
        images, errors = _decoded(table, self.encoder.size, self.encoder.crops, self.aspect)
        features = [self.encoder(images[rows]) for rows in _rows(len(images), self.encoder.rows)]
        values = [row for batch in features for row in batch.astype(np.float16)]
        kind = pa.list_(pa.float16())
        return pa.table(
            {ID: names_of(table), "features": _filled(values, errors, kind), ERROR: _texts(errors)}
        )


class TagBatches:
    """Tags of items: columns `id`, `labels`, `probabilities` (float32 `[L]`) and `error`.

    The labels of an item are those above their thresholds, the most likely first. Probabilities are
    in the order of the classes of the run, which the metadata of the schema names.

    Args:
        run: Folder of the run, or of an export.
        threshold: One for all classes; those of the run by default.
        crops: Which crops of an image the model is shown; those of its training by default.
        device: What the model computes on, see `plusone.device.resolve`.
    """

    def __init__(
        self,
        run: str | Path,
        threshold: float | None = None,
        crops: Crops | None = None,
        device: str = "auto",
    ) -> None:
        folder = Path(run)
        self.predictor = load_run(folder, device)
        if crops is not None:
            self.predictor = self.predictor.with_crops(crops)
        if self.predictor.recipe.hint_features:
            raise InputError(
                f"{folder}: the model takes hints beside features; use plusone predict --hints"
            )
        classes = self.predictor.classes
        self.thresholds = (
            read_thresholds(folder, classes)
            if threshold is None
            else Thresholds.same(threshold, len(classes))
        )

    def __call__(self, table: pa.Table) -> pa.Table:
        """One row for each row of the table."""
        pa, predictor = _pyarrow(), self.predictor
        names = names_of(table)
        if predictor.images:
            shown = predictor.shown
            inputs, errors = _decoded(table, predictor.shape[-1], shown.crops, shown.aspect)
        else:
            inputs, errors = _vectors(table, predictor.shape[-1])
        scores = torch.zeros(0, len(predictor.classes))
        if len(inputs):
            scores = predictor.probabilities(ArrayInputs(inputs))
        predictions = Predictions((), predictor.classes, scores)
        cuts = self.thresholds.array
        labels = [predictions.labels(row, cuts) for row in range(len(scores))]
        result = pa.table(
            {
                ID: names,
                "labels": _filled(labels, errors, pa.list_(pa.string())),
                "probabilities": _filled([*scores.numpy()], errors, pa.list_(pa.float32())),
                ERROR: _texts(errors),
            }
        )
        return result.replace_schema_metadata({"classes": "\n".join(predictor.classes)})


def names_of(table: pa.Table) -> pa.Array:
    """The names of the items of a table, as text.

    Raises:
        InputError: There is no such column, or an item has no name.
    """
    pa = _pyarrow()
    lowered = {name.lower(): name for name in table.column_names}
    for name in (*ID_ARRAYS, *ID_COLUMNS):
        column = None if name not in lowered else table.column(lowered[name])
        if column is not None and (
            pa.types.is_string(column.type)
            or pa.types.is_large_string(column.type)
            or pa.types.is_integer(column.type)
        ):
            if column.null_count:
                raise InputError(f"the column {lowered[name]} has a row without a name")
            return column.cast(pa.string()).combine_chunks()
    raise InputError(
        f"has no column with names of items (such as {ID}) among "
        f"{', '.join(table.column_names) or 'no columns at all'}"
    )


def _decoded(
    table: pa.Table, size: int, crops: Crops, aspect: Aspect
) -> tuple[Tensor, list[str | None]]:
    """The images that can be read, bytes `[n, ...]`, and why each other one cannot, `[N]`."""
    pa = _pyarrow()
    name = image_column(pa, table.schema)
    if name is None:
        raise InputError("has no column of images (bytes named image, or a struct with bytes)")
    column = table.column(name)
    if pa.types.is_struct(column.type):
        column = pa.compute.struct_field(column, "bytes")

    def decode(content: bytes | None) -> Tensor | str:
        try:
            cut = decode_crops(content or b"", size, crops, aspect)
        except InputError as error:
            return str(error).partition(": ")[2]
        return cut if len(cut) > 1 else cut[0]

    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(decode, column.to_pylist()))
    images = [one for one in results if isinstance(one, Tensor)]
    errors = [one if isinstance(one, str) else None for one in results]
    return (torch.stack(images) if images else torch.zeros(0, dtype=torch.uint8)), errors


def _vectors(table: pa.Table, dim: int) -> tuple[Tensor, list[str | None]]:
    """The vectors that can be used, `[n, dim]`, and why each other one cannot, `[N]`."""
    pa = _pyarrow()
    name = next((field.name for field in table.schema if _is_vectors(pa, field.type)), None)
    if name is None:
        raise InputError(f"has no column of vectors (lists of {dim} numbers)")
    rows: list[Any] = []
    errors: list[str | None] = []
    for cell in table.column(name).to_pylist():
        row = np.array([np.nan] if cell is None else cell, dtype=np.float32)
        short = row.shape != (dim,)
        error = f"has {len(row)} numbers, the model takes {dim}" if short else None
        if not np.isfinite(row).all():
            error = "has no vector, or a number that is not finite"
        errors.append(error)
        rows += [] if error else [row]
    return torch.from_numpy(np.array(rows, dtype=np.float32).reshape(-1, dim)), errors


def _is_vectors(pa: Any, kind: Any) -> bool:
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    lists = lists or pa.types.is_fixed_size_list(kind)
    return bool(lists and pa.types.is_floating(kind.value_type))


def _rows(n: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, n, size)]


def _filled(values: Sequence[Any], errors: Sequence[str | None], kind: Any) -> pa.Array:
    """A column with the values of the items that could be read, and null for the others."""
    given = iter(values)
    return _pyarrow().array([next(given) if error is None else None for error in errors], kind)


def _texts(errors: Sequence[str | None]) -> pa.Array:
    pa = _pyarrow()
    return pa.array(errors, pa.string())


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError:
        raise InputError(f"batches need pyarrow: {install_command('parquet')}") from None
    return pyarrow
