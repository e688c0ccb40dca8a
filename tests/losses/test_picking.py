"""Few seen labels among many: picked and put back, nothing else changes."""

from __future__ import annotations

import pytest
import torch

from plusone import losses
from plusone.losses import picking
from plusone.losses.picking import few_seen, seen_places, with_seen


def sparse_labels(batch: int, classes: int) -> torch.Tensor:
    y = torch.zeros(batch, classes)
    y[torch.arange(batch), torch.arange(batch) % classes] = 1
    y[torch.arange(0, batch, 3), (torch.arange(0, batch, 3) + 5) % classes] = -1
    return y


@pytest.mark.parametrize("classes", [200, 201])
@pytest.mark.parametrize("start", [0, 1])
def test_places_are_those_of_nonzero(classes, start):
    y = sparse_labels(400, classes)[start:]
    y[y == 0] = -0.0  # no label either
    expected = y.flatten().nonzero().squeeze(1)
    for labels in (y, y.double(), y.to(torch.int8), y.t().contiguous().t()):
        assert torch.equal(seen_places(labels), expected)
    assert len(seen_places(torch.zeros(400, classes))) == 0


def test_many_seen_labels_and_small_tables_are_not_picked():
    assert few_seen(sparse_labels(400, 200))
    assert not few_seen(sparse_labels(40, 20))
    assert not few_seen(-torch.ones(400, 200))


def test_seen_labels_get_their_own_numbers():
    z, y = torch.randn(400, 200), sparse_labels(400, 200)
    loss, slope = with_seen(z, y, (torch.zeros(400, 200), z.clone()), lambda z, y: (z * y, y))
    assert torch.equal(loss, z * y)
    assert torch.equal(slope, torch.where(y == 0, z, y))


@pytest.mark.parametrize(
    "loss",
    [
        losses.observed_bce,
        lambda z, y: losses.asymmetric(z, y, shift=0.05),
        lambda z, y: losses.asymmetric(z, y, gamma_neg=3.0, gamma_pos=1.0, shift=0.05),
    ],
)
def test_picking_changes_no_loss_and_no_slope(loss, monkeypatch):
    z = (3 * torch.randn(400, 200)).requires_grad_()
    y = sparse_labels(400, 200)

    def both():
        table = loss(z, y)
        return table.detach(), *torch.autograd.grad(table.sum(), z)

    picked = both()
    monkeypatch.setattr(picking, "PICKED", 1 << 30)
    for found, expected in zip(picked, both(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)
