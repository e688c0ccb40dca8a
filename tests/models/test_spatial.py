"""The head with class maps is a linear layer that has not averaged yet."""

import pytest
import torch
from torch import nn

from plusone.models.classifier import Classifier
from plusone.models.heads import LinearHead, SpatialHead
from plusone.training.step import split_views


@pytest.mark.parametrize(
    ("shape", "maps"), [((2, 3, 4, 6), (2, 5, 4, 6)), ((2, 7, 3), (2, 5, 1, 7))]
)
def test_logits_equal_the_linear_layer_on_averages(shape, maps):
    spatial, linear = SpatialHead(3, 5), LinearHead(3, 5)
    linear.load_state_dict(spatial.state_dict())
    features = torch.randn(shape)
    out = spatial(spatial.pool(features))
    expected = linear(linear.pool(features))
    torch.testing.assert_close(out.logits, expected.logits)
    assert out.maps.shape == maps
    torch.testing.assert_close(out.maps.mean((2, 3)), out.logits)


def test_gradients_equal_those_of_the_linear_layer():
    spatial, linear = SpatialHead(3, 5), LinearHead(3, 5)
    linear.load_state_dict(spatial.state_dict())
    features = torch.randn(2, 3, 4, 6)
    spatial(features).logits.square().sum().backward()
    linear(linear.pool(features)).logits.square().sum().backward()
    torch.testing.assert_close(spatial.linear.weight.grad, linear.linear.weight.grad)
    torch.testing.assert_close(spatial.linear.bias.grad, linear.linear.bias.grad)


def test_a_place_depends_on_its_own_features():
    head, features = SpatialHead(3, 5), torch.randn(2, 3, 4, 6)
    maps = head(features).maps
    torch.testing.assert_close(maps[:, :, 1, 2], head.linear(features[:, :, 1, 2]))
    torch.testing.assert_close(head(features.flip(-1)).maps, maps.flip(-1))


def test_vectors_have_logits_and_no_maps():
    head, features = SpatialHead(3, 5), torch.randn(2, 3)
    out = head(head.pool(features))
    torch.testing.assert_close(out.logits, head.linear(features))
    assert out.maps is None


def test_in_a_classifier_and_split_into_views():
    model = Classifier(nn.Conv2d(1, 3, 3, stride=2), SpatialHead(3, 5))
    x = torch.randn(4, 1, 9, 9)
    first, second = split_views(model(x), 2)
    torch.testing.assert_close(first.maps, model(x[:2]).maps)
    torch.testing.assert_close(second.maps, model(x[2:]).maps)
