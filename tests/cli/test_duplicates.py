"""`plusone inspect` finds near duplicates and writes groups that `plusone train` keeps together."""

import csv

import numpy as np
import pytest
from PIL import ImageOps

from plusone.data.formats import read
from plusone.data.scenes import draw_scene


@pytest.fixture
def photos(tmp_path):
    """Twelve photos in two folders, two of them twice: saved again, and mirrored."""
    for number, scene in enumerate((3, 4, 5, 8, 10, 11, 14, 16, 17, 26, 28, 29)):
        folder = tmp_path / "photos" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        image = draw_scene(scene)[0]
        image.save(folder / f"{number:02d}.png")
        if number == 0:
            image.save(folder / "again.jpg", quality=60)
        if number == 1:
            ImageOps.mirror(image).save(folder / "turned.png")
    return tmp_path / "photos"


def test_photos_that_show_the_same_become_groups(cli, photos, tmp_path):
    answer = cli("inspect", photos)
    text = " ".join(answer.err.split())
    assert "near duplicates: 4 items in 2 groups of at most 2, by their images" in text
    assert "a/00.png, a/again.jpg" in text
    assert "--write-groups FILE writes the labels with groups" in text
    out = tmp_path / "grouped.csv"
    found = cli("inspect", photos, "--write-groups", out, "--json").json["duplicates"]
    assert found == {
        "by": "images", "items": 4, "groups": 2, "largest": 2, "in_several_splits": 0,
        "examples": [["a/00.png", "a/again.jpg"], ["b/01.png", "b/turned.png"]],
    }  # fmt: skip
    table = read(out).table
    group = dict(zip(table.ids.tolist(), table.groups.tolist(), strict=True))
    assert group["a/again.jpg"] == group["a/00.png"]
    assert len({*group.values()}) == 12
    # What was found is in groups now.
    again = cli("inspect", out, "--json").json
    assert (again["groups"], again["duplicates"]["groups"]) == (12, 0)


def test_features_and_what_is_refused(cli, photos, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 32)).astype(np.float32)
    x[70:] = x[:10] + 0.02
    ids = [f"{row}" for row in range(80)]
    np.savez(tmp_path / "x.npz", x=x, ids=np.array(ids))
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        rows = ((name, "ab"[row % 2]) for row, name in enumerate(ids))
        csv.writer(file).writerows([("image", "labels"), *rows])
    some = (tmp_path / "labels.csv", "-x", tmp_path / "x.npz")
    found = cli("inspect", *some, "--json").json["duplicates"]
    assert (found["by"], found["items"], found["groups"]) == ("features", 20, 10)
    assert "duplicates" not in cli("inspect", *some, "--no-duplicates", "--json").json
    (tmp_path / "there.csv").write_text("mine")
    for name, reason in (("there.csv", "exists already"), ("x.txt", "the suffix must be")):
        answer = cli("inspect", *some, "--write-groups", tmp_path / name)
        assert answer.code == 2
        assert reason in " ".join(answer.err.split())
    assert (tmp_path / "there.csv").read_text() == "mine"
    answer = cli("inspect", tmp_path / "labels.csv", "--write-groups", tmp_path / "new.csv")
    assert answer.code == 2
    assert "nothing to find near duplicates by" in " ".join(answer.err.split())
    assert not (tmp_path / "new.csv").exists()
