"""evaluate and predict, on good runs and on broken ones."""

from __future__ import annotations

import csv
import json
import re
import shutil

import numpy as np
import pytest

from plusone.data.features import read_features
from plusone.data.formats import read


def test_evaluate_gives_the_test_map_of_the_run(cli, run_folder):
    answer = cli("evaluate", run_folder, "--json")
    assert answer.code == 0, answer.err
    metrics = json.loads((run_folder / "metrics.json").read_text())
    assert answer.json["map"] == pytest.approx(metrics["test_map"], abs=1e-9)
    assert (answer.json["items"], answer.json["against"]) == (20, "truth")
    val = cli("evaluate", run_folder, "--split", "val", "--json")
    assert "learned from the seen labels of these items" in val.err  # the default, recovery, does
    assert val.json["learned_from"]
    assert val.json["map"] > metrics["val_map"]  # which leaves each item out
    table = cli("evaluate", run_folder)
    assert table.code == 0
    assert f"{100 * metrics['test_map']:.2f}" in table.out  # per cent, as train prints it
    words = " ".join(table.out.split())
    assert "20 test items of" in words
    assert "predicted labels that are right (precision)" in words
    assert not re.search(r"\b(op|cf1|hamming|npv_pooled)\b", words)
    names = set(answer.json) - {"run", "data", "split", "items", "against", "thresholds"}
    details = cli("evaluate", run_folder, "--verbose").out
    assert all(f"[{name}]" in details for name in names - {"calibration"})


def test_evaluate_on_named_data(cli, bad, folder, run_folder, photo_run, tmp_path):
    csv_file = folder / "labels.csv"
    named = cli("evaluate", run_folder, csv_file, "-x", folder / "x.npz", "--json")
    assert named.json == cli("evaluate", run_folder, "--json").json
    err = bad("evaluate", run_folder, csv_file, "-x", folder / "wide.npz").err
    assert "has 10 features per item, the model takes 5 features per item" in err
    err = bad("evaluate", run_folder, folder / "photos").err
    assert "its classes are not those of the model; missing: ant, bee, cat; unknown: blue" in err
    assert cli("evaluate", photo_run, "--json").json["split"] == "val"  # there are no others
    err = bad("evaluate", photo_run, "--split", "test").err
    assert "has no items in the split 'test'; its splits: train (19), val (5), and all" in err
    again = cli("evaluate", photo_run, folder / "photos")
    assert "24 all items" not in again.out
    assert "24 items" in " ".join(again.out.split())
    assert "warning: 19 of these items have the name of a training item" in again.err
    more = tmp_path / "more.csv"
    more.write_text(csv_file.read_text().replace("ant,bee,cat", "ant,bee,dog"))
    err = bad("evaluate", run_folder, more, "-x", folder / "x.npz").err
    assert "its classes are not those of the model; missing: cat; unknown: dog" in err


def test_unknown_labels_are_left_out_and_both_ends_are_shown(cli, folder, run_folder, tmp_path):
    """A test split in which every third label is unknown."""
    rows = (folder / "labels.csv").read_text().splitlines()
    head = rows[0].split(",")
    table = [dict(zip(head, row.split(","), strict=True)) for row in rows[1:]]
    truth = np.array([[2 * int(row[name]) - 1 for name in ("ant", "bee", "cat")] for row in table])
    known = truth * (np.arange(truth.size).reshape(truth.shape) % 7 > 1)
    split = [row["split"] for row in table]
    ids = np.array([row[head[0]] for row in table])
    classes = np.array(["ant", "bee", "cat"])
    for name, states in (("known", known), ("negative", np.where(known == 0, -1, known))):
        np.savez(tmp_path / f"{name}.npz", y=states, ids=ids, classes=classes, split=split)
    words = ("evaluate", run_folder, tmp_path / "known.npz", "-x", folder / "x.npz")
    found = cli(*words, "--json").json
    assert (found["against"], found["items"]) == ("known", 20)
    assert found["unknown"] == (known[np.array(split) == "test"] == 0).sum() > 0
    complete = cli(
        "evaluate", run_folder, tmp_path / "negative.npz", "-x", folder / "x.npz", "--json"
    ).json
    assert complete["against"] == "truth"
    assert found["if_negative"]["map"] == pytest.approx(complete["map"])
    assert len({found["map"], found["if_negative"]["map"], found["if_positive"]["map"]}) == 3
    shown = cli(*words)
    assert "labels are unknown and are left out" in shown.err
    row = next(line for line in shown.out.splitlines() if "(mAP)" in line)
    cells = [f"{100 * (found[k]['map'] if k else found['map']):.2f}" for k in ("", *ENDS)]
    assert row.split()[-3:] == cells
    # Training prints the figures of `evaluate`, and has them in its JSON.
    words = ("train", tmp_path / "known.npz", "-x", folder / "x.npz", "-m", "an", "--epochs", 2)
    trained = cli(*words, "-o", tmp_path / "one", "--json").json
    found = cli("evaluate", tmp_path / "one", "--json").json
    maps = [found[end]["map"] if end else found["map"] for end in ("", *ENDS)]
    assert (trained["val_against"], trained["test_unknown"]) == ("known", found["unknown"])
    ours = [trained["test_map"], *(trained[f"test_{end}"]["map"] for end in ENDS)]
    assert ours == pytest.approx(maps, abs=1e-9)
    shown = cli(*words, "-o", tmp_path / "two", "--no-report")
    masked, negative, positive = (f"{100 * value:.2f}" for value in maps)
    text = " ".join(shown.out.split())
    assert (
        f"test mAP {masked} ({found['unknown']} unknown labels left out; {negative} if all" in text
    )
    assert f"{positive} if all were positive" in text
    assert "(against the known labels)" in text


ENDS = ("if_negative", "if_positive")


def test_validation_items_of_named_data_are_those_of_the_run(cli, bad, folder, tmp_path):
    """In another order, `--split val` once drew new items: four fifths of them trained on."""
    rows = (folder / "labels.csv").read_text().splitlines()
    one, other, new = (tmp_path / name for name in ("one.csv", "other.csv", "new.csv"))
    one.write_text("\n".join(row.replace(",test", ",train") for row in rows) + "\n")
    header, *items = one.read_text().splitlines()
    other.write_text("\n".join([header, *reversed(items)]) + "\n")
    new.write_text("\n".join([header, *(f"new-{row}" for row in items)]) + "\n")
    x, run = ("-x", folder / "x.npz"), tmp_path / "run"
    trained = cli("train", one, *x, "-m", "gr", "--epochs", 3, "-o", run, "--json", "--no-report")
    assert trained.code == 0, trained.err
    expected = cli("evaluate", run, "--split", "val", "--json").json
    assert expected["items"] == 12
    found = cli("evaluate", run, other, *x, "--split", "val", "--json").json
    assert found["map"] == pytest.approx(expected["map"], abs=1e-6)
    assert cli("evaluate", run, other, *x, "--split", "train", "--json").json["items"] == 48
    with np.load(folder / "x.npz") as arrays:
        ids = np.array([f"new-{name}" for name in arrays["ids"]])
        np.savez(tmp_path / "new.npz", x=arrays["x"], ids=ids)
    unknown = (new, "-x", tmp_path / "new.npz")
    err = bad("evaluate", run, *unknown, "--split", "val").err
    assert "no item has the name of a validation item of the run; --split all evaluates all" in err
    assert cli("evaluate", run, *unknown, "--split", "all", "--json").json["items"] == 60
    swapped = tmp_path / "swapped.csv"
    swapped.write_text(one.read_text().replace(",train", ",val"))
    err = bad("evaluate", run, swapped, *x, "--split", "val").err
    assert "the run was trained on 48 of its validation items" in err
    assert cli("export", run, "--out", tmp_path / "model").code == 0
    err = bad("evaluate", tmp_path / "model", one, *x, "--split", "val").err
    assert "does not say which items it was trained on" in err


def test_predict_a_folder(cli, folder, photo_run, tmp_path):
    to = tmp_path / "new" / "tags.csv"
    answer = cli("predict", photo_run, folder / "photos", "--out", to)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == (
        "thresholds: per class, from the seen labels of the validation items\n"
        "probabilities: raw scores, not calibrated (5 validation items have seen labels, and 20 "
        f"are needed)\n24 items in {to}\n"
    )
    with to.open() as file:
        rows = list(csv.DictReader(file))
    cuts = json.loads((photo_run / "thresholds.json").read_text())["thresholds"]
    assert list(rows[0]) == ["image", "labels", "blue", "green", "red"]
    assert rows[0]["image"] == "blue/0.png"
    for row in rows:
        chosen = {name for name in ("blue", "green", "red") if float(row[name]) > cuts[name]}
        assert set(filter(None, row["labels"].split("|"))) == chosen


def test_predict_computes_a_photo_once_for_all_models(
    cli, folder, photo_run, stored, tmp_path, monkeypatch
):
    first = cli("predict", photo_run, folder / "photos").out
    assert len(stored()) == 24
    shutil.copytree(photo_run, tmp_path / "second")
    (tmp_path / "moved").symlink_to(folder / "photos")
    monkeypatch.setattr("plusone.prediction.tags.decoded", None)  # nothing is decoded again
    assert cli("predict", tmp_path / "second", tmp_path / "moved").out == first


def test_features_of_photos_without_tags(cli, folder, stored, tmp_path):
    photos, words = tmp_path / "year", ("--backbone", "cnn", "--size", 16, "--out")
    (photos / "june").mkdir(parents=True)
    for number, path in enumerate(sorted((folder / "photos").rglob("*.png"))):
        shutil.copy(path, photos / ("june" if number else "") / f"{number}.png")
    (photos / "june" / "no.png").write_bytes(b"no picture" * 9)
    shutil.copy(path, photos / "june" / "copy.png")
    list_ = tmp_path / "list.csv"
    list_.write_text("image\nyear/june/copy.png\n")
    for data, names in (
        (photos, {"0.png", "june/copy.png"} | {f"june/{number}.png" for number in range(1, 24)}),
        (list_, {"year/june/copy.png"}),
    ):
        answer = cli("features", data, *words, tmp_path / f"{data.name}.npz")
        assert answer.code == 0, answer.err
        found = read_features([tmp_path / f"{data.name}.npz"])
        assert {*found.ids.tolist()} == names
        assert len(stored()) == 24
    assert "june/no.png" in cli("features", photos, *words, tmp_path / "again.npz").err
    tagged = cli("features", folder / "photos", *words, tmp_path / "tagged.npz")
    assert tagged.code == 0, tagged.err
    ids = read_features([tmp_path / "tagged.npz"]).ids.tolist()
    assert ids == read(folder / "photos").table.ids.tolist()


def test_predict_some_images_at_once(cli, bad, folder, photo_run, tmp_path):
    for size in ("auto", "3"):
        cli("predict", photo_run, folder, "--batch-size", size, "--out", tmp_path / f"{size}.csv")
    lines = [(tmp_path / f"{size}.csv").read_text().splitlines() for size in ("auto", "3")]
    assert [line.split(",")[0] for line in lines[0]] == [line.split(",")[0] for line in lines[1]]
    for size in ("0", "many"):
        said = bad("predict", photo_run, folder, "--batch-size", size)
        assert f"--batch-size {size}: must be auto or a whole number" in said.err


def test_predict_one_image(cli, folder, photo_run, tmp_path):
    image = folder / "photos" / "red" / "1.png"
    answer = cli("predict", photo_run, image, "--threshold", 0, "--json", "-o", tmp_path / "t.csv")
    assert answer.code == 0
    (item,) = answer.json["items"]
    assert item["id"] == "1.png"
    assert sorted(item["labels"]) == sorted(item["probabilities"]) == ["blue", "green", "red"]
    assert (tmp_path / "t.csv").read_text() == cli(
        *("predict", photo_run, image, "--threshold", 0)
    ).out  # fmt: skip


def test_predict_features(cli, bad, folder, run_folder, photo_run, tmp_path):
    answer = cli("predict", run_folder, folder / "x.npz")
    assert answer.code == 0
    assert len(answer.out.splitlines()) == 61
    data = cli("predict", run_folder, folder / "labels.csv", "-x", folder / "x.npz")
    assert data.out == answer.out
    err = bad("predict", run_folder, folder / "wide.npz").err
    assert "wide.npz: has 10 features per item, the model takes 5" in err
    assert "row 7" in bad("predict", run_folder, folder / "nan.npz").err
    err = bad("predict", run_folder, folder / "photos").err
    assert "photos: has images with 3 channels, the model takes 5 features per item" in err
    err = bad("predict", photo_run, folder / "x.npz").err
    assert "x.npz: holds features, the model takes images" in err
    (tmp_path / "empty").mkdir()
    assert "empty: has no images in it" in bad("predict", photo_run, tmp_path / "empty").err
    assert "nowhere: no such file" in bad("predict", photo_run, tmp_path / "nowhere").err


BROKEN = [
    ("recipe.toml", b"x = = 3", "is not valid TOML"),
    ("recipe.toml", b"\xff\xfe", "is not valid TOML"),
    ("recipe.toml", b"epochs = 0", "epochs = 0: input should be"),
    ("recipe.toml", b'method = "gr2"', "unknown method 'gr2'; did you mean 'gr'?"),
    ("data.json", b"{", "cannot be read"),
    ("data.json", b"{}", "is not what plusone writes (data is missing)"),
    ("data.json", b"[]", "is not what plusone writes"),
    ("model.safetensors", b"junk", "is not a readable weights file"),
]


@pytest.mark.parametrize(("name", "content", "sentence"), BROKEN)
def test_broken_run_folders(bad, folder, run_folder, tmp_path, name, content, sentence):
    shutil.copytree(run_folder, tmp_path / "r")
    (tmp_path / "r" / name).write_bytes(content)
    for command in (("evaluate", tmp_path / "r"), ("predict", tmp_path / "r", folder / "x.npz")):
        err = bad(*command).err
        assert sentence in err
        assert str(tmp_path / "r") in err or "unknown method" in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"method": "gr"}', b"\xff\xfe"])
def test_broken_metrics(bad, folder, run_folder, tmp_path, content):
    shutil.copytree(run_folder, tmp_path / "r")
    (tmp_path / "r" / "metrics.json").write_bytes(content)
    assert f"{tmp_path / 'r' / 'metrics.json'}: is not " in bad("report", tmp_path).err
    resume = ("--epochs", 2, "--resume", "--out", tmp_path / "r")
    err = bad("train", folder / "labels.csv", "-x", folder / "x.npz", *resume).err
    assert "metrics.json: is not " in err


def test_runs_that_are_not_complete_or_do_not_know_their_data(bad, run_folder, tmp_path):
    shutil.copytree(run_folder, tmp_path / "r")
    about = json.loads((tmp_path / "r" / "data.json").read_text())
    (tmp_path / "r" / "data.json").write_text(json.dumps(about | {"source": {}}))
    assert "name the data after the run" in bad("evaluate", tmp_path / "r").err
    (tmp_path / "r" / "model.safetensors").unlink()
    assert "the run is not complete; finish it with --resume" in bad("evaluate", tmp_path / "r").err


@pytest.mark.parametrize("content", [b"", b"no zip file", b"PK\x05\x06" + b"\xff" * 30])
def test_predict_names_a_file_that_is_damaged(bad, run_folder, tmp_path, content):
    (tmp_path / "new.npz").write_bytes(content)
    answer = bad("predict", run_folder, tmp_path / "new.npz")
    assert f"{tmp_path / 'new.npz'}: is not a readable npz file" in answer.err
