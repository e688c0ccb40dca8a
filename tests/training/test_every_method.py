"""Every method of the table learns; tests/accelerator stops, resumes and moves each of them."""

import numpy as np
import pytest

import plusone
from plusone.data import Dataset
from plusone.methods import METHODS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [n for n in METHODS if METHODS[n].trains_on(["features"])])
def test_it_learns(name):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 10)).astype(np.float32)
    y = (x[:, :5] > 0.4).astype(int)
    hints = 0.4 * y + 0.6 * rng.random(y.shape)
    data = Dataset.from_arrays(x, y, complete=True, hints=hints)
    lr = 0.005 if hasattr(METHODS[name].options, "dropout") else 0.03  # several layers
    given = {"epochs": 12, "lr": lr, "options": dict(METHODS[name].quick)}
    if METHODS[name].inputs == "vectors":
        given["mode"] = "linear"
    fitted = plusone.fit(data, name, expected_positives="truth", **given)
    assert fitted.metrics["val_map"] > 0.7  # chance is below 0.4
