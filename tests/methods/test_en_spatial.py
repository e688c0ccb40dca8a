"""EN with the spatial consistency loss: maps of crops, remembered where they were seen."""

import numpy as np
import pytest
import torch
from torch import nn

from plusone.data import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.inputs.task import make_task
from plusone.losses import consistency
from plusone.methods import METHODS
from plusone.models.classifier import Classifier
from plusone.models.heads import SpatialHead
from plusone.recipe import Recipe
from plusone.training.closed_fit import fit_for
from plusone.training.stage_inputs import batches_of
from plusone.types import Batch, Clock, Outputs, TrainLabels

CLOCK = Clock(0, 1, 5, 0, 1)
N, L, G = 6, 3, 4
LABELS = np.eye(L, dtype=int)[[0, 1, 2, 0, 0, 1]]
WHOLE = torch.tensor([[0.0, 0.0, 1.0, 1.0]]).repeat(N, 1)
MIRRORED = WHOLE[:, [2, 1, 0, 3]]
CROPS = torch.tensor(  # left, top, right, bottom; the second and the fourth are mirrored
    [
        [0.1, 0.2, 0.7, 0.9],
        [0.8, 0.0, 0.3, 0.6],
        [0.0, 0.0, 1.0, 1.0],
        [1.0, 0.5, 0.5, 1.0],
        [0.25, 0.25, 0.75, 0.75],
        [0.4, 0.1, 0.95, 0.8],
    ]
)


def build(**options):
    info = METHODS["en_scl"]
    made = info.make_options({"grid": G} | options)
    return info.build(TrainLabels(LabelMatrix.from_dense(LABELS), 1.5), made)


def outputs(maps):
    return Outputs(maps.mean((2, 3)), maps, maps=maps)


def batch(boxes=None):
    labels, rows = torch.from_numpy(LABELS).float(), torch.arange(N)
    return Batch((torch.zeros(N, 1),), labels, rows, (), None if boxes is None else boxes[:, None])


def term(method, maps, boxes=None):
    return method.loss((outputs(maps),), batch(boxes), CLOCK)["consistency"]


def at(table, x, y):
    """A map `[h, w]` at a point in [0, 1], interpolated between the centres of its places."""
    height, width = table.shape
    x, y = min(max(x * width - 0.5, 0), width - 1), min(max(y * height - 0.5, 0), height - 1)
    i, j = int(y), int(x)
    below, right = min(i + 1, height - 1), min(j + 1, width - 1)
    top = table[i][j] * (1 - (x - j)) + table[i][right] * (x - j)
    bottom = table[below][j] * (1 - (x - j)) + table[below][right] * (x - j)
    return top * (1 - (y - i)) + bottom * (y - i)


def test_the_loss_and_the_averages_by_loops(same):
    """Crops, some mirrored; half of one image was never seen, so that some places are seen half."""
    draw, method = torch.Generator().manual_seed(0), build(weight=0.5, decay=0.75)
    method.maps = torch.rand(N, L, G, G, generator=draw)
    method.maps[3, :, 2:] = -1.0
    averages, z = method.maps.numpy().copy(), torch.randn(N, L, 3, 5, generator=draw)
    now, total, shares = torch.sigmoid(z.requires_grad_()), 0.0, set()
    expected, shown = averages.copy(), now.detach().numpy()
    for item in range(N):
        left, top, right, bottom = CROPS[item].tolist()
        known = averages[item, 0] >= 0
        for name in range(L):
            for row in range(3):
                for column in range(5):
                    x = left + (column + 0.5) / 5 * (right - left)
                    y = top + (row + 0.5) / 3 * (bottom - top)
                    share = at(known, x, y)
                    before = at(averages[item, name] * known, x, y) / (share if share > 0 else 1)
                    total += share * (now[item, name, row, column] - before) ** 2
                    shares.add(round(share, 3))
            for row in range(G):
                for column in range(G):
                    x = ((column + 0.5) / G - left) / (right - left)
                    y = ((row + 0.5) / G - top) / (bottom - top)
                    old = averages[item, name, row, column]
                    if 0 <= x <= 1 and 0 <= y <= 1:
                        new = at(shown[item, name], x, y)
                        value = new if old < 0 else 0.75 * old + 0.25 * new
                        expected[item, name, row, column] = value
    assert {0.0, 1.0} < shares
    same(term(method, z, CROPS), 0.5 * total / z.numel(), z)
    with torch.no_grad():
        method.after_step((outputs(z),), batch(CROPS), CLOCK)
    torch.testing.assert_close(method.maps, torch.from_numpy(expected))
    assert 0 < (expected != averages).mean() < 1


def test_the_whole_image_is_compared_place_by_place():
    """With the grid of the maps and without a crop, as two maps of one view are compared."""
    method, draw = build(weight=0.5), torch.Generator().manual_seed(0)
    first, second = torch.randn(2, N, L, G, G, generator=draw)
    assert term(method, first) == 0  # nothing was seen
    method.after_step((outputs(first),), batch(), CLOCK)
    torch.testing.assert_close(method.maps.float(), first.sigmoid(), rtol=1e-3, atol=1e-4)
    expected = 0.5 * consistency(second, first).mean()
    torch.testing.assert_close(term(method, second, WHOLE), expected, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(term(method, second), expected, rtol=1e-3, atol=1e-5)
    mirrored = term(method, second.flip(-1), MIRRORED)
    torch.testing.assert_close(mirrored, expected, rtol=1e-3, atol=1e-5)


def test_consistent_maps_cost_nothing():
    """A plane has the same value at a point of the image, whatever crop shows it."""

    def plane(boxes, size):
        centres = (torch.arange(size) + 0.5) / size
        x = boxes[:, :1] + centres * (boxes[:, 2:3] - boxes[:, :1])
        y = boxes[:, 1:2] + centres * (boxes[:, 3:] - boxes[:, 1:2])
        slope = torch.tensor([0.1, -0.2, 0.3])[None, :, None, None]
        return torch.logit(0.5 + slope * (x[:, None, None, :] - 0.5 * y[:, None, :, None]))

    inner = CROPS * 0.5 + 0.25  # the outermost half cell is flat
    method = build()
    method.after_step((outputs(plane(WHOLE, G)),), batch(), CLOCK)
    maps = plane(inner, 5)
    assert term(method, maps, inner) < 1e-6
    assert term(method, maps.flip(-1), inner) > 1e-4
    before = method.maps.float()
    method.after_step((outputs(maps),), batch(inner), CLOCK)
    # Cells near the edge of a crop take its outermost value, which is half a place away.
    torch.testing.assert_close(method.maps.float(), before, rtol=0, atol=0.02)


def test_an_object_outside_the_crop_is_remembered():
    """The left half has the class; a crop of the right half neither changes that nor costs."""
    left = torch.full((N, L, G, G), -9.0)
    left[..., : G // 2] = 9.0
    method, right = build(), torch.tensor([[0.65, 0.0, 1.0, 1.0]]).repeat(N, 1)
    method.after_step((outputs(left),), batch(), CLOCK)
    nothing = torch.full((N, L, 2, 2), -9.0)
    assert term(method, nothing, right) < 1e-6
    assert term(method, nothing, WHOLE) > 0.3
    method.after_step((outputs(nothing),), batch(right), CLOCK)
    assert (method.maps[..., : G // 2] > 0.99).all()


def test_gradients_reach_the_backbone():
    method = build()
    model = Classifier(nn.Conv2d(1, 6, 3), method.make_head(6))
    assert isinstance(model.head, SpatialHead)
    x = torch.randn(N, 1, 8, 8)
    with torch.no_grad():
        method.after_step((model(x),), batch(), CLOCK)
    out = model(x.flip(-1))
    method.loss((out,), batch(CROPS), CLOCK)["consistency"].backward()
    assert model.backbone.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("shape", [(N, 5), (N, 7, 5)], ids=["vectors", "tokens"])
def test_what_has_no_places_is_one_place(shape):
    method, draw = build(weight=2.0), torch.Generator().manual_seed(0)
    head = method.make_head(5)
    before, now = (head(torch.randn(*shape, generator=draw)) for _ in range(2))
    with torch.no_grad():
        method.after_step((before,), batch(), CLOCK)
        found = method.loss((now,), batch(), CLOCK)["consistency"]
    expected = 2 * consistency(now.logits, before.logits).mean()
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=1e-5)


def test_training_on_crops_resumes_exactly():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, size=(24, 1, 16, 16), dtype=np.uint8)
    data = Dataset.from_arrays(images, rng.integers(0, 2, size=(24, 3)), complete=True)

    class Backbone(nn.Sequential):
        dim = 4

        def forward(self, x):
            return super().forward(x.float() / 255)

    recipe = Recipe(
        method="en_scl", mode="finetune", epochs=3, lr=0.01, batch_size=7, expected_positives=1.5
    )
    task = make_task(data, recipe)

    def training():
        torch.manual_seed(0)
        return fit_for(task, recipe, backbone=Backbone(nn.Conv2d(1, 4, 4, stride=4)))

    whole, first, second = training(), training(), training()
    boxes = torch.cat([each.boxes for each in batches_of(first)])
    assert boxes.shape == (len(task.train), 1, 4)
    sides = (boxes[:, 0, 2:] - boxes[:, 0, :2]).abs()
    assert ((sides > 0.4) & (sides <= 1)).all()
    records = list(whole.epochs())
    assert records[0].losses["consistency"] == 0
    assert records[2].losses["consistency"] > 0
    next(first.epochs())
    second.load_state(*first.state())
    for _ in second.epochs():
        pass
    found = second.state()[0]
    for key, value in whole.state()[0].items():
        assert value.equal(found[key]), key
