"""IGNORE: what is hidden, which labels are rejected, the loss by a loop, and the second pass."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.losses import assume_negative
from plusone.methods import METHODS
from plusone.methods.ignore import GREY, places_kept
from plusone.models.classifier import Classifier
from plusone.training.step import look_again, training_step
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


def test_the_loss_and_the_running_numbers_by_a_loop():
    torch.manual_seed(0)
    method = built(decay=0.9, seen_weight=0.3, agreement=0.7)
    method.gap.fill_(0.4)
    method.level.copy_(torch.tensor([-0.2, 0.1, 0.0]))
    z, strong, masked = torch.randn(3, 5, 3)
    y = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 0], [0, -1, 1], [1, 0, 0]])
    outs = Outputs(z, z), Outputs(strong, z)
    batch = Batch((z, z), y, torch.arange(5), again=Outputs(masked, z))
    seen = [(i, j) for i in range(5) for j in range(3) if y[i, j] == 1]
    gap = 0.9 * 0.4 + 0.1 * sum(abs(z[i, j] - masked[i, j]).item() for i, j in seen) / len(seen)
    level = [0.9 * method.level[j].item() + 0.1 * z[:, j].mean().item() for j in range(3)]
    costs, positive, distance, rejected = [], [], [], 0
    for i in range(5):
        for j in range(3):
            distance.append((strong[i, j] - z[i, j]).item() ** 2)
            if y[i, j] == 1:
                positive.append(math.log1p(math.exp(-z[i, j].item())))
                costs.append(math.log1p(math.exp(-strong[i, j].item())))
            elif y[i, j] == 0 and abs(z[i, j] - masked[i, j]) > gap and z[i, j] > level[j]:
                rejected += 1
            else:
                costs.append(math.log1p(math.exp(strong[i, j].item())))
    assert 0 < rejected < 9
    terms = {name: term.item() for name, term in method.loss(outs, batch, LATE).items()}
    expected = {
        "an": sum(costs) / len(costs),
        "seen": 0.3 * sum(positive) / len(positive),
        "agreement": 0.7 * sum(distance) / len(distance),
    }
    assert terms == pytest.approx(expected, rel=1e-5)
    method.after_step(outs, batch, LATE)
    assert method.gap.item() == pytest.approx(gap)
    assert method.level.tolist() == pytest.approx(level)
    method.after_step(outs, replace(batch, observed=0 * y), LATE)  # nothing is seen
    assert method.gap.item() == pytest.approx(gap)


def test_without_its_parts_it_is_an_on_the_strong_view():
    method = built(warmup=9, seen_weight=0.0, agreement=0.0)
    z, strong = torch.randn(2, 4, 3)
    y = torch.eye(3)[[0, 1, 2, 0]]
    batch = Batch((z, z), y, torch.arange(4), again=Outputs(z, z))
    total = sum(method.loss((Outputs(z, z), Outputs(strong, z)), batch, LATE).values())
    torch.testing.assert_close(total, assume_negative(strong, y).mean())


class Bytes(nn.Module):
    """A backbone with batch norm; keeps the last inputs."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 4, 2, stride=2), nn.BatchNorm2d(4), nn.Dropout(0.5)
        )

    def forward(self, images):
        self.last = images
        return self.layers(images.float() / 255)


def test_the_second_pass_leaves_no_trace_in_the_model():
    """Neither in the statistics of batch norm nor in what dropout draws next; bytes become grey."""
    torch.manual_seed(0)
    method, plain = built(), METHODS["an"]
    model = Classifier(Bytes(), method.make_head(4))
    images = torch.randint(0, 100, (4, 1, 8, 8), dtype=torch.uint8)
    batch = Batch((images, images), torch.eye(3)[[0, 1, 2, 0]], torch.arange(4))
    norm, ends = model.backbone.layers[1], {}
    an = plain.build(method.labels, plain.make_options({}))
    an.views = ("weak", "strong")
    start = {key: value.clone() for key, value in model.state_dict().items()}
    for name, each in (("ignore", method), ("an", an)):
        model.load_state_dict(start)
        torch.manual_seed(1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        training_step(model, model.head, each, optimizer, batch, LATE)
        ends[name] = (norm.running_mean.clone(), norm.num_batches_tracked.item(), torch.rand(1))
        if name == "ignore":
            shown = model.backbone.last
            assert len(shown) == 4  # the last pass had one view
            assert ((shown == images) | (shown == GREY)).all()
            assert (shown == GREY).any()
    torch.testing.assert_close(ends["ignore"], ends["an"])


def test_tokens_and_wrong_settings_are_refused():
    method = built()
    out = method.make_head(4)(torch.randn(2, 5, 4))
    with pytest.raises(InputError, match="this backbone gives no map of places"):
        method.look_again(torch.zeros(2, 3, 8, 8), out, torch.zeros(2, 3), slice(None))
    for options in ({"scale": "none"}, {"cut": 1.0}, {"decay": 1.0}, {"agreement": -1.0}):
        with pytest.raises(InputError, match=r"must|need"):
            METHODS["ignore"].make_options(options)
