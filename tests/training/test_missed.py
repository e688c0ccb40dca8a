"""Unobserved labels that weigh as much as the probability that they are absent."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from plusone import losses
from plusone.closed_form.estimates import missed_labels
from plusone.data.matrix import LabelMatrix
from plusone.inputs.task import make_task
from plusone.methods import get_method
from plusone.recipe import make_recipe
from plusone.training.closed_fit import fit_for
from plusone.training.stage_inputs import batches_of
from plusone.training.step import training_step

WEIGHTED = {"unobserved": "weighted", "epochs": 1, "batch_size": 30, "observe_seed": 1}


@pytest.mark.parametrize("loss", [losses.assume_negative, losses.weak_negative])
def test_gradients_are_those_of_costs_that_are_multiplied(loss):
    rng = np.random.default_rng(0)
    z = torch.from_numpy(rng.normal(size=(6, 4))).requires_grad_()
    y = torch.from_numpy(rng.integers(-1, 2, size=(6, 4)))
    missed = torch.from_numpy(rng.random((6, 4)))
    made = losses.weigh_unobserved(z, y, missed)
    assert torch.equal(made, z)
    (found,) = torch.autograd.grad(loss(made, y).sum(), z)
    total, costs = 0.0, loss(z, y)
    for row in range(6):
        for label in range(4):
            weight = 1 - missed[row, label] if y[row, label] == 0 else 1.0
            total = total + weight * costs[row, label]
    (expected,) = torch.autograd.grad(total, z)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("method", ["an", "em", "wan"])
def test_a_step_has_these_gradients(method, feature_data):
    recipe = make_recipe({"method": method, **WEIGHTED})
    made = fit_for(make_task(feature_data(), recipe), recipe)
    made.begin_training()
    batch, head = next(iter(batches_of(made))), made.model.head
    _, _, forward = made.inputs.forward(made.task.train, made.model)
    missed = made.missed[batch.index]
    assert (missed[batch.observed == 1] == 0).all()
    assert missed.max() > 0.1

    out = forward(batch.views[0])
    out = replace(out, logits=losses.weigh_unobserved(out.logits, batch.observed, missed))
    terms = made.method.loss((out,), batch, made.clock())
    expected = torch.autograd.grad(sum(terms.values()), list(head.parameters()))
    before = [weight.detach().clone() for weight in head.parameters()]
    descent = torch.optim.SGD(head.parameters(), lr=1.0)
    training_step(forward, head, made.method, descent, batch, made.clock(), missed=made.missed)
    for weight, old, gradient in zip(head.parameters(), before, expected, strict=True):
        torch.testing.assert_close(weight, old - gradient)


@pytest.mark.parametrize("method", ["recovery", "bce"])
def test_methods_that_need_no_weights_have_none(method, feature_data):
    recipe = make_recipe({"method": method, **WEIGHTED})
    assert fit_for(make_task(feature_data(), recipe), recipe).missed is None
    assert get_method(method).closed_form or get_method(method).scheme != "single"


def test_what_was_not_named_where_it_was_there():
    """Labels that features tell, and of which the first class is named least."""
    rng = np.random.default_rng(0)
    truth = rng.random((400, 4)) < 0.4
    truth[np.arange(400), rng.integers(4, size=400)] = True
    odds = truth * np.array([0.3, 1, 1, 1])
    named = (odds.cumsum(1) > rng.random((400, 1)) * odds.sum(1, keepdims=True)).argmax(1)
    seen = np.eye(4, dtype=np.int8)[named]
    x = torch.from_numpy(truth + 0.3 * rng.normal(size=truth.shape)).float()
    missed = missed_labels(x, LabelMatrix.from_dense(seen)).numpy()
    assert (missed[seen == 1] == 0).all()
    hidden = truth & (seen == 0)
    assert missed[hidden].mean() > 0.5 > 0.2 > missed[~truth].mean()
