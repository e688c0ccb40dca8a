"""The exported folder: works like a run, holds nothing private; ONNX gives the same."""

from __future__ import annotations

import getpass
import json
import re
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from plusone.data.dataset import Dataset
from plusone.data.source import load_source
from plusone.errors import InputError, RunError
from plusone.export import export_run, onnx
from plusone.extras import install_command
from plusone.inputs.loader import ArrayInputs
from plusone.inputs.task import make_task
from plusone.methods import METHODS
from plusone.prediction.load import load_run
from plusone.probabilities.calibration import Calibration, write_calibration
from plusone.recipe import make_recipe
from plusone.training.run import train

pytestmark = pytest.mark.slow

FILES = ["README.md", "calibration.json", "config.json", "data.json", "model.safetensors",
         "observed.npz", "recipe.toml", "thresholds.json"]  # fmt: skip
CURVE = Calibration((-0.2, 0.3), (3.0, 1.5, 0.5), (-1.0, 0.0, 0.5), "seen", "a few items", 1.5)
X = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)


def run_of(method, to, x=X, **settings):
    y = np.sign(X[:, :3] + 0.01).astype(int)
    data = Dataset.from_arrays(x, y, complete=True, hints=1 / (1 + np.exp(-X[:, :3])))
    recipe = make_recipe(
        {"method": method, "epochs": 1, "options": dict(METHODS[method].quick), "threads": 1},
        {"expected_positives": 1.5},
        settings,
    )
    train(make_task(data, recipe), recipe, to)
    return to


class Killed(BaseException):
    """Stands for kill -9: what follows is not done."""


def test_a_killed_export_over_another_leaves_no_mixture(tmp_path, monkeypatch):
    """After each number of moves: the old model, the new one, or none."""
    import shutil

    runs = [run_of("an", tmp_path / "a"), run_of("an", tmp_path / "b", seed=1, epochs=3)]
    x = ArrayInputs(torch.from_numpy(X))
    wanted = [load_run(run).probabilities(x) for run in runs]
    export_run(runs[0], tmp_path / "old")
    move, outcomes = Path.replace, set()
    for moves in range(9):
        out, left = tmp_path / "out", iter(range(moves))
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(tmp_path / "old", out)

        def moved(path, target, left=left, out=out):
            if Path(target).parent == out and next(left, None) is None:
                raise Killed
            return move(path, target)

        monkeypatch.setattr(Path, "replace", moved)
        with suppress(Killed):
            export_run(runs[1], out)
        monkeypatch.setattr(Path, "replace", move)
        try:
            same = [torch.equal(load_run(out).probabilities(x), p) for p in wanted]
            assert sum(same) == 1, f"a mixture after {moves} moves"
            outcomes.add(same.index(True))
        except InputError as error:
            assert "has no model.safetensors" in str(error)  # noqa: PT017
            outcomes.add("none")
    assert outcomes == {"none", 1}
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_can_be_exported_and_predicts_the_same(method, tmp_path):
    images = METHODS[method].inputs == "images"
    x = np.random.default_rng(0).integers(0, 255, (60, 3, 16, 16), np.uint8) if images else X
    run = run_of(method, tmp_path / "run", x, **({"backbone": "cnn"} if images else {}))
    write_calibration(run, ("0", "1", "2"), CURVE)
    done = export_run(run, tmp_path / "out")
    assert list(done.files) == FILES  # not the memory of the method
    before, after = load_run(run), load_run(tmp_path / "out")
    inputs = ArrayInputs(torch.from_numpy(x))
    assert torch.equal(before.probabilities(inputs), after.probabilities(inputs))
    assert after.calibration == CURVE
    assert after.classes == before.classes
    assert (tmp_path / "out" / "thresholds.json").read_bytes() == (
        run / "thresholds.json"
    ).read_bytes()


def test_nothing_private_is_in_the_folder(tmp_path):
    photos = tmp_path / "home-of-someone" / "photos"
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (photos / name).mkdir(parents=True)
        for number in range(6):
            pixels = rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(photos / name / f"secret{number}.png")
    recipe = make_recipe(
        {"method": "role", "epochs": 1, "image_size": 16, "expected_positives": 1.0},
        {"cache_dir": str(tmp_path / "home-of-someone" / "cache")},
    )
    source = {"data": str(photos), "features": [], "format": "auto", "labels": "auto"}
    data = load_source(str(photos))
    train(make_task(data, recipe), recipe, tmp_path / "run", source=source)
    export_run(tmp_path / "run", tmp_path / "out")
    for file in (tmp_path / "out").iterdir():
        content = file.read_bytes()
        for word in (b"home-of-someone", b"secret", b"cache_dir"):
            assert word not in content, file.name
            assert word.decode().encode("utf-32-le") not in content, file.name


def test_config_for_programs(tmp_path):
    export_run(run_of("gr", tmp_path / "run", seed=4), tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["model_type"] == "plusone"
    assert config["problem_type"] == "multi_label_classification"
    assert config["id2label"] == {"0": "0", "1": "1", "2": "2"}
    assert config["label2id"] == {"0": 0, "1": 1, "2": 2}
    assert config["input"]["shape"] == ["batch", 5]
    assert (config["training"]["seed"], config["training"]["method"]) == (4, "gr")
    assert set(config["thresholds"]["by_class"]) == {"0", "1", "2"}


def test_what_is_refused(tmp_path, monkeypatch):
    run = run_of("an", tmp_path / "run")
    with pytest.raises(InputError, match="is not empty and holds no export"):
        export_run(run, run)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file"):
        export_run(run, tmp_path / "file")
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="holds no complete run"):
        export_run(tmp_path / "none", tmp_path / "out")
    export_run(run, tmp_path / "out")
    export_run(run, tmp_path / "out")  # over an older one
    with pytest.raises(InputError, match="holds no complete run"):
        export_run(tmp_path / "out", tmp_path / "again")
    monkeypatch.setattr(onnx, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=re.escape(install_command("onnx"))):
        export_run(run, tmp_path / "other", onnx=True)
    assert not (tmp_path / "other").exists()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A run on features as ONNX."""
    pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("onnx")
    run = run_of("gr", folder / "run")
    write_calibration(run, ("0", "1", "2"), CURVE)
    return run, folder / "out", export_run(run, folder / "out", onnx=True)


@pytest.mark.slow
def test_no_path_of_this_machine_is_in_the_folder(exported):
    run, out, _ = exported
    here = {sys.prefix, str(Path.home()), str(Path(onnx.__file__).parents[2]), str(run.parent)}
    here |= {f"/{getpass.getuser()}/", "site-packages", "/torch/"}
    for file in out.iterdir():
        content = file.read_bytes()
        for word in here - {"/"}:
            assert word.encode() not in content, (file.name, word)
            assert word.encode("utf-32-le") not in content, (file.name, word)


@pytest.mark.slow
def test_onnx_says_what_it_is(exported):
    import onnxruntime

    run, out, done = exported
    assert done.onnx.difference < 1e-5
    assert done.onnx.real is False  # arrays have no file to read them from again
    session = onnxruntime.InferenceSession(out / "model.onnx", providers=["CPUExecutionProvider"])
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["classes"]) == ["0", "1", "2"]
    thresholds = json.loads((run / "thresholds.json").read_text())["thresholds"]
    assert json.loads(about["thresholds"]) == thresholds
    assert json.loads(about["input"])["shape"] == ["batch", 5]
    assert about["method"] == "gr"
    wanted = load_run(run).probabilities(ArrayInputs(torch.from_numpy(X)))
    for n in (1, 7, 60):
        (found,) = session.run(["probabilities"], {"inputs": X[:n]})
        np.testing.assert_allclose(found, wanted[:n], atol=1e-6)


@pytest.mark.slow
def test_an_onnx_file_that_differs_is_refused(exported, tmp_path, monkeypatch):
    run = exported[0]
    monkeypatch.setattr(onnx, "TOLERANCE", -1.0)
    with pytest.raises(RunError, match="differs from torch"):
        export_run(run, tmp_path / "out", onnx=True)
    assert list(tmp_path.iterdir()) == []  # nothing is in the way of another attempt


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lac", "en_scl"])
def test_onnx_of_other_heads_on_images(method, tmp_path):
    pytest.importorskip("onnxruntime")
    x = np.random.default_rng(0).integers(0, 255, (60, 3, 16, 16), dtype=np.uint8)
    run = run_of(method, tmp_path / "run", x, batch_size=32)
    done = export_run(run, tmp_path / "out", onnx=True)
    assert done.onnx.difference < 1e-5
    about = json.loads((tmp_path / "out" / "config.json").read_text())["input"]
    assert about["shape"] == ["batch", 3, 16, 16]
    assert about["mean"] == [0.45, 0.45, 0.45]
    assert about["std"] == [0.25, 0.25, 0.25]
