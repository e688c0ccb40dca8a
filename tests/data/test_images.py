"""Image files: what their pixels are, how they become square, and what is kept on disk."""

import base64
import io
import os
import tracemalloc

import numpy as np
import pytest
import torch
from PIL import Image

from plusone.data import images
from plusone.data.dataset import Dataset
from plusone.data.images import cached_images, decode, decode_all, middle, open_image
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.report.thumbnails import thumbnails
from plusone.reviewing.pictures import Pictures

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


def seen_by_all(path):
    """The pixels of a file in training, in the report and on the review page, each `[3, H, W]`."""
    table = LabelTable(
        np.array([path.name]), ("a",), LabelMatrix.from_dense([[1]]), root=path.parent
    )
    report = thumbnails(Dataset(table), [path.name])[path.name]
    review, _ = Pictures(path.parent, [path.name]).get(0, "large")
    shown = [base64.b64decode(report.partition(",")[2]), review]
    pages = [np.array(Image.open(io.BytesIO(one)).convert("RGB")) for one in shown]
    return [decode(path, 64).numpy(), *(page.transpose(2, 0, 1) for page in pages)]


GREY = np.linspace(2000, 40000, 64 * 64).reshape(64, 64)


@pytest.mark.parametrize(
    ("name", "image", "levels"),
    [
        ("deep.png", Image.fromarray(GREY.astype(np.uint16)), (8, 156)),
        ("deep.tif", Image.fromarray(GREY.astype(np.uint16)), (8, 156)),
        ("dark.png", Image.fromarray((GREY / 200).astype(np.uint16)), (0, 1)),  # still of 65,535
        ("whole.tif", Image.fromarray(GREY.astype(np.int32)), (8, 156)),
        ("float.tif", Image.fromarray((GREY / 40000).astype(np.float32)), (13, 255)),
        ("palette.png", Image.fromarray((GREY / 257).astype(np.uint8)).convert("P"), (7, 155)),
        ("alpha.png", Image.fromarray((GREY / 257).astype(np.uint8)).convert("LA"), (7, 155)),
    ],
)
def test_a_person_sees_what_the_model_sees(tmp_path, name, image, levels):
    model, *pages = seen_by_all(saved(tmp_path, name, image))
    assert (model.min(), model.max()) == levels
    for page in pages:
        assert page.tolist() == model.tolist()


@pytest.mark.parametrize(
    ("name", "dtype", "highest"),
    [("a.png", np.uint16, 65_535), ("a.tif", np.uint16, 300), ("b.tif", ">u2", 65_535),
     ("a.tif", np.int32, 255), ("b.tif", np.int32, 99_999), ("a.tif", np.float32, 1),
     ("b.tif", np.float32, 255), ("c.tif", np.float32, 1e38)],
)  # fmt: skip
def test_deep_images_are_scaled_a_strip_at_a_time(tmp_path, monkeypatch, name, dtype, highest):
    monkeypatch.setattr(images, "STRIP", 20_000)
    values = np.random.default_rng(0).uniform(0, highest, (1001, 700)).astype(dtype)
    values[-1, -1] = highest
    if values.dtype.kind == "f":
        values[5, :2] = np.nan, -7
    path = saved(tmp_path, name, Image.fromarray(values))
    scale = 255 if values.dtype.kind == "f" and highest == 1 else 1
    scale = 1 / 257 if highest > 255 or values.dtype.kind == "u" else scale
    expected = (np.nan_to_num(values.astype(np.float64)) * scale).clip(0, 255).round()
    tracemalloc.start()
    found = open_image(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.array_equal(np.array(found)[:, :, 1], expected)
    assert peak < 5 * values.size  # bytes; all at once took 25 and more


def test_a_jpeg_is_decoded_smaller_where_that_is_enough(tmp_path):
    path = saved(tmp_path, "a.jpg", Image.new("RGB", (800, 400), RED))
    assert open_image(path).size == (800, 400)
    assert open_image(path, at_least=100).size == (200, 100)


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


def noise(path, height, width, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture
def files(tmp_path):
    return [noise(tmp_path / f"{n}.png", 20 + n, 31, n) for n in range(5)]


def test_the_square_in_the_middle():
    assert middle(375, 500, 224) == (23, 86, 351, 414)
    assert middle(500, 375, 448) == (86, 23, 414, 351)
    assert middle(1, 9, 16) == (0, 4, 1, 5)


@pytest.mark.parametrize(("height", "width"), [(60, 90), (90, 60), (64, 64), (3, 200)])
def test_a_crop_keeps_the_aspect_and_the_middle(tmp_path, height, width):
    path = noise(tmp_path / "a.png", height, width)
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
    path = noise(tmp_path / "a.png", 30, 60)
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
    noise(files[2], 22, 31, seed=99)
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
    monkeypatch.setattr(images.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(InputError, match=r"are needed and 0\.0 GB are free; choose another folder"):
        cached_images(files, 16, tmp_path / "c")


def test_many_images_keep_their_order(files):
    ticks = []
    stacked = decode_all(files, 8, lambda: ticks.append(1))
    assert len(ticks) == len(files)
    for row, path in enumerate(files):
        assert torch.equal(stacked[row], decode(path, 8))
