"""A run on a file with answers: what changed since the run before, on one yardstick."""

from __future__ import annotations

import numpy as np
import pytest

from plusone.data.source import load_source
from plusone.reviewing.opening import open_suggestions

pytestmark = pytest.mark.slow


def test_a_run_with_answers_is_compared_on_the_same_labels(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scenes = load_source("digits-features")
    truth = scenes.table.truth.dense(np.arange(320)) == 1
    kept = np.flatnonzero(truth.any(axis=1))
    truth, label = truth[kept], truth[kept].argmax(axis=1)
    x = np.asarray(scenes.features[kept], dtype=np.float32).reshape(len(kept), -1)
    y = np.eye(truth.shape[1], dtype=np.int8)[label]
    classes = np.array([f"class{number}" for number in range(truth.shape[1])])
    ids = np.array([f"item-{row:05d}" for row in range(1, len(y) + 1)])
    np.savez("data.npz", x=x, y=y, classes=classes, ids=ids)
    first = cli("train", "data.npz", "-o", "run", "--json")
    assert first.code == 0, first.err
    assert cli("suggest", "run", "-o", "s").code == 0
    desk = open_suggestions(tmp_path / "s")
    asked = 0
    while asked < 60:
        item = desk.next_item("a" * 16)
        row = int(item["name"].split("-")[1]) - 1
        answers = [
            (item["row"], one["label"], "yes" if truth[row, one["label"]] else "no")
            for one in item["questions"]
        ]
        desk.answer("a" * 16, f"{asked:016x}", answers)
        asked += len(answers)
    desk.store.close()
    assert cli("review", "s", "--export", "better.csv").code == 0
    second = cli("train", "better.csv", "-x", "data.npz", "-o", "run-2", "--no-report")
    said = " ".join(second.err.split())
    assert f"{asked} answers since run: val mAP {100 * first.json['val_map']:.2f} before" in said
    assert "labels per item" in said
    suggested = cli("suggest", "run-2", "-o", "s2", "--json").json  # without --audit
    assert suggested["calibration"]["audit"]["answers"] == asked
    assert suggested["calibration"]["k_from"] == "counted"
    assert suggested["scores"] == "kept by the run"
    told = cli("priors", "better.csv", "-x", "data.npz", "--json").json["single"]
    blind = cli("priors", "data.npz", "--json").json["single"]
    assert told["high"] - told["low"] < blind["high"] - blind["low"]
