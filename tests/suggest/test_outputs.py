import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from plusone.data.formats import read
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.suggestions import Suggestions
from plusone.suggestions.outputs import FORMS, write_accepted, write_as

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


def test_other_formats_have_the_group(found: Suggestions, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    found = replace(found, table=replace(TABLE, groups=np.array(["one", "two", "one"])))
    for form in ("json", "parquet", "label-studio"):
        write_as(found, tmp_path, form)
    items = json.loads((tmp_path / "suggestions.json").read_text())["suggestions"]
    assert [item["group"] for item in items] == ["one", "two"]
    table = pq.read_table(tmp_path / "suggestions.parquet")
    assert table.column("group").to_pylist() == ["one", "one", "two"]
    tasks = json.loads((tmp_path / "label-studio.json").read_text())
    assert [task["data"]["group"] for task in tasks] == ["one", "two"]


def test_label_studio_gets_seen_labels_as_annotations(found: Suggestions, tmp_path: Path) -> None:
    names = write_as(found, tmp_path, "label-studio")
    assert names == ["label-studio.json", "label-studio.xml"]
    tasks = json.loads((tmp_path / "label-studio.json").read_text())
    assert tasks[0]["data"]["image"] == "a.b.jpg"
    (annotation,) = tasks[0]["annotations"]
    assert annotation["result"][0]["value"]["choices"] == ["cat"]
    prediction = tasks[0]["predictions"][0]
    assert prediction["model_version"] == "plusone-gr"
    assert prediction["score"] == 0.9
    (result,) = prediction["result"]
    assert result["type"] == "choices"
    assert result["value"]["choices"] == ["cat", 'cow "x"']
    unsure = tasks[1]["predictions"][0]
    assert unsure["result"][0]["value"]["choices"] == ["dog"]
    assert unsure["score"] == 0.4
    view = ElementTree.parse(tmp_path / "label-studio.xml").getroot()
    assert [choice.get("value") for choice in view.iter("Choice")] == list(TABLE.classes)
    (image,), (choices,) = view.iter("Image"), view.iter("Choices")
    assert (image.get("name"), image.get("value")) == (result["to_name"], "$image")
    assert (choices.get("name"), choices.get("toName")) == (result["from_name"], "image")


def test_label_studio_finds_images_behind_a_prefix(found: Suggestions, tmp_path: Path) -> None:
    table = replace(TABLE, ids=np.array(["a & b/50%.jpg", "b.jpg", "c.jpg"]))
    for prefix, address in {
        "/data/local-files/?d=photos/": "/data/local-files/?d=photos/a%20%26%20b/50%25.jpg",
        "https://example.org/": "https://example.org/a%20%26%20b/50%25.jpg",
        "s3://bucket/": "s3://bucket/a & b/50%.jpg",
    }.items():
        write_as(replace(found, table=table), tmp_path, "label-studio", image_prefix=prefix)
        task = json.loads((tmp_path / "label-studio.json").read_text())[0]
        assert task["data"]["image"] == address


def test_fiftyone_gets_class_numbers_and_paths(found: Suggestions, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="these items have none"):
        write_as(found, tmp_path, "fiftyone")
    images = replace(found, table=replace(TABLE, root=tmp_path / "photos"))
    with pytest.raises(InputError, match="these items have none"):  # labels of features
        write_as(images, tmp_path, "fiftyone")
    (tmp_path / "photos").mkdir()
    for name in TABLE.ids:
        (tmp_path / "photos" / name).touch()
    names = write_as(images, tmp_path, "fiftyone")
    files, seen, suggested = (json.loads((tmp_path / name).read_text()) for name in names)
    assert files.keys() == seen["labels"].keys() == {"00000000", "00000001"}  # no test item
    assert files["00000000"].endswith("photos/a.b.jpg")
    assert seen["classes"] == suggested["classes"] == list(TABLE.classes)
    assert seen["labels"]["00000000"] == [{"label": 0}]
    assert suggested["labels"]["00000000"][0] == {"label": 2, "confidence": 0.9}


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


def test_suggestions_are_shown_in_short(found: Suggestions) -> None:
    assert repr(found) == "Suggestions(3 labels of 2 items, 3 classes, by gr)"
    page = found._repr_html_()
    assert "<td>a.b.jpg</td><td>cow &quot;x&quot;</td><td>0.900</td>" in page
    assert page.count("<tr>") == 4


def test_unknown_forms_are_refused(found: Suggestions, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=", ".join(FORMS)):
        write_as(found, tmp_path, "excel")
