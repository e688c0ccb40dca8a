"""maps: where a model looked."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

SMALL = ("-s", 'options={"width": 8, "heads": 2, "feedforward": 16}')


@pytest.fixture(scope="module")
def lac_run(cli, folder, tmp_path_factory):
    to = tmp_path_factory.mktemp("lac") / "run"
    answer = cli(
        "train", folder / "photos", "-m", "lac", "-o", to, "--epochs", 1,
        "--backbone", "cnn", "-s", "image_size=32", "-s", "workers=0", "--no-report", *SMALL,
    )  # fmt: skip
    assert answer.code == 0, answer.err
    return to


def test_maps_of_a_folder(cli, folder, lac_run, tmp_path):
    answer = cli(
        "analyse",
        "maps",
        lac_run,
        folder / "photos",
        "-o",
        tmp_path / "m",
        "--pictures",
        3,
        "--json",
    )
    assert answer.code == 0, answer.err
    assert answer.json == {"out": str(tmp_path / "m"), "items": 24, "pictures": 3}
    with np.load(tmp_path / "m" / "maps.npz", allow_pickle=False) as file:
        assert file["maps"].shape == (24, 3, 4, 4)
        assert file["probabilities"].shape == (24, 3)
        assert file["classes"].tolist() == ["blue", "green", "red"]
        assert file["ids"][0] == "blue/0.png"
        np.testing.assert_allclose(file["maps"].astype(float).sum((2, 3)), 1.0, atol=1e-2)
        found = file["probabilities"]
    pictures = sorted((tmp_path / "m").glob("*.png"))
    assert [path.name for path in pictures] == ["0000.png", "0001.png", "0002.png"]
    with Image.open(pictures[0]) as picture:
        assert picture.width > 3 * picture.height
    told = cli("predict", lac_run, folder / "photos", "--json").json["items"]
    expected = [list(item["probabilities"].values()) for item in told]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_methods_without_maps_say_so(bad, folder, photo_run, tmp_path):
    err = bad("analyse", "maps", photo_run, folder / "photos", "-o", tmp_path).err
    assert "has no maps; those of en_scl, lac, mime and ignore have" in err
    assert not list(tmp_path.glob("*.npz"))
