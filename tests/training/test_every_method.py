"""Every method of the table trains, on features and on images, and resumes to the same result."""

import math

import numpy as np
import pytest
import torch

import plusone
from plusone.data import Dataset
from plusone.errors import InputError
from plusone.methods import METHODS

pytestmark = pytest.mark.slow


def settings(name, **rest):
    options = dict(METHODS[name].quick)
    if METHODS[name].inputs == "vectors":  # of images too
        rest["mode"] = "linear"
    return {"method": name, "expected_positives": 1.7, "lr": 0.02, "options": options} | rest


@pytest.fixture(params=sorted(METHODS))
def name(request):
    return request.param


@pytest.mark.parametrize("kind", ["features", "images"])
def test_stopped_and_resumed_it_ends_the_same(name, kind, training, feature_data, image_data):
    if kind == "features" and METHODS[name].inputs == "images":
        with pytest.raises(InputError, match="needs images in every step, and this data has"):
            training(feature_data(80), **settings(name))
        return
    if kind == "features":
        data, given = feature_data(80), settings(name, epochs=3, batch_size=16)
    else:
        data, given = image_data(), settings(name, epochs=3, backbone=True, flip=True, ema=0.9)
    whole = training(data, **given)
    records = []
    stopped = None
    total = sum(stage.epochs for stage in whole.stages)  # 1 for a closed form
    for record in whole.epochs():
        records.append(record)
        if len(records) == min(2, total):
            tensors, plain = whole.state()
            stopped = ({key: value.clone() for key, value in tensors.items()}, plain)
    closed = METHODS[name].closed_form and total == 1
    assert len(records) == (1 if closed else 3 * len(METHODS[name].phases))
    assert all(math.isfinite(value) for record in records for value in record.losses.values())
    assert all(0 < record.val_map <= 1 for record in records)
    torch.manual_seed(7)  # whatever the process did before must not matter
    resumed = training(data, **given)
    resumed.load_state(*stopped)
    rest = list(resumed.epochs())
    assert [record.model_copy(update={"seconds": 0.0}) for record in rest] == [
        record.model_copy(update={"seconds": 0.0}) for record in records[2:]
    ]
    for mine, theirs in ((resumed.model, whole.model), (resumed.method, whole.method)):
        state, other = mine.state_dict(), theirs.state_dict()
        assert state.keys() == other.keys()
        assert all(torch.equal(state[key], other[key]) for key in state)


@pytest.mark.parametrize("name", [n for n in METHODS if METHODS[n].trains_on(["features"])])
def test_it_learns(name):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 10)).astype(np.float32)
    y = (x[:, :5] > 0.4).astype(int)
    hints = 0.4 * y + 0.6 * rng.random(y.shape)
    data = Dataset.from_arrays(x, y, complete=True, hints=hints)
    lr = 0.005 if hasattr(METHODS[name].options, "dropout") else 0.03  # several layers
    given = settings(name, epochs=12, lr=lr, expected_positives="truth")
    fitted = plusone.fit(data, **given)
    assert fitted.metrics["val_map"] > 0.7  # chance is below 0.4
