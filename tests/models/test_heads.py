"""Heads: linear, with class maps, and with an embedding per class."""

from operator import mul

import pytest
import torch
from torch import nn

from plusone.models.classifier import Classifier
from plusone.models.heads import (
    Attention,
    Head,
    LabelwiseHead,
    LinearHead,
    SpatialHead,
    sine_positions,
)
from plusone.training.pieces import split_views


def test_pooling_of_maps_and_vectors():
    maps = torch.randn(2, 3, 4, 5)
    torch.testing.assert_close(Head().pool(maps), maps.flatten(2).mean(2))
    vectors = torch.randn(2, 3)
    assert Head().pool(vectors) is vectors


def test_the_linear_head():
    head, x = LinearHead(3, 4), torch.randn(2, 3)
    out = head(x)
    torch.testing.assert_close(out.logits, x @ head.linear.weight.T + head.linear.bias)
    assert out.features is x


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


def test_boosted_maps_by_a_loop():
    """BoostLU: positive entries times alpha; alpha 1 is the plain head, also in its gradients."""
    head, features = SpatialHead(3, 5, boost=5.0), torch.randn(2, 3, 4, 6)
    weight, bias = head.linear.weight.tolist(), head.linear.bias.tolist()
    for item, out in zip(features, head(features).logits, strict=True):
        for row, shift, logit in zip(weight, bias, out, strict=True):
            places = item.flatten(1).T.tolist()
            entries = [sum(map(mul, row, place)) + shift for place in places]
            boosted = [5 * m if m > 0 else m for m in entries]
            assert logit.item() == pytest.approx(sum(boosted) / len(boosted), abs=1e-5)
    torch.testing.assert_close(head(features).maps.mean((2, 3)), head(features).logits)
    plain, linear = SpatialHead(3, 5, boost=1.0), LinearHead(3, 5)
    linear.load_state_dict(plain.state_dict())
    torch.testing.assert_close(plain(features).logits, linear(linear.pool(features)).logits)


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


def head(**options):
    torch.manual_seed(0)
    sizes = {"width": 8, "heads": 2, "feedforward": 16} | options
    return LabelwiseHead(5, 3, **sizes).eval()


@pytest.mark.parametrize(("shape", "grid"), [((5, 4, 6), (4, 6)), ((7, 5), (1, 7)), ((5,), (1, 1))])
def test_maps_tokens_and_vectors(shape, grid):
    model = head()
    x = torch.randn(2, *shape)
    assert model.pool(x) is x
    out = model(x)
    assert out.logits.shape == (2, 3)
    assert out.embeddings.shape == (2, 3, 8)
    assert out.maps.shape == (2, 3, *grid)
    torch.testing.assert_close(out.maps.sum((2, 3)), torch.ones(2, 3))
    assert not out.maps.requires_grad


def test_a_logit_is_its_own_row_of_its_own_embedding():
    model = head()
    out = model(torch.randn(2, 5, 3, 3))
    for j in range(3):
        expected = out.embeddings[:, j] @ model.weight[j] + model.bias[j]
        torch.testing.assert_close(out.logits[:, j], expected)


def test_classes_do_not_see_each_other():
    """There is no attention among the queries: a class is the same without the others."""
    model, alone, x = head(), head(), torch.randn(2, 5, 3, 3)
    whole = model(x).logits
    for name in ("queries", "weight", "bias"):
        setattr(alone, name, torch.nn.Parameter(getattr(model, name)[1:2].detach()))
    torch.testing.assert_close(alone(x).logits[:, 0], whole[:, 1])


def test_positions_matter_for_maps_and_not_for_tokens():
    model = head(encoder_layers=2)
    x = torch.randn(2, 5, 2, 3)
    turned = x.flip(3)
    assert not torch.allclose(model(x).logits, model(turned).logits)
    tokens = x.flatten(2).transpose(1, 2)
    torch.testing.assert_close(model(tokens).logits, model(tokens.flip(1)).logits)


def test_positions_tell_every_place_apart():
    for size in (7, 8, 16):
        places = sine_positions(5, 6, size, torch.zeros(1))
        assert places.shape == (30, size)
        assert torch.cdist(places, places).fill_diagonal_(1.0).min() > 1e-3


def test_attention_equals_torch():
    torch.manual_seed(1)
    ours, theirs = Attention(8, 2), torch.nn.MultiheadAttention(8, 2, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(
            torch.cat([layer.weight for layer in (ours.query, ours.key, ours.value)])
        )
        theirs.in_proj_bias.copy_(
            torch.cat([layer.bias for layer in (ours.query, ours.key, ours.value)])
        )
        theirs.out_proj.load_state_dict(ours.out.state_dict())
    q, k, v = torch.randn(2, 3, 8), torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    for found, expected in zip(ours(q, k, v), theirs(q, k, v), strict=True):
        torch.testing.assert_close(found, expected)


def test_width_and_heads_must_fit():
    with pytest.raises(ValueError, match="width 9 cannot be split among 2 heads"):
        head(width=9)


def test_the_attention_looks_at_what_matters():
    """Trained to find a mark, the map of its class is highest where the mark is."""
    torch.manual_seed(0)
    model = LabelwiseHead(4, 1, width=16, heads=2, feedforward=32, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    make = torch.Generator().manual_seed(2)

    def scenes(n):
        x = 0.3 * torch.randn(n, 4, 3, 3, generator=make)
        there = torch.rand(n, generator=make) < 0.5
        place = torch.randint(0, 9, (n,), generator=make)
        x.flatten(2)[torch.arange(n)[there], :, place[there]] += torch.tensor([2.0, -2.0, 2.0, 2.0])
        return x, there, place

    for _ in range(150):
        x, there, _ = scenes(64)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            model(x).logits[:, 0], there.float()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    x, there, place = scenes(200)
    out = model.eval()(x)
    assert ((out.logits[:, 0] > 0) == there).float().mean() > 0.95
    found = out.maps[:, 0].flatten(1).argmax(1)
    assert (found == place)[there].float().mean() > 0.8
