import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plusone.data.formats import read
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.suggest import Suggestions
from plusone.suggest.outputs import FORMS, write_accepted, write_as

TABLE = LabelTable(
    ids=np.array(["a.b.jpg", "b.jpg", "c.jpg"]),
    classes=("cat", "dog", 'cow "x"'),
    labels=LabelMatrix.from_lists([[0], [1], [0]], 3, negatives=[[], [2], []]),
    split=np.array(["train", "val", "test"]),
)


@pytest.fixture
def found() -> Suggestions:
    return Suggestions(
        TABLE,
        np.array([0, 0, 1]),
        np.array([2, 1, 0], dtype=np.int32),
        np.array([0.9, 0.25, 0.4], dtype=np.float32),
        np.array([0.8, 0.1, 0.3], dtype=np.float32),
        {"method": "gr", "folds": 5},
    )


def test_json_holds_items_with_what_was_seen(found: Suggestions, tmp_path: Path) -> None:
    assert write_as(found, tmp_path, "json") == ["suggestions.json"]
    read_back = json.loads((tmp_path / "suggestions.json").read_text())
    assert read_back["folds"] == 5
    first = read_back["suggestions"][0]
    assert first["image"] == "a.b.jpg"
    assert first["seen"] == ["cat"]
    assert first["suggestions"][0] == {"label": 'cow "x"', "probability": 0.9, "score": 0.8}
    assert len(read_back["suggestions"]) == 2


def test_parquet_has_the_columns_of_the_csv(found: Suggestions, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    write_as(found, tmp_path, "parquet")
    table = pq.read_table(tmp_path / "suggestions.parquet")
    assert table.column_names == ["image", "label", "probability", "score"]
    assert table.column("label").to_pylist() == ['cow "x"', "dog", "cat"]
    assert table.column("probability").to_pylist() == pytest.approx([0.9, 0.25, 0.4])


def test_label_studio_tasks_preselect_likely_labels(found: Suggestions, tmp_path: Path) -> None:
    write_as(found, tmp_path, "label-studio")
    tasks = json.loads((tmp_path / "label-studio.json").read_text())
    assert tasks[0]["data"]["image"] == "a.b.jpg"
    prediction = tasks[0]["predictions"][0]
    assert prediction["model_version"] == "plusone-gr"
    assert prediction["score"] == 0.9
    (result,) = prediction["result"]
    assert result["type"] == "choices"
    assert result["value"]["choices"] == ["cat", 'cow "x"']
    unsure = tasks[1]["predictions"][0]
    assert unsure["result"][0]["value"]["choices"] == ["dog"]
    assert unsure["score"] == 0.4


def test_fiftyone_gets_class_numbers_and_paths(found: Suggestions, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="these items have none"):
        write_as(found, tmp_path, "fiftyone")
    images = replace(found, table=replace(TABLE, root=tmp_path / "photos"))
    with pytest.raises(InputError, match="these items have none"):  # labels of features
        write_as(images, tmp_path, "fiftyone")
    (tmp_path / "photos").mkdir()
    for name in TABLE.ids:
        (tmp_path / "photos" / name).touch()
    write_as(images, tmp_path, "fiftyone")
    files = json.loads((tmp_path / "fiftyone" / "data.json").read_text())
    labels = json.loads((tmp_path / "fiftyone" / "labels.json").read_text())
    assert files.keys() == labels["labels"].keys()
    assert not any("." in key for key in files)
    assert files["00000000"].endswith("photos/a.b.jpg")
    first = labels["labels"]["00000000"][0]
    assert labels["classes"][first["label"]] == 'cow "x"'
    assert first["confidence"] == 0.9


def test_accepted_labels_are_read_back_as_seen(tmp_path: Path) -> None:
    write_accepted(TABLE, np.array([0, 1]), np.array([1, 0]), tmp_path / "accepted.csv")
    again = read(tmp_path / "accepted.csv", check_images=False).table
    assert again.truth is None
    assert again.split is not None
    assert again.split.tolist() == ["train", "val", "test"]
    assert again.labels.dense().tolist() == [[1, 1, 0], [1, 1, -1], [1, 0, 0]]


def test_accepted_labels_without_negatives_are_not_taken_as_complete(tmp_path: Path) -> None:
    table = replace(TABLE, labels=TABLE.labels.only_positives())
    write_accepted(table, np.array([0]), np.array([1]), tmp_path / "accepted.csv")
    again = read(tmp_path / "accepted.csv", check_images=False).table
    assert again.truth is None
    assert again.labels.dense().tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]


def test_unknown_forms_are_refused(found: Suggestions, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=", ".join(FORMS)):
        write_as(found, tmp_path, "excel")
