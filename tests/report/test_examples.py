"""Example items and their images."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from plusone.data.formats import read
from plusone.data.source import Source
from plusone.errors import InputError
from plusone.report.examples import chips, examples
from plusone.report.material import collect
from plusone.report.thumbnails import LONGEST, SIDE, excerpts, load_items, thumbnails
from plusone.results import Example


def test_chips_name_as_many_labels_as_are_true():
    item = {"id": "x", "seen": ["a"], "truth": ["a", "b", "c"],
            "scores": {"b": 0.3, "d": 0.2, "a": 0.1, "c": 0.05}}  # fmt: skip
    assert [(chip.name, chip.state) for chip in chips(Example.model_validate(item), {})] == [
        ("b", "found"), ("c", "missed"), ("d", "wrong")
    ]  # fmt: skip
    unknown = Example.model_validate(item | {"truth": None})
    assert chips(unknown, {}) == ()  # nothing reaches 0.5
    thresholds = {"a": 0.01, "b": 0.3, "c": 0.01, "d": 0.21}
    assert [(chip.name, chip.state) for chip in chips(unknown, thresholds)] == [
        ("b", "likely"), ("c", "likely")
    ]  # fmt: skip


def test_embedded_digits_have_images_also_for_their_features():
    found = thumbnails(load_items(Source("digits-features")), ["scene-00001", "nobody"])
    assert list(found) == ["scene-00001"]
    assert opened(found["scene-00001"]).size == (64, 64)


def test_images_are_read_below_the_folder_of_the_data_only(tmp_path):
    for name in ("red", "blue"):
        (tmp_path / "data" / name).mkdir(parents=True)
        Image.new("RGB", (600, 300), name).save(tmp_path / "data" / name / "1.png")
    Image.fromarray(np.zeros((9, 9), np.uint8)).save(tmp_path / "secret.png")
    dataset = load_items(Source(str(tmp_path / "data")))
    ids = [str(name) for name in dataset.table.ids]
    assert opened(thumbnails(dataset, ids)[ids[0]]).size == (SIDE, SIDE // 2)
    dataset.table.ids[0] = "../secret.png"
    (tmp_path / "data" / ids[1]).write_bytes(b"no image")
    assert thumbnails(dataset, ["../secret.png", ids[1]]) == {}
    assert read(tmp_path / "data", check_images=False).table.root is not None


def test_texts_are_shown_by_their_beginnings(tmp_path):
    file = tmp_path / "data.csv"
    file.write_text(f"id,text,labels\na,short,x\nb,{'word ' * 200},x\n", encoding="utf-8")
    shown = excerpts(load_items(Source(str(file))), ["a", "b", "nobody"])
    assert shown["a"] == "short"
    assert shown["b"].endswith("word …")
    assert len(shown["b"]) <= LONGEST
    assert "nobody" not in shown


def test_data_that_is_gone(tmp_path):
    for source in (Source(str(tmp_path / "gone.csv")), None):
        with pytest.raises(InputError, match="is not where it was"):
            load_items(source)


@pytest.mark.parametrize("data", ["gone", "digits"])
def test_examples_without_their_images_say_so(make, tmp_path, data):
    result = make.result("an", source={"data": data})
    item = result["examples"][0] | {"id": "nobody"}
    make.journal(tmp_path, [result | {"examples": [item]}])
    (work,) = examples(collect([tmp_path])).blocks
    gallery, note = work.make()
    assert note.text.startswith("Without images: ")
    assert gallery.items[0].image == ""
    assert gallery.states == ("seen", "found", "missed", "wrong")


def opened(uri):
    return Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1])))
