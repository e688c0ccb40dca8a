"""Numbers that are none: in the inputs, in the loss, in the weights."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from plusone import PlusOneClassifier
from plusone.data import Dataset
from plusone.errors import DivergedError, InputError
from plusone.methods._pointwise import Pointwise
from plusone.training.api import fit

from .conftest import SMALL

BAD = {"NaN": np.nan, "infinity": np.inf}


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_features_in_npz(cli, data, tmp_path, value, dtype):
    with np.load(data / "x.npz") as found:
        x, ids = found["x"].astype(dtype), found["ids"]
    x[7, 2] = value
    np.savez(tmp_path / "bad.npz", x=x, ids=ids)
    command = ("train", data / "labels.csv", "-x", tmp_path / "bad.npz")
    answer = cli(*command, "--out", tmp_path / "run")
    assert answer.code == 2
    assert f"{tmp_path / 'bad.npz'}, row 7: the features of 'item07' have a NaN" in answer.sentence
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
def test_features_beside_labels_in_one_npz(cli, tmp_path, value):
    x = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    labels = (x[:, :3] > 0).astype(np.int8)
    x[3, 1] = value
    np.savez(tmp_path / "bad.npz", x=x, y=labels)
    answer = cli("train", tmp_path / "bad.npz", "--out", tmp_path / "run")
    assert answer.code == 2
    assert str(tmp_path / "bad.npz") in answer.sentence
    assert "NaN or infinite" in answer.sentence
    assert "3" in answer.sentence


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
def test_arrays_in_memory(value):
    x = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    labels = (x[:, :3] > 0).astype(int)
    x[3, 1] = value
    with pytest.raises(InputError, match=r"row 3.*NaN or infinite"):
        fit(Dataset.from_arrays(x, labels, complete=True), "an", epochs=1)


def failing(at):
    """A loss that is not finite from some step on."""
    plain = Pointwise.loss
    steps = iter(range(10**9))

    def loss(self, outs, batch, clock):
        terms = plain(self, outs, batch, clock)
        wrong = next(steps) >= at
        return {name: term * (torch.nan if wrong else 1) for name, term in terms.items()}

    return loss


def test_a_loss_that_is_not_finite_keeps_the_last_good_weights(cli, photos, tmp_path, monkeypatch):
    run = tmp_path / "run"
    command = ("train", photos, "-m", "an", "--epochs", 5, "-s", "batch_size=8", *SMALL)
    monkeypatch.setattr(Pointwise, "loss", failing(at=7))  # three steps an epoch
    answer = cli(*command, "--lr", "1e-3", "--out", run)
    assert answer.code == 1
    assert "a loss term of an is not finite in epoch 3, batch 2: {'loss': nan}" in answer.sentence
    assert "plusone predict" in answer.sentence
    assert "--lr 0.0001, and another --out" in answer.sentence
    assert not (run / "metrics.json").exists()
    assert 1 <= json.loads((run / "stopped.json").read_text())["epoch"] <= 2
    monkeypatch.undo()

    again = cli(*command, "--lr", "1e-3", "--out", run, "--resume")
    assert again.code == 2
    assert "resuming would end there again; start anew with a smaller" in again.sentence
    tags = cli("predict", run, photos, "--json")
    assert tags.code == 0, tags.err
    assert "warning: this run stopped early (a loss term of an is not finite" in tags.err
    assert len(tags.json["items"]) == 24
    measured = cli("evaluate", run, "--split", "val", "--json")
    assert measured.code == 0, measured.err
    assert measured.json["map"] > 0


def test_a_loss_that_is_never_finite_has_nothing_to_keep(cli, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(Pointwise, "loss", failing(at=0))
    answer = cli("train", photos, "-m", "an", "--epochs", 2, *SMALL, "--out", tmp_path / "run")
    assert answer.code == 1
    assert "there are no good weights to keep yet" in answer.sentence
    assert not (tmp_path / "run" / "model.safetensors").exists()
    used = cli("predict", tmp_path / "run", photos)
    assert used.code == 2
    assert "start anew with a smaller learning rate" in used.sentence


def test_a_linear_model_that_runs_away(cli, words, tmp_path):
    run = tmp_path / "run"
    answer = cli("train", *words, "-m", "an", "--lr", "1e38", "--epochs", 3, "--json", "-o", run)
    assert answer.code == 1
    assert "a loss term of an is not finite in epoch 1, batch 2" in answer.sentence
    assert "start anew with a smaller learning rate, such as --lr 1e+37" in answer.sentence


@pytest.mark.parametrize("inputs", ["features", "images"])
def test_a_finite_loss_with_a_gradient_that_is_not(inputs, monkeypatch):
    plain = Pointwise.loss

    def loss(self, outs, batch, clock):
        terms = plain(self, outs, batch, clock)
        if clock.epoch == 1 and clock.step == clock.steps - 1:  # no later step would notice it
            logits = outs[0].logits
            terms["odd"] = (torch.sqrt(logits - logits.detach()) * 0).sum()
        return terms

    monkeypatch.setattr(Pointwise, "loss", loss)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 4)).astype(np.float32)
    labels = (x[:, :3] > 0).astype(int)
    if inputs == "images":
        x = rng.integers(0, 255, (40, 3, 16, 16), dtype=np.uint8)
    with pytest.raises(DivergedError, match=r"weights .* are not finite after epoch 2 of an"):
        fit(Dataset.from_arrays(x, labels, complete=True), "an", epochs=3, lr=1e-3)


@pytest.mark.parametrize("value", ["nan", "inf", "?", "1e400"])
def test_features_in_arff(cli, tmp_path, value):
    names = "".join(f'<label name="{name}"></label>' for name in ("cat", "dog"))
    space = "http://mulan.sourceforge.net/labels"
    (tmp_path / "m.xml").write_text(f'<labels xmlns="{space}">{names}</labels>')
    head = ["@relation m", "@attribute a numeric", "@attribute cat {0,1}", "@attribute dog {0,1}"]
    rows = [*("1,1,0",) * 6, f"{value},0,1"]
    (tmp_path / "m.arff").write_text("\n".join([*head, "@data", *rows]) + "\n")
    answer = cli("train", tmp_path / "m.arff", "--out", tmp_path / "run")
    assert answer.code == 2
    assert f"m.arff, row 12: '{value}' for attribute 'a' is not a number" in answer.sentence


LABELS = np.eye(3, dtype=int)[np.arange(30) % 3]


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (np.zeros((30, 0)), r"has the shape \(30, 0\), so there is nothing to learn from"),
        (np.full((30, 2), 1e300), "row 0: has a value that is too large for float32"),
        (np.ma.masked_greater(np.arange(60.0).reshape(30, 2), 50), "has masked values"),
    ],
)
def test_arrays_that_would_become_something_else(x, sentence):
    with pytest.raises(InputError, match=sentence):
        Dataset.from_arrays(x, LABELS)
    with pytest.raises(ValueError, match=r"masked values|too large for dtype|0 feature"):
        PlusOneClassifier().fit(x, LABELS)


def test_masked_labels_are_refused():
    hidden = np.ma.masked_equal(LABELS, 0)
    with pytest.raises(ValueError, match="labels have masked values"):
        Dataset.from_arrays(np.ones((30, 2)), hidden)
    with pytest.raises(ValueError, match="masked values"):
        PlusOneClassifier().fit(np.ones((30, 2)), hidden)


def test_features_without_columns_or_beyond_float32(cli, data, tmp_path):
    with np.load(data / "x.npz") as found:
        ids = found["ids"]
    for x, sentence in (
        (np.zeros((60, 0), np.float32), "so there is nothing to learn from"),
        (np.full((60, 2), 1e300), "or one that is too large for float32"),
    ):
        np.savez(tmp_path / "bad.npz", x=x, ids=ids)
        answer = cli("train", data / "labels.csv", "-x", tmp_path / "bad.npz")
        assert answer.code == 2
        assert sentence in answer.sentence
    np.savez(tmp_path / "both.npz", x=np.zeros((30, 0)), y=LABELS)
    assert "nothing to learn from" in cli("train", tmp_path / "both.npz").sentence


def test_weights_whose_sum_is_infinite(data):
    x = np.random.default_rng(0).normal(size=(30, 2))
    weights = np.full(30, 1e308)
    weights[0] = 5e307
    with pytest.raises(InputError, match=r"sample_weight has the value 1e\+308, above 1e\+30"):
        PlusOneClassifier().fit(x, LABELS, sample_weight=weights)
