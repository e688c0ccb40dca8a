"""How images become square, and decoded images that are kept on disk."""

import os

import numpy as np
import pytest
import torch
from PIL import Image

from plusone.data import images as image_cache
from plusone.data.images import cached_images, decode, decode_all, middle
from plusone.errors import InputError


def saved(path, height, width, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture
def files(tmp_path):
    return [saved(tmp_path / f"{n}.png", 20 + n, 31, n) for n in range(5)]


def test_the_square_in_the_middle():
    assert middle(375, 500, 224) == (23, 86, 351, 414)
    assert middle(500, 375, 448) == (86, 23, 414, 351)
    assert middle(1, 9, 16) == (0, 4, 1, 5)


@pytest.mark.parametrize(("height", "width"), [(60, 90), (90, 60), (64, 64), (3, 200)])
def test_a_crop_keeps_the_aspect_and_the_middle(tmp_path, height, width):
    path = saved(tmp_path / "a.png", height, width)
    found = decode(path, 28, "crop")
    assert found.shape == (3, 28, 28)
    left, top, right, bottom = middle(width, height, 28)
    assert right - left == bottom - top == round(min(height, width) * 28 / 32)
    assert abs((left + right) - width) <= 1
    assert abs((top + bottom) - height) <= 1
    shown = Image.open(path).crop((left, top, right, bottom))
    expected = np.array(shown.resize((28, 28), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert np.abs(found.numpy().astype(int) - expected).max() <= 1


def test_stretching_is_the_default(tmp_path):
    path = saved(tmp_path / "a.png", 30, 60)
    assert torch.equal(decode(path, 16), decode(path, 16, "stretch"))
    assert not torch.equal(decode(path, 16), decode(path, 16, "crop"))


@pytest.mark.parametrize("aspect", ["stretch", "crop"])
def test_the_cache_holds_what_decoding_gives(files, tmp_path, aspect):
    ticks = []
    first = cached_images(files, 16, tmp_path / "c", lambda: ticks.append(1), aspect)
    assert torch.equal(first, decode_all(files, 16, aspect=aspect))
    assert len(ticks) == 5
    again = cached_images(files, 16, tmp_path / "c", lambda: ticks.append(1), aspect)
    assert torch.equal(again, first)
    assert len(ticks) == 5
    assert len(list((tmp_path / "c").iterdir())) == 1
    again[0] = 0  # a tensor may be written to, the file must not be
    assert torch.equal(cached_images(files, 16, tmp_path / "c", None, aspect), first)


def test_whatever_changes_the_content_gives_another_file(files, tmp_path):
    folder = tmp_path / "c"
    cached_images(files, 16, folder)
    cached_images(files, 17, folder)
    cached_images(files, 16, folder, aspect="crop")
    cached_images(files[:4], 16, folder)
    cached_images(files[::-1], 16, folder)
    assert len(list(folder.iterdir())) == 5
    saved(files[2], 22, 31, seed=99)
    os.utime(files[2], ns=(1, 1))
    changed = cached_images(files, 16, folder)
    assert len(list(folder.iterdir())) == 6
    assert torch.equal(changed[2], decode(files[2], 16))


def test_a_bad_image_leaves_no_file(files, tmp_path):
    files[3].write_bytes(b"not an image")
    with pytest.raises(InputError, match=r"3\.png: cannot be read as an image"):
        cached_images(files, 16, tmp_path / "c")
    assert not list((tmp_path / "c").iterdir())
    files[3].unlink()
    with pytest.raises(InputError, match=r"3\.png: cannot be read as an image"):
        cached_images(files, 16, tmp_path / "c")


def test_folders_that_cannot_be_used(files, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"cache_dir .*0\.png: cannot be used"):
        cached_images(files, 16, files[0])
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr(image_cache.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(InputError, match=r"are needed and 0\.0 GB are free; choose another folder"):
        cached_images(files, 16, tmp_path / "c")
