"""The classifier, its normalisation and its moving average."""

import torch
from torch import nn

from plusone.models.classifier import Classifier, Normalize
from plusone.models.ema import Ema
from plusone.models.heads import LinearHead


def test_the_classifier_is_head_after_pooled_backbone():
    model = Classifier(nn.Conv2d(1, 3, 2), LinearHead(3, 4))
    x = torch.randn(2, 1, 5, 5)
    torch.testing.assert_close(model.features(x), model.backbone(x).mean((2, 3)))
    torch.testing.assert_close(model(x).logits, model.head(model.features(x)).logits)


def test_normalize():
    images = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8)
    mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 0.6, 0.7])
    expected = (images / 255 - mean.view(-1, 1, 1)) / std.view(-1, 1, 1)
    torch.testing.assert_close(Normalize(mean.tolist(), std.tolist())(images), expected)


def test_the_average_moves_by_its_decay_and_copies_statistics():
    model = Classifier(nn.BatchNorm1d(3), LinearHead(3, 2))
    ema = Ema(model, 0.9)
    old = ema.model.head.linear.weight.clone()
    with torch.no_grad():
        model.head.linear.weight += 1
        model.backbone.running_mean += 2
        model.backbone.num_batches_tracked += 1
    ema.update(model)
    torch.testing.assert_close(ema.model.head.linear.weight, old + 0.1)
    assert torch.equal(ema.model.backbone.running_mean, model.backbone.running_mean)
    assert ema.model.backbone.num_batches_tracked == 1
    assert not any(weight.requires_grad for weight in ema.model.parameters())
    assert all(weight.requires_grad for weight in model.parameters())
