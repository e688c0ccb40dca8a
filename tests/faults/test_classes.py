"""Classes that nobody has seen, and class lists that differ."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from .conftest import write_labels

TRAIN = ("-m", "gr", "--epochs", 3, "--no-report", "--json")


@pytest.fixture
def run(cli, words, tmp_path):
    assert cli("train", *words, *TRAIN, "--out", tmp_path / "run").code == 0
    return tmp_path / "run"


def rewritten(data, tmp_path, names, header=None):
    """The labels over some of the classes, under other names if wanted."""
    rows = list(csv.DictReader((data / "labels.csv").read_text().splitlines()))
    lines = [",".join(["image", *(header or names)])]
    lines += [",".join([row["image"], *(row[name] for name in names)]) for row in rows]
    (tmp_path / "other.csv").write_text("\n".join(lines) + "\n")
    return (tmp_path / "other.csv", "-x", data / "x.npz")


def test_classes_in_another_order_are_found_by_name(cli, run, words, data, tmp_path):
    other = rewritten(data, tmp_path, ("cat", "ant", "bee"))
    same = {"data": "any", "split": "all"}
    found = [
        cli("evaluate", run, *source, "--split", "all", "--json").json | same
        for source in (words, other)
    ]
    assert found[0] == found[1]
    suggested = cli("suggest", run, *other, "--folds", 2, "--out", tmp_path / "s", "--json")
    plain = cli("suggest", run, *words, "--folds", 2, "--out", tmp_path / "p", "--json")
    assert suggested.code == plain.code == 0, suggested.err + plain.err
    files = [folder / "suggestions.csv" for folder in (tmp_path / "s", tmp_path / "p")]
    assert files[0].read_text() == files[1].read_text()


def test_classes_that_the_data_lacks_are_not_measured(cli, run, data, tmp_path):
    other = rewritten(data, tmp_path, ("cat", "ant"))
    answer = cli("evaluate", run, *other, "--split", "all", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["not_measured"] == ["bee"]
    shown = cli("evaluate", run, *other, "--split", "all")
    assert "not measured, as the data does not have these classes: bee" in shown.err
    refused = cli("suggest", run, *other, "--out", tmp_path / "s")
    assert refused.code == 2
    assert "trained on other classes than the data has; in the data missing: bee" in (
        refused.sentence
    )


@pytest.mark.parametrize(
    ("names", "header", "said"),
    [
        (("ant", "bee", "cat"), ("ant", "wasp", "cat"), "missing: bee; unknown: wasp"),
        (("ant", "bee", "cat", "ant"), ("ant", "bee", "cat", "dog"), "unknown: dog"),
    ],
    ids=["renamed", "more"],
)
def test_classes_that_the_model_does_not_know_are_refused(
    cli, run, data, tmp_path, names, header, said
):
    other = rewritten(data, tmp_path, names, header)
    for command in (("evaluate", run, *other), ("suggest", run, *other, "--out", tmp_path / "s")):
        answer = cli(*command)
        assert answer.code == 2
        assert said in answer.sentence


def test_predict_looks_at_no_labels(cli, run, words, data, tmp_path):
    other = rewritten(data, tmp_path, ("ant", "bee"), ("wasp", "fly"))
    tags = [cli("predict", run, *source, "--json") for source in (words, other)]
    assert tags[0].code == tags[1].code == 0, tags[1].err
    assert tags[0].json["items"] == tags[1].json["items"]


@pytest.fixture
def sparse(data, tmp_path):
    """One positive per item: ant and bee often, cat once, dog never."""
    with np.load(data / "x.npz") as found:
        x = found["x"]
    labels = np.zeros((60, 4), dtype=int)
    labels[np.arange(60), (x[:, 1] > 0).astype(int)] = 1
    labels[5] = (0, 0, 1, 0)
    write_labels(tmp_path / "sparse.csv", labels, ("ant", "bee", "cat", "dog"))
    return (tmp_path / "sparse.csv", "-x", data / "x.npz")


@pytest.mark.parametrize("method", ["an", "em", "gr", "role", "lac", "en_scl"])
def test_classes_seen_once_or_never_are_predicted_and_said(cli, sparse, tmp_path, method):
    run = tmp_path / "run"
    answer = cli("train", *sparse, "--out", run, "-m", method, *TRAIN[2:])
    assert answer.code == 0, answer.err
    assert "1 of 4 classes has no seen positive, so nothing can be learned of it: dog" in answer.err
    cuts = json.loads((run / "thresholds.json").read_text())["thresholds"]
    assert set(cuts) == {"ant", "bee", "cat", "dog"}
    assert all(0 <= value <= 1 for value in cuts.values())
    assert cuts["dog"] == 1 > cuts["cat"]
    tags = cli("predict", run, *sparse, "--json")
    assert tags.code == 0, tags.err
    assert len(tags.json["items"]) == 60
    assert not any("dog" in item["labels"] for item in tags.json["items"])


def test_suggest_with_a_class_nobody_has_seen(cli, sparse, tmp_path):
    assert cli("train", *sparse, "--out", tmp_path / "run", *TRAIN).code == 0
    found = cli("suggest", tmp_path / "run", "--folds", 3, "--out", tmp_path / "s", "--json")
    assert found.code == 0, found.err


def test_train_and_test_folders_with_different_classes(cli, tmp_path, photos):
    for split in ("train", "test"):
        (tmp_path / "both" / split).mkdir(parents=True)
    for name in ("red", "green"):
        (photos / name).rename(tmp_path / "both" / "train" / name)
    (photos / "blue").rename(tmp_path / "both" / "test" / "blue")
    found = cli("inspect", tmp_path / "both", "--json").json
    assert found["splits"] == {"train": 16, "test": 8}
    assert [one["name"] for one in found["per_class"]] == ["blue", "green", "red"]


@pytest.mark.parametrize(
    ("items", "said"),
    [
        (0, "has a header but no rows"),
        (1, "no items are left for the val split; give more items"),
    ],
)
def test_no_item_and_one_item(cli, data, tmp_path, items, said):
    write_labels(tmp_path / "few.csv", np.eye(3, dtype=int)[:items], ("ant", "bee", "cat"))
    answer = cli("train", tmp_path / "few.csv", "-x", data / "x.npz", "--out", tmp_path / "run")
    assert answer.code == 2
    assert said in answer.sentence
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", ["an", "em", "gr", "role"])
def test_one_class(cli, data, tmp_path, method):
    write_labels(tmp_path / "one.csv", np.tile([[1], [0]], (30, 1)), ("ant",))
    answer = cli("train", tmp_path / "one.csv", "-x", data / "x.npz", "--out", tmp_path / "run",
                 "-m", method, *TRAIN[2:])  # fmt: skip
    assert answer.code == 0, answer.err
    assert answer.json["val_map"] > 0
