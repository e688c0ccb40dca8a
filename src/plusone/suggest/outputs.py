"""Suggestions in the formats of other programs, and the table of accepted labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from plusone.data.checks import missing_images
from plusone.data.formats import write as write_table
from plusone.data.formats.csv_wide import check_csv_wide
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.io.files import replacing, write_json
from plusone.suggest.folder import Suggestions

ACCEPTED = "accepted.csv"


def write_as(suggestions: Suggestions, folder: Path, form: str) -> list[str]:
    """Writes suggestions in another format into their folder; returns the names of the files."""
    if form not in FORMS:
        raise InputError(f"unknown form {form!r}; known: {', '.join(FORMS)}")
    return FORMS[form](suggestions, folder)


def by_item(suggestions: Suggestions) -> Iterator[tuple[int, slice]]:
    """The rows of items that have suggestions, each with the slice of its suggestions."""
    rows, starts = np.unique(suggestions.row, return_index=True)
    ends = [*starts[1:].tolist(), len(suggestions)]
    for row, start, end in zip(rows.tolist(), starts.tolist(), ends, strict=True):
        yield row, slice(start, end)


def _json(suggestions: Suggestions, folder: Path) -> list[str]:
    """`suggestions.json`: for each item its seen labels and its suggestions."""
    table = suggestions.table
    items = [
        {
            "image": str(table.ids[row]),
            "seen": [table.classes[label] for label in table.labels.positives(row)],
            "suggestions": [
                {"label": name, "probability": probability, "score": score}
                for name, probability, score in _entries(suggestions, part)
            ],
        }
        for row, part in by_item(suggestions)
    ]
    write_json(folder / "suggestions.json", dict(suggestions.about) | {"suggestions": items})
    return ["suggestions.json"]


def _parquet(suggestions: Suggestions, folder: Path) -> list[str]:
    """`suggestions.parquet`: the columns of `suggestions.csv`."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError("parquet needs pyarrow: pip install 'plusone[parquet]'") from None
    table = suggestions.table
    columns = {
        "image": pa.array(table.ids[suggestions.row].tolist(), pa.string()),
        "label": pa.array([table.classes[label] for label in suggestions.label], pa.string()),
        "probability": pa.array(suggestions.probability),
        "score": pa.array(suggestions.score),
    }
    with replacing(folder / "suggestions.parquet") as part:
        pq.write_table(pa.table(columns), part)
    return ["suggestions.parquet"]


def _label_studio(suggestions: Suggestions, folder: Path) -> list[str]:
    """`label-studio.json`: tasks to import, for a project with one `Choices` for an `Image`.

    The seen labels and the suggestions above one half are pre-selected; the probability of every
    suggestion is in the data of the task. The score of a task is that of its least probable choice.
    """
    table, tasks = suggestions.table, []
    version = f"plusone-{suggestions.about.get('method', 'model')}"
    for row, part in by_item(suggestions):
        entries = list(_entries(suggestions, part))
        chosen = [(name, probability) for name, probability, _ in entries if probability > 0.5]
        seen = [table.classes[label] for label in table.labels.positives(row)]
        least = min((probability for _, probability in chosen), default=entries[0][1])
        result = {
            "from_name": "labels",
            "to_name": "image",
            "type": "choices",
            "value": {"choices": [*seen, *(name for name, _ in chosen)]},
        }
        tasks.append(
            {
                "data": {
                    "image": str(table.ids[row]),
                    "seen": seen,
                    "suggestions": {name: probability for name, probability, _ in entries},
                },
                "predictions": [{"model_version": version, "score": least, "result": [result]}],
            }
        )
    write_json(folder / "label-studio.json", tasks)
    return ["label-studio.json"]


def _fiftyone(suggestions: Suggestions, folder: Path) -> list[str]:
    """`fiftyone/`: labels and a list of files, read as FiftyOneImageClassificationDataset."""
    table = suggestions.table
    if table.root is None or len(missing_images(table.ids, table.root)) == len(table):
        raise InputError("FiftyOne shows images, and these items have none; choose another format")
    labels: dict[str, list[dict[str, Any]]] = {}
    files: dict[str, str] = {}
    for row, part in by_item(suggestions):
        key = f"{row:08d}"  # FiftyOne cuts names at a dot
        files[key] = str(table.path(row).resolve())
        labels[key] = [
            {"label": int(label), "confidence": round(float(probability), 6)}
            for label, probability in zip(
                suggestions.label[part], suggestions.probability[part], strict=True
            )
        ]
    write_json(folder / "fiftyone" / "data.json", files)
    write_json(
        folder / "fiftyone" / "labels.json", {"classes": list(table.classes), "labels": labels}
    )
    return ["fiftyone/data.json", "fiftyone/labels.json"]


def check_accepted(table: LabelTable, path: Path) -> None:
    """Refuses a file that `write_accepted` cannot write, before any model is trained.

    Raises:
        InputError: The suffix is unknown, or a name does not fit into CSV.
    """
    if path.suffix.lower() not in (".csv", ".npz", ".parquet"):
        raise InputError(f"{path}: the suffix {path.suffix!r} is not .csv, .npz or .parquet")
    if path.suffix.lower() == ".csv":
        check_csv_wide(table, path)


def write_accepted(table: LabelTable, row: np.ndarray, label: np.ndarray, path: Path) -> None:
    """Writes the label table with accepted labels as seen positives; CSV has a column per class.

    Args:
        table: The seen labels.
        row: Items of the accepted labels.
        label: Their classes.
        path: The file.
    """
    write_table(
        replace(table, labels=with_positives(table.labels, row, label), truth=None, observation={}),
        path,
        format="csv-wide" if path.suffix.lower() == ".csv" else "auto",
    )


def with_positives(labels: LabelMatrix, row: np.ndarray, label: np.ndarray) -> LabelMatrix:
    """The labels with further positives, unobserved before.

    >>> with_positives(LabelMatrix.from_lists([[0]], 3), np.array([0]), np.array([2])).dense()
    array([[1, 0, 1]], dtype=int8)
    """
    return LabelMatrix.from_entries(
        np.concatenate([labels.row_of_entry(), row]),
        np.concatenate([labels.indices, label]),
        np.concatenate([labels.values, np.ones(len(row), dtype=np.int8)]),
        labels.shape,
        default=labels.default,
    )


def _entries(suggestions: Suggestions, part: slice) -> Iterator[tuple[str, float, float]]:
    columns = (suggestions.label[part], suggestions.probability[part], suggestions.score[part])
    for label, probability, score in zip(*columns, strict=True):
        yield (
            suggestions.table.classes[label],
            round(float(probability), 6),
            round(float(score), 6),
        )


FORMS: dict[str, Callable[[Suggestions, Path], list[str]]] = {
    "json": _json,
    "parquet": _parquet,
    "label-studio": _label_studio,
    "fiftyone": _fiftyone,
}
