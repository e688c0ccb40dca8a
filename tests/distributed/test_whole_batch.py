"""Layers of processes that share a batch give what one process with all rows would get.

Threads stand in for the processes: they exchange tensors at a barrier.
"""

from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from plusone.parallel._whole_batch import Rows, SyncedNorm, see_whole_batch


class Exchange:
    """Gives every thread the tensors of all of them."""

    def __init__(self, size):
        self.barrier = threading.Barrier(size, timeout=30)
        self.held = [None] * size

    def of(self, rank):
        def stacked(part):
            self.held[rank] = part
            self.barrier.wait()
            found = torch.stack(self.held)
            self.barrier.wait()
            return found

        return stacked


def together(layers, x, slopes, counts):
    """Outputs, gradients of inputs and of weights, and statistics; each thread has some rows."""
    exchange = Exchange(len(counts))

    def work(rank):
        own = torch.arange(len(x)).split(counts)[rank]
        counted = len(own) > 0
        own = own if counted else torch.zeros(1, dtype=torch.int64)
        model = copy.deepcopy(layers)
        see_whole_batch(model, Rows(exchange.of(rank), own, len(x), counted))
        rows = x[own].clone().requires_grad_()
        out = model(rows)
        (out * (slopes[own] if counted else 0)).sum().backward()
        n = len(own) if counted else 0
        weights = [weight.grad for weight in model.parameters()]
        return out[:n], rows.grad, weights, model.state_dict(), counted

    with ThreadPoolExecutor(len(counts)) as pool:
        found = list(pool.map(work, range(len(counts))))
    weights = [torch.stack(grads).sum(0) for grads in zip(*(one[2] for one in found), strict=True)]
    inputs = torch.cat([one[1] for one in found if one[4]])
    for one in found:
        if not one[4]:
            assert not one[1].any()  # the row that stands in
    return torch.cat([one[0] for one in found]), inputs, weights, [one[3] for one in found]


@pytest.mark.parametrize("counts", [(4, 3), (3, 2, 2), (7, 0)])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm_measures_all_rows(counts, momentum):
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(2, 5, 1), nn.BatchNorm2d(5, momentum=momentum), nn.ReLU(), nn.BatchNorm2d(5)
    ).double()
    x = 5 + torch.randn(7, 2, 3, 3, dtype=torch.float64)
    slopes = torch.randn(7, 5, 3, 3, dtype=torch.float64)
    found, grads, weights, states = together(layers, x, slopes, counts)
    alone = copy.deepcopy(layers)
    rows = x.clone().requires_grad_()
    out = alone(rows)
    (out * slopes).sum().backward()
    # Statistics are exchanged in the precision of the values.
    torch.testing.assert_close(found, out)
    torch.testing.assert_close(grads, rows.grad)
    torch.testing.assert_close(weights, [weight.grad for weight in alone.parameters()])
    for state in states:
        torch.testing.assert_close(state, alone.state_dict())


def test_means_far_from_zero_lose_no_digits():
    torch.manual_seed(0)
    layers = nn.Sequential(nn.BatchNorm1d(3))
    x = 1000 + torch.randn(64, 3)
    found, *_ = together(layers, x, torch.ones(64, 3), (32, 32))
    exact = (x.double() - x.double().mean(0)) / x.double().std(0, correction=0)
    # A unit in the last place of 1,000 is 6e-5; squares of the values would lose 0.1.
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=1e-3)


MAPS = torch.ones(6, 4, 5, 3)


@pytest.mark.parametrize(
    "x",
    [torch.ones(6, 4, 5), MAPS, MAPS.contiguous(memory_format=torch.channels_last)],
    ids=["tokens", "maps", "maps, channels last"],
)
def test_dropout_draws_for_the_whole_batch(x):
    torch.manual_seed(0)
    expected = nn.functional.dropout(x, 0.4)
    parts = []
    for own in torch.arange(6).split([4, 2]):
        model = nn.Sequential(nn.Dropout(0.4))
        see_whole_batch(model, Rows(torch.Tensor.unsqueeze, own, 6))
        torch.manual_seed(0)
        parts.append(model(x[own]))
        assert torch.equal(model.eval()(x[own]), x[own])
    assert torch.equal(torch.cat(parts), expected)


def test_dropout_of_windows_belongs_to_their_item():
    x = torch.ones(12, 5)  # three windows for each of four items
    torch.manual_seed(0)
    expected = nn.functional.dropout(x, 0.4)
    model = nn.Sequential(nn.Dropout(0.4))
    see_whole_batch(model, Rows(torch.Tensor.unsqueeze, torch.tensor([2, 3]), 4))
    torch.manual_seed(0)
    assert torch.equal(model(x[6:]), expected[6:])


def test_names_and_weights_stay():
    model = nn.Sequential(nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm1d(2, affine=False)))
    weights, names = list(model.parameters()), list(model.state_dict())
    see_whole_batch(model, Rows(torch.Tensor.unsqueeze))
    assert isinstance(model[0], SyncedNorm)
    assert isinstance(model[1][0], SyncedNorm)
    assert list(model.state_dict()) == names
    assert all(mine is theirs for mine, theirs in zip(model.parameters(), weights, strict=True))


def test_one_value_per_channel_is_refused():
    model = nn.Sequential(nn.BatchNorm1d(3))
    see_whole_batch(model, Rows(lambda x: x[None], torch.tensor([0]), 1))
    with pytest.raises(ValueError, match="one value per channel"):
        model(torch.ones(1, 3))


@pytest.mark.slow
def test_a_norm_with_an_activation_keeps_it():
    from plusone.models._timm import import_torchvision

    import_torchvision()
    layers = pytest.importorskip("timm.layers")
    torch.manual_seed(0)
    norm = nn.Sequential(layers.BatchNormAct2d(4))
    x, slopes = torch.randn(6, 4, 2, 2), torch.randn(6, 4, 2, 2)
    found, grads, *_ = together(norm, x, slopes, (3, 3))
    rows = x.clone().requires_grad_()
    out = norm(rows)
    (out * slopes).sum().backward()
    torch.testing.assert_close(found, out)
    torch.testing.assert_close(grads, rows.grad)
    assert found.min() == 0
