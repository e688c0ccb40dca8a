"""predict.py beside an ONNX file: what plusone predicts, without plusone and without torch."""

import csv
import io
import os
import re
import shutil
import subprocess
import venv
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import distribution

import numpy as np
import pytest
from PIL import Image

from plusone.cli.app import main
from plusone.data.dataset import Dataset
from plusone.data.images import CROPS, decode_crops
from plusone.data.source import load_source
from plusone.export import export_run
from plusone.export.standalone import Model
from plusone.inputs.task import make_task
from plusone.recipe import make_recipe
from plusone.training.run import train

NEEDED = ("onnxruntime", "numpy", "pillow")


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The Python of a new environment that has what `predict.py` needs, and nothing else.

    Packages are links to those of the tests' environment, as no index may be asked.
    """
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    folder = tmp_path_factory.mktemp("alone")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    todo, done = list(NEEDED), set()
    while todo:
        name = todo.pop()
        if name in done:
            continue
        done.add(name)
        installed = distribution(name)
        for file in installed.files or ():
            link = packages / file.parts[0]
            if file.parts[0] != ".." and not link.exists():
                link.symlink_to(installed.locate_file(file.parts[0]))
        wanted = [line.partition(";") for line in installed.requires or ()]
        todo += [re.match(r"[\w.-]+", name)[0] for name, _, when in wanted if "extra" not in when]
    python = folder / "bin" / "python"
    check = "import importlib.util as u; print([*map(u.find_spec, ('torch', 'plusone', 'scipy'))])"
    assert output(python, "-c", check) == "[None, None, None]\n"
    return python


def output(*words):
    """What a program prints, started without our source tree in its path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def predicted(*arguments):
    """The CSV of `plusone predict`."""
    out = io.StringIO()
    words = ["predict", *map(str, arguments), "--device", "cpu"]
    with redirect_stdout(out), redirect_stderr(io.StringIO()), pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 0
    return out.getvalue()


def assert_same(ours, theirs, within):
    """Whether two CSV files name the same items and labels, with nearly the same probabilities."""
    ours, theirs = (list(csv.reader(io.StringIO(text))) for text in (ours, theirs))
    assert ours[0] == theirs[0]
    assert [row[0] for row in ours] == [row[0] for row in theirs]
    for one, other in zip(ours[1:], theirs[1:], strict=True):
        p, q = (np.array(row[2:], dtype=float) for row in (one, other))
        assert np.abs(p - q).max() <= within, one[0]
        assert one[1] == other[1] or within > 1e-3, one[0]


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
def test_it_gives_the_predictions_of_a_model_on_features(python, tmp_path):
    x = np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32)
    names = ["=a", 'b "c"', "d"]
    data = Dataset.from_arrays(x, (x[:, :3] > 0.3).astype(int), classes=names, complete=True)
    recipe = make_recipe({"method": "em", "epochs": 2})
    train(make_task(data, recipe), recipe, tmp_path / "run")
    export_run(tmp_path / "run", tmp_path / "model", onnx=True)
    np.savez(tmp_path / "x.npz", x=x[:20], ids=np.array([f"item {n}" for n in range(20)]))
    theirs = output(python, tmp_path / "model" / "predict.py", tmp_path / "x.npz")
    assert_same(theirs, predicted(tmp_path / "run", tmp_path / "x.npz"), 1.01e-4)
    export_run(tmp_path / "run", tmp_path / "model")
    assert not (tmp_path / "model" / "predict.py").exists()  # there is no ONNX file any more


@pytest.mark.slow
@pytest.mark.parametrize("crops", ["one", "five"])
def test_it_gives_the_predictions_of_a_model_on_images(python, photos, tmp_path, crops):
    shutil.copytree(photos, tmp_path / "data" / "some")
    shutil.copytree(photos, tmp_path / "data" / "others")
    settings = {"backbone": "cnn", "image_size": 32, "crops": crops, "epochs": 1, "workers": 0}
    recipe = make_recipe({"method": "em", "mode": "linear"} | settings)
    data = load_source(str(tmp_path / "data"))
    train(make_task(data, recipe), recipe, tmp_path / "run")
    export_run(tmp_path / "run", tmp_path / "model", onnx=True)
    (photos / "broken.png").write_bytes(b"no image")
    theirs = output(python, tmp_path / "model" / "predict.py", photos)
    assert_same(theirs, predicted(tmp_path / "run", photos), 0.01)  # another resizing
