"""Image files as they are found in the wild: what becomes of each."""

from __future__ import annotations

import os
import resource
import struct
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from plusone.compare.jobs import Job, run_job
from plusone.data.broken import find_faults
from plusone.data.images import decode, fault
from plusone.data.source import Source
from plusone.errors import InputError
from plusone.io.readers import MAX_PIXELS
from plusone.recipe import make_recipe

from .conftest import SMALL

LEFT, RIGHT = (200, 30, 30), (30, 30, 200)


def picture(width=60, height=40):
    """Red on the left, blue on the right, a green bar at the top."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[:, : width // 2], pixels[:, width // 2 :] = LEFT, RIGHT
    pixels[: height // 4] = (30, 200, 30)
    return Image.fromarray(pixels)


def png(width, height, data=b""):
    """The bytes of a PNG whose header may promise anything."""

    def chunk(kind, content):
        return (
            struct.pack(">I", len(content))
            + kind
            + content
            + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(data)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def damage(kind, path):
    """Makes a bad file; returns part of what must be said of it."""
    if kind == "truncated jpg":
        noise = np.random.default_rng(0).integers(0, 255, (40, 60, 3), dtype=np.uint8)
        Image.fromarray(noise).save(path, "JPEG")
        path.write_bytes(path.read_bytes()[:-400])
        return "truncated"
    if kind == "truncated png":
        path.write_bytes(png(60, 40, b"\0" * (181 * 40))[:-30])
        return "truncated"
    if kind == "empty":
        path.write_bytes(b"")
        return "the file is empty"
    if kind == "huge":
        path.write_bytes(png(30_000, 30_000, b"\0" * 1000))
        return f"more than the {MAX_PIXELS:,} pixels allowed"
    if kind == "text":
        path.write_text("hello")
        return "it is of no known kind"
    if kind == "folder":
        path.mkdir()
        return "it is not a file"
    if kind == "pipe":
        os.mkfifo(path)
        return "it is not a file"
    if kind == "loop":
        path.symlink_to(path.name)
        return "symbolic links"
    assert kind == "missing"
    return "No such file"


BAD = ("truncated jpg", "truncated png", "empty", "huge", "text", "folder", "pipe", "loop")


@pytest.mark.parametrize("kind", [*BAD, "missing"])
def test_bad_files_are_named_with_a_reason(tmp_path, kind):
    path = tmp_path / "a.jpg"
    reason = damage(kind, path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError) as caught:
        decode(path, 16)
    text = str(caught.value)
    assert text.startswith(f"{path}: cannot be read as an image (")
    assert reason in text
    assert reason in (fault(path) or "")
    # 900 million pixels were not made room for (kilobytes)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def columns(pixels):
    """Mean colour of the left and the right half, of the lower part."""
    lower = pixels[:, pixels.shape[1] // 2 :].float()
    side = lower.shape[-1] // 2
    return lower[..., :side].mean(dim=(1, 2)), lower[..., side:].mean(dim=(1, 2))


def is_upright(pixels):
    left, right = columns(pixels)
    top = pixels[:, 0].float().mean(dim=1)
    return bool(left[0] > 2 * left[2] and right[2] > 2 * right[0] and top[1] > 2 * top[0])


def save_cmyk(path):
    picture().convert("CMYK").save(path, "JPEG")


def save_palette(path):
    picture().convert("P", palette=Image.Palette.ADAPTIVE).save(path, "PNG", transparency=0)


def save_alpha(path):
    picture().convert("RGBA").save(path, "PNG")


def save_animation(kind, **more):
    def save(path):
        later = [Image.new("RGB", (60, 40), (255, 255, 255)) for _ in range(2)]
        picture().save(path, kind, save_all=True, append_images=later, **more)

    return save


GOOD = {
    "plain": lambda path: picture().save(path, "JPEG"),
    "CMYK": save_cmyk,
    "palette with transparency": save_palette,
    "alpha": save_alpha,
    "animated GIF": save_animation("GIF"),
    "animated WebP": save_animation("WEBP", lossless=True),
    "animated PNG": save_animation("PNG"),
}


@pytest.mark.parametrize("kind", GOOD)
def test_unusual_files_become_upright_rgb(tmp_path, kind):
    GOOD[kind](tmp_path / "a")
    pixels = decode(tmp_path / "a", 16)
    assert pixels.shape == (3, 16, 16)
    assert is_upright(pixels)
    assert fault(tmp_path / "a") is None


@pytest.mark.parametrize("orientation", range(1, 9))
def test_cameras_held_in_any_way(tmp_path, orientation):
    undo = {
        2: (Image.Transpose.FLIP_LEFT_RIGHT,),
        3: (Image.Transpose.ROTATE_180,),
        4: (Image.Transpose.FLIP_TOP_BOTTOM,),
        5: (Image.Transpose.TRANSPOSE,),
        6: (Image.Transpose.ROTATE_90,),  # the viewer turns it clockwise by 90 degrees
        7: (Image.Transpose.TRANSVERSE,),
        8: (Image.Transpose.ROTATE_270,),
    }
    stored = picture()
    for step in undo.get(orientation, ()):
        stored = stored.transpose(step)
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / "a.jpg", exif=exif, quality=95)
    assert is_upright(decode(tmp_path / "a.jpg", 16))


def test_camera_notes_that_make_no_sense_are_passed_over(tmp_path):
    picture().save(tmp_path / "a.jpg", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\x01\x12")
    assert is_upright(decode(tmp_path / "a.jpg", 16))


def test_sixteen_bits_floats_and_a_single_pixel(tmp_path):
    ramp = np.linspace(0, 1, 64 * 64).reshape(64, 64)
    Image.fromarray((ramp * 65535).astype(np.uint16)).save(tmp_path / "deep.png")
    Image.fromarray(ramp.astype(np.float32)).save(tmp_path / "float.tif")
    for name in ("deep.png", "float.tif"):
        pixels = decode(tmp_path / name, 64).float()
        assert pixels[:, 0].mean() < 10
        assert pixels[:, -1].mean() > 245
    picture().crop((0, 20, 1, 21)).save(tmp_path / "one.png")
    assert decode(tmp_path / "one.png", 16)[:, 3, 3].tolist() == list(LEFT)


def test_a_run_leaves_bad_images_out_and_names_them(cli, photos, tmp_path):
    damage("truncated png", photos / "red" / "0.png")
    damage("huge", photos / "blue" / "3.png")
    run = tmp_path / "run"
    answer = cli("train", photos, "--out", run, "--epochs", 2, *SMALL)
    assert answer.code == 0, answer.err
    sentence = "2 items left out, as they cannot be read as images: blue/3.png, red/0.png"
    assert sentence in answer.err
    assert sum(answer.json["items"].values()) == 22
    lines = (run / "broken.csv").read_text().splitlines()
    assert lines[0] == "image,reason"
    assert [line.partition(",")[0] for line in lines[1:]] == ["blue/3.png", "red/0.png"]

    # as if the rows were not there
    for name in ("red/0.png", "blue/3.png"):
        (photos / name).unlink()
    same = cli("train", photos, "--out", tmp_path / "same", "--epochs", 2, *SMALL)
    assert same.json["val_map"] == answer.json["val_map"]
    weights = [folder / "model.safetensors" for folder in (run, tmp_path / "same")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_what_is_known_of_files_is_kept_until_they_change(cli, photos, tmp_path):
    damage("empty", photos / "red" / "0.png")
    first = cli("inspect", photos, "--json").json
    assert first["items"] == 23
    assert [one["id"] for one in first["broken"]] == ["red/0.png"]
    (kept,) = (tmp_path / "cache" / "checked").iterdir()
    kept.write_text('{"5": "was told so"}')
    told = cli("inspect", photos, "--no-duplicates", "--json").json  # which would open the file
    assert told["broken"][0]["reason"] == "was told so"
    kept.write_text("nonsense")
    assert cli("inspect", photos, "--json").json == first
    picture().save(photos / "red" / "0.png")
    assert cli("inspect", photos, "--json").json["broken"] == []


@pytest.mark.parametrize("command", ["train", "features", "inspect"])
def test_too_many_bad_images_stop_before_any_work(cli, photos, tmp_path, command):
    for number in range(4):
        damage("text", photos / "red" / f"{number}.png")
    to = () if command == "inspect" else ("--out", tmp_path / "to" / "x")
    answer = cli(command, photos, *to)
    assert answer.code == 2
    assert "red/0.png: cannot be read as an image (it is of no known kind)" in answer.sentence
    first = answer.sentence.splitlines()[1]  # however many follow
    assert first == "photos: 4 of 24 images cannot be read; too many to go on"
    assert not (tmp_path / "to").exists()


def test_features_without_the_bad_images_train_with_the_same_labels(cli, photos, tmp_path):
    damage("empty", photos / "green" / "7.png")
    made = cli("features", photos, "--backbone", "cnn", "--size", 16, "--workers", 0,
               "-o", tmp_path / "x.npz", "--json")  # fmt: skip
    assert made.code == 0, made.err
    assert (made.json["items"], list(made.json["broken"])) == (23, ["green/7.png"])
    trained = cli("train", photos, "-x", tmp_path / "x.npz", "-o", tmp_path / "run",
                  "--epochs", 2, "--json")  # fmt: skip
    assert trained.code == 0, trained.err
    assert "left out, as it cannot be read as an image: green/7.png" in trained.err
    assert sum(trained.json["items"].values()) == 23
    assert trained.json["broken"] == 1


def test_suggest_and_predict_go_on_too(cli, photos, tmp_path):
    damage("text", photos / "red" / "2.png")
    run = tmp_path / "run"
    assert cli("train", photos, "--out", run, "--epochs", 1, *SMALL).code == 0
    found = cli("suggest", run, "--folds", 2, "--out", tmp_path / "s", "--json")
    assert found.code == 0, found.err
    assert found.json["broken"] == 1
    assert "red/2.png" in (tmp_path / "s" / "broken.csv").read_text()
    for form in ("auto", "folders"):  # files, and a data set
        tags = cli("predict", run, photos, "--format", form, "--json")
        assert tags.code == 0
        assert [one["id"] for one in tags.json["skipped"]] == ["red/2.png"]
    measured = cli("evaluate", run, "--split", "all", "--json")
    assert measured.json["items"] == 23


def test_bench_notes_how_many_are_left_out(photos):
    damage("text", photos / "red" / "2.png")
    settings = {"epochs": 1, "backbone": "cnn", "image_size": 16, "mode": "finetune"}
    result = run_job(Job(Source(str(photos)), make_recipe(settings)))
    assert result.broken == 1
    assert sum(result.items.values()) == 23


def test_an_image_that_goes_bad_after_training_draws_no_other_validation_items(
    cli, photos, tmp_path
):
    run = tmp_path / "run"
    assert cli("train", photos, "--out", run, "--epochs", 1, *SMALL).code == 0
    before = cli("evaluate", run, "--split", "val", "--json").json
    with np.load(run / "observed.npz") as seen:
        first = seen["ids"][seen["split"] == "train"][0]
    damage("text", photos / str(first))
    after = cli("evaluate", run, "--split", "val", "--json").json
    assert after.pop("broken") == 1
    assert after == before
    trained = cli("evaluate", run, "--split", "train", "--json").json
    assert trained["items"] == 24 - before["items"] - 1


def test_of_two_that_ask_at_once_one_looks(photos, monkeypatch):
    damage("empty", photos / "red" / "2.png")
    paths, looked = sorted(photos.rglob("*.png")), []

    def slowly(path):
        looked.append(path)
        time.sleep(0.01)
        return fault(path)

    monkeypatch.setattr("plusone.data.broken.fault", slowly)
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(find_faults, [paths, paths])
    assert list(one) == [paths.index(photos / "red" / "2.png")]
    assert one == other
    assert sorted(looked) == paths
    cache = Path(os.environ["PLUSONE_CACHE"])
    assert [path.suffix for path in (cache / "checked").iterdir()] == [".json"]
