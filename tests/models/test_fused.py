"""Norms folded into convolutions: the same outputs, and only where that is safe."""

from __future__ import annotations

import copy
from importlib.util import find_spec

import pytest
import torch
from torch import nn

from plusone.features.fused import fused
from plusone.models.backbones import backbone_for


def norms(net: nn.Module) -> int:
    return sum(isinstance(part, nn.BatchNorm2d) for part in net.modules())


def moved(net: nn.Module) -> nn.Module:
    """With statistics that differ from those that norms begin with."""
    chance = torch.Generator().manual_seed(0)
    for part in net.modules():
        if isinstance(part, nn.BatchNorm2d):
            for values in (part.running_mean, part.running_var, part.weight.data, part.bias.data):
                values.uniform_(0.5, 1.5, generator=chance)
    return net.eval()


@pytest.mark.parametrize(("name", "size"), [("cnn", 32), ("lite0", 64), ("timm/resnet18", 64)])
def test_backbones_say_the_same_without_their_norms(name, size):
    needed = {"timm": "timm", "lite0": "efficientnet_lite_pytorch"}.get(name.split("/")[0])
    if needed and find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    net = moved(backbone_for(name).build(3, size, "random"))
    before = copy.deepcopy(net.state_dict())
    images = torch.randint(0, 256, (4, 3, size, size), dtype=torch.uint8)
    found = fused(net, images[:1])
    assert norms(net) > 0
    assert norms(found) == 0
    with torch.no_grad():
        wanted = net(images)
        torch.testing.assert_close(found(images), wanted, rtol=0, atol=1e-4 * wanted.abs().max())
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


class Twice(nn.Module):
    """A convolution whose output goes into its norm and past it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)

    def forward(self, x):
        y = self.conv(x)
        return y + self.norm(y)


class Shared(nn.Module):
    """One convolution before two norms."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)
        self.first, self.second = nn.BatchNorm2d(3), nn.BatchNorm2d(3)

    def forward(self, x):
        return self.second(self.conv(self.first(self.conv(x))))


class Activated(nn.BatchNorm2d):
    """A norm that does more, as some packages have."""

    def forward(self, x):
        return super().forward(x).relu()


@pytest.mark.parametrize(
    "net", [Twice(), Shared(), nn.Sequential(nn.Conv2d(3, 4, 1), Activated(4))]
)
def test_what_is_not_safe_stays(net):
    x = torch.randn(2, 3, 5, 5)
    found = fused(moved(net), x)
    assert norms(found) == norms(net)
    assert torch.equal(found(x), net(x))


def test_parts_under_two_names_stay():
    block = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))

    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = block, nn.Sequential(*block)

        def forward(self, x):
            return self.other(self.one(x)) if x.ndim == 4 else x  # which no trace can follow

    net, x = moved(Loop()), torch.randn(2, 3, 5, 5)
    assert torch.equal(fused(net, x)(x), net(x))


def test_a_copy_that_says_something_else_is_not_used():
    class Peeking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))

        def forward(self, x):
            if x.ndim != 4:
                return x
            return self.block(x) + self.block[0](x)  # uses a part by itself

    net, x = moved(Peeking()), torch.randn(2, 3, 5, 5)
    assert fused(net, x) is net
