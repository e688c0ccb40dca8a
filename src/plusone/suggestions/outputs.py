"""Suggestions in the formats of other programs, and the table of accepted labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import numpy as np

from plusone.data.checks import missing_images
from plusone.data.formats import write as write_table
from plusone.data.formats.csv_wide import check_csv_wide
from plusone.data.matrix import LabelMatrix
from plusone.data.shards import shard_of
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.extras import install_command
from plusone.io.files import replacing, write_json, write_text
from plusone.probabilities.accept import Accepted, summary
from plusone.suggestions.folder import GROUP, Suggestions, write_suggestions
from plusone.suggestions.wrong_csv import FILE as WRONG
from plusone.suggestions.wrong_csv import write_wrong

if TYPE_CHECKING:
    from plusone.probabilities.wrong import WrongLabels
    from plusone.suggestions.find import Found

MOST_CELLS = 1 << 26  # of accepted.csv, which has one for each item and class
PROBABILITIES = "probabilities"  # a format that holds all labels, not suggestions alone


def check_form(form: str, table: LabelTable) -> None:
    """Refuses a format that cannot be written for these items, before any model is trained.

    Raises:
        InputError: The format is unknown, needs images that are not there, or a missing package.
    """
    if form not in FORMS:
        raise InputError(f"unknown form {form!r}; known: {', '.join(FORMS)}")
    if form == "parquet":
        _pyarrow()
    elif form == "fiftyone" and (
        table.root is None or len(missing_images(table.ids, table.root)) == len(table)
    ):
        raise InputError("FiftyOne shows images, and these items have none; choose another form")
    elif form == "fiftyone" and len(table) and shard_of(table.path(0)) is not None:
        raise InputError("FiftyOne opens image files, and these are in shards; choose another form")


def write_as(
    suggestions: Suggestions, folder: Path, form: str, *, image_prefix: str = ""
) -> list[str]:
    """Writes suggestions in another format into their folder; returns the names of the files.

    Args:
        suggestions: The suggestions.
        folder: Their folder.
        form: A name in `FORMS`.
        image_prefix: Put before the names of images for Label Studio, which finds them there.
    """
    check_form(form, suggestions.table)
    if form == "label-studio":
        return _label_studio(suggestions, folder, image_prefix)
    return FORMS[form](suggestions, folder)


def write_found(
    found: Found,
    accepted: Accepted,
    suggestions: Suggestions,
    folder: Path,
    *,
    labels: Path,
    forms: Sequence[str] = (),
    image_prefix: str = "",
    about: Mapping[str, Any] | None = None,
    wrong: WrongLabels | None = None,
) -> dict[str, Any]:
    """Writes suggestions, accepted labels and further formats; returns what `--json` prints.

    Args:
        found: Calibrated labels of all items.
        accepted: Those that are accepted.
        suggestions: Those that are suggested.
        folder: The folder of suggestions.
        labels: The file for seen and accepted labels.
        forms: Further formats, names in `FORMS` or `PROBABILITIES`.
        image_prefix: Put before the names of images for Label Studio.
        about: Further facts for `about.json`.
        wrong: Seen labels that may be wrong; without them an earlier `wrong.csv` is removed.
    """
    facts = {"accepted": summary(accepted, found.table.classes, found.truth, found.hidden)}
    (folder / WRONG).unlink(missing_ok=True)
    if wrong is not None:
        folder.mkdir(parents=True, exist_ok=True)
        listed = write_wrong(wrong, found.table, folder)
        facts["wrong"] = wrong.to_dict() | {"listed": listed}
    everything = dict(suggestions.about) | dict(about or {}) | facts
    suggestions = replace(suggestions, about=everything)
    write_suggestions(suggestions, folder)
    row, label = found.with_confirmed(accepted)
    write_accepted(found.table, found.rows[row], label, labels)
    files = ["suggestions.csv", "seen.npz", "about.json"] + ([] if wrong is None else [WRONG])
    for form in forms:
        if form == PROBABILITIES:
            files.append(found.write_probabilities(folder))
        else:
            files += write_as(suggestions, folder, form, image_prefix=image_prefix)
    result = {"out": str(folder), "suggestions": len(suggestions)} | everything
    return result | {"files": files, "accepted_labels": str(labels)}


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
            **_group(table, row),
            "seen": _seen(table, row),
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
    pa, table = _pyarrow(), suggestions.table
    columns = {
        "image": pa.array(table.ids[suggestions.row].tolist(), pa.string()),
        "label": pa.array([table.classes[label] for label in suggestions.label], pa.string()),
        "probability": pa.array(suggestions.probability),
        "score": pa.array(suggestions.score),
    }
    if table.groups is not None:
        columns[GROUP] = pa.array(table.groups[suggestions.row].tolist(), pa.string())
    with replacing(folder / "suggestions.parquet") as part:
        pa.parquet.write_table(pa.table(columns), part)
    return ["suggestions.parquet"]


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"parquet needs pyarrow: {install_command('parquet')}") from None
    return pyarrow


def _label_studio(suggestions: Suggestions, folder: Path, image_prefix: str = "") -> list[str]:
    """`label-studio.json` with tasks to import, and `label-studio.xml`, the labelling config.

    The seen labels are the annotation of a task. Its prediction has them and the suggestions above
    one half; the probability of every suggestion is in the data of the task. The score of a
    prediction is that of its least probable choice.
    """
    table, tasks = suggestions.table, []
    version = f"plusone-{suggestions.about.get('method', 'model')}"
    for row, part in by_item(suggestions):
        entries = list(_entries(suggestions, part))
        chosen = [(name, probability) for name, probability, _ in entries if probability > 0.5]
        seen = _seen(table, row)
        least = min((probability for _, probability in chosen), default=entries[0][1])
        names = [*seen, *(name for name, _ in chosen)]
        data: dict[str, Any] = {
            "image": image_address(str(table.ids[row]), image_prefix),
            **_group(table, row),
            "seen": seen,
            "suggestions": {name: probability for name, probability, _ in entries},
        }
        tasks.append(
            {
                "data": data,
                "annotations": [{"result": choices(seen)}] if seen else [],
                "predictions": [
                    {"model_version": version, "score": least, "result": choices(names)}
                ],
            }
        )
    write_json(folder / "label-studio.json", tasks)
    write_text(folder / "label-studio.xml", labelling_config(table.classes))
    return ["label-studio.json", "label-studio.xml"]


def choices(
    names: Sequence[str], control: str = "labels", image: str = "image"
) -> list[dict[str, Any]]:
    """The result of a Label Studio annotation or prediction that chooses these classes.

    `control` and `image` are the names of the tags in the labelling configuration.
    """
    if not names:
        return []
    value = {"choices": [*names]}
    return [{"from_name": control, "to_name": image, "type": "choices", "value": value}]


def labelling_config(classes: Sequence[str]) -> str:
    """The labelling configuration of a Label Studio project with these classes."""
    lines = [
        "<View>",
        '  <Image name="image" value="$image"/>',
        '  <Choices name="labels" toName="image" choice="multiple">',
        *(f'    <Choice value="{escape(name)}"/>' for name in classes),
        "  </Choices>",
        "</View>",
    ]
    return "\n".join(lines) + "\n"


def image_address(name: str, prefix: str) -> str:
    """Where Label Studio finds an image; names are quoted in web addresses.

    >>> image_address("a b.jpg", "/data/local-files/?d=photos/")
    '/data/local-files/?d=photos/a%20b.jpg'
    >>> image_address("a b.jpg", "s3://bucket/photos/")
    's3://bucket/photos/a b.jpg'
    """
    return prefix + (quote(name) if _in_url(prefix) else name)


def image_name(address: str, prefix: str) -> str | None:
    """The name of an image from its address; None if the address does not begin with the prefix.

    >>> image_name("/data/local-files/?d=my%20photos/a%20b.jpg", "/data/local-files/?d=my photos/")
    'a b.jpg'
    >>> image_name("s3://bucket/photos/a b.jpg", "s3://other/") is None
    True
    """
    if _in_url(prefix):
        address, prefix = unquote(address), unquote(prefix)
    return address.removeprefix(prefix) if address.startswith(prefix) else None


def _in_url(prefix: str) -> bool:
    return "?" in prefix or prefix.startswith(("http://", "https://"))


def _fiftyone(suggestions: Suggestions, folder: Path) -> list[str]:
    """`fiftyone/`: all items but the test items, as FiftyOneImageClassificationDataset.

    `data.json` lists the images, `labels.json` the seen labels, `predictions.json` the suggestions.
    """
    table = suggestions.table
    parts = dict(by_item(suggestions))
    rows = np.setdiff1d(np.arange(len(table)), table.rows_of("test")).tolist()
    keys = {row: f"{row:08d}" for row in rows}  # FiftyOne cuts names at a dot
    seen = {
        key: [{"label": int(label)} for label in table.labels.positives(row)]
        for row, key in keys.items()
    }
    found = {
        key: [
            {"label": int(label), "confidence": round(float(probability), 6)}
            for label, probability in zip(
                suggestions.label[parts[row]], suggestions.probability[parts[row]], strict=True
            )
        ]
        for row, key in keys.items()
        if row in parts
    }
    contents = {
        "data.json": {key: str(table.path(row).resolve()) for row, key in keys.items()},
        "labels.json": {"classes": list(table.classes), "labels": seen},
        "predictions.json": {"classes": list(table.classes), "labels": found},
    }
    for name, content in contents.items():
        write_json(folder / "fiftyone" / name, content)
    return [f"fiftyone/{name}" for name in contents]


def check_accepted(table: LabelTable, path: Path) -> None:
    """Refuses a file that `write_accepted` cannot write, before any model is trained.

    Raises:
        InputError: The suffix is unknown, or a name does not fit into CSV.
    """
    if path.suffix.lower() not in (".csv", ".npz", ".parquet"):
        raise InputError(f"{path}: the suffix {path.suffix!r} is not .csv, .npz or .parquet")
    if path.suffix.lower() == ".csv":
        check_csv_wide(table, path)


def accepted_file(folder: Path, table: LabelTable) -> Path:
    """Where accepted labels are written by default: in CSV, unless that would be too large."""
    small = len(table) * len(table.classes) <= MOST_CELLS
    return folder / ("accepted.csv" if small else "accepted.npz")


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


def _group(table: LabelTable, row: int) -> dict[str, str]:
    return {} if table.groups is None else {GROUP: str(table.groups[row])}


def _seen(table: LabelTable, row: int) -> list[str]:
    return [table.classes[label] for label in table.labels.positives(row)]


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
