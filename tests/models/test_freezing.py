"""Frozen parts keep weights and statistics; the rest learns."""

import pytest
import torch
from torch import nn

from plusone.errors import InputError
from plusone.models.backbones import backbone_for, core
from plusone.models.freezing import freeze_statistics, freeze_weights


class Own(nn.Module):
    dim = 4

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5))
        self.body = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4))

    def forward(self, x):
        return self.scale * self.body(self.stem(x)).relu()


def train_a_little(net, names, norm):
    """Three steps; returns the names of the weights and statistics that moved."""
    torch.manual_seed(0)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    freeze_weights(net, names, norm=norm)
    chosen = [weight for weight in net.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(chosen, lr=0.1)
    for _ in range(3):
        net.train()
        freeze_statistics(net, names, norm=norm)
        net(torch.randn(4, 3, 9, 9)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return {
        name for name, value in net.state_dict().items() if not torch.equal(value, before[name])
    }


BODY = {
    "body.0.weight", "body.1.weight", "body.1.bias", "body.1.running_mean",
    "body.1.running_var", "body.1.num_batches_tracked",
}  # fmt: skip
STEM = {name.replace("body", "stem") for name in BODY} | {"stem.0.bias"}


@pytest.mark.parametrize(
    ("names", "norm", "moved"),
    [
        ([], False, {"scale"} | STEM | BODY),
        (["stem"], False, {"scale"} | BODY),
        (["scale", "stem.1"], False, {"stem.0.weight", "stem.0.bias"} | BODY),
        (["stem", "body"], False, {"scale"}),
        ([], True, {"scale", "stem.0.weight", "stem.0.bias", "body.0.weight", "body.0.bias"}),
    ],
)
def test_only_the_rest_moves(names, norm, moved):
    found = train_a_little(Own(), names, norm)
    # Before a batch norm in training mode a bias has no effect, so it may stay where it is.
    vague = {"body.0.bias", "stem.0.bias"}
    assert found - vague == moved - vague


def test_a_frozen_part_is_in_evaluation_mode_and_the_rest_is_not():
    net = Own().train()
    freeze_statistics(net, ["stem"], norm=False)
    assert not any(module.training for module in net.stem.modules())
    assert all(module.training for module in net.body.modules())
    freeze_statistics(net.train(), [], norm=True)
    assert [module.training for module in net.stem] == [True, False, True]


def test_names_of_the_table_are_those_of_the_network_inside():
    backbone = backbone_for("cnn").build(3, 16)
    freeze_weights(backbone, ["layers.0"], norm=False)
    frozen = {name for name, w in core(backbone).named_parameters() if not w.requires_grad}
    assert frozen == {"layers.0.0.weight", "layers.0.1.weight", "layers.0.1.bias"}


@pytest.mark.parametrize("name", ["ste", "stem.", "stem.9", "", "head"])
def test_unknown_parts_are_refused(name):
    for function in (freeze_weights, freeze_statistics):
        with pytest.raises(InputError, match=rf"no part '{name}'; its parts: stem, body, scale$"):
            function(Own(), [name], norm=False)
