"""The strong view: each operation against Pillow, and chance that belongs to the image alone."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from plusone.data import augment
from plusone.data import augment as colours
from plusone.data.augment import DRAWS, OPERATIONS, affine, cutout, draw_strong, rotate, strong

RNG = np.random.default_rng(0)


def picture(channels=3, height=24, width=30):
    """Smooth in places, noisy in others, without the full range of levels."""
    steps = np.linspace(20, 180, height * width).reshape(1, height, width)
    noise = RNG.integers(-15, 15, (channels, height, width))
    return torch.from_numpy(
        np.clip(steps + noise * np.arange(1, channels + 1)[:, None, None], 10, 200)
    ).byte()


def as_pillow(image):
    pixels = image.permute(1, 2, 0).numpy()
    return Image.fromarray(pixels if image.shape[0] == 3 else pixels[..., 0])


def from_pillow(image):
    pixels = np.array(image)
    return torch.from_numpy(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1))


def difference(found, expected):
    assert found.dtype == torch.uint8
    assert found.shape == expected.shape
    return (found.int() - expected.int()).abs().max().item()


@pytest.mark.parametrize("channels", [1, 3])
def test_tables_are_those_of_pillow(channels):
    image = picture(channels)
    shown = as_pillow(image)
    assert difference(colours.equalize(image), from_pillow(ImageOps.equalize(shown))) == 0
    assert difference(colours.autocontrast(image), from_pillow(ImageOps.autocontrast(shown))) <= 1
    for threshold in (0, 90, 255):
        expected = from_pillow(ImageOps.solarize(shown, threshold))
        assert difference(colours.solarize(image, threshold), expected) == 0
    assert difference(colours.solarize(image, 256), image) == 0
    for bits in (4, 6, 8):
        expected = from_pillow(ImageOps.posterize(shown, bits))
        assert difference(colours.posterize(image, bits), expected) == 0


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("factor", [0.0, 0.4, 1.0, 1.7])
@pytest.mark.parametrize(
    ("change", "reference"),
    [
        (colours.brightness, ImageEnhance.Brightness),
        (colours.contrast, ImageEnhance.Contrast),
        (colours.colour, ImageEnhance.Color),
        (colours.sharpness, ImageEnhance.Sharpness),
    ],
)
def test_enhancements_are_those_of_pillow(change, reference, factor, channels):
    image = picture(channels)
    expected = from_pillow(reference(as_pillow(image)).enhance(factor))
    assert difference(change(image, factor), expected) <= 1
    assert (factor == 1) == torch.equal(change(image, factor), image) or channels == 1


def test_grey():
    image = picture()
    expected = from_pillow(as_pillow(image).convert("L")).expand(3, -1, -1)
    assert torch.equal(colours.grey(image), expected)
    assert torch.equal(colours.grey(image[:1]), image[:1])


@pytest.mark.parametrize("value", [0, 77, 255])
def test_an_image_of_one_colour_survives_everything(value):
    image = torch.full((3, 5, 4), value, dtype=torch.uint8)
    assert torch.equal(colours.autocontrast(image), image)
    assert torch.equal(colours.equalize(image), image)
    assert torch.equal(colours.contrast(image, 1.8), image)
    assert torch.equal(colours.sharpness(image, 1.9), image)


def test_moves():
    image = picture(height=8, width=8)
    assert torch.equal(affine(image, 1, 0, 0, 1, 0, 0), image)
    right = affine(image, 1, 0, 0, 1, -3, 0)
    assert torch.equal(right[:, :, 3:], image[:, :, :-3])
    assert (right[:, :, :3] == augment.FILL).all()
    up = affine(image, 1, 0, 0, 1, 0, 2)
    assert torch.equal(up[:, :-2], image[:, 2:])
    assert (up[:, -2:] == augment.FILL).all()
    assert torch.equal(rotate(image, 90), image.rot90(1, (1, 2)))
    assert torch.equal(rotate(image, 180), image.flip(1, 2))
    sheared = affine(image, 1, 0.5, 0, 1, 0, 0)
    assert torch.equal(sheared[:, 0, 2:], image[:, 0, :-2])  # the top row moves right by 1.75
    assert torch.equal(sheared[:, 7, :-2], image[:, 7, 2:])


def test_cutout_covers_a_quarter_and_less_at_the_border():
    image = torch.zeros(3, 16, 20, dtype=torch.uint8)
    hidden = cutout(image, 0.5, 0.5, [1, 2, 3])
    assert hidden[:, 4:12, 5:15].flatten(1).unique(dim=1).tolist() == [[1], [2], [3]]
    assert (hidden[0] != 0).sum() == 80
    assert not image.any()  # the image itself is untouched
    assert (cutout(image, 0.0, 0.0, [9, 9, 9])[0] != 0).sum() == 20
    assert (cutout(image, 0.999, 0.999, [9, 9, 9])[0] != 0).sum() == 30


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 16, 16), (3, 9, 14), (1, 1, 1), (3, 2, 2)])
def test_every_operation_keeps_shape_and_type(shape):
    image = torch.randint(0, 256, shape, dtype=torch.uint8)
    before = image.clone()
    for operation in OPERATIONS:
        for strength in (0.0, 0.5, 0.999):
            for side in (-1.0, 1.0):
                found = operation(image, strength, side)
                assert found.shape == shape
                assert found.dtype == torch.uint8
    for draws in draw_strong(50, 0):
        assert strong(image, draws).shape == shape
    assert torch.equal(image, before)


def test_all_operations_are_drawn_and_change_something():
    image = picture(height=32, width=32)
    assert len(OPERATIONS) == 14
    kept = [
        number for number, op in enumerate(OPERATIONS) if torch.equal(op(image, 0.9, 1.0), image)
    ]
    assert kept == [0]
    chosen = (draw_strong(500, 1)[:, 0] * 14).int()
    assert torch.bincount(chosen, minlength=14).min() > 15


def test_a_fifth_is_grey():
    image = torch.tensor([220, 120, 20]).byte().view(3, 1, 1).expand(3, 24, 24).contiguous()
    found = torch.stack([strong(image, draws) for draws in draw_strong(400, 2)])
    without_colour = (found.amax(1) == found.amin(1)).float().mean(dim=(1, 2))
    # Cutout hides at most a quarter of a grey image; filled borders are grey in any image.
    assert (without_colour >= 0.75).float().mean() == pytest.approx(0.2, abs=0.06)


def test_chance_is_reproducible_and_in_range():
    draws = draw_strong(7, 5)
    assert draws.shape == (7, DRAWS)
    assert 0 <= draws.min() < draws.max() < 1
    assert torch.equal(draws, draw_strong(7, 5))
    assert not torch.equal(draws, draw_strong(7, 6))
    assert len({strong(picture(height=16, width=16), row).numpy().tobytes() for row in draws}) == 7


def test_largest_draws_stay_in_range():
    almost = torch.full((DRAWS,), 1 - 2**-24)
    assert strong(picture(), almost).shape == (3, 24, 30)
    assert strong(picture(), torch.zeros(DRAWS)).shape == (3, 24, 30)
