"""inspect, observe, features."""

from __future__ import annotations

import numpy as np
import pytest

from plusone.data.formats import read


def test_inspect(cli, folder):
    answer = cli("inspect", folder / "labels.csv")
    assert answer.code == 0
    for text in ("items", "60", "train: 40, test: 20", "ant", "bee", "cat"):
        assert text in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80
    found = cli("inspect", folder / "labels.csv", "--json").json
    assert found["problems"] == []
    assert (found["items"], found["classes"]) == (60, 3)
    assert len(cli("inspect", folder / "labels.csv", "--classes", 1).out.splitlines()) < len(
        answer.out.splitlines()
    )


def test_inspect_lists_all_problems(cli, bad, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("image,labels\n" + "".join(f"../{n}.jpg,a\n" for n in range(30)))
    err = bad("inspect", path).err.splitlines()
    assert err[0] == "plusone: the input has problems:"
    assert len(err) == 1 + 20 + 1
    assert err[1] == f"{path}, row 2: id '../0.jpg' leaves its folder"
    assert err[-1] == "... and 10 more problems."
    answer = cli("inspect", path, "--json")
    assert answer.code == 2
    assert answer.json == {"data": str(path), "problems": err[1:]}
    assert answer.err.splitlines() == err


def test_inspect_with_one_problem_is_one_sentence(cli, bad, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("image,a,b\nx,1,0\ny,2,0\n")
    err = bad("inspect", path).err
    assert err.startswith(f"plusone: {path}, row 3: ")
    assert "'2'" in err
    assert err.count("\n") == 1
    assert len(cli("inspect", path, "--json").json["problems"]) == 1


def test_inspect_checks_the_features_too(cli, folder):
    answer = cli("inspect", folder / "labels.csv", "-x", folder / "nan.npz", "--json")
    assert answer.code == 2
    assert "row 7" in answer.json["problems"][0]


def test_observe_is_repeatable_and_reads_back(cli, folder, tmp_path):
    to = tmp_path / "new" / "single.csv"
    found = cli("observe", folder / "labels.csv", "--out", to, "--seed", 3, "--json").json
    assert found["seen_positives"] == found["items"] == 60
    assert (found["seen_negatives"], found["seed"], found["out"]) == (0, 3, str(to))
    again = cli("observe", folder / "labels.csv", "-o", tmp_path / "b.csv", "--seed", 3, "--json")
    assert again.json["digest"] == found["digest"]
    other = cli("observe", folder / "labels.csv", "-o", tmp_path / "c.csv", "--seed", 4, "--json")
    assert other.json["digest"] != found["digest"]
    read = cli("inspect", to, "--json").json
    assert read["positives"]["most"] == 1
    assert read["truth"]
    table = cli("observe", folder / "labels.csv", "--out", to)
    assert table.code == 0
    assert "seen_positives" in table.out


def test_observe_by_the_area_of_boxes_counts_items_without_one(cli, tmp_path):
    (tmp_path / "t.csv").write_text("image,ant,bee\na.jpg,1,1\nb.jpg,1,1\nc.jpg,0,1\n")
    box = "<bndbox><xmin>0</xmin><ymin>0</ymin><xmax>{0}</xmax><ymax>{0}</ymax></bndbox>"
    objects = "".join(
        f"<object><name>{name}</name>{box.format(side)}</object>"
        for name, side in (("ant", 2), ("bee", 8))
    )
    (tmp_path / "Annotations").mkdir()
    (tmp_path / "Annotations" / "a.xml").write_text(
        f"<annotation><size><width>9</width><height>9</height></size>{objects}</annotation>"
    )
    scheme = ("--scheme", f"dominant('{tmp_path}')", "--out", tmp_path / "seen.csv")
    answer = cli("observe", tmp_path / "t.csv", *scheme, "--json")
    assert answer.code == 0, answer.err
    assert (answer.json["without_boxes"], answer.json["first_without"]) == (1, "b.jpg")
    assert "b.jpg" in answer.err
    seen = read(tmp_path / "seen.csv").table.labels.dense()
    assert seen[0].tolist() == [0, 1]  # the bee is larger
    assert seen[2].tolist() == [0, 1]


def test_observe_needs_all_labels(bad, folder, tmp_path):
    answer = bad("observe", folder / "photos", "--out", tmp_path / "x.csv")
    assert "holds only seen labels, so there is nothing to hide" in answer.err


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_features_and_training_on_them(cli, folder, tmp_path, workers):
    to = tmp_path / "f.npz"
    options = ("--backbone", "cnn", "--size", 16, "--workers", workers)
    answer = cli("features", folder / "photos", "--out", to, *options, "--json")
    assert answer.code == 0, answer.err
    assert answer.json["items"] == 24
    with np.load(to) as file:
        assert file["x"].shape == (24, answer.json["dim"])
    assert [path.name for path in tmp_path.iterdir()] == ["f.npz"]
    trained = cli(
        *("train", folder / "photos", "-x", to, "-o", tmp_path / "r", "--epochs", 1, "--json")
    )
    assert trained.code == 0, trained.err
    told = cli("features", folder / "photos", "--out", to, *options)
    assert f"next: plusone train {folder / 'photos'} --features {to}" in told.err


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_broken_image_is_named(bad, tmp_path, workers):
    (tmp_path / "photos" / "red").mkdir(parents=True)
    broken = tmp_path / "photos" / "red" / "1.png"
    broken.write_bytes(b"not an image")
    options = ("--backbone", "cnn", "--workers", workers, "--out", tmp_path / "f.npz")
    note, err = bad("features", tmp_path / "photos", *options).err.splitlines()
    assert note == "note: cnn starts with random weights; its features carry little information"
    assert err.startswith(f"plusone: {broken}: cannot be read as an image")
