"""Several crops of an image: their features are averaged, in training and in prediction."""

import csv

import numpy as np
import pytest
import torch
from PIL import Image

from plusone.data import images
from plusone.data.dataset import Dataset
from plusone.data.images import CROPS, cut, decode, decode_crops
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.export.publish import export_run
from plusone.features.extraction import FeatureCache, extract_to_file, fresh_model, key_of
from plusone.inputs.loader import ArrayInputs, FileInputs
from plusone.inputs.task import make_task
from plusone.prediction.items import find_items
from plusone.prediction.load import load_run
from plusone.prediction.tags import predict_all
from plusone.recipe import make_recipe
from plusone.training.api import fit
from plusone.training.closed_fit import fit_for
from plusone.training.crossfit import cross_fit
from plusone.training.run import train

FIVE = {
    "method": "an",
    "mode": "linear",
    "crops": "five",
    "image_size": 16,
    "epochs": 2,
    "workers": 0,
}


@pytest.fixture
def photos(tmp_path):
    """24 photos, each with a bright square in one corner, which is its class."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "photos"
    folder.mkdir()
    labels = np.zeros((24, 4), dtype=np.int8)
    for number in range(24):
        pixels = rng.integers(0, 90, size=(30 + number, 40, 3), dtype=np.uint8)
        top, left = divmod(number % 4, 2)
        pixels[20 * top : 10 + 20 * top, 30 * left : 10 + 30 * left] = 255
        labels[number, number % 4] = 1
        Image.fromarray(pixels).save(folder / f"{number:02d}.png")
    ids = np.array([f"{number:02d}.png" for number in range(24)])
    table = LabelTable(ids, tuple("abcd"), LabelMatrix.from_dense(labels), root=folder)
    return Dataset(table, None, "photos")


def in_memory(n=40):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, size=(n, 3, 16, 16), dtype=np.uint8)
    return Dataset.from_arrays(x, np.eye(3, dtype=int)[np.arange(n) % 3])


def test_the_whole_and_a_tile_in_each_corner_decoded_once(photos, monkeypatch):
    path = photos.table.path(0)
    opened = []
    whole = images.open_image
    monkeypatch.setattr(
        images, "open_image", lambda path, **limits: opened.append(path) or whole(path, **limits)
    )
    crops = decode_crops(path, 16, "five")
    assert opened == [path]
    assert crops.shape == (5, 3, 16, 16)
    assert torch.equal(crops[0], decode(path, 16))
    tile = Image.open(path).crop((16, 12, 40, 30))  # the lower right: 24 x 18 of 40 x 30 pixels
    tile.save(path.with_name("tile.png"))
    difference = crops[4].int() - decode(path.with_name("tile.png"), 16).int()
    assert difference.abs().max() <= 1


def test_features_are_the_mean_of_those_of_the_crops(photos):
    recipe = make_recipe(FIVE)
    model = fresh_model(recipe, photos.table.labels, (3, 16, 16)).eval()
    paths = tuple(photos.table.path(row) for row in range(5))
    files = FileInputs(paths, 16, crops="five")
    with torch.inference_mode():
        alone = [model.features(decode_crops(path, 16, "five")).mean(0) for path in paths]
    made = FeatureCache().of(model, files).x
    torch.testing.assert_close(made, torch.stack(alone))
    # Images in memory keep their size.
    x = torch.stack([decode(path, 16) for path in paths])
    with torch.inference_mode():
        alone = [model.features(crops).mean(0) for crops in cut(x, "five", (16, 16))]
    kept = ArrayInputs(x, crops="five")
    torch.testing.assert_close(FeatureCache().of(model, kept).x, torch.stack(alone))
    assert key_of(model, files) != key_of(model, FileInputs(paths, 16))
    assert key_of(model, kept) != key_of(model, ArrayInputs(x))


def test_extracted_features(photos, tmp_path):
    extract = {"size": 16, "workers": 0, "crops": "five"}
    made = extract_to_file(photos, tmp_path / "x.npz", "cnn", **extract)
    assert made.settings["crops"] == "five"
    five = np.load(tmp_path / "x.npz")["x"]
    extract_to_file(photos, tmp_path / "one.npz", "cnn", size=16, workers=0)
    assert not np.allclose(five, np.load(tmp_path / "one.npz")["x"])
    with pytest.raises(InputError, match="places of several crops cannot be averaged"):
        extract_to_file(photos, tmp_path / "y.npz", "cnn", tokens=True, **extract)


@pytest.mark.parametrize("method", ["an", "recovery"])  # a linear head, and one of a kernel
def test_a_run_predicts_new_photos_as_it_was_trained(method, photos, tmp_path):
    recipe = make_recipe(FIVE | {"method": method})
    task = make_task(photos, recipe)
    assert isinstance(task.train.inputs, FileInputs)  # five decoded crops are not kept in memory
    train(task, recipe, tmp_path / "run")
    predictor = load_run(tmp_path / "run").raw
    (items,) = find_items(predictor, [str(photos.table.root)])
    (new,) = predict_all(predictor, [items])
    training = fit_for(task, recipe)
    for _ in training.epochs():
        pass
    rows = [items.ids.index(name) for name in task.val.ids.tolist()]
    torch.testing.assert_close(new.probabilities[rows], training.predict(task.val))
    (whole,) = predict_all(predictor.with_crops("one"), [items])  # five times as fast
    assert not torch.allclose(new.probabilities, whole.probabilities)


def test_a_model_of_whole_images_gives_the_mean_odds_of_the_crops(photos, tmp_path):
    recipe = make_recipe(FIVE | {"crops": "one", "mode": "finetune"})
    train(make_task(photos, recipe), recipe, tmp_path / "run")
    predictor = load_run(tmp_path / "run").raw
    shown = predictor.with_crops("five")
    (items,) = find_items(shown, [str(photos.table.root)])
    (new,) = predict_all(shown, [items])
    for row in (0, 9):
        alone = predictor.probabilities(ArrayInputs(decode_crops(items.paths[row], 16, "five")))
        odds = (alone / (1 - alone)).mean(0)
        torch.testing.assert_close(new.probabilities[row], odds / (1 + odds))


def test_cross_fitting_extracts_the_crops_once(photos):
    ticks = []
    recipe = make_recipe(FIVE)
    five = cross_fit(photos, recipe, 2, on_extract=ticks.append)
    one = cross_fit(photos, recipe.model_copy(update={"crops": "one"}), 2)
    assert sum(ticks) == 24
    assert not np.allclose(five.features, one.features)


def test_images_in_memory():
    data = in_memory()
    fitted = fit(data, rules=False, backbone="cnn", **(FIVE | {"image_size": None}))
    x = data.features[:4]
    crops = cut(torch.from_numpy(x), "five", (16, 16))
    with torch.inference_mode():
        model = fitted.training.model.eval()
        logits = model.head(torch.stack([model.features(one).mean(0) for one in crops])).logits
    expected = fitted.training.method.probabilities(logits).numpy()
    np.testing.assert_allclose(fitted.scores(x), expected, atol=1e-5)


def test_where_crops_mean_nothing_they_are_refused():
    features = Dataset.from_arrays(np.eye(9, 5, dtype=np.float32), np.eye(9, 3, dtype=int))
    five = FIVE | {"image_size": None}
    with pytest.raises(InputError, match="is about images, and this data has features"):
        fit(features, rules=False, **five)
    for mode in ("finetune", "linear_init"):
        with pytest.raises(InputError, match="use the mode linear, or train on whole images"):
            fit(in_memory(), rules=False, **(five | {"mode": mode}))
    with pytest.raises(InputError, match="lac needs every place of the feature map"):
        fit(in_memory(), rules=False, **(five | {"method": "lac"}))
    model = fit(features, "an", rules=False, epochs=1, mode="linear").training
    assert model.task.shape == (5,)


@pytest.mark.slow
def test_the_onnx_model_takes_the_crops_and_agrees_with_predict(photos, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    recipe = make_recipe(FIVE | {"method": "recovery"})
    labels = tmp_path / "labels.csv"
    root, table = photos.table.root, photos.table
    with labels.open("w", newline="") as file:
        csv.writer(file).writerow(["image", "labels"])
        for row, name in enumerate(table.ids.tolist()):
            label = table.classes[int(table.labels.dense()[row].argmax())]
            csv.writer(file).writerow([f"photos/{name}", label])
    source = {"data": str(labels), "features": [], "format": "auto", "labels": "auto"}
    train(make_task(photos, recipe), recipe, tmp_path / "run", source=source)
    exported = export_run(tmp_path / "run", tmp_path / "model", onnx=True)
    assert exported.onnx.real
    assert "four tiles of 60 % of each side" in (tmp_path / "model" / "README.md").read_text()
    predictor = load_run(tmp_path / "model")
    (items,) = find_items(predictor, [str(root)])
    (ours,) = predict_all(predictor, [items])
    session = runtime.InferenceSession(str(tmp_path / "model" / "model.onnx"))
    crops = np.stack([decode_crops(path, 16, "five").numpy() for path in items.paths])
    assert crops.shape[1] == len(CROPS["five"])
    (theirs,) = session.run(None, {"inputs": crops})
    np.testing.assert_allclose(theirs, ours.probabilities.numpy(), atol=1e-5)
