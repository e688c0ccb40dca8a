"""Folders, label files and class names as newcomers bring them, and the sentences they get."""

from __future__ import annotations

import json
import subprocess
import sys
from zlib import crc32

import numpy as np
import pytest
from PIL import Image

NO_HEIC = """
import json, sys
sys.modules['pillow_heif'] = None
from plusone.cli.app import main
for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as left:
        print(f"\\0{left.code or 0}\\0", file=sys.stderr)
"""


def picture(path, kind=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    name = "/".join(path.parts[-2:])
    noise = np.random.default_rng(crc32(name.encode())).integers(
        0, 255, (24, 24, 3), dtype=np.uint8
    )
    Image.fromarray(noise).save(path, format=kind)


def heic(path):
    import pillow_heif

    path.parent.mkdir(parents=True, exist_ok=True)
    smooth = np.linspace(crc32(path.parent.name.encode()) % 99, 255, 64 * 64 * 3)
    smooth = smooth.reshape(64, 64, 3).astype(np.uint8)
    pillow_heif.from_pillow(Image.fromarray(smooth)).save(path, quality=90)


def write(folder, names):
    for name in names:
        if name.endswith((".jpg", ".avif")):
            picture(folder / name)
        else:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("x")


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (
            ["1.jpg", "2.jpg"],
            "photos: has 2 images in it, but nothing says what their labels are; put the images of "
            "each label into a folder of its own",
        ),
        (
            ["mine/cat/1.jpg", "mine/dog/1.jpg", "mine/notes.txt"],
            "photos: the folders of the classes (cat, dog) are one level further down; name",
        ),
        (
            ["letter.pdf", "old/b.txt"],
            "photos: has no images in it, only .pdf, .txt; name a folder",
        ),
        ([], "photos: has no files in it; name a folder"),
        (
            ["1.jpg", "tags.csv"],
            "photos: has no class folders and no labels.csv, but tags.csv; name the file",
        ),
    ],
)
def test_a_wrong_folder(bad, tmp_path, names, sentence):
    (tmp_path / "photos").mkdir()
    write(tmp_path / "photos", names)
    assert sentence in bad("inspect", tmp_path / "photos").err.replace("\n", " ")


def test_the_level_above_can_be_meant(cli, tmp_path):
    write(tmp_path, ["animal/cat/1.jpg", "animal/dog/1.jpg"])
    answer = cli("inspect", tmp_path, "--format", "folders", "--json")
    assert [one["name"] for one in answer.json["per_class"]] == ["animal"]


@pytest.mark.parametrize("header", ["filename,tag", "image,tags,split"])
def test_a_column_of_tags_by_another_name(cli, tmp_path, header):
    split = ",train" if header.endswith("split") else ""
    (tmp_path / "t.csv").write_text(f"{header}\n1.jpg,cat{split}\n2.jpg,dog{split}\n")
    answer = cli("inspect", tmp_path / "t.csv", "--json").json
    assert [one["name"] for one in answer["per_class"]] == ["cat", "dog"]


def test_names_that_are_probably_mistakes_are_listed(cli, tmp_path):
    rng = np.random.default_rng(0)
    tags = ["dog"] * 30 + ["cat"] * 30 + ["dgo", "Cat", '"cat,dog"', "car"]
    ids = [f"{number}.jpg" for number in range(len(tags))]
    rows = [f"{name},{tag}" for name, tag in zip(ids, tags, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["image,labels", *rows]) + "\n")
    np.savez(tmp_path / "x.npz", x=rng.normal(size=(len(ids), 4)).astype("f4"), ids=np.array(ids))
    data = (tmp_path / "t.csv", "--features", tmp_path / "x.npz")
    warnings = cli("inspect", *data, "--json").json["warnings"]
    assert "'Cat' and 'cat', 'dgo' and 'dog';" in warnings[0]
    assert "'cat,dog'; several labels in a cell are written with |, as in cat|dog" in warnings[1]
    for answer in (
        cli("inspect", *data),
        cli("train", *data, "--out", tmp_path / "run", "--no-report"),
    ):
        assert answer.code == 0, answer.err
        assert all(f"warning: {text}" in answer.err for text in warnings)


def test_heic_and_avif_are_read(cli, tmp_path):
    folder = tmp_path / "photos"
    for label in ("cat", "dog"):
        heic(folder / label / "1.HEIC")
        heic(folder / label / "named.jpg")  # what some programs make of a HEIC file
        picture(folder / label / "2.avif")
    answer = cli("inspect", folder, "--json")
    assert (answer.json["items"], answer.json["broken"]) == (6, [])


@pytest.mark.slow
def test_heic_that_cannot_be_read_is_counted_and_named(cli, tmp_path, photo_run):
    only, some, table = tmp_path / "photos", tmp_path / "more", tmp_path / "table"
    for number in range(3):
        heic(only / "cat" / f"{number}.heic")
        heic(some / "cat" / f"{number}.heic")
    for number in range(30):
        picture(some / "cat" / f"{number}.jpg")
        picture(some / "dog" / f"{number}.jpg")
        picture(table / f"{number}.jpg")
    heic(table / "31.heic")
    names = sorted(path.name for path in table.iterdir())
    (table / "labels.csv").write_text("image,labels\n" + "".join(f"{n},cat\n" for n in names))
    asked = [["inspect", only], ["predict", photo_run, only], ["inspect", some]]
    asked += [["predict", photo_run, some], ["inspect", table]]
    program = [sys.executable, "-c", NO_HEIC, json.dumps(asked, default=str)]
    said = subprocess.run(program, capture_output=True, text=True, check=True).stderr.split("\0")
    answers, codes = said[:-1:2], [int(code) for code in said[1::2]]
    assert codes == [2, 2, 0, 0, 0], said
    for answer in answers[:2]:
        assert "photos: 3 HEIC images cannot be read here (pip install pillow-heif)" in answer
    assert "left out: 3 HEIC images cannot be read here" in answers[2]
    assert answers[3].count("it is HEIC, which needs pip install pillow-heif") == 3
    assert "3 of 63 items skipped" in answers[3]
    assert "left out: 31.heic cannot be read as an image (it is HEIC" in answers[4]
    # Once it can be read: also where the files were checked before.
    assert cli("inspect", some, "--json").json["items"] == 63
    assert cli("inspect", table, "--json").json["broken"] == []
