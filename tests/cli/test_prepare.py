"""The command `prepare`: what it prints and writes, and training from what it wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


def tree(root: Path, *, images: bool = True) -> Path:
    """VOC 2012 with two items in each list."""
    lists = root / "VOC2012" / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    for name, states in (("cat", "1 -1 -1 1"), ("dog", "-1 -1 1 1")):
        a, b, c, d = states.split()
        (lists / f"{name}_train.txt").write_text(f"a {a}\nb {b}\n")
        (lists / f"{name}_val.txt").write_text(f"c {c}\nd {d}\n")
    (root / "VOC2012" / "JPEGImages").mkdir()
    for name in "abcd" if images else "":
        Image.new("RGB", (4, 4)).save(root / "VOC2012" / "JPEGImages" / f"{name}.jpg")
    return lists


def test_help_has_an_example_and_the_common_options(cli):
    answer = cli("prepare", "--help")
    assert answer.code == 0
    assert "Example: plusone prepare" in answer.out
    assert "--json" in answer.out
    assert "--seed" in answer.out
    assert max(len(line) for line in answer.out.splitlines()) <= 80


def test_found_and_published_counts_are_shown_with_a_warning(cli, tmp_path):
    tree(tmp_path / "raw")
    answer = cli("prepare", "voc", tmp_path / "raw", "--out", tmp_path / "out")
    assert answer.code == 0
    assert answer.out.split("train items")[1].split()[:2] == ["2", "5,717"]
    assert answer.out.split("items without a positive")[1].split()[:2] == ["1", "-"]
    source = "(Cole et al. 2021, section 6.1; Chen et al. 2024, Table 5)"
    assert f"warning: PASCAL VOC 2012, train items: 2 found, 5,717 published {source}" in answer.err
    assert f"next: plusone train {tmp_path}/out/labels.npz --recipe recipes/voc/gr" in answer.err
    seen = cli("inspect", tmp_path / "out" / "labels.npz", "--json").json
    assert (seen["items"], seen["classes"], seen["images"]) == (4, 2, True)
    assert seen["splits"] == {"train": 2, "test": 2}
    assert seen["truth"]


def test_json(cli, tmp_path):
    tree(tmp_path / "raw")
    found = cli("prepare", "voc", tmp_path / "raw", "--out", tmp_path / "out", "--json").json
    assert found["out"] == str(tmp_path / "out" / "labels.npz")
    assert found["items"] == {"train": 2, "test": 2}
    assert found["items_without_positive"] == 1
    assert not found["agrees"]
    assert found["counts"][0] == {
        "what": "train items",
        "found": 2,
        "published": 5717,
        "agrees": False,
    }
    assert len(found["warnings"]) == 4


def test_strict_refuses_other_counts_and_writes_nothing(bad, tmp_path):
    tree(tmp_path / "raw")
    answer = bad("prepare", "voc", tmp_path / "raw", "--out", tmp_path / "out", "--strict")
    assert "train items: 2 found, 5,717 published" in answer.err
    assert not (tmp_path / "out").exists()


def test_bad_input_is_one_sentence_and_writes_nothing(bad, tmp_path):
    to = ("--out", tmp_path / "out")
    assert "is not a folder; download PASCAL VOC 2012" in bad("prepare", "voc", "gone", *to).err
    assert "'mnist' is no data set" in bad("prepare", "mnist", tmp_path, *to).err
    lists = tree(tmp_path / "raw", images=False)
    assert "--missing keep" in bad("prepare", "voc", tmp_path / "raw", *to).err
    (lists / "cat_train.txt").write_text("a 5\nb 1\n")
    assert "cat_train.txt, row 1: state '5'" in bad("prepare", "voc", tmp_path / "raw", *to).err
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("")
    answer = bad("prepare", "voc", tmp_path / "raw", "--out", tmp_path / "file")
    assert "is a file, not a folder" in answer.err


def test_labels_alone_can_be_kept(cli, tmp_path):
    tree(tmp_path / "raw", images=False)
    options = ("--out", tmp_path / "out", "--missing", "keep", "--json")
    found = cli("prepare", "voc", tmp_path / "raw", *options).json
    assert found["images"] is None
    assert "4 of 4 items have no image file" in " ".join(found["notes"])


def test_training_from_the_prepared_table(cli, shared, tmp_path):
    """A few real images of VOC, from the devkit to a trained model."""
    source = shared / "data" / "VOCdevkit" / "VOC2012"
    home = tmp_path / "VOCdevkit" / "VOC2012"
    (home / "JPEGImages").mkdir(parents=True)
    (home / "ImageSets" / "Main").mkdir(parents=True)
    for path in sorted((source / "ImageSets" / "Main").glob("*_*.txt")):
        lines = path.read_text().splitlines(keepends=True)[:12]
        (home / "ImageSets" / "Main" / path.name).write_text("".join(lines))
        for line in lines:
            name = f"{line.split()[0]}.jpg"
            if not (home / "JPEGImages" / name).exists():
                shutil.copy(source / "JPEGImages" / name, home / "JPEGImages" / name)
    made = cli("prepare", "voc", tmp_path, "--out", tmp_path / "voc", "--json").json
    assert made["items"] == {"train": 12, "test": 12}
    small = ("backbone=cnn", "image_size=32", "workers=0", "epochs=1")
    settings = [word for setting in small for word in ("-s", setting)]
    answer = cli("train", made["out"], *settings, "--out", tmp_path / "run", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["items"] == {"train": 10, "val": 2, "test": 12}


def test_items_without_any_positive_train_too(cli, tmp_path):
    """NUS-WIDE has such rows; here every third of 24 is one, and features stand for the images."""
    raw, items = tmp_path / "raw", 12
    labels = raw / "Groundtruth" / "TrainTestLabels"
    labels.mkdir(parents=True)
    (raw / "Concepts81.txt").write_text("lake\nsky\n")
    ids = []
    for part in ("Train", "Test"):
        ids += [f"{part}/{number}.jpg" for number in range(items)]
        lines = "".join(f"{part}\\{number}.jpg\n" for number in range(items))
        (raw / f"{part}Imagelist.txt").write_text(lines)
        for column, name in enumerate(("lake", "sky")):
            cells = "".join(f"{int(number % 3 == column)}\n" for number in range(items))
            (labels / f"Labels_{name}_{part}.txt").write_text(cells)
    options = ("--out", tmp_path / "nus", "--missing", "keep", "--json")
    made = cli("prepare", "nuswide", raw, *options).json
    assert made["items"] == {"train": 17, "test": 7}
    assert made["items_without_positive"] == 8
    x = np.random.default_rng(0).normal(size=(len(ids), 4)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x, ids=np.array(ids))
    flags = ("-x", tmp_path / "x.npz", "-m", "gr", "--epochs", 1, "--out", tmp_path / "run")
    answer = cli("train", made["out"], *flags, "--json")
    assert answer.code == 0, answer.err
    assert answer.json["items"] == {"train": 14, "val": 3, "test": 7}
    assert answer.json["observation"]["scheme"].startswith("single")


@pytest.mark.slow
def test_real_voc_from_features(cli, shared, tmp_path):
    data = shared / "data"
    made = cli("prepare", "voc", data / "VOCdevkit", "-o", tmp_path / "voc", "--strict", "--json")
    assert made.code == 0, made.err
    assert made.json["agrees"]
    assert made.json["warnings"] == []
    options = ("-x", data / "voc2012_features", "-m", "an", "--epochs", 1, "-o", tmp_path / "run")
    answer = cli("train", made.json["out"], *options, "--json")
    assert answer.code == 0, answer.err
    assert answer.json["items"] == {"train": 4574, "val": 1143, "test": 5823}
    assert answer.json["test_map"] > 0.5
