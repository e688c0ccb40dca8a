"""export: a folder that predicts as the run does."""

from __future__ import annotations

import pytest


def test_predict_works_on_the_exported_folder(cli, bad, folder, photo_run, tmp_path):
    answer = cli("export", photo_run, "--out", tmp_path / "model")
    assert answer.code == 0, answer.err
    assert f"next: plusone predict {tmp_path / 'model'} NEW_ITEMS" in answer.err
    assert "the licence is yours to add" in answer.err
    ours = cli("predict", tmp_path / "model", folder / "photos")
    assert ours.out == cli("predict", photo_run, folder / "photos").out
    assert "name the data after the run" in bad("evaluate", tmp_path / "model").err
    data = (folder / "photos", "--split", "all", "--json")
    theirs = cli("evaluate", photo_run, *data).json
    assert cli("evaluate", tmp_path / "model", *data).json["map"] == theirs["map"]


def test_without_out_it_is_named_after_the_run(cli, run_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = cli("export", run_folder, "--json").json
    assert done["out"] == f"exports/{run_folder.name}"
    assert done["onnx"] is None
    assert "README.md" in done["files"]


@pytest.mark.slow
def test_onnx_is_checked_on_real_items(cli, run_folder, tmp_path):
    pytest.importorskip("onnxruntime")
    answer = cli("export", run_folder, "--onnx", "-o", tmp_path / "m", "--json")
    assert answer.code == 0, answer.err
    checked = answer.json["onnx"]
    assert checked["real"] is True
    assert (checked["items"], checked["difference"] < 1e-5) == (16, True)
    assert "on 16 items of the run's data" in answer.err
