"""The strong view: what each operation does, and chance that belongs to the image alone."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageChops

from plusone.data import augment
from plusone.data.augment import DRAWS, OPERATIONS, affine, cutout, draw_strong, strong

RNG = np.random.default_rng(0)


def picture(channels=3, height=24, width=30):
    """Smooth in places, noisy in others, without the full range of levels."""
    steps = np.linspace(20, 180, height * width).reshape(1, height, width)
    noise = RNG.integers(-15, 15, (channels, height, width))
    return torch.from_numpy(
        np.clip(steps + noise * np.arange(1, channels + 1)[:, None, None], 10, 200)
    ).byte()


def as_pillow(image):
    return Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())


def pixels_of(image):
    return np.asarray(image).transpose(2, 0, 1)


def test_moves():
    image = picture(height=8, width=8)
    shown, image = as_pillow(image), image.numpy()
    assert np.array_equal(pixels_of(affine(shown, 1, 0, 0, 1, 0, 0)), image)
    right = pixels_of(affine(shown, 1, 0, 0, 1, -3, 0))
    assert np.array_equal(right[:, :, 3:], image[:, :, :-3])
    assert (right[:, :, :3] == augment.FILL).all()
    up = pixels_of(affine(shown, 1, 0, 0, 1, 0, 2))
    assert np.array_equal(up[:, :-2], image[:, 2:])
    assert (up[:, -2:] == augment.FILL).all()
    turned = pixels_of(affine(shown, 0, -1, 1, 0, 0, 0))
    assert np.array_equal(turned, np.rot90(image, 1, (1, 2)))
    sheared = pixels_of(affine(shown, 1, 0.5, 0, 1, 0, 0))
    assert np.array_equal(sheared[:, 0, 2:], image[:, 0, :-2])  # the top row moves right by 1.75
    assert np.array_equal(sheared[:, 7, :-2], image[:, 7, 2:])


def test_cutout_covers_a_quarter_and_less_at_the_border():
    image = Image.new("RGB", (20, 16))
    hidden = pixels_of(cutout(image, 0.5, 0.5, [1, 2, 3]))
    assert np.unique(hidden[:, 4:12, 5:15].reshape(3, -1), axis=1).tolist() == [[1], [2], [3]]
    assert (hidden[0] != 0).sum() == 80
    assert image.getbbox() is None  # the image itself is untouched
    assert (pixels_of(cutout(image, 0.0, 0.0, [9, 9, 9]))[0] != 0).sum() == 20
    assert (pixels_of(cutout(image, 0.999, 0.999, [9, 9, 9]))[0] != 0).sum() == 30


@pytest.mark.parametrize(
    "shape", [(3, 32, 32), (1, 16, 16), (3, 9, 14), (1, 1, 1), (3, 2, 2), (2, 8, 8), (5, 8, 9)]
)
def test_every_draw_keeps_shape_and_type(shape):
    image = torch.randint(0, 256, shape, dtype=torch.uint8)
    before = image.clone()
    for draws in draw_strong(50, 0).tolist():
        changed = strong(image, draws)
        assert changed.shape == shape
        assert changed.dtype == torch.uint8
    assert torch.equal(image, before)


@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize("size", [(1, 1), (2, 2), (14, 9)])
def test_every_operation_keeps_mode_and_size(mode, size):
    image = Image.effect_noise(size, 60).convert(mode)
    for operation in OPERATIONS:
        for strength in (0.0, 0.5, 0.999):
            for side in (-1.0, 1.0):
                changed = operation(image, strength, side)
                assert (changed.mode, changed.size) == (mode, size)


def test_all_operations_are_drawn_and_change_something():
    image = as_pillow(picture(height=32, width=32))
    assert len(OPERATIONS) == 14
    changes = [ImageChops.difference(op(image, 0.9, 1.0), image).getbbox() for op in OPERATIONS]
    assert [number for number, box in enumerate(changes) if box is None] == [0]
    chosen = (draw_strong(500, 1)[:, 0] * 14).int()
    assert torch.bincount(chosen, minlength=14).min() > 15


def test_a_fifth_is_grey():
    image = torch.tensor([220, 120, 20]).byte().view(3, 1, 1).expand(3, 24, 24).contiguous()
    found = torch.stack([strong(image, draws) for draws in draw_strong(400, 2).tolist()])
    without_colour = (found.amax(1) == found.amin(1)).float().mean(dim=(1, 2))
    # Cutout hides at most a quarter of a grey image; filled borders are grey in any image.
    assert (without_colour >= 0.75).float().mean() == pytest.approx(0.2, abs=0.06)


def test_chance_is_reproducible_and_in_range():
    draws = draw_strong(7, 5)
    assert draws.shape == (7, DRAWS)
    assert 0 <= draws.min() < draws.max() < 1
    assert torch.equal(draws, draw_strong(7, 5))
    assert not torch.equal(draws, draw_strong(7, 6))
    views = [strong(picture(height=16, width=16), row) for row in draws.tolist()]
    assert len({view.numpy().tobytes() for view in views}) == 7


def test_largest_draws_stay_in_range():
    almost = [1 - 2**-24] * DRAWS
    assert strong(picture(), almost).shape == (3, 24, 30)
    assert strong(picture(), [0.0] * DRAWS).shape == (3, 24, 30)
