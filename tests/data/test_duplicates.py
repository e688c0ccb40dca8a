"""Near duplicates: copies are found, by features and by images; groups keep them together."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageOps

from plusone.data import duplicates
from plusone.data.dataset import Dataset
from plusone.data.duplicates import find_duplicates, grouped, near_features, near_hashes
from plusone.data.formats import read, write
from plusone.data.matrix import LabelMatrix
from plusone.data.scenes import draw_scene
from plusone.data.table import LabelTable


def table(n, **rest):
    labels = LabelMatrix.from_dense(np.eye(3, dtype=np.int8)[np.arange(n) % 3])
    return LabelTable(np.array([f"{row:03d}" for row in range(n)]), ("a", "b", "c"), labels, **rest)


def all_pairs(pairs):
    return sorted(pair for part in pairs for pair in zip(*(p.tolist() for p in part), strict=True))


def some_features(copies, noise, seed=0):
    """200 vectors in clusters, and noisy copies of the first ones."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(20, 64))
    x = centres[rng.integers(20, size=200)] + rng.normal(size=(200, 64))
    return np.concatenate([x, x[:copies] + noise * rng.normal(size=(copies, 64))])


def test_noisy_copies_are_near_and_neighbours_of_a_cluster_are_not():
    found = all_pairs(near_features(some_features(30, 0.3)))
    assert found == [(row, 200 + row) for row in range(30)]
    tokens = np.repeat(some_features(30, 0.3)[:, None], 4, axis=1)
    assert all_pairs(near_features(tokens)) == found


def test_large_groups_of_copies_are_found_too():
    x = some_features(1, 0.0)
    many = x[:1] + 0.05 * np.random.default_rng(1).normal(size=(40, 64))
    assert len(all_pairs(near_features(np.concatenate([x[1:], many])))) >= 40 * 39 // 2
    assert all_pairs(near_features(x[:30])) == []  # too few to tell


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Forty scenes, and copies of some: the same, smaller, saved again and mirrored."""
    folder = tmp_path_factory.mktemp("scenes")
    scenes = [draw_scene(number)[0] for number in range(40)]
    for number, image in enumerate(scenes):
        image.save(folder / f"{number:02d}.jpg", quality=92)
    (folder / "1-same.jpg").write_bytes((folder / "01.jpg").read_bytes())  # it is rather plain
    scenes[3].resize((96, 72)).save(folder / "3-small.png")
    scenes[4].save(folder / "4-again.jpg", quality=50)
    ImageOps.mirror(scenes[5]).save(folder / "5-mirrored.png")
    Image.new("RGB", (64, 64), "white").save(folder / "white.png")
    Image.new("RGB", (64, 64), "black").save(folder / "black.png")
    names = sorted(path.name for path in folder.iterdir())
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image", "labels"), *((name, "x") for name in names)])
    return folder


COPIES = [["01.jpg", "1-same.jpg"], ["03.jpg", "3-small.png"], ["04.jpg", "4-again.jpg"]]
COPIES += [["05.jpg", "5-mirrored.png"]]


def test_copies_of_images_are_found_and_blank_ones_are_not(folder, tmp_path, monkeypatch):
    data, ticks = read(folder / "labels.csv"), []
    found = find_duplicates(data, tmp_path, ticks.append)
    assert found.by == "images"
    assert sorted(sorted(names) for names in found.examples(data.table)) == COPIES
    assert sum(ticks) == 2 * len(data.table)
    monkeypatch.setattr(duplicates, "_file_hash", None)  # they are kept
    again = find_duplicates(data, tmp_path)
    np.testing.assert_array_equal(again.number, found.number)


def test_images_in_memory(folder, tmp_path):
    data = read(folder / "labels.csv")
    pixels = [Image.open(folder / name).convert("RGB").resize((96, 72)) for name in data.table.ids]
    x = np.stack([np.asarray(image).transpose(2, 0, 1) for image in pixels])
    found = find_duplicates(Dataset(data.table, x), tmp_path)
    # Equal files count, images in memory that are as plain do not.
    assert sorted(sorted(names) for names in found.examples(data.table)) == COPIES[1:]


def test_pairs_become_groups_beside_those_that_are_known():
    def pairs():
        yield np.array([0, 1, 4]), np.array([1, 2, 5])
        yield np.array([8]), np.array([9])

    split = np.array(["train"] * 9 + ["test"])
    found = grouped(table(10, split=split), "features", pairs())
    assert [rows.tolist() for rows in found.groups] == [[0, 1, 2], [4, 5], [8, 9]]
    assert found.divided == 1
    assert found.sentence() == (
        "7 items in 3 groups of at most 3, by their features; 1 of these in several splits"
    )
    names = found.names(table(10))
    assert names.tolist() == ["000", "000", "000", "003", "004", "004", "006", "007", "008", "008"]
    # The pairs 0-1-2 are in a group already; 4 and 5 unite two groups.
    known = np.array(["A", "A", "A", "B", "B", "C", "C", "D", "E", "E"])
    found = grouped(table(10, groups=known), "features", pairs())
    assert [rows.tolist() for rows in found.groups] == [[3, 4, 5, 6]]
    assert found.names(table(10, groups=known)).tolist() == [*"AAABBBBDEE"]


def test_written_groups_are_read_again(tmp_path):
    some = table(6)
    found = grouped(some, "features", iter([(np.array([0]), np.array([3]))]))
    write(replace(some, groups=found.names(some)), tmp_path / "labels.csv")
    groups = read(tmp_path / "labels.csv").table.groups
    assert groups.tolist() == ["000", "001", "002", "000", "004", "005"]


def test_nothing_to_compare(tmp_path):
    assert find_duplicates(Dataset(table(5)), tmp_path) is None
    assert all_pairs(near_hashes(np.zeros((0, 2, 32), dtype=np.uint8))) == []
