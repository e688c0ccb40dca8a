"""`plusone choose`."""

import shlex

import numpy as np
import pytest


@pytest.fixture
def seen_only(tmp_path):
    """One seen label per item, nothing else known."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 6)).astype(np.float32)
    y = np.eye(3, dtype=np.int8)[(x @ rng.normal(size=(6, 3))).argmax(1)]
    path = tmp_path / "one label.npz"
    np.savez(path, x=x, y=y)
    return path


def test_it_ranks_candidates_and_names_the_command(cli, seen_only, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    common = (seen_only, "--labels", "seen", "-m", "an,em", "--epochs", 3)
    answer = cli("choose", *common, "--lr", "1e-6,0.03", "--json")
    assert answer.code == 0, answer.err
    found = answer.json
    assert [each["lr"] for each in found["candidates"]] == [0.03, 0.03, 1e-6, 1e-6]
    assert found["score"] == "weighted_auc"
    words = shlex.split(found["command"])
    assert words[:2] == ["plusone", "train"]
    trained = cli(*words[1:], "--json")
    assert trained.code == 0, trained.err
    best = found["candidates"][0]
    assert (trained.json["method"], trained.json["lr"]) == (best["method"], 0.03)
    assert trained.json["selected_by"] == "weighted_auc"
    assert trained.json["best_epoch"] == best["epoch"]
    assert trained.json["val_score"] == pytest.approx(best["score"], abs=1e-3)


def test_it_says_what_was_chosen_by(cli, seen_only):
    answer = cli("choose", seen_only, "--labels", "seen", "-m", "an", "--lr", "0.01",
                 "--by", "seen_auc", "--epochs", 2, "-s", "batch_size=32")  # fmt: skip
    assert answer.code == 0, answer.err
    assert "seen_auc" in answer.out
    assert "chosen: an, lr 0.01" in answer.err
    assert "by seen_auc on 24 seen labels of 24 validation items" in answer.err
    assert "-s batch_size=32" in answer.err
    assert "-s select_by=seen_auc" in answer.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--by", "best"), "unknown selection score 'best'"),
        (("-m", "gru"), "unknown method 'gru'; did you mean 'gr'?"),
        (("--lr", "fast"), "--lr 'fast': write numbers separated by commas"),
        (("-m", "bce"), "bce: is a reference"),
    ],
)
def test_bad_usage_is_one_sentence(cli, seen_only, flags, said):
    answer = cli("choose", seen_only, *flags)
    assert answer.code == 2
    assert said in answer.err


def test_it_shares_features_with_priors_and_training(cli, folder, stored, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = (folder / "photos", "-s", "backbone=cnn", "-s", "image_size=16", "-s", "val_share=0.1")

    assert cli("priors", *data).code == 0
    first = stored()
    assert first
    few = ("--lr", 0.01, "--epochs", 1, "--no-rules")
    answer = cli("choose", *data, "-m", "an", *few)
    assert answer.code == 0, answer.err
    assert stored() == first
    answer = cli("train", *data, "-m", "an", *few, "--mode", "linear", "--no-report")
    assert answer.code == 0, answer.err
    assert stored() == first
