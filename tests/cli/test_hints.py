"""Hints on the command line."""

import json

import numpy as np
import pytest

from plusone.data.hints import write_hints

SETTINGS = ("-s", "epochs=2", "-s", "expected_positives=1.5", "--lr", "0.01")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A label file, its features, and hints that are mostly right for the first 50 items."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4)).astype(np.float32)
    y = (x[:, :3] > 0).astype(int)
    y[y.sum(1) == 0, 0] = 1
    ids = [f"i{row}" for row in range(60)]
    split = np.where(np.arange(60) < 45, "train", "test")
    names = ["a", "b", "c"]
    np.savez(folder / "labels.npz", y=y, x=x, ids=ids, classes=names, split=split)
    write_hints(folder / "h.npz", ids[:50], names, 0.4 * y[:50] + 0.6 * rng.random((50, 3)), {})
    return folder


def test_inspect_counts_them(cli, files):
    found = cli("inspect", files / "labels.npz", "--hints", files / "h.npz", "--json").json
    assert found["hints"] == {"items": {"train": 45, "test": 5}, "classes": 3}
    assert 0.8 < found["hint_auc"] < 1
    shown = cli("inspect", files / "labels.npz", "--hints", files / "h.npz").out
    assert "items with hints" in shown
    assert "with hints" not in cli("inspect", files / "labels.npz").out


def test_a_method_that_needs_hints_says_so(bad, cli, files, tmp_path):
    answer = bad("train", files / "labels.npz", "-m", "gpr", "-o", tmp_path / "run", *SETTINGS)
    assert "the method gpr learns from hints, and data" in answer.err
    assert not (tmp_path / "run" / "recipe.toml").exists()
    assert cli("methods", "gpr", "--json").json["gpr"]["needs_hints"]
    assert "yes: --hints FILE" in cli("methods", "gpr").out


@pytest.mark.slow
def test_train_resume_evaluate_and_suggest(cli, bad, files, tmp_path):
    words = ("train", files / "labels.npz", "-m", "gpr", "-o", tmp_path / "run", *SETTINGS)
    hints = ("--hints", files / "h.npz")
    assert cli(*words, *hints, "--json").json["method"] == "gpr"
    assert cli(*words, *hints, "--resume", "--json").code == 0
    assert "the items or their inputs are not the same" in bad(*words, "--resume").err
    assert cli("evaluate", tmp_path / "run", "--json").code == 0
    out = cli("suggest", tmp_path / "run", "--folds", "2", "-o", tmp_path / "s", "--json").json
    assert out["method"] == "gpr"
    assert out["hint_weight"] > 0


@pytest.mark.slow
def test_hints_as_features(cli, bad, files, tmp_path):
    words = ("train", files / "labels.npz", "-m", "ridge", "-s", "hint_features=true")
    assert "hint_features needs hints" in bad(*words, "-o", tmp_path / "none").err
    hints = ("--hints", files / "h.npz")
    plain = cli(*words[:4], "-o", tmp_path / "plain", "--json").json["recovery"]["recovery_map"]
    found = cli(*words, *hints, "-o", tmp_path / "run", "--json").json
    assert found["recovery"]["recovery_map"] > plain
    assert json.loads((tmp_path / "run" / "data.json").read_text())["shape"] == [7]
    assert cli("evaluate", tmp_path / "run", "--json").json["map"] == found["test_map"]
    new = ("predict", tmp_path / "run", files / "labels.npz")
    assert "hint_features needs hints" in bad(*new).err
    assert cli(*new, *hints, "--out", tmp_path / "tags.csv").code == 0


@pytest.mark.usefixtures("in_this_process")
def test_bench_with_hints(cli, files, tmp_path):
    to = ("--no-report", "-o", tmp_path / "b", "--json")
    words = ("-m", "gr,gpr,vlpl", "--seeds", "0", "-s", "epochs=1", *to)
    rows = cli("bench", files / "labels.npz", "--hints", files / "h.npz", *words).json["rows"]
    assert {row["method"] for row in rows} == {"gr", "gpr", "vlpl"}
    assert "hints" in (tmp_path / "b" / "bench.toml").read_text()
    again = cli("bench", tmp_path / "b" / "bench.toml", *to).json
    assert again["rows"] == rows
