from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from plusone.data.example import example_table, write_example
from plusone.data.formats import read
from plusone.data.scenes import CLASSES, draw_scenes
from plusone.data.source import load_source
from plusone.errors import InputError


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "example"
    write_example(folder, 200, audited=20, new=5)
    return folder


def test_folder_and_table_say_the_same(example: Path) -> None:
    photos, labels = read(example / "photos").table, read(example / "labels.csv").table
    assert len(photos) == len(labels) == 200
    assert photos.truth is None
    assert photos.classes == labels.classes
    assert [f"photos/{name}" for name in photos.ids] == sorted(labels.ids.tolist())
    assert (photos.labels.per_item(1) == 1).all()


def test_embeddings_belong_to_the_table(example: Path) -> None:
    dataset = load_source(str(example / "labels.csv"), features=[example / "embeddings.npz"])
    assert dataset.features is not None
    assert dataset.features.shape == (200, 1024)


def test_the_audit_agrees_with_the_tags(example: Path) -> None:
    photos = read(example / "photos").table
    audit = read(example / "audit.csv", check_images=False).table
    assert len(audit) == 20
    assert audit.is_complete
    rows = {name: row for row, name in enumerate(photos.ids.tolist())}
    for row, name in enumerate(audit.ids.tolist()):
        (seen,) = photos.labels.positives(rows[name])
        all_of_it = {audit.classes[label] for label in audit.labels.positives(row)}
        assert photos.classes[seen] in all_of_it
    assert audit.labels.per_item(1).mean() > 1.5


def test_new_pictures_have_their_labels_apart(example: Path) -> None:
    table = read(example / "test.csv").table
    assert len(table) == 5
    assert np.asarray(Image.open(table.path(0))).shape == (144, 192, 3)


def test_scenes_show_what_their_labels_say_and_large_things_are_named() -> None:
    files, shares = draw_scenes(0, 400)
    assert draw_scenes.__wrapped__(7, 1)[0][0] == files[7]
    shown = shares > 0
    assert 2 < shown.sum(axis=1).mean() < 4
    assert shown.any(axis=1).all()
    assert (shown.mean(axis=0) > 0.1).all()
    table, _ = example_table(400, 1, 0, Path())
    order = np.argsort(CLASSES)
    tag = table.labels.dense()[:400].argmax(axis=1)
    named = shares[:, order][np.arange(400), tag]
    assert (named > 0).all()
    several = shown.sum(axis=1) > 1
    assert named[several].mean() > 1.3 * shares[several].sum() / shown[several].sum()


def test_nothing_is_overwritten(example: Path) -> None:
    with pytest.raises(InputError, match="exists already"):
        write_example(example, 60, audited=20, new=5)
    with pytest.raises(InputError, match="between 1 and 10000"):
        write_example(example.with_name("more"), 10_001)
    assert sorted(path.name for path in example.parent.iterdir()) == ["example"]
