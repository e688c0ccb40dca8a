"""The shortcuts of a step give what torch gives."""

import copy

import numpy as np
import pytest
import torch

import plusone
from plusone.data import Dataset
from plusone.errors import InputError
from plusone.methods import METHODS
from plusone.models.heads import LinearHead
from plusone.training.adam import LeanAdam
from plusone.training.step import training_step
from plusone.types import Batch, Clock, Outputs, Stage, TrainLabels


class Bent(LinearHead):
    """A head that is not linear although it holds a linear layer."""

    def forward(self, features):
        return Outputs(torch.tanh(self.linear(features)), features)


def steps(head, by_autograd, method_name="l2r"):
    """Weights after a few steps, through the head itself or a wrapper that hides it."""
    from plusone.data.matrix import LabelMatrix

    generator = torch.Generator().manual_seed(0)
    head = copy.deepcopy(head)
    info = METHODS[method_name]
    observed = torch.eye(5)[:, :4]
    labels = TrainLabels(LabelMatrix.from_dense(observed.int().numpy()), 1.5)
    method = info.build(labels, info.make_options({"lam": 0.1}))
    method.begin_stage(Stage("features", 1, 0.1))
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9)
    forward = (lambda x: head(x)) if by_autograd else head
    for step in range(4):
        x = torch.randn(5, 3, generator=generator)
        batch = Batch((x,), observed, torch.arange(5))
        training_step(forward, head, method, optimizer, batch, Clock(0, 0, 1, step, 4))
    return head.state_dict()


@pytest.mark.parametrize("kind", [LinearHead, Bent])
def test_gradients_by_hand_are_those_of_autograd(kind):
    torch.manual_seed(0)
    head = kind(3, 4)
    ours, theirs = steps(head, False), steps(head, True)
    assert not torch.equal(ours["linear.weight"], head.linear.weight)
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name])


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_lean_adam_is_adam(weight_decay):
    ends = []
    for kind in (LeanAdam, lambda groups, lr: torch.optim.Adam(groups, lr=lr, fused=True)):
        torch.manual_seed(0)
        net, extra = torch.nn.Linear(3, 2), torch.nn.Parameter(torch.ones(2))
        groups = [
            {"params": list(net.parameters()), "lr": 0.1, "weight_decay": weight_decay},
            {"params": [extra], "lr": 0.3, "weight_decay": 0.0},
        ]
        optimizer = kind(groups, lr=0.1)
        for step in range(5):
            optimizer.zero_grad()
            used = extra if step != 2 else 1.0  # a parameter may miss a step
            (net(torch.randn(4, 3)) * used).square().sum().backward()
            optimizer.step()
        ends.append((net.weight, net.bias, extra, optimizer.state_dict()))
    for ours, theirs in zip(ends[0][:3], ends[1][:3], strict=True):
        assert torch.equal(ours, theirs)
    for number, slot in ends[1][3]["state"].items():
        assert all(torch.equal(ends[0][3]["state"][number][key], value)
                   for key, value in slot.items())  # fmt: skip


@pytest.mark.parametrize("options", [{"gamma": 5.0}, {"gamma": -1.0}])
def test_option_values_that_a_loss_refuses_are_bad_input(options):
    x = np.zeros((20, 3), dtype=np.float32)
    data = Dataset.from_arrays(x, np.eye(2, dtype=int)[np.arange(20) % 2])
    with pytest.raises(InputError, match=r"options of wan: gamma must lie in \[0, 1\]"):
        plusone.fit(data, "wan", epochs=1, options=options)
