"""Input that once was accepted and led to wrong results without a word."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import plusone
from plusone.compare.jobs import Job
from plusone.data import Dataset, LabelMatrix, LabelTable, observe_table
from plusone.data.features import FeatureFile, align
from plusone.data.formats import read
from plusone.data.images import decode
from plusone.data.observation import Biased
from plusone.data.source import Source
from plusone.errors import InputError
from plusone.inputs.task import make_task
from plusone.prediction.tags import Predictions
from plusone.recipe import Recipe
from plusone.training.run import train


def arrays(seed=0, n=40, split=None, complete=True):
    x = np.random.default_rng(seed).normal(size=(n, 5)).astype(np.float32)
    return Dataset.from_arrays(x, (x[:, :3] > 0).astype(int), complete=complete, split=split)


def test_a_truth_that_lacks_seen_labels_is_refused(tmp_path):
    file = tmp_path / "labels.csv"
    file.write_text("image,labels,negatives,truth\na,dog,,\nb,cat,dog,cat|dog\n")
    with pytest.raises(InputError) as error:
        read(file)
    assert "row 2: class 'dog' is in labels but not in truth" in str(error.value)
    assert "row 3: class 'dog' is both in negatives and in truth" in str(error.value)


def test_features_of_another_folder_are_not_taken():
    table = LabelTable(np.array(["cat/1.jpg"]), ("x",), LabelMatrix.from_dense([[1]]))
    x = np.ones((1, 2), dtype=np.float32)
    with pytest.raises(InputError, match=r"1 items have no features: cat/1\.jpg"):
        align(FeatureFile(np.array(["dog/1.jpg"]), x, {}), table)
    for name in ("1.jpg", "1", "photos/cat/1.jpg", "cat/1.png"):
        assert align(FeatureFile(np.array([name]), x, {}), table).shape == (1, 2)


@pytest.mark.parametrize(("y", "truth"), [([[1, 0], [0, 1]], False), ([[1, 1], [0, 1]], True)])
def test_single_positives_in_an_npz_are_not_a_truth(tmp_path, y, truth):
    np.savez(tmp_path / "y.npz", y=np.array(y))
    table = read(tmp_path / "y.npz").table
    assert (table.truth is not None) == truth
    assert "were taken as" in table.notes[0]


@pytest.mark.parametrize("change", ["features", "classes"])
def test_resume_knows_other_data(tmp_path, change):
    data, recipe = arrays(), Recipe(method="an", epochs=1)
    train(make_task(data, recipe), recipe, tmp_path)
    (tmp_path / "metrics.json").unlink()
    table = data.table
    if change == "classes":
        table = LabelTable(table.ids, ("p", "q", "r"), table.labels, table.truth)
    other = Dataset(table, data.features * (2 if change == "features" else 1), data.name)
    with pytest.raises(InputError, match="not the same as before"):
        train(make_task(other, recipe), recipe, tmp_path, resume=True)


def test_the_journal_knows_changed_data(tmp_path):
    file = tmp_path / "y.npz"
    np.savez(file, y=np.eye(2))
    before = Job(Source(str(file)), Recipe(method="an")).key
    assert Job(Source(str(file)), Recipe(method="an")).key == before
    np.savez(file, y=np.eye(3))
    assert Job(Source(str(file)), Recipe(method="an")).key != before


def test_arrays_are_checked():
    with pytest.raises(InputError, match="'Tests' is not train, val or test"):
        arrays(split=["train"] * 39 + ["Tests"])
    assert arrays(split=["train"] * 39 + ["Test"]).table.rows_of("test").tolist() == [39]
    with pytest.raises(InputError, match="occurs twice"):
        Dataset.from_arrays(np.zeros((1, 2)), [[1, 0]], classes=["a", "a"])
    with pytest.raises(InputError, match="images must be bytes"):
        Dataset.from_arrays(np.zeros((1, 3, 8, 8)), [[1, 0]])


def test_nothing_hidden_is_nothing_found():
    metrics = plusone.fit(arrays(), "bce", epochs=1).metrics
    assert metrics["recovery"]["hidden_positives"] == 0
    assert metrics["recovery"]["hidden_map"] is None
    assert metrics["recovery"]["hidden_recall"] is None


def test_estimates_are_measured():
    metrics = plusone.fit(arrays(), "role", epochs=1, expected_positives="truth").metrics
    assert set(metrics["recovery_estimates"]) == set(metrics["recovery"])
    json.dumps(metrics, allow_nan=False)


def test_validation_needs_a_positive():
    labels = np.zeros((20, 2), dtype=int)
    labels[:10, 0] = 1
    data = Dataset.from_arrays(np.zeros((20, 3)), labels, split=["train"] * 10 + ["val"] * 10)
    with pytest.raises(InputError, match="no validation item has a positive label"):
        plusone.fit(data, "an")


def test_settings_of_the_digits_are_for_the_digits(tmp_path):
    data = arrays()
    np.savez(tmp_path / "digits.npz", x=data.features, y=data.table.labels.dense() == 1)
    file = str(tmp_path / "digits.npz")
    own = plusone.fit(file, "epr", epochs=1, select_on="observed").training
    assert own.expected.source == "estimated"  # not the k that the digits are known to have
    assert own.recipe.batch_size == Recipe().batch_size


def test_weights_per_label_follow_their_rows():
    truth = LabelMatrix.from_dense(np.ones((6, 2), dtype=int), default=-1)
    split = np.array(["test", "train", "test", "train", "train", "val"])
    table = LabelTable.complete([f"i{n}" for n in range(6)], ("a", "b"), truth, split=split)
    wanted = np.array([0, 1, 1, 0, 1, 0])
    seen = observe_table(table, Biased(np.eye(2)[wanted]), 0).labels.dense()
    assert seen.argmax(1).tolist() == wanted.tolist()


def test_sixteen_bit_grey_keeps_its_shades(tmp_path):
    ramp = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)
    Image.fromarray(ramp).save(tmp_path / "ramp.png")
    values = decode(tmp_path / "ramp.png", 16)[0].flatten()
    assert values.tolist() == list(range(256))


def test_a_threshold_means_above_it():
    found = Predictions(("a",), ("x", "y"), torch.tensor([[0.5, 0.6]]))
    assert found.labels(0, 0.5) == ["y"]


def test_references_do_not_train_on_positives_alone():
    with pytest.raises(InputError, match="learns from seen negatives"):
        plusone.fit(arrays(complete=False), "bce", epochs=1)
