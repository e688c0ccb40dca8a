"""Maxent: a softmax over items."""

import math

import pytest
import torch


@pytest.mark.parametrize("balanced", [False, True])
def test_the_loss_is_that_of_a_naive_loop(make, balanced):
    case = make("maxent", options={"balanced": balanced})
    z = torch.randn(8, 6, generator=torch.Generator().manual_seed(0)) * 3
    y = case.observed.clone()
    y[5] = 0  # background
    y[0, 1] = -1
    seen = [sum(int(value) == 1 for value in column) for column in case.observed.T.tolist()]
    total = 0.0
    for c in range(6):
        among = sum(math.exp(z[j, c]) for j in range(8))
        weight = sum(seen) / 6 / max(seen[c], 1) if balanced else 1.0
        for i in range(8):
            if y[i, c] == 1:
                total -= weight * math.log(math.exp(z[i, c]) / among)
    assert case.on_logits(z, y).item() == pytest.approx(total / 48, rel=1e-5)


def test_the_bias_is_the_share_of_seen_labels_and_gets_no_gradient(make):
    case = make("maxent")
    share = ((case.observed == 1).sum(0) + 0.5) / 9
    torch.testing.assert_close(torch.sigmoid(case.model.head.bias), share)
    case.total(case.batch()).backward()
    assert case.model.head.bias.grad is None
    assert case.model.head.weight.grad.abs().max() > 1e-4


def test_an_item_without_a_label_is_background(make):
    """Its score is pushed down where a class was seen elsewhere in the batch."""
    case = make("maxent")
    z = torch.zeros(4, 6, requires_grad=True)
    y = torch.zeros(4, 6)
    y[0, 2] = 1
    case.on_logits(z, y).backward()
    assert (z.grad[1:, 2] > 0).all()
    assert z.grad[:, [0, 1, 3, 4, 5]].abs().max() == 0
