"""predict.py beside an ONNX file: what plusone predicts, without plusone and without torch."""

import csv
import io
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from plusone.data.dataset import Dataset
from plusone.data.images import CROPS, decode_crops
from plusone.export import export_run
from plusone.export.standalone import Model
from plusone.recipe import make_recipe
from plusone.training.build import load_run
from plusone.training.loader import ArrayInputs
from plusone.training.run import train
from plusone.training.task import make_task
from plusone.training.thresholds import read_thresholds

ALONE = """
import runpy, sys
sys.modules |= dict.fromkeys(("torch", "plusone", "scipy", "sklearn"))  # importing them fails
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def alone(folder, *arguments):
    command = [sys.executable, "-c", ALONE, folder / "predict.py", *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


@pytest.fixture
def photos(tmp_path):
    """Images of many kinds: sizes, colours, depths, an orientation to apply."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "photos"
    folder.mkdir()
    pixels = rng.integers(0, 256, (90, 61, 3)).astype(np.uint8)
    smooth = Image.fromarray(pixels).resize((301, 217), Image.Resampling.BICUBIC)
    smooth.save(folder / "a.png")
    smooth.convert("L").save(folder / "b.png")
    smooth.quantize(64).save(folder / "c.png")
    smooth.convert("CMYK").save(folder / "d.jpg")
    Image.fromarray(np.asarray(smooth.convert("L")).astype(np.uint16) * 200).save(folder / "e.png")
    turned = Image.Exif()
    turned[0x0112] = 6
    smooth.save(folder / "f.jpg", exif=turned)
    Image.fromarray(pixels[:9, :7]).save(folder / "g.bmp")
    return folder


@pytest.mark.parametrize("aspect", ["stretch", "crop"])
@pytest.mark.parametrize("crops", ["one", "five"])
def test_images_are_prepared_as_in_training(photos, aspect, crops):
    model = Model.__new__(Model)
    model.input = {"shape": ["batch", 3, 32, 32], "aspect": aspect, "crops": CROPS[crops]}
    for path in sorted(photos.iterdir()):
        ours = decode_crops(path, 32, crops, aspect).numpy()
        theirs = model.read(path)
        assert theirs.shape == (ours.shape if crops == "five" else ours.shape[1:])
        difference = np.abs(ours.astype(int) - theirs)
        assert difference.max() <= 1, path.name
        assert difference.mean() < 0.1, path.name


@pytest.mark.slow
def test_it_gives_the_predictions_of_a_model_on_features(tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    x = np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32)
    names = ["=a", 'b "c"', "d"]
    data = Dataset.from_arrays(x, (x[:, :3] > 0.3).astype(int), classes=names, complete=True)
    recipe = make_recipe({"method": "em", "epochs": 2})
    train(make_task(data, recipe), recipe, tmp_path / "run")
    export_run(tmp_path / "run", tmp_path / "model", onnx=True)
    np.savez(tmp_path / "x.npz", x=x[:20], ids=np.array([f"item {n}" for n in range(20)]))
    done = alone(tmp_path / "model", tmp_path / "x.npz")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    predictor = load_run(tmp_path / "run")
    expected = predictor.probabilities(ArrayInputs(torch.from_numpy(x[:20]))).numpy()
    found = np.array([[float(row[name]) for name in names] for row in rows])
    np.testing.assert_allclose(found, expected, atol=1e-4)
    cuts = read_thresholds(tmp_path / "run", predictor.classes).array
    for row, scores in zip(rows, expected, strict=True):
        assert set(filter(None, row["labels"].split("|"))) == {
            name for name, score, cut in zip(names, scores, cuts, strict=True) if score > cut
        }
    export_run(tmp_path / "run", tmp_path / "model")
    assert not (tmp_path / "model" / "predict.py").exists()  # there is no ONNX file any more
