"""EN with consistency, and the whole family in training."""

import numpy as np
import pytest
import torch

import plusone
from plusone.data import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.inputs.task import make_task
from plusone.methods import METHODS
from plusone.methods.en import missing_negatives
from plusone.recipe import Recipe
from plusone.training.closed_fit import fit_for
from plusone.types import Batch, Clock, Outputs, Stage, TrainLabels

CLOCK = Clock(0, 1, 5, 0, 1)
LABELS = np.eye(3, dtype=int)[[0, 1, 2, 0, 0, 1]]


def build(name, **options):
    info = METHODS[name]
    return info.build(TrainLabels(LabelMatrix.from_dense(LABELS), 1.5), info.make_options(options))


def step(method, outs, teacher):
    """The terms of one step on all rows."""
    views = tuple(out.features for out in outs)
    batch = Batch(views, torch.from_numpy(LABELS).float(), torch.arange(6), teacher)
    return method.loss(outs, batch, CLOCK)


def both(*tables):
    return tuple(Outputs(each, each) for each in tables)


def test_each_model_on_the_other_augmentation():
    method = build("en_cl", weight=2.0)
    assert method.views == ("weak", "weak")
    z = torch.randn(4, 6, 3)
    terms = step(method, both(z[0], z[1]), both(z[2], z[3]))
    p = torch.sigmoid(z)
    expected = ((p[0] - p[3]) ** 2 + (p[1] - p[2]) ** 2).mean() / 2 * 2.0
    torch.testing.assert_close(terms["consistency"], expected)
    assert terms["loss"].equal(step(build("en"), both(z[0]), ())["loss"])


def test_a_missing_average_is_refused():
    with pytest.raises(ValueError, match="lacks the outputs of the model's moving average"):
        step(build("en_cl"), both(torch.zeros(6, 3)), ())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("en", {"decay": 1.0}),
        ("en_cl", {"teacher_decay": 1.0}),
        ("en_scl", {"weight": -1.0}),
        ("en_scl", {"grid": 0}),
    ],
)
def test_settings_are_checked_before_anything_starts(name, options):
    with pytest.raises(InputError, match=next(iter(options))):
        METHODS[name].make_options(options)


def test_the_decay_of_the_average_follows_the_stage():
    method = build("en_cl", teacher_decay=0.9)
    assert method.teacher == 0.9
    method.begin_stage(Stage(inputs="images", epochs=2, lr=1e-3, options={"teacher_decay": 0.99}))
    assert method.teacher == 0.99
    method.begin_stage(Stage(inputs="images", epochs=2, lr=1e-3))
    assert method.teacher == 0.9
    assert build("en").teacher is None


def features(n=240):
    x = np.random.default_rng(0).normal(size=(n, 8)).astype(np.float32)
    return Dataset.from_arrays(x, (x[:, :4] > 0.3).astype(int), complete=True)


@pytest.mark.parametrize("name", ["en", "en_cl", "en_scl"])
def test_it_learns_on_features_and_resumes_exactly(name):
    recipe = Recipe(method=name, epochs=6, lr=0.03, expected_positives="truth")
    task = make_task(features(), recipe)
    whole, first, second = (fit_for(task, recipe) for _ in range(3))
    records = list(whole.epochs())
    assert whole.best.score > 0.8
    assert name == "en" or records[-1].losses["consistency"] > 0
    assert (whole.method.confidence >= 0).all()
    expected = missing_negatives(whole.method.labels)
    assert whole.method.negatives.sum(0).tolist() == expected.tolist()
    epochs = first.epochs()
    next(epochs)
    next(epochs)
    second.load_state(*first.state())
    for _ in second.epochs():
        pass
    found = second.state()[0]
    for key, value in whole.state()[0].items():
        assert value.equal(found[key]), key


@pytest.mark.parametrize("name", ["en_cl", "en_scl"])
def test_it_trains_on_images_from_linear_to_all_weights(name):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, size=(30, 3, 32, 32), dtype=np.uint8)
    data = Dataset.from_arrays(images, rng.integers(0, 2, size=(30, 4)), complete=True)
    settings = {"mode": "linear_init", "epochs": 2, "finetune_epochs": 1}
    fitted = plusone.fit(data, name, lr=0.003, expected_positives="truth", **settings)
    assert [record.stage for record in fitted.records] == [0, 0, 1]
    assert all(record.losses["consistency"] > 0 for record in fitted.records[1:])
