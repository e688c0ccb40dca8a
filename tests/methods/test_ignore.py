"""IGNORE: what is hidden, which labels are rejected, the loss by a loop, and the second pass."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import softplus

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.methods import METHODS
from plusone.methods.ignore import GREY, places_kept
from plusone.models.classifier import Classifier
from plusone.training.step import Gradients, look_again, training_step
from plusone.types import Batch, Clock, Outputs, TrainLabels

LATE = Clock(0, 3, 5, 0, 2)


def built(n_classes=3, **options):
    labels = TrainLabels(LabelMatrix.from_dense([[1] + [0] * (n_classes - 1)]))
    return METHODS["ignore"].build(labels, METHODS["ignore"].make_options(options))


@pytest.mark.parametrize("scale", ["image", "batch"])
def test_places_by_a_loop(scale):
    torch.manual_seed(0)
    maps = torch.randn(4, 3, 2, 2)
    y = torch.tensor([[0, 1, 0], [0, 0, 1], [1, 0, 1], [1, -1, 0]])
    kept = places_kept(maps, y, torch.Size((2, 2)), cut=0.6, scale=scale)
    seen = {0: 1, 1: 2, 3: 0}  # the third item has two
    for item in range(4):
        for row in range(2):
            for column in range(2):
                if item not in seen:
                    assert kept[item, row, column]
                    continue
                own = maps[item, seen[item]]
                if scale == "image":
                    scaled = (own[row, column] - own.min()) / (own.max() - own.min())
                else:
                    there = [maps[i, c, row, column].item() for i, c in seen.items()]
                    scaled = (own[row, column] - min(there)) / max(there)
                assert kept[item, row, column] == (scaled > 0.6)
    some = torch.tensor([3, 0])
    assert places_kept(maps, y, torch.Size((2, 2)), some, cut=0.6, scale=scale).equal(kept[some])


def test_maps_are_resized_and_flat_ones_hide_nothing():
    maps = torch.tensor([[0.0, 1.0]]).view(1, 1, 1, 2)
    kept = places_kept(maps, torch.ones(1, 1), torch.Size((2, 4)), cut=0.7, scale="image")
    assert kept[0].tolist() == [[False, False, True, True]] * 2  # 0, 0.25, 0.75, 1
    flat = places_kept(0 * maps, torch.ones(1, 1), torch.Size((2, 4)), cut=0.7, scale="image")
    assert flat.all()


def test_a_label_elsewhere_in_the_image_is_rejected():
    """Channels are the classes: the seen one is left, a hidden positive right, the third absent."""
    method = built(decay=0.0)
    model = Classifier(nn.Identity(), method.make_head(3))
    with torch.no_grad():
        model.head.linear.weight.copy_(torch.eye(3))
        model.head.linear.bias.fill_(-0.1)
    images = torch.zeros(2, 3, 4, 4)
    images[0, 0, :, :2], images[0, 1, :, 2:] = 1.0, 2.0
    images[1, 2] = 1.0
    y = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    batch, out = Batch((images, images), y, torch.arange(2)), model(images)
    hidden = method.look_again(images, out, y, slice(None))
    assert hidden[0, 0].equal(images[0, 0])  # the place of the seen label stays
    assert not hidden[0, 1].any()  # the other one goes
    assert hidden[1].equal(images[1])
    batch = replace(batch, again=look_again(model, method, batch, out))
    expected = torch.tensor([[False, True, False], [False] * 3])
    assert method.rejected(out.logits, batch, LATE).equal(expected)
    assert not method.rejected(out.logits, batch, Clock(0, 2, 5, 0, 2)).any()  # the first epochs


def test_the_loss_and_the_running_numbers_by_a_loop(same):
    torch.manual_seed(0)
    method = built(decay=0.9, seen_weight=0.3, agreement=0.7)
    method.gap.fill_(0.4)
    method.level.copy_(torch.tensor([-0.2, 0.1, 0.0]))
    z, strong, masked = torch.randn(3, 5, 3).unbind()
    z.requires_grad_(), strong.requires_grad_()
    y = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 0], [0, -1, 1], [1, 0, 0]])
    outs = Outputs(z, z), Outputs(strong, z)
    batch = Batch((z, z), y, torch.arange(5), again=Outputs(masked, z))
    gaps = (z - masked).abs().tolist()
    seen = [(i, j) for i in range(5) for j in range(3) if y[i, j] == 1]
    gap = 0.9 * 0.4 + 0.1 * sum(gaps[i][j] for i, j in seen) / len(seen)
    level = [0.9 * method.level[j].item() + 0.1 * z[:, j].mean().item() for j in range(3)]
    costs, positive, distance = [], [], []
    for i in range(5):
        for j in range(3):
            distance.append((strong[i, j] - z[i, j]) ** 2)
            if y[i, j] == 1:
                positive.append(softplus(-z[i, j]))
                costs.append(softplus(-strong[i, j]))
            elif y[i, j] != 0 or gaps[i][j] <= gap or z[i, j] <= level[j]:
                costs.append(softplus(strong[i, j]))
    assert 6 < len(costs) < 15  # some are rejected
    terms = method.loss(outs, batch, LATE)
    same(terms["an"], sum(costs) / len(costs), z, strong)
    same(terms["seen"], 0.3 * sum(positive) / len(positive), z, strong)
    same(terms["agreement"], 0.7 * sum(distance) / len(distance), z, strong)
    with torch.no_grad():
        method.after_step(outs, batch, LATE)
        assert method.gap.item() == pytest.approx(gap)
        assert method.level.tolist() == pytest.approx(level)
        method.after_step(outs, replace(batch, observed=0 * y), LATE)  # nothing is seen
    assert method.gap.item() == pytest.approx(gap)


class Bytes(nn.Module):
    """A backbone with batch norm; keeps the last inputs."""

    def __init__(self, dropout=0.5):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 4, 2, stride=2), nn.BatchNorm2d(4), nn.Dropout(dropout)
        )

    def forward(self, images):
        self.last = images
        return self.layers(images.float() / 255)


def two_views(y):
    """A batch of images and other images as their strong views."""
    views = torch.randint(0, 100, (2, len(y), 1, 8, 8), dtype=torch.uint8)
    return Batch(tuple(views), y, torch.arange(len(y)))


def stepped(method, model, batch, **rest):
    """A training step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    training_step(model, model.head, method, optimizer, batch, LATE, **rest)


def test_the_second_pass_leaves_no_trace_in_the_model():
    """Neither in the statistics of batch norm nor in what dropout draws next; bytes become grey."""
    torch.manual_seed(0)
    method, batch = built(), two_views(torch.eye(3)[[0, 1, 2, 0]])
    model = Classifier(Bytes(), method.make_head(4))
    plain = copy.deepcopy(model)
    torch.manual_seed(1)
    stepped(method, model, batch)
    mine = torch.rand(1)
    torch.manual_seed(1)
    for view in batch.views:
        plain(view)
    assert torch.rand(1) == mine
    torch.testing.assert_close(dict(model.named_buffers()), dict(plain.named_buffers()))
    images, shown = batch.views[0], model.backbone.last  # of the last pass
    assert ((shown == images) | (shown == GREY)).all()
    assert (shown == GREY).any()


@pytest.mark.parametrize("pieces", [1, 2])
def test_images_that_are_kept_whole_have_no_gap(pieces):
    """As batch norm sees each version of the images by itself: no strong view, and in pieces."""
    torch.manual_seed(0)
    method, batch = built(decay=0.0), two_views(torch.tensor([[1.0, 1.0, 0.0]]).repeat(5, 1))
    model = Classifier(Bytes(dropout=0.0), method.make_head(4))
    stepped(method, model, batch, gradients=Gradients(pieces=pieces))
    assert method.level.any()
    assert method.gap == 0


def test_tokens_and_wrong_settings_are_refused():
    method = built()
    out = method.make_head(4)(torch.randn(2, 5, 4))
    with pytest.raises(InputError, match="this backbone gives no map of places"):
        method.look_again(torch.zeros(2, 3, 8, 8), out, torch.zeros(2, 3), slice(None))
    for options in ({"scale": "none"}, {"cut": 1.0}, {"decay": 1.0}, {"agreement": -1.0}):
        with pytest.raises(InputError, match=r"must|need"):
            METHODS["ignore"].make_options(options)
