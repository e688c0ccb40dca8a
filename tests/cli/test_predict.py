"""predict: what it can be pointed at, what it skips, thresholds, streaming."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
from zlib import crc32

import numpy as np
import pytest
from PIL import Image
from tests.patience import PATIENCE

from plusone.data.dataset import Dataset
from plusone.inputs.task import make_task
from plusone.prediction import tags as prediction
from plusone.recipe import make_recipe
from plusone.training.run import train

pytestmark = pytest.mark.slow


def rows(text):
    return {row["image"]: row for row in csv.DictReader(io.StringIO(text))}


def assert_rounded_alike(now, then):
    """The same items, labels and probabilities; batches of other sizes may round the last digit."""
    assert now.splitlines()[0] == then.splitlines()[0]
    for one, other in zip(
        *(csv.DictReader(io.StringIO(text)) for text in (now, then)), strict=True
    ):
        for name, value in one.items():
            if name in ("image", "id", "labels"):
                assert value == other[name]
            else:
                assert float(value) == pytest.approx(float(other[name]), abs=1.01e-4)


@pytest.mark.rounding
def test_several_arguments_keep_their_folders_apart(cli, folder, photo_run, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    shutil.copytree(folder / "photos" / "red", one)
    shutil.copytree(folder / "photos" / "blue", two)
    found = rows(cli("predict", photo_run, one, two, one / "0.png").out)
    assert len(found) == 16  # the file that was named twice counts once
    assert f"{one}/0.png" in found
    assert f"{two}/0.png" in found
    alone = rows(cli("predict", photo_run, one).out)
    for name in set(alone["3.png"]) - {"image", "labels"}:
        value = float(found[f"{one}/3.png"][name])
        assert float(alone["3.png"][name]) == pytest.approx(value, abs=1.01e-4)  # other batches
    assert alone["3.png"]["labels"] == found[f"{one}/3.png"]["labels"]


def test_patterns(cli, bad, folder, photo_run):
    found = rows(cli("predict", photo_run, f"{folder}/photos/**/[01].png").out)
    assert len(found) == 6
    assert len(rows(cli("predict", photo_run, f"{folder}/photos/*").out)) == 24  # folders inside
    assert "no file matches" in bad("predict", photo_run, f"{folder}/photos/*.jpg").err
    answer = cli("predict", photo_run, f"{folder}/photos/red/0.png", f"{folder}/*.csv")
    assert answer.code == 0
    assert "labels.csv: is not an image file by its name" in answer.err


def test_a_csv_with_paths_that_must_stay_below_it(cli, bad, folder, photo_run, tmp_path):
    shutil.copytree(folder / "photos" / "red", tmp_path / "list" / "red")
    Image.new("RGB", (8, 8)).save(tmp_path / "secret.png")
    listed = tmp_path / "list" / "new.csv"
    names = ["red/0.png", "red/1.png", "../secret.png", str(tmp_path / "secret.png"), "gone.png"]
    listed.write_text("note,image\n" + "".join(f"x,{name}\n" for name in names))
    answer = cli("predict", photo_run, listed, "--json")
    assert [item["id"] for item in answer.json["items"]] == ["red/0.png", "red/1.png"]
    reasons = {one["id"]: one["reason"] for one in answer.json["skipped"]}
    assert set(reasons) == set(names[2:])
    assert reasons["../secret.png"] == "leaves its folder"
    assert "No such file" in reasons["gone.png"]
    assert "3 of 5 items skipped" in answer.err
    listed.write_text("a,b\n1,2\n")
    assert "no id column" in bad("predict", photo_run, listed).err
    listed.write_text("")
    assert "is empty" in bad("predict", photo_run, listed).err


def bomb():
    """The beginning of an image of 50,000 x 50,000 pixels."""
    size = struct.pack(">II", 50_000, 50_000) + b"\x08\x02\x00\x00\x00"
    head = b"IHDR" + size
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", crc32(head))


@pytest.fixture
def broken(folder, tmp_path):
    """A folder with two good images and all kinds of bad ones."""
    photos = tmp_path / "photos"
    photos.mkdir()
    good = (folder / "photos" / "red" / "0.png").read_bytes()
    (photos / "good.png").write_bytes(good)
    (photos / "zero.jpg").write_bytes(b"")
    (photos / "text.png").write_text("not an image")
    (photos / "cut.png").write_bytes(good[: len(good) // 2])
    (photos / "bomb.png").write_bytes(bomb())
    (photos / "also good.png").write_bytes(good)
    return photos


def test_bad_images_are_listed_and_skipped(cli, photo_run, broken, tmp_path):
    answer = cli("predict", photo_run, broken, "-o", tmp_path / "t.csv", "--json")
    assert answer.code == 0
    assert [item["id"] for item in answer.json["items"]] == ["also good.png", "good.png"]
    assert sorted(one["id"] for one in answer.json["skipped"]) == [
        "bomb.png", "cut.png", "text.png", "zero.jpg",
    ]  # fmt: skip
    lines = answer.err.splitlines()
    assert sum(line.startswith("skipped ") for line in lines) == 4
    assert lines[-2:] == ["4 of 6 items skipped", f"2 items in {tmp_path / 't.csv'}"]
    assert set(rows((tmp_path / "t.csv").read_text())) == {"good.png", "also good.png"}


def test_if_nothing_can_be_read_the_run_failed(cli, photo_run, broken, tmp_path):
    for name in ("good.png", "also good.png"):
        (broken / name).unlink()
    answer = cli("predict", photo_run, broken, "-o", tmp_path / "t.csv", "--json")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.splitlines()[-1] == "plusone: none of the 4 items could be read"
    assert not (tmp_path / "t.csv").exists()


def test_many_skipped_images_are_counted_not_listed(cli, folder, photo_run, tmp_path):
    shutil.copy(folder / "photos" / "red" / "0.png", tmp_path / "good.png")
    for number in range(30):
        (tmp_path / f"bad{number}.png").write_bytes(b"")
    answer = cli("predict", photo_run, tmp_path)
    assert answer.err.count("skipped bad") == 20
    assert "... and 10 more; --json lists all" in answer.err


@pytest.mark.rounding
def test_small_pieces_give_the_same(cli, folder, photo_run, run_folder, monkeypatch):
    whole = cli("predict", photo_run, folder / "photos").out
    features = cli("predict", run_folder, folder / "x.npz").out
    monkeypatch.setattr(prediction, "BATCH", 5)
    monkeypatch.setattr(prediction, "NUMBERS", 8 * 7)  # 7 items of 5 features and 3 classes
    assert_rounded_alike(cli("predict", photo_run, folder / "photos").out, whole)
    assert_rounded_alike(cli("predict", run_folder, folder / "x.npz").out, features)


def test_thresholds_by_class_or_as_given(cli, folder, run_folder, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(run_folder, run)
    answer = cli("predict", run, folder / "x.npz", "--json")
    assert answer.json["from"] == "probabilities"
    assert "thresholds: per class, by the expected F1" in answer.err
    assert "probabilities: calibrated on the seen labels of" in answer.err
    raw = cli("predict", run, folder / "x.npz", "--raw", "--json")
    assert "probabilities: raw scores, not calibrated (as asked for)" in raw.err
    for item, same in zip(answer.json["items"], raw.json["items"], strict=True):
        assert set(item["labels"]) == set(same["labels"])
        assert item["probabilities"] != same["probabilities"]
    (run / "calibration.json").unlink()  # as in runs of earlier versions
    old = cli("predict", run, folder / "x.npz", "--json")
    assert "not calibrated (the run holds no calibration)" in old.err
    for item, same in zip(old.json["items"], raw.json["items"], strict=True):
        assert item["probabilities"] == same["probabilities"]
    (run / "thresholds.json").write_text(
        json.dumps({"from": "seen", "thresholds": {"ant": 0.0, "bee": 1.0, "cat": 1.0}})
    )
    assert {tuple(item["labels"]) for item in cli("predict", run, folder / "x.npz", "--json")
            .json["items"]} == {("ant",)}  # fmt: skip
    given = cli("predict", run, folder / "x.npz", "--threshold", 1, "--json").json
    assert given["thresholds"] == {"ant": 1.0, "bee": 1.0, "cat": 1.0}
    assert all(item["labels"] == [] for item in given["items"])
    (run / "thresholds.json").unlink()
    answer = cli("predict", run, folder / "x.npz")
    assert "threshold: 0.5 for every class (the run holds no thresholds" in answer.err


def test_evaluate_uses_the_same_thresholds(cli, folder, run_folder, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(run_folder, run)
    own = cli("evaluate", run, "--json").json
    assert own["thresholds"] == "probabilities"
    assert own["calibration"]["from"] == "seen"
    assert "calibration: the mean probability is" in cli("evaluate", run).err
    half = cli("evaluate", run, "--threshold", 0.5, "--json").json
    assert (half["thresholds"], half["map"]) == ("given", own["map"])
    (run / "thresholds.json").unlink()
    assert cli("evaluate", run, "--json").json == half | {"thresholds": "none"}
    none = {"from": "seen", "thresholds": dict.fromkeys(("ant", "bee", "cat"), 1.0)}
    (run / "thresholds.json").write_text(json.dumps(none))
    assert cli("evaluate", run, "--json").json["or"] == 0  # nothing is above 1


def test_a_model_for_grey_images_refuses_files(bad, folder, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 255, (40, 1, 16, 16), dtype=np.uint8)
    data = Dataset.from_arrays(x, np.eye(2, dtype=np.int8)[np.arange(40) % 2])
    recipe = make_recipe({"epochs": 1})
    train(make_task(data, recipe), recipe, tmp_path / "run")
    err = bad("predict", tmp_path / "run", folder / "photos").err
    assert "has images with 3 channels, the model takes images with 1 channel" in err


def test_lists_of_several_folders_are_kept_apart(cli, folder, photo_run, tmp_path):
    for name in ("red", "blue"):
        shutil.copytree(folder / "photos" / name, tmp_path / name)
        (tmp_path / name / "list.csv").write_text("image\n0.png\n")
    lists = [tmp_path / name / "list.csv" for name in ("red", "blue")]
    found = rows(cli("predict", photo_run, *lists).out)
    assert list(found) == [f"{tmp_path}/red/0.png", f"{tmp_path}/blue/0.png"]


def test_a_list_whose_images_are_in_another_folder(cli, folder, photo_run, tmp_path):
    from plusone.data.formats import read, write

    write(read(folder / "photos").table, tmp_path / "labels.csv")
    found = rows(cli("predict", photo_run, tmp_path / "labels.csv").out)
    assert len(found) == 24
    assert "red/0.png" in found


def test_images_for_a_model_of_features_are_refused(bad, folder, run_folder):
    for images in ("photos/red", "photos/red/0.png"):
        err = bad("predict", run_folder, folder / images).err
        assert "the model takes 5 features per item; plusone features extracts them" in err


def test_features_of_another_backbone_are_refused(cli, bad, folder, tmp_path):
    """What the file of the features says is kept by the run."""
    arrays = dict(np.load(folder / "x.npz"))
    files = {name: tmp_path / f"{name}.npz" for name in ("lite0", "lite1", "none")}
    for name, path in files.items():
        meta = {} if name == "none" else {"meta": json.dumps({"backbone": name, "size": 32})}
        np.savez(path, **{key: arrays[key] for key in ("x", "ids")}, **meta)
    run = tmp_path / "run"
    train = ("train", folder / "labels.csv", "-x", files["lite0"], "-m", "an", "--epochs", 1)
    assert cli(*train, "--no-report", "--out", run).code == 0
    assert cli("predict", run, files["lite0"]).code == 0
    assert cli("predict", run, files["none"]).code == 0
    assert "with backbone lite1, the model" in bad("predict", run, files["lite1"]).err
    answer = bad("evaluate", run, folder / "labels.csv", "-x", files["lite1"])
    assert "with backbone lite1, the model" in answer.err


def test_a_class_name_that_a_csv_cannot_hold():
    from plusone.errors import InputError
    from plusone.prediction.tags import CsvTags
    from plusone.probabilities.thresholds import Thresholds

    with pytest.raises(InputError, match="separates labels in CSV; use --json"):
        CsvTags(io.StringIO(), ("a", "b|c"), Thresholds.same(0.5, 2))


def test_a_file_name_that_is_not_utf8_is_skipped_by_name(cli, folder, photo_run, tmp_path):
    photos = tmp_path / "photos"
    shutil.copytree(folder / "photos" / "red", photos)
    try:
        shutil.copy(photos / "0.png", os.fsencode(photos) + b"/caf\xe9.png")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    to = tmp_path / "tags.csv"
    answer = cli("predict", photo_run, photos, "--out", to)
    assert answer.code == 0, answer.err
    assert "skipped caf\\xe9.png: its name is not UTF-8" in answer.err
    assert len(to.read_text().splitlines()) == 1 + 8
    found = cli("predict", photo_run, photos, "--json").json
    assert found["skipped"] == [{"id": "caf\\xe9.png", "reason": "its name is not UTF-8"}]


def test_names_do_not_control_the_terminal(cli, folder, photo_run, tmp_path):
    photos, evil = tmp_path / "photos", "\x1b]0;owned\x07\x1b[2J\u202egnp.png"
    shutil.copytree(folder / "photos" / "red", photos)
    (photos / evil).write_bytes(b"no image")
    answer = cli("predict", photo_run, photos, "--out", tmp_path / "t.csv")
    assert "skipped \\x1b]0;owned\\x07\\x1b[2J\\u202egnp.png: " in answer.err
    assert "\x1b" not in answer.err
    shutil.copy(photos / "0.png", photos / "\x1b[2J.png")
    piped = cli("predict", photo_run, photos)
    assert "\n\x1b[2J.png," in piped.out  # a file or another program gets names as they are
    assert "\x1b" not in cli("train", tmp_path / "\x1b[2J").err
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "plusone", "predict", str(photo_run), str(photos)]
    done = subprocess.run(
        command, stdout=theirs, stderr=subprocess.PIPE, timeout=PATIENCE, check=True
    )
    shown = os.read(ours, 1 << 16)
    assert b"\n\\x1b[2J.png," in shown
    assert b"\x1b[2J" not in shown + done.stderr
    os.close(ours)
    os.close(theirs)


def test_cells_that_a_spreadsheet_would_run(cli, folder, photo_run, tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    names = ["=HYPERLINK(1).png", "+1.png", "-1.png", "@x.png", "plain.png"]
    for name in names:
        shutil.copy(folder / "photos" / "red" / "0.png", photos / name)
    for words, mark in (((), ""), (("--spreadsheet",), "'")):
        to = tmp_path / "tags.csv"
        assert cli("predict", photo_run, photos, "--out", to, *words).code == 0
        with to.open() as file:
            found = {row["image"] for row in csv.DictReader(file)}
        assert found == {*(mark + name for name in names[:4]), "plain.png"}
