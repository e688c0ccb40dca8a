"""predict: the gallery, folders per tag and XMP sidecars."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
import torch
from PIL import Image

from plusone.errors import InputError
from plusone.export.tag_folders import LONGEST, TagFolders, folder_name, folder_names
from plusone.export.xmp import XmpTags, sidecar
from plusone.prediction.items import Skipped
from plusone.prediction.tags import Predictions
from plusone.probabilities.thresholds import Thresholds
from plusone.report.gallery import GalleryTags

HOSTILE = (
    "</script><script>alert(1)//",
    "../../out",
    "a\"b'c & d",
    "NUL",
    "x" * 300,
    "kü\x07\u202ech",
)
CUTS = Thresholds.same(0.5, len(HOSTILE))


@pytest.fixture
def predictions(tmp_path):
    """Three photos: one with every tag, one with the second, one with none."""
    paths = [tmp_path / "photos" / name for name in ("a.png", "b/a.png", "b/<img src=x>.png")]
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), (80 * number, 0, 0)).save(path)
    scores = torch.zeros(3, len(HOSTILE))
    scores[0] = 0.9
    scores[1, 1] = 0.7
    scores[2] = 0.2
    ids = tuple(path.relative_to(tmp_path).as_posix() for path in paths)
    return Predictions(ids, HOSTILE, scores, (), tuple(paths))


def files(folder):
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.png")}


@pytest.mark.parametrize("links", [False, True])
def test_a_folder_per_tag_inside_the_folder_and_nothing_overwritten(tmp_path, predictions, links):
    to = tmp_path / "deep" / "sorted"
    for new, there in ((7, 0), (0, 7)):  # a second time changes nothing
        sink = TagFolders(to, HOSTILE, CUTS, links=links)
        sink.add(predictions)
        assert (sink.new, sink.there, sink.untagged) == (new, there, 1)
    assert {path.name for path in tmp_path.iterdir()} == {"photos", "deep"}
    assert [path.name for path in to.parent.iterdir()] == ["sorted"]
    found = files(to)
    assert len({name.split("/")[0] for name in found}) == len(HOSTILE)
    assert {"_._.._out/a.png", "_._.._out/a-2.png"} <= set(found)  # two photos of one name
    for name, path in found.items():
        source = predictions.paths[1 if name.endswith("-2.png") else 0]
        assert path.read_bytes() == source.read_bytes()
        assert path.is_symlink() == links
    text = "\n".join(sink.sentences())
    assert "'../../out'" in text
    assert "1 photos have no tag" in text
    found["_NUL/a.png"].unlink()
    (to / "_NUL" / "a.png").write_bytes(b"mine")
    TagFolders(to, HOSTILE, CUTS, links=links).add(predictions)
    assert (to / "_NUL" / "a.png").read_bytes() == b"mine"
    assert (to / "_NUL" / "a-2.png").read_bytes() == predictions.paths[0].read_bytes()


def test_a_link_in_the_place_of_a_tag_is_refused(tmp_path, predictions):
    (tmp_path / "sorted").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "sorted" / "_NUL").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="_NUL: is not a folder of its own"):
        TagFolders(tmp_path / "sorted", HOSTILE, CUTS).add(predictions)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_names_of_folders():
    names = [
        "",
        ".",
        "..",
        " . ",
        "con.txt",
        "COM1",
        ".git",
        "é" * 200,
        "a/b",
        "a\\b",
        "A:B",
        "\ud800",
    ]
    made = folder_names(names)
    assert len({name.casefold() for name in made}) == len(names)
    for name in made:
        assert name == name.strip().rstrip(".")
        assert not name.startswith(".")
        assert not set(name) & set('/\\:*?"<>|\x00')
        assert len(name.encode()) <= LONGEST + 3
    assert folder_name("köpfe, 3 (neu)") == "köpfe, 3 (neu)"


def test_sidecars_are_written_once_and_those_of_others_stay(tmp_path, predictions):
    before = {path: path.read_bytes() for path in predictions.paths}
    for _ in range(2):
        sink = XmpTags(CUTS)
        sink.add(predictions)
        assert (sink.written, sink.kept) == (2, [])
    first, second, third = (path.with_name(path.name + ".xmp") for path in predictions.paths)
    assert not third.exists()  # nothing to say
    edited = first.read_text(encoding="utf-8").replace("<dc:subject>", "<dc:title/><dc:subject>")
    first.write_text(edited, encoding="utf-8")
    third.symlink_to(tmp_path / "nowhere")
    none = Predictions(predictions.ids, HOSTILE, torch.zeros(3, 6), (), predictions.paths)
    sink = XmpTags(CUTS)
    sink.add(none)
    assert (sink.written, sink.kept) == (1, [first, third])
    assert first.read_text(encoding="utf-8") == edited
    assert second.read_text(encoding="utf-8") == sidecar([])
    assert not (tmp_path / "nowhere").exists()
    assert before == {path: path.read_bytes() for path in predictions.paths}


@pytest.mark.skipif(shutil.which("exiftool") is None, reason="there is no exiftool")
def test_exiftool_reads_the_sidecars(predictions):
    XmpTags(CUTS).add(predictions)
    path = predictions.paths[0].with_name("a.png.xmp")
    command = ["exiftool", "-json", "-XMP-dc:Subject", "-validate", "-warning", "-a", path]
    (read,) = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert read["Subject"] == [*HOSTILE[:-1], "kü\ufffd\u202ech"]
    assert read["Validate"] == "OK"


def test_the_gallery_escapes_every_name(tmp_path, predictions):
    with (tmp_path / "g.html").open("w", encoding="utf-8") as file:
        sink = GalleryTags(file, "<b>title</b>", HOSTILE, CUTS)
        sink.add(predictions)
        sink.end([Skipped("<i>gone</i>", "<u>why</u>")])
    text = (tmp_path / "g.html").read_text(encoding="utf-8")
    assert text.count("<article") == text.count('src="data:image/') == 3
    for part in ("<b>", "<i>", "<u>", "<img src=x>", "<script>alert"):
        assert part not in text
    assert text.count("<script") == text.count("</script>") == 2
    known = json.loads(text.split('id="tags">')[1].split("</script>")[0])
    assert known["tags"][0]["name"] == HOSTILE[1]  # the most frequent first
    assert known["untagged"] == 1
    assert all(f'data-doubt="{value:.4f}"' in text for value in (0.6, 0.3, 1.2))


@pytest.mark.slow
def test_predict_writes_all_of_them(cli, bad, folder, photo_run, run_folder, tmp_path):
    photos = tmp_path / "photos"
    shutil.copytree(folder / "photos", photos)
    (photos / "broken.png").write_bytes(b"no image")
    more = (
        "--gallery",
        tmp_path / "out" / "g.html",
        "--copy-to",
        tmp_path / "sorted",
        "--write-xmp",
    )
    answer = cli("predict", photo_run, photos, *more, "--threshold", 0)
    assert answer.code == 0, answer.err
    assert answer.out == ""  # no CSV between the messages
    assert len(files(tmp_path / "sorted")) == 3 * 24
    assert len(list(photos.rglob("*.xmp"))) == 24
    assert (tmp_path / "out" / "g.html").read_text(encoding="utf-8").count("<article") == 24
    assert "72 copies in" in answer.err
    assert "gallery in" in answer.err
    listed = cli("predict", photo_run, photos, "--json", "--gallery", tmp_path / "g.html")
    assert len(listed.json["items"]) == 24
    assert "inside" in bad("predict", photo_run, tmp_path, "--copy-to", tmp_path / "sorted").err
    assert "needs --copy-to" in bad("predict", photo_run, photos, "--links").err
    refused = bad("predict", run_folder, folder / "x.npz", "--write-xmp")
    assert "x.npz: has no image files" in refused.err
