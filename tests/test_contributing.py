"""CONTRIBUTING.md: its example is run as it stands there, and its table of folders is true."""

import re
from pathlib import Path

import numpy as np
import pytest

import plusone
from plusone.data import Dataset
from plusone.methods import METHODS
from plusone.recipe import Recipe
from plusone.training.task import make_task
from plusone.training.trainer import Training

SOURCE = Path(plusone.__file__).parent
TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.fixture
def example():
    blocks = dict(re.findall(r"<!-- example: (\w+) -->\n```python\n(.*?)```", TEXT, re.DOTALL))
    before = dict(METHODS)
    names = {"METHODS": METHODS, "__name__": "self_taught"}
    exec(compile(blocks["method"], "CONTRIBUTING.md", "exec"), names)
    exec(compile(blocks["row"], "CONTRIBUTING.md", "exec"), names)
    yield names
    METHODS.clear()
    METHODS.update(before)


def data(seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(120, 8)).astype(np.float32)
    return Dataset.from_arrays(x, (x[:, :4] > 0.3).astype(int), complete=True)


def test_the_example_trains_and_remembers(example):
    fitted = plusone.fit(data(), "self_taught", epochs=8, lr=0.05, options={"weight": 0.2})
    estimates = fitted.training.method.estimates()
    assert fitted.metrics["val_map"] > 0.6
    assert estimates.shape == (96, 4)
    assert 0 < estimates.mean() < 1


def test_the_example_resumes_without_further_code(example):
    recipe = Recipe(method="self_taught", epochs=4)
    task = make_task(data(), recipe)
    whole, first, second = (Training(task, recipe) for _ in range(3))
    for _ in whole.epochs():
        pass
    epochs = first.epochs()
    next(epochs)
    next(epochs)
    second.load_state(*first.state())
    for _ in second.epochs():
        pass
    for key, value in whole.state()[0].items():
        assert value.equal(second.state()[0][key]), key
