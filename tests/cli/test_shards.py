"""Every command on images in shards: inspect, train, predict, suggest, review."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from plusone.reviewing.opening import open_new_items, open_suggestions

pytestmark = pytest.mark.slow

NAMES = ["red", "green", "blue"]
SETTINGS = ("--backbone", "cnn", "-s", "image_size=16", "-s", "workers=2", "--no-report")


def pictures(count: int) -> list[Image.Image]:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 60, (count, 20, 24, 3), dtype=np.uint8)
    for number, image in enumerate(images):
        image[..., number % 3] += 180
    return [Image.fromarray(image) for image in images]


def webdataset_shards(to: Path) -> Path:
    """Tar files, named by a pattern."""
    wds = pytest.importorskip("webdataset")
    to.mkdir()
    with wds.ShardWriter(str(to / "x-%06d.tar"), maxcount=7, verbose=0) as writer:
        for number, image in enumerate(pictures(21)):
            writer.write({"__key__": f"{number:04d}", "png": image, "cls": number % 3})
    return to / "x-{000000..000002}.tar"


def huggingface_set(to: Path):
    datasets = pytest.importorskip("datasets")
    features = {"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)}
    cells = {"image": pictures(21), "label": [number % 3 for number in range(21)]}
    return datasets.Dataset.from_dict(cells, features=datasets.Features(features))


def saved_to_disk(to: Path) -> Path:
    """A folder that `save_to_disk` wrote."""
    huggingface_set(to).save_to_disk(to, num_shards=3)
    return to


def parquet_of_the_hub(to: Path) -> Path:
    """A folder with parquet files."""
    (to / "data").mkdir(parents=True)
    data = huggingface_set(to)
    for number in range(3):
        part = data.shard(3, number, contiguous=True)
        part.to_parquet(to / "data" / f"train-{number:05d}-of-00003.parquet", batch_size=4)
    return to


@pytest.mark.parametrize("make", [webdataset_shards, saved_to_disk, parquet_of_the_hub])
def test_from_inspect_to_review(cli, tmp_path, make):
    data, run = make(tmp_path / "set"), tmp_path / "run"
    answer = cli("inspect", data, "--json")
    assert answer.code == 0, answer.err
    assert (answer.json["items"], answer.json["classes"], answer.json["images"]) == (21, 3, True)
    answer = cli("train", data, "--epochs", 1, "--out", run, *SETTINGS)
    assert answer.code == 0, answer.err
    answer = cli("predict", run, data, "--json", "--gallery", tmp_path / "page.html")
    assert answer.code == 0, answer.err
    assert (tmp_path / "page.html").read_text().count("data:image/") == 21
    answer = cli("predict", run, data, "--copy-to", tmp_path / "sorted")
    assert answer.code == 2
    assert "its photos are inside of other files" in " ".join(answer.err.split())
    answer = cli("suggest", run, "--out", tmp_path / "s", "--linear", "--json")
    assert answer.code == 0, answer.err
    desk = open_suggestions(tmp_path / "s")
    content, kind = desk.pictures.get(4, "small")
    desk.store.close()
    assert kind == "image/png"
    shown = np.asarray(Image.open(io.BytesIO(content)))
    assert (shown == np.asarray(pictures(5)[4])).all()


def test_new_items_in_a_tar_file_are_labelled(tmp_path):
    source = webdataset_shards(tmp_path / "set")
    (tmp_path / "names.txt").write_text("red\nblue\n")
    desk = open_new_items(source, tmp_path / "names.txt", database=tmp_path / "answers.sqlite")
    assert desk.pictures.get(20, "small") is not None
    assert desk.pictures.get(21, "small") is None
    desk.store.close()


def test_features_in_shards(cli, folder, tmp_path):
    """A folder of npy files in the order of the labels, and one of parquet files with ids."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    with np.load(folder / "x.npz") as file:
        x, ids = file["x"], file["ids"]
    for number, rows in enumerate(np.array_split(np.arange(len(x)), 3)):
        vectors = pa.array(x[rows].astype(np.float32).tolist(), pa.list_(pa.float32()))
        table = pa.table({"id": pa.array(ids[rows].tolist()), "vector": vectors})
        pq.write_table(table, tmp_path / f"x-{number}.parquet")
        np.save(tmp_path / f"x-{number}.npy", x[rows])
    (tmp_path / "ids.txt").write_text("".join(f"{name}\n" for name in ids.tolist()))
    found = []
    for number, source in enumerate(("x-{0..2}.npy", "x-*.parquet")):
        data = (folder / "labels.csv", "-x", tmp_path / source, "--epochs", 2, "--no-report")
        answer = cli("train", *data, "--out", tmp_path / str(number), "--json")
        assert answer.code == 0, answer.err
        answer = cli("predict", tmp_path / str(number), tmp_path / source)
        assert answer.code == 0, answer.err
        found.append(answer.out)
    assert found[0] == found[1]
    assert found[0].count("item") >= len(x)
