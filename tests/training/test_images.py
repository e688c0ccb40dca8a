"""Decoding of image files."""

import numpy as np
import pytest
import torch
from PIL import Image

from plusone.data import images
from plusone.data.images import decode, decode_all
from plusone.errors import InputError

RED = (200, 30, 30)


def saved(tmp_path, name, image, **options):
    path = tmp_path / name
    image.save(path, **options)
    return path


def flat(path, size=6):
    """Mean of each channel."""
    pixels = decode(path, size)
    assert pixels.shape == (3, size, size)
    assert pixels.dtype == torch.uint8
    return pixels.float().mean(dim=(1, 2)).tolist()


def test_colours_of_every_mode(tmp_path):
    rgb = Image.new("RGB", (10, 8), RED)
    assert flat(saved(tmp_path, "a.png", rgb)) == pytest.approx(RED)
    assert flat(saved(tmp_path, "b.png", rgb.convert("RGBA"))) == pytest.approx(RED)
    assert flat(saved(tmp_path, "c.png", rgb.quantize(4))) == pytest.approx(RED, abs=1)
    assert flat(saved(tmp_path, "d.png", Image.new("L", (10, 8), 77))) == pytest.approx([77] * 3)
    cmyk = saved(tmp_path, "e.jpg", rgb.convert("CMYK"), quality=95)
    assert flat(cmyk) == pytest.approx(RED, abs=6)


def test_an_image_of_the_right_size_is_untouched(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    found = decode(saved(tmp_path, "a.png", Image.fromarray(pixels)), 6)
    assert found.permute(1, 2, 0).numpy().tolist() == pixels.tolist()


def test_the_cameras_orientation_is_applied(tmp_path):
    pixels = np.zeros((8, 8, 3), dtype=np.uint8)
    pixels[0] = 255  # a bright top row
    image = Image.fromarray(pixels)
    exif = image.getexif()
    exif[0x0112] = 6  # turn by 90 degrees to the right
    found = decode(saved(tmp_path, "a.png", image, exif=exif), 8)
    assert found[:, :, -1].float().mean() == 255
    assert found[:, :, :-1].float().mean() == 0


def test_bad_files_are_named(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    whole = saved(tmp_path, "whole.png", Image.fromarray(pixels)).read_bytes()
    for name, content in {
        "cut.png": whole[: len(whole) // 2],
        "text.jpg": b"this is not an image",
        "empty.png": b"",
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=f"{name}: cannot be read as an image"):
            decode(tmp_path / name, 8)
    jpeg = saved(tmp_path, "whole.jpg", Image.fromarray(pixels)).read_bytes()
    (tmp_path / "cut.jpg").write_bytes(jpeg[: len(jpeg) // 2])
    with pytest.raises(InputError, match=r"cut\.jpg: cannot be read"):
        decode(tmp_path / "cut.jpg", 8)
    with pytest.raises(InputError, match=r"absent\.png: cannot be read"):
        decode(tmp_path / "absent.png", 8)


def test_too_many_pixels_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "MAX_PIXELS", 50)
    with pytest.raises(InputError, match=r"a\.png: 10 x 8 pixels are more than the 50 allowed"):
        decode(saved(tmp_path, "a.png", Image.new("RGB", (10, 8))), 8)


def test_many_images_keep_their_order(pictures):
    ticks = []
    found = decode_all(pictures, 8, lambda: ticks.append(1))
    assert len(ticks) == len(pictures)
    for row, path in enumerate(pictures):
        assert torch.equal(found[row], decode(path, 8))
