"""Batch norms of ranks that train together on accelerators."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from plusone.parallel.ddp import sync_batch_norms


def test_names_and_weights_stay():
    model = nn.Sequential(nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm1d(2, affine=False)))
    weights, names = list(model.parameters()), list(model.state_dict())
    sync_batch_norms(model)
    assert isinstance(model[0], nn.SyncBatchNorm)
    assert isinstance(model[1][0], nn.SyncBatchNorm)
    assert list(model.state_dict()) == names
    assert all(mine is theirs for mine, theirs in zip(model.parameters(), weights, strict=True))


@pytest.mark.slow
def test_a_norm_with_an_activation_keeps_it():
    from plusone.extras import import_torchvision

    import_torchvision()
    layers = pytest.importorskip("timm.layers")
    torch.manual_seed(0)
    model, x = nn.Sequential(layers.BatchNormAct2d(4)).eval(), torch.randn(6, 4, 2, 2)
    expected = model(x)
    sync_batch_norms(model)
    assert isinstance(model[0], nn.SyncBatchNorm)
    assert torch.equal(model(x), expected)
    assert expected.min() == 0
