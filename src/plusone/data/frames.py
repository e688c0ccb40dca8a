"""Tables in memory as data sets: data frames of polars or pandas, results of DuckDB, pyarrow's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from plusone.data._arrow import in_memory, pyarrow
from plusone.data.dataset import Dataset, as_inputs
from plusone.data.features import NOT_FEATURES, columns_as_array, feature_columns
from plusone.data.formats.base import ReadOptions
from plusone.data.formats.parquet import COLUMNS, of_table
from plusone.data.table import item_columns
from plusone.data.text_encoder import AUTO
from plusone.data.text_features import with_text_features

OTHERS = {*NOT_FEATURES, *COLUMNS}


def dataset_of(table: Any, name: str = "table", encoder: str | None = None) -> Dataset:
    """The data set of a table: labels as in a parquet file, and a vector or a text for each row.

    Args:
        table: Anything that gives arrow (`__arrow_c_stream__`), with the columns of a parquet file
            of labels: `labels`, and `id`, `split`, `group` and others where there are any. Its
            column of vectors, or its other columns of numbers, are features.
        name: A short name for reports.
        encoder: Sentence encoder of a column `text`; the first that is installed by default.
    """
    pa, arrow = pyarrow(Path(name)), in_memory(table, name)
    if item_columns(arrow.column_names) == (None, None):
        numbers = pa.array(np.arange(1, arrow.num_rows + 1)).cast(pa.string())
        arrow = arrow.append_column("id", numbers)
    names = arrow.column_names
    known = arrow.select([column for column in names if column.lower() in COLUMNS])
    read = of_table(pa, known, Path(name), names, ReadOptions())
    if read.table.texts is not None:
        return with_text_features(replace(read, name=name), encoder or AUTO)
    if all(column.lower() in OTHERS for column in names):
        return replace(read, name=name)
    x = columns_as_array(pa, name, arrow.select(feature_columns(pa, name, arrow.schema)))
    return replace(read, name=name, features=as_inputs(x, name))
