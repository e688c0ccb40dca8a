"""Inputs in memory and on disk."""

import numpy as np
import pytest
import torch
from torch import nn

from plusone.data.augment import draw_strong, strong
from plusone.errors import InputError
from plusone.seeds import generator
from plusone.training import loader as module
from plusone.training.loader import ArrayInputs, FileInputs
from plusone.training.predict import predict
from plusone.types import Outputs

ORDER = torch.tensor([4, 0, 6, 2, 5, 1, 3])


def gather(inputs, views=("plain",), seed=0, batch_size=3, order=ORDER):
    """All batches of each view, one below the other."""
    batches = list(inputs.batches(order, batch_size, views, seed))
    assert [len(batch[0]) for batch in batches] == [3, 3, 1]
    return [torch.cat(parts) for parts in zip(*batches, strict=True)]


def images(n=7):
    return torch.arange(n * 2 * 4 * 4).reshape(n, 2, 4, 4).to(torch.uint8)


def test_arrays_come_in_the_wanted_order():
    x = torch.randn(7, 5)
    (plain,) = gather(ArrayInputs(x))
    assert torch.equal(plain, x[ORDER])
    assert len(ArrayInputs(x)) == 7


@pytest.mark.parametrize("block", [1, 40, 1 << 20])
def test_blocks_do_not_show(block, monkeypatch):
    expected = gather(ArrayInputs(images(), flip=True), ("weak", "weak"), 3)
    monkeypatch.setattr(module, "BLOCK", block)
    found = gather(ArrayInputs(images(), flip=True), ("weak", "weak"), 3)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_float16_becomes_float32():
    x = torch.randn(7, 5).half()
    (plain,) = gather(ArrayInputs(x))
    assert plain.dtype == torch.float32
    assert torch.equal(plain, x.float()[ORDER])


def test_features_are_never_flipped():
    x = torch.randn(7, 5)
    (weak,) = gather(ArrayInputs(x, flip=True), ("weak",))
    assert torch.equal(weak, x[ORDER])


def sources(tmp_path, pictures):
    stored = torch.stack([module.decode(path, 8) for path in pictures])
    return [ArrayInputs(stored, flip=True), FileInputs(pictures, 8, flip=True, workers=0)]


def test_flips(tmp_path, pictures):
    for inputs in sources(tmp_path, pictures):
        (plain,) = gather(inputs)
        (weak,) = gather(inputs, ("weak",), 1)
        turned = [torch.equal(a, b.flip(-1)) for a, b in zip(weak, plain, strict=True)]
        kept = [torch.equal(a, b) for a, b in zip(weak, plain, strict=True)]
        assert all(a != b for a, b in zip(turned, kept, strict=True))
        assert torch.equal(weak, gather(inputs, ("weak",), 1)[0])
        assert any(not torch.equal(weak, gather(inputs, ("weak",), s)[0]) for s in range(2, 5))


def test_two_weak_views_differ_and_plain_stays(tmp_path, pictures):
    for inputs in sources(tmp_path, pictures):
        first, second, plain = gather(inputs, ("weak", "weak", "plain"), 1)
        assert not torch.equal(first, second)
        assert torch.equal(plain, gather(inputs)[0])


def test_files_and_memory_agree(tmp_path, pictures):
    stored, files = sources(tmp_path, pictures)
    views = ("weak", "plain", "strong")
    for a, b in zip(gather(stored, views, 9), gather(files, views, 9), strict=True):
        assert torch.equal(a, b)


def test_about_half_is_flipped():
    x = torch.zeros(2000, 1, 1, 2, dtype=torch.uint8)
    x[..., 1] = 1
    (batch,) = ArrayInputs(x, flip=True).batches(torch.arange(2000), 2000, ("weak",), 0)
    assert 900 < batch[0][..., 0].sum() < 1100


def test_no_flip_when_not_wanted(pictures):
    for inputs in (ArrayInputs(images()), FileInputs(pictures, 8, flip=False, workers=0)):
        assert torch.equal(gather(inputs, ("weak",), 1)[0], gather(inputs)[0])


def test_the_flips_of_recorded_results():
    """Which items are mirrored for a seed must never change."""
    x = torch.zeros(7, 1, 1, 2, dtype=torch.uint8)
    x[..., 1] = 1
    first, second = gather(ArrayInputs(x, flip=True), ("weak", "weak"), 3)
    assert first[:, 0, 0, 0].tolist() == [0, 1, 1, 0, 0, 1, 1]
    assert second[:, 0, 0, 0].tolist() == [1, 0, 1, 0, 0, 1, 0]


def test_strong_views_depend_on_the_place_alone(pictures):
    views = ("strong", "weak", "strong")
    for inputs in sources(None, pictures):
        first, weak, second = gather(inputs, views, 4)
        assert torch.equal(weak, gather(inputs, ("plain", "weak"), 4)[1])
        assert not torch.equal(first, second)
        assert not torch.equal(first, gather(inputs, views, 5)[0])
        alone = [batch[0] for batch in inputs.batches(ORDER, 1, views, 4)]
        assert torch.equal(torch.cat(alone), first)
        changed = [not torch.equal(a, b) for a, b in zip(first, gather(inputs)[0], strict=True)]
        assert all(changed)


def test_strong_is_flip_then_the_strong_steps():
    x = images()
    (found,) = gather(ArrayInputs(x, flip=True), ("strong",), 4)
    mirrored = torch.rand(7, generator=generator(4, "strong")) < 0.5
    assert 0 < mirrored.sum() < 7
    for place, (item, draws) in enumerate(zip(ORDER, draw_strong(7, 4), strict=True)):
        image = x[item].flip(-1) if mirrored[place] else x[item]
        assert torch.equal(found[place], strong(image, draws))


@pytest.mark.parametrize("shape", [(7, 5), (7, 3, 5), (7, 5, 4, 4)])
def test_features_and_feature_maps_are_the_same_in_every_view(shape):
    x = torch.randn(shape)
    for part in gather(ArrayInputs(x, flip=True), ("strong", "weak", "plain")):
        assert torch.equal(part, x[ORDER])


def test_files_are_cropped_if_wanted(pictures):
    (found,) = gather(FileInputs(pictures, 8, workers=0, aspect="crop"))
    expected = torch.stack([module.decode(pictures[row], 8, "crop") for row in ORDER])
    assert torch.equal(found, expected)
    assert not torch.equal(found, gather(FileInputs(pictures, 8, workers=0))[0])


def test_workers_change_nothing(pictures):
    views = ("weak", "strong")
    alone = gather(FileInputs(pictures, 8, workers=0), views, 5)
    helped = gather(FileInputs(pictures, 8, workers=2), views, 5)
    assert all(torch.equal(a, b) for a, b in zip(alone, helped, strict=True))


# Slow: torch's workers hang for 10 s when the failed loader is collected as part of a cycle.
@pytest.mark.parametrize("workers", [0, 2])
def test_a_bad_file_is_named_in_one_line(pictures, workers):
    pictures[5].write_bytes(pictures[5].read_bytes()[:60])
    with pytest.raises(InputError, match=r"^\S+p5\.png: cannot be read as an image") as caught:
        gather(FileInputs(pictures, 8, workers=workers))
    assert "\n" not in str(caught.value)


def test_unknown_views_are_refused(pictures):
    for inputs in (ArrayInputs(images()), FileInputs(pictures, 8, workers=0)):
        with pytest.raises(ValueError, match="unknown view 'strange'; known: plain, weak, strong"):
            next(iter(inputs.batches(ORDER, 3, ("strange",), 0)))


class Double(nn.Module):
    def forward(self, x):
        return Outputs(2 * x, x)


@pytest.mark.parametrize("n", [1, 5, 6, 13])
def test_prediction_drops_nothing(n, monkeypatch):
    monkeypatch.setattr("plusone.training.predict.ROWS", {"features": 5, "images": 5})
    x, done, net = torch.randn(n, 3), [], Double().train()
    found = predict(net, net, ArrayInputs(x), kind="features", tick=done.append)
    assert torch.equal(found, 2 * x)
    assert sum(done) == n
    assert net.training


def test_prediction_is_in_evaluation_mode():
    net = nn.Dropout(0.5).train()
    x = torch.ones(50, 2)
    assert torch.equal(predict(net, net, ArrayInputs(x), kind="features"), x)


def test_arrays_from_numpy_views():
    x = np.asfortranarray(np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32))
    (plain,) = gather(ArrayInputs(torch.from_numpy(x)))
    assert plain.numpy().tolist() == x[ORDER.numpy()].tolist()
