"""Memory of a device that does not suffice: smaller batches, or a sentence; and frugal steps."""

import copy

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.device import is_out_of_memory
from plusone.errors import RunError
from plusone.features.extraction import extract_to_file
from plusone.inputs.forward import IMAGES_ON_DEVICE, batch_size, predict
from plusone.inputs.loader import ArrayInputs
from plusone.methods import METHODS
from plusone.models.classifier import Normalize
from plusone.types import TrainLabels

SETTINGS = {"backbone": True, "device": "mimic", "epochs": 1, "batch_size": 12}


class Wide(nn.Module):
    """32 times as many activations as pixels."""

    dim = 8

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            Normalize([0.0], [1.0]), nn.Conv2d(1, 32, 1), nn.ReLU(), nn.Conv2d(32, 8, 3)
        )

    def forward(self, images):
        return self.layers(images)


ACTIVATIONS = 32 * 16 * 16  # of an image


def test_predictions_halve_their_batches(mimic_device, training, image_data):
    data, own = image_data(), Wide()
    made = training(data, backbone=own, device="cpu")
    images, sizes = ArrayInputs(torch.zeros(64, 1, 16, 16, dtype=torch.uint8).random_()), []
    expected = predict(made.model, made.model, images, kind="images")
    with mimic_device(elements=20 * ACTIVATIONS):
        there = training(data, **SETTINGS | {"backbone": Wide()})
        there.model.load_state_dict(made.model.state_dict())
        assert batch_size(there.model, "images") == IMAGES_ON_DEVICE
        forward = there.model.forward

        def listening(x):
            sizes.append(len(x))
            return forward(x)

        got = predict(there.model, listening, images, kind="images")
        assert sizes == [64, 32, 16, 16, 16, 16]
        sizes.clear()
        predict(there.model, listening, images, kind="images", rows=10)
    assert sizes == [10] * 6 + [4]
    torch.testing.assert_close(got, expected)


def test_an_image_that_does_not_fit(mimic_device, training, image_data):
    with mimic_device(elements=200):  # as many as there are weights
        made = training(image_data(), **SETTINGS)
        images = ArrayInputs(torch.zeros(3, 1, 16, 16, dtype=torch.uint8))
        with pytest.raises(RunError, match=r"mimic:0 has no room for .* \(1, 16, 16\); use"):
            predict(made.model, made.model, images, kind="images")


def test_a_training_says_what_to_change(mimic_device, training, image_data, feature_data):
    """In pieces of 4 images it fits."""
    given = SETTINGS | {"backbone": Wide()}
    with mimic_device(elements=5 * ACTIVATIONS):
        with pytest.raises(RunError) as error:
            list(training(image_data(), **given).epochs())
        assert str(error.value) == (
            "mimic has no memory left: an with batches of 12, images of 16 pixels in float32; try "
            "a smaller batch_size, accumulate = 2 (the same batch in smaller pieces), precision = "
            "bf16, checkpoint_activations = true, a smaller image_size"
        )
        list(training(image_data(), **given, accumulate=3).epochs())
    with mimic_device(elements=300):
        given = {"method": "role", "expected_positives": 1.7, "device": "mimic", "batch_size": 1}
        with pytest.raises(RunError, match=r"role with batches of 1; try memory = host$"):
            list(training(feature_data(), **given).epochs())


def test_the_graph_of_smile_is_made_in_blocks(mimic_device, monkeypatch):
    """The vectors of all items are never on the device, nor are their means."""
    for name in ("ROWS", "BLOCK"):
        monkeypatch.setattr(f"plusone.methods.smile.{name}", 8)
    info, x = METHODS["smile"], torch.randn(60, 8, generator=torch.Generator().manual_seed(0))
    labels, graphs = TrainLabels(LabelMatrix.from_dense(np.eye(60, 4, dtype=np.int8))), []
    with mimic_device(elements=200):
        for device in ("cpu", "mimic"):
            method = info.build(labels, info.make_options({}))
            method.make_head(8)
            method.move(torch.device(device), memory="host")
            method.begin_training(lambda: x)
            method.move(torch.device(device), memory="host")
            graphs.append(method.graph)
            torch.testing.assert_close(method.means, x[method.graph].mean(1))
    assert graphs[0].equal(graphs[1])


def test_extraction_halves_its_batches(mimic_device, tmp_path):
    rng, files = np.random.default_rng(0), {}
    names = [f"{number}.png" for number in range(7)]
    for name in names:
        pixels = rng.integers(0, 256, size=(20, 20, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / name)
    labels = LabelMatrix.from_dense(np.eye(7, 2, dtype=np.int8))
    data = Dataset(LabelTable(np.array(names), ("a", "b"), labels, root=tmp_path), None, "d")
    with mimic_device(elements=21_000):  # three images of 48 pixels, or the weights of a layer
        for device in ("cpu", "mimic"):
            path = tmp_path / f"{device}.npz"
            extract_to_file(data, path, "cnn", 48, 0, device=device)
            files[device] = np.load(path)["x"]
    np.testing.assert_allclose(files["mimic"], files["cpu"], atol=1e-3)


def test_memory_of_the_cpu():
    with pytest.raises(RuntimeError) as error:
        torch.empty(1 << 48)
    assert is_out_of_memory(error.value)
    assert not is_out_of_memory(RuntimeError("shapes differ"))
    assert not is_out_of_memory(ValueError("out of memory"))


@pytest.mark.parametrize(
    "settings",
    [
        {"accumulate": 3},
        {"clip": 0.1},
        {"precision": "fp16"},
        {"precision": "fp16", "clip": 0.1, "accumulate": 2},
        {"precision": "fp16", "optimizer": "sgd"},
    ],
)
def test_a_step_reads_no_value_on_the_host(
    settings, mimic_device, reads_in_steps, training, image_data
):
    """The scale of the loss leaves no trace: on this device autocast changes nothing."""
    ends = []
    with mimic_device() as device, reads_in_steps(device) as reads:
        for changed in ({"device": "cpu", "precision": "float32"}, {}):
            made = training(image_data(), **SETTINGS | settings | changed)
            list(made.epochs())
            ends.append(made.state()[0])
    assert reads == []
    for key, value in ends[0].items():
        torch.testing.assert_close(ends[1][key].cpu(), value, rtol=1e-3, atol=1e-4, msg=key)


def test_convolutions_are_channels_last_and_stay_so(mimic_device, training, image_data):
    with mimic_device():
        given, start = SETTINGS | {"epochs": 2, "lr": 0.01}, Wide()
        whole = training(image_data(), **given | {"backbone": copy.deepcopy(start)})
        epochs = whole.epochs()
        next(epochs)
        tensors, plain = whole.state()
        resumed = training(image_data(), **given | {"backbone": start})
        resumed.load_state({key: value.cpu().contiguous() for key, value in tensors.items()}, plain)
        weight = resumed.model.backbone.layers[3].weight
        moment = resumed.optimizer.state[weight]["exp_avg"]
        for tensor in (weight, moment):
            assert tensor.is_contiguous(memory_format=torch.channels_last)
        list(epochs)
        list(resumed.epochs())
        for key, value in whole.state()[0].items():
            assert torch.equal(value.cpu(), resumed.state()[0][key].cpu()), key
