from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.inputs.loader import ArrayInputs
from plusone.inputs.task import Part, make_task
from plusone.losses import assume_negative
from plusone.methods import METHODS
from plusone.methods._base import Method, Options
from plusone.models.classifier import Classifier
from plusone.models.heads import LinearHead
from plusone.prediction.load import Predictor, load_run
from plusone.probabilities.calibration import Calibration
from plusone.recipe import make_recipe
from plusone.report.surfaces import (
    LossOf,
    Surface,
    filter_direction,
    loss_surface,
    mean_rise,
    moved,
    read_surface,
    surface_of_run,
)
from plusone.types import TrainLabels

pytestmark = pytest.mark.slow

OPTIONS = {"ll_ct": {"delta_rel": 3.0}}
SMALL = {"lac": {"width": 8, "heads": 2, "feedforward": 16, "projection": 4}}


def opened(folder, dataset):
    predictor = load_run(folder, memory=True)
    return predictor, make_task(dataset, predictor.recipe).train


def test_the_centre_is_the_training_loss(an_run, halves):
    predictor, train = opened(an_run, halves)
    found = loss_surface(predictor, train, steps=3)
    with torch.no_grad():
        logits = predictor.model(train.inputs.x).logits
        naive = assume_negative(logits, torch.from_numpy(train.observed.dense())).mean()
    assert found.centre == pytest.approx(naive.item(), rel=1e-5)
    assert found.train_items == len(train) == 128
    assert min(found.loss[0][0], found.loss[2][2]) > found.centre  # far away it is worse


def test_the_penalty_is_in_it(train_into, tmp_path, halves):
    train_into(tmp_path / "l2", method="l2r", options={"lam": 0.5})
    predictor, train = opened(tmp_path / "l2", halves)
    norm = predictor.model.head.linear.weight.square().sum().item()
    with_norm = LossOf(predictor, train)()
    predictor.method.penalty = lambda head: {}
    assert with_norm - LossOf(predictor, train)() == pytest.approx(0.5 * norm, rel=1e-5)


class Squared(Method):
    """The mean of squared logits: a bowl."""

    def loss(self, outs, batch, clock):
        return {"loss": outs[0].logits.square().mean()}


def bowl(n=6, n_classes=3) -> tuple[Predictor, Part]:
    """Unit vectors as features, so that the logits are the weights."""
    torch.manual_seed(0)
    labels = LabelMatrix.from_dense(np.eye(n, n_classes, dtype=np.int8))
    head = LinearHead(n, n_classes)
    head.linear.bias.data.zero_()
    predictor = Predictor(
        make_recipe({"method": "an"}), ("a", "b", "c"), (n,), False,
        Classifier(torch.nn.Identity(), head), Squared(TrainLabels(labels), Options()),
        Calibration.none(n_classes),
    )  # fmt: skip
    return predictor, Part(np.arange(n).astype(np.str_), ArrayInputs(torch.eye(n)), labels, None)


def test_a_quadratic_loss_has_the_surface_that_algebra_gives():
    predictor, part = bowl()
    before = predictor.model.head.linear.weight.detach().clone()
    found = loss_surface(predictor, part, steps=5, extent=2.0, seed=7)
    draw = torch.Generator().manual_seed(7)
    weights = {"w": before}
    one, other = (filter_direction(weights, draw)["w"] for _ in range(2))
    for i, alpha in enumerate([-2.0, -1.0, 0.0, 1.0, 2.0]):
        for j, beta in enumerate([-2.0, -1.0, 0.0, 1.0, 2.0]):
            expected = (before + alpha * one + beta * other).square().mean().item()
            assert found.loss[i][j] == pytest.approx(expected, rel=1e-5)
    assert found.alphas == found.betas == (-2.0, -1.0, 0.0, 1.0, 2.0)
    assert predictor.model.head.linear.weight.equal(before)


def surface(line, loss) -> Surface:
    return Surface(
        method="an", extent=1.0, steps=len(line), seed=0, train_items=3, alphas=line, betas=line,
        loss=loss,
    )  # fmt: skip


def test_the_rise_on_a_round_bowl_is_the_square_of_the_radius():
    line = tuple(np.linspace(-1, 1, 41).tolist())
    loss = tuple(tuple(3 + a * a + b * b for b in line) for a in line)
    found = surface(line, loss)
    for radius in (0.0, 0.5, 1.0):
        assert mean_rise(found, radius) == pytest.approx(radius**2, abs=2e-3)
    with pytest.raises(InputError, match="radius"):
        mean_rise(found, 1.1)


def test_the_rise_where_the_loss_is_not_finite():
    at = (-1.0, -0.5, 0.0, 0.5, 1.0)
    rows = [[a**2 + b**2 for b in at] for a in at]

    def rise(rows):
        return mean_rise(surface(at, rows), 0.5)

    whole = rise(rows)
    assert rise([[float("inf")] * 5, *rows[1:]]) == pytest.approx(whole)  # outside of the circle
    assert rise([rows[0], [None] * 5, *rows[2:]]) == pytest.approx(whole, rel=0.2)
    assert np.isnan(rise([*rows[:2], [0.5, 0.25, None, 0.25, 0.5], *rows[3:]]))


@pytest.mark.parametrize("name", ["em", "epr", "ll_ct"])
def test_batches_are_those_of_the_recipe(train_into, tmp_path, halves, name):
    """One large batch is used where it gives the same; epr and ll_ct compare a batch's labels."""
    train_into(tmp_path / name, method=name, expected_positives=2.0, options=OPTIONS.get(name, {}))
    predictor, train = opened(tmp_path / name, halves)
    loss, whole = LossOf(predictor, train), LossOf(predictor, train, batch_size=128)
    found = loss_surface(predictor, train, steps=3)
    assert found.centre == pytest.approx(loss(), rel=1e-5)
    assert (found.centre == pytest.approx(whole(), rel=1e-5)) == (name == "em")


def test_seeds_choose_directions_and_items(an_run, halves):
    predictor, train = opened(an_run, halves)
    one, same, other = (
        loss_surface(predictor, train, steps=3, items=50, seed=seed) for seed in (1, 1, 2)
    )
    assert one == same
    assert one.train_items == 50
    assert one.loss != other.loss


@pytest.mark.parametrize("name", [n for n in METHODS if METHODS[n].trains_on(["features"])])
def test_every_method_has_a_surface(train_into, tmp_path, halves, name):
    settings = {"method": name, "epochs": 1, "expected_positives": 2.0}
    train_into(tmp_path / name, **settings, options=SMALL.get(name, {}))
    predictor, train = opened(tmp_path / name, halves)
    memory = {key: value.clone() for key, value in predictor.method.state_dict().items()}
    found = loss_surface(predictor, train, steps=3, items=40)
    assert np.isfinite(found.loss).all()
    assert len({value for row in found.loss for value in row}) > 1
    assert all(value.equal(memory[key]) for key, value in predictor.method.state_dict().items())


def images() -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, size=(40, 1, 16, 16)).astype(np.uint8)
    y = np.eye(3, dtype=np.int8)[rng.integers(0, 3, 40)]
    y[:, 0] = 1
    return Dataset.from_arrays(x, y, complete=True, name="noise")


def test_all_of_a_small_image_model_is_moved(train_into, tmp_path):
    train_into(tmp_path / "cnn", images(), epochs=1, flip=False)
    predictor, train = opened(tmp_path / "cnn", images())
    before = {key: value.clone() for key, value in predictor.model.state_dict().items()}
    loss = LossOf(predictor, train)
    names = set(loss.weights())
    assert any(name.startswith("backbone.") for name in names)
    assert any(name.startswith("head.") for name in names)
    found = loss_surface(predictor, train, steps=3, extent=0.5)
    with torch.no_grad():
        logits = predictor.model(train.inputs.x).logits
    naive = assume_negative(logits, torch.from_numpy(train.observed.dense())).mean().item()
    assert found.centre == pytest.approx(naive, rel=1e-4)
    assert all(value.equal(before[key]) for key, value in predictor.model.state_dict().items())


def test_frozen_parts_and_heads_alone(train_into, tmp_path):
    train_into(tmp_path / "frozen", images(), epochs=1, freeze=["layers.0"])
    predictor, train = opened(tmp_path / "frozen", images())
    names = LossOf(predictor, train).weights()
    assert not any(".layers.0." in name for name in names)
    assert any(".layers.1." in name for name in names)
    train_into(tmp_path / "head", images(), epochs=1, mode="linear")
    predictor, train = opened(tmp_path / "head", images())
    assert set(LossOf(predictor, train).weights()) == {"head.linear.weight", "head.linear.bias"}


def test_a_surface_is_computed_once(train_into, tmp_path, halves):
    folder = tmp_path / "run"
    train_into(folder)
    loads, points = [], []

    def load() -> Dataset:
        loads.append(1)
        return halves

    first = surface_of_run(folder, load, steps=3, on_progress=points.append)
    assert surface_of_run(folder, load, steps=3) == first
    assert (len(loads), sum(points)) == (1, 9)
    assert read_surface(folder) == first
    content = json.loads((folder / "surface.json").read_text())
    assert content == json.loads(json.dumps(first.to_json()))
    assert next(iter(content)) == "kind"
    assert (content["kind"], first.data, first.run) == ("surface", "halves", str(folder))
    assert first.rise > 0
    surface_of_run(folder, load, steps=5)
    assert len(loads) == 2
    other = tmp_path / "other"
    train_into(other, seed=1)
    (folder / "model.safetensors").write_bytes((other / "model.safetensors").read_bytes())
    surface_of_run(folder, load, steps=5)
    assert len(loads) == 3


def test_other_data_is_refused(an_run, halves, tmp_path):
    fewer = Dataset(halves.table.take(np.arange(150)), halves.features[:150], "fewer")
    with pytest.raises(InputError, match="fewer: the seen labels are not those"):
        surface_of_run(an_run, lambda: fewer, steps=3)
    other = Dataset(halves.table, halves.features + 1, "moved")
    with pytest.raises(InputError, match="moved: the items are not those"):
        surface_of_run(an_run, lambda: other, steps=3)


@pytest.mark.parametrize("settings", [{"steps": 4}, {"steps": 1}, {"extent": 0.0}])
def test_grids_without_a_centre_are_refused(settings):
    with pytest.raises(InputError, match="odd number of steps"):
        loss_surface(*bowl(), **settings)


def layers() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 5, 3), torch.nn.BatchNorm2d(5), torch.nn.Linear(5, 4)
    )


def test_every_filter_has_the_norm_of_its_weights():
    weights = dict(layers().named_parameters())
    found = filter_direction(weights, torch.Generator().manual_seed(0))
    assert set(found) == {"0.weight", "2.weight"}  # no biases, no norms
    for name, direction in found.items():
        for one, other in zip(direction, weights[name], strict=True):
            torch.testing.assert_close(one.norm(), other.norm())


def test_a_filter_of_zeros_does_not_move():
    weights = {"w": torch.tensor([[0.0, 0.0], [1.0, 0.0]])}
    found = filter_direction(weights, torch.Generator().manual_seed(0))["w"]
    assert found[0].tolist() == [0.0, 0.0]
    assert found.isfinite().all()


def test_the_same_seed_gives_the_same_direction():
    weights = dict(layers().named_parameters())
    one, same, other = (
        filter_direction(weights, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert one["0.weight"].equal(same["0.weight"])
    assert not one["0.weight"].equal(other["0.weight"])


def test_weights_move_and_come_back_even_after_an_error():
    model = layers()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    ones = {"2.weight": torch.ones(4, 5)}
    with moved(model, [ones, ones], [0.5, -2.0]):
        torch.testing.assert_close(model[2].weight, before["2.weight"] - 1.5)
    try:
        with moved(model, [ones], [1.0]):
            raise KeyError
    except KeyError:
        pass
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
