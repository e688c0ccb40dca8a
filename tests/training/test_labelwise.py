"""The setting head = "labelwise", for every method."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import plusone
from plusone.build import build
from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.inputs.loader import ArrayInputs
from plusone.inputs.task import make_task
from plusone.methods import METHODS
from plusone.models.heads import LabelwiseHead, LinearHead
from plusone.recipe import make_recipe
from plusone.training.run import train
from plusone.types import Batch, Clock, TrainLabels

SEEN = np.eye(4, dtype=np.int8)[[0, 1, 2, 3, 0, 1]]
SIZES = {"width": 8, "heads": 2, "feedforward": 8}


def built(method, head="labelwise", **settings):
    recipe = make_recipe({"method": method, "head": head} | settings)
    hints = torch.rand(SEEN.shape)
    labels = TrainLabels(LabelMatrix.from_dense(SEEN), 1.5, hints=hints)
    return build(recipe, labels, (3, 5), images=False)


@pytest.mark.parametrize("name", METHODS)
def test_linear_layers_make_room_and_other_heads_say_why_not(name):
    info = METHODS[name]
    refused = info.closed_form or info.inputs != "any"
    if refused or not issubclass(type(built(name, "auto")[0].head), (LinearHead, LabelwiseHead)):
        reasons = "closed form|one vector for each item|head of its own|needs images"
        with pytest.raises(InputError, match=reasons):
            built(name, head_options=SIZES)
        return
    model, method = built(name, head_options=SIZES)
    assert isinstance(model.head, LabelwiseHead)
    x = torch.randn(6, 3, 5, requires_grad=True)
    outs = tuple(model(x) for _ in method.views)
    batch = Batch((x,) * len(outs), torch.from_numpy(SEEN).float(), torch.arange(6),
                  outs if method.teacher else ())  # fmt: skip
    loss = sum(method.loss(outs, batch, Clock(0, 0, 2, 0, 1)).values())
    loss.backward()
    assert x.grad.abs().sum() > 0


def test_sizes_are_checked_and_used():
    assert built("an", head_options=SIZES)[0].head.weight.shape == (4, 8)
    assert built("an")[0].head.weight.shape == (4, 256)
    for wrong, part in (({"wdth": 8}, "did you mean width"), ({"heads": 3}, "split among 3")):
        with pytest.raises(InputError, match=part):
            built("an", head_options={"width": 8} | wrong)


def test_role_estimates_from_the_mean_of_the_places():
    model, method = built("role", options={"estimator": "network"}, head_options=SIZES)
    out = model(torch.randn(6, 3, 5))
    assert method.estimator(torch.arange(6), out.features).shape == (6, 4)


def test_a_run_is_trained_saved_and_used_again(tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 3, 5)).astype(np.float32)
    data = Dataset.from_arrays(x, (x[:, 0, :4] > 0).astype(int), complete=True)
    recipe = make_recipe({"method": "em", "epochs": 2, "head": "labelwise", "head_options": SIZES})
    train(make_task(data, recipe), recipe, tmp_path)
    again = plusone.load_run(tmp_path)
    assert again.model.head.weight.shape == (4, 8)
    scores = again.probabilities(ArrayInputs(torch.from_numpy(x)))
    assert scores.shape == (60, 4)
    assert scores.std(0).min() > 0
