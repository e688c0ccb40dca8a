"""The device everywhere else: its names, stages, stacks, streams, runs, and what uses them."""

import numpy as np
import pytest
import torch
from PIL import Image

import plusone
from plusone import PlusOneClassifier
from plusone.autorecipe import Facts, choose
from plusone.closed_form import kernel
from plusone.device import describe, device_of, resolve
from plusone.errors import InputError
from plusone.export.publish import export_run
from plusone.features.extraction import extract_to_file, with_features
from plusone.inputs import placement
from plusone.inputs.loader import ArrayInputs
from plusone.inputs.task import make_task
from plusone.prediction.load import load_run
from plusone.recipe import make_recipe
from plusone.report.maps import class_maps
from plusone.report.surfaces import loss_surface
from plusone.training.crossfit import cross_fit
from plusone.training.run import train
from plusone.training.stack import train_stacked

pytestmark = pytest.mark.slow

DEVICES = ("cpu", "mimic")


def test_names_of_devices(device, monkeypatch):
    assert resolve("auto") == resolve("mimic") == torch.device("mimic")
    assert resolve("cpu").type == "cpu"
    assert describe(resolve("auto")) == "mimic (17 GB free)"
    monkeypatch.setenv("LOCAL_RANK", "3")  # one card, so all processes share it
    assert resolve("auto") == torch.device("mimic", 0)
    for name, problem in {
        "gpu": "is not known; here it can be auto, cpu or mimic",
        "cuda": "is not on this machine; here it can be auto, cpu or mimic",
        "mimic:5": "this machine has 1 of type mimic",
    }.items():
        with pytest.raises(InputError, match=problem):
            resolve(name)


def test_an_accelerator_extracts_five_crops_of_many_images(device):
    """On a CPU they would take too long."""
    facts, given = Facts("files", 80_000, images=100_000, pretrained="lite0"), {"mode": "linear"}
    (crops,) = (each for each in choose(facts, given) if "crops" in each.settings)
    assert crops.settings["crops"] == "five"
    assert "five times the work of mimic" in str(crops)
    slow = choose(facts, {**given, "device": "cpu"})
    assert not any("crops" in each.settings for each in slow)


def test_without_an_accelerator_auto_is_the_cpu():
    assert resolve("auto") == torch.device("cpu")
    with pytest.raises(InputError, match="'mimic' is not on this machine; here it can be auto or"):
        resolve("mimic")


@pytest.mark.parametrize("method", ["an", "gr", "role"])
def test_two_stages(method, device, reads_in_steps, training, image_data):
    """A head on fixed features, then the whole model."""
    given = {"method": method, "mode": "linear_init", "epochs": 2, "finetune_epochs": 1}
    given |= {"expected_positives": 1.7, "backbone": True, "ema": 0.9}
    trained = {name: training(image_data(32), device=name, **given) for name in DEVICES}
    with reads_in_steps(device) as reads:
        records = {
            name: [record.model_copy(update={"seconds": 0.0}) for record in each.epochs()]
            for name, each in trained.items()
        }
    assert records["cpu"] == records["mimic"]
    assert reads == []


@pytest.mark.parametrize("head", ["linear", "kernel"])
def test_stacks(head, device, reads_in_steps, feature_data):
    given = {"method": "em", "epochs": 2, "head": head}
    recipes = [make_recipe(given, {"lr": lr, "seed": s}) for lr in (1e-3, 1e-2) for s in (0, 1)]
    task = make_task(feature_data(80), recipes[0])
    here = train_stacked(task, recipes)
    there = [recipe.model_copy(update={"device": "mimic"}) for recipe in recipes]
    with reads_in_steps(device) as reads:
        on_device = train_stacked(task, there)
    assert reads == []
    for (mine, records), (other, others) in zip(here, on_device, strict=True):
        assert [record.losses for record in records] == [record.losses for record in others]
        assert torch.equal(mine.log_odds(task.test), other.log_odds(task.test))


@pytest.mark.parametrize(
    "given", [{}, {"head": "linear"}, {"standardize": True}, {"method": "em", "head": "kernel"}]
)
def test_maps_before_the_head(given, device, training, feature_data, monkeypatch):
    """Landmarks that are some of the items; `test_every_method.py` has the exact kernel."""
    monkeypatch.setattr(kernel, "EXACT", 30)
    monkeypatch.setattr(kernel, "LANDMARKS", 20)
    given = {"method": "recovery", "epochs": 2} | given
    here, there = (training(feature_data(80), device=name, **given) for name in DEVICES)
    mine, theirs = list(here.epochs()), list(there.epochs())
    assert [record.losses for record in mine] == [record.losses for record in theirs]
    assert torch.equal(here.log_odds(here.task.test), there.log_odds(there.task.test))


@pytest.mark.parametrize("method", ["em", "recovery"])
def test_features_larger_than_the_device_are_streamed(
    method, mimic_device, training, feature_data, monkeypatch
):
    """Batches are copied where features do not fit in half of the free memory."""
    data, scores = feature_data(80), {}
    given = {"method": method, "epochs": 2}
    for name, free in {"moved": 1 << 30, "streamed": 100}.items():
        with mimic_device(free=free):
            placed = placement.place(ArrayInputs(torch.zeros(80, 8)), resolve("mimic"))
            assert isinstance(placed, ArrayInputs) == (name == "moved")
            one = training(data, device="mimic", **given)
            list(one.epochs())
            scores[name] = one.log_odds(one.task.test)
    assert torch.equal(scores["moved"], scores["streamed"])


def test_a_run_is_used_on_another_device(device, feature_data, tmp_path):
    """Trained on the device; predicted, exported and analysed on both."""
    data = feature_data(120)
    recipe = make_recipe({"method": "recovery", "device": "mimic"})
    task = make_task(data, recipe)
    train(task, recipe, tmp_path / "run")
    inputs = task.test.inputs
    here, there = (load_run(tmp_path / "run", name) for name in DEVICES)
    assert device_of(there.model).type == "mimic"
    assert torch.equal(here.probabilities(inputs), there.probabilities(inputs))
    export_run(tmp_path / "run", tmp_path / "export")
    assert 'device = "auto"' in (tmp_path / "export" / "recipe.toml").read_text()
    shared = load_run(tmp_path / "export", "mimic")
    assert torch.equal(here.probabilities(inputs), shared.probabilities(inputs))
    again = train(task, recipe.model_copy(update={"device": "cpu"}), tmp_path / "run", resume=True)
    assert again.run == str(tmp_path / "run")  # the device is no reason to refuse


def test_surface(device, feature_data, tmp_path):
    recipe = make_recipe({"method": "em", "epochs": 2})
    task = make_task(feature_data(80), recipe)
    train(task, recipe.model_copy(update={"device": "cpu"}), tmp_path / "run")
    surfaces = [
        loss_surface(load_run(tmp_path / "run", name), task.train, steps=3) for name in DEVICES
    ]
    assert surfaces[0] == surfaces[1]


@pytest.mark.parametrize("method", ["em", "recovery"])
def test_cross_fitting_by_groups(method, device, feature_data):
    groups = (np.arange(90) // 3).astype(str)
    data = feature_data(90, complete=False, split=None, groups=groups)
    fitted = [
        cross_fit(data, make_recipe({"method": method, "epochs": 2, "device": name}), 3)
        for name in DEVICES
    ]
    assert np.array_equal(*(one.scores.table() for one in fitted))


def test_fit_and_classifier(device, feature_data):
    data = feature_data(80)
    x, tags = data.features, data.table.truth.dense().argmax(axis=1)
    fitted = [plusone.fit(data, "em", epochs=2, device=name) for name in DEVICES]
    assert np.array_equal(*(one.predict(x) for one in fitted))
    models = [PlusOneClassifier(device=name, random_state=0).fit(x, tags) for name in DEVICES]
    assert device_of(models[1].predictor_.model).type == "cpu"
    assert np.array_equal(*(model.predict_proba(x) for model in models))


def test_image_files(device, tmp_path):
    """Features, and class maps, of images in files."""
    rng = np.random.default_rng(0)
    lines = ["image,labels,split"]
    for row in range(12):
        pixels = rng.integers(0, 256, size=(32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{row}.png")
        lines.append(f"{row}.png,{'ab'[row % 2]},{'test' if row > 8 else 'train'}")
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    data = plusone.data.formats.read(tmp_path / "labels.csv")
    found = {}
    for name in DEVICES:
        path = tmp_path / f"{name}.npz"
        extract_to_file(data, path, "cnn", 32, workers=0, device=name)
        given = {"method": "en_scl", "backbone": "cnn", "image_size": 32, "epochs": 1, "workers": 0}
        recipe = make_recipe(given, {"expected_positives": 1.2, "cache_mb": 0, "device": name})
        fitted = plusone.fit(data, **recipe.model_dump(exclude_unset=True))
        (_, scores, maps), *_ = class_maps(fitted.predictor, fitted.training.task.test.inputs)
        vectors = with_features(data, recipe.model_copy(update={"method": "an"})).features
        found[name] = (np.load(path)["x"], scores.numpy(), maps.numpy(), vectors)
    for mine, other in zip(found["cpu"], found["mimic"], strict=True):
        assert np.array_equal(mine, other)
