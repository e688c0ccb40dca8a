"""Features of images: extracted once, cached by content, or written to a file."""

import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from PIL import Image
from tests.patience import PATIENCE

from plusone.data.dataset import Dataset
from plusone.data.feature_store import FeatureStore
from plusone.data.features import align, read_features
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.features import encoder, parts
from plusone.features.encoder import Encoder
from plusone.features.extraction import FeatureCache, extract_to_file, image_keys, key_of
from plusone.inputs.loader import ArrayInputs, FileInputs, SomeInputs
from plusone.models.backbones import backbone_for
from plusone.models.classifier import Classifier
from plusone.models.heads import LinearHead, SpatialHead


def make_model(seed=0, head=LinearHead):
    torch.manual_seed(seed)
    return Classifier(backbone_for("cnn").build(3, 16), head(48, 2)).eval()


@pytest.fixture
def inputs(tmp_path):
    rng = np.random.default_rng(0)
    paths = tuple(tmp_path / f"{number}.png" for number in range(3))
    for path in paths:
        Image.fromarray(rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(path)
    return FileInputs(paths, 16)


def test_a_second_training_takes_them_from_the_store(inputs, tmp_path):
    model, ticks, kept = make_model(), [], tmp_path / "kept"
    first = FeatureCache(ticks.append, kept).of(model, inputs)
    assert ticks == [3]
    again = FeatureCache(ticks.append, kept).of(model, inputs)
    assert ticks == [3]
    assert torch.equal(first.x, again.x)
    store, zero = FeatureStore(kept), np.zeros(48)  # shows that the file is really read
    store.put(key_of(model, inputs), dict.fromkeys(image_keys(inputs, store), zero))
    assert not FeatureCache(None, kept).of(model, inputs).x.any()


def test_a_photo_is_known_by_its_content_under_any_name(inputs, tmp_path):
    model, ticks, kept = make_model(), [], tmp_path / "kept"
    first = FeatureCache(ticks.append, kept).of(model, inputs).x
    moved = [path.rename(path.with_name(f"moved-{path.name}")) for path in inputs.paths]
    copy = shutil.copy(moved[0], tmp_path / "copy.png")
    again = FeatureCache(ticks.append, kept).of(model, FileInputs((*moved, copy), 16)).x
    assert torch.equal(again, first[[0, 1, 2, 0]])
    assert ticks == [3]
    Image.new("RGB", (9, 9)).save(moved[0])  # its old name does not count
    other = FeatureCache(ticks.append, kept).of(model, FileInputs((moved[0], copy), 16)).x
    assert torch.equal(other[1], first[0])
    assert not torch.equal(other[0], first[0])


def test_the_store_is_bounded_and_drops_the_oldest(tmp_path, monkeypatch):
    monkeypatch.setattr("plusone.data.feature_store.LARGEST", 200_000)
    store, names = FeatureStore(tmp_path), [str(number) for number in range(300)]
    for name in names:
        store.put("a", {name: np.full(256, float(name))})
    known = store.get("a", names)
    assert 0 < len(known) < 300
    assert "0" not in known
    assert known["299"].tolist() == [299.0] * 256
    assert store.file.stat().st_size < 300_000


def test_several_processes_share_a_store_and_a_killed_one_leaves_it_whole(tmp_path):
    code = """
import sys, numpy as np
from pathlib import Path
from plusone.data.feature_store import FeatureStore
store, own = FeatureStore(Path(sys.argv[1])), int(sys.argv[2])
print(flush=True)
for number in range(own, 4000, 2):
    store.put("a", {str(number): np.full(100, float(number))})
"""
    words = [sys.executable, "-c", code, str(tmp_path)]
    running = [
        subprocess.Popen([*words, str(own)], stdout=subprocess.PIPE, text=True) for own in (0, 1)
    ]
    try:
        for process in running:
            process.stdout.readline()
        store, names = FeatureStore(tmp_path), [str(number) for number in range(4000)]
        end = time.monotonic() + PATIENCE
        while len({int(name) % 2 for name in store.get("a", names)}) < 2 and time.monotonic() < end:
            time.sleep(0.02)
        running[0].kill()
        known = store.get("a", names)
        assert {int(name) % 2 for name in known} == {0, 1}
        assert all((x == float(name)).all() and len(x) == 100 for name, x in known.items())
    finally:
        for process in running:
            process.kill()
            process.communicate()


@pytest.mark.rounding
def test_only_new_and_changed_images_are_extracted(inputs, tmp_path):
    model, ticks, kept = make_model(), [], tmp_path / "kept"
    last = SomeInputs(inputs, torch.tensor([2]))
    first = FeatureCache(ticks.append, kept).of(model, last).x
    whole = FeatureCache(ticks.append, kept).of(model, inputs).x
    assert ticks == [1, 1, 2]  # the one that is there, then the new ones
    assert torch.equal(whole[2:], first)
    torch.testing.assert_close(whole, FeatureCache().of(model, inputs).x)
    Image.new("RGB", (9, 9)).save(inputs.paths[0])
    changed = FeatureCache(ticks.append, kept).of(model, inputs).x
    assert ticks == [1, 1, 2, 2, 1]
    assert torch.equal(changed[1:], whole[1:])  # read from the file
    assert not torch.equal(changed[0], whole[0])


@pytest.mark.rounding
def test_what_a_stopped_extraction_has_made_is_kept(inputs, tmp_path, monkeypatch):
    monkeypatch.setattr("plusone.features.extraction.PIECE", 1)
    model, ticks, kept = make_model(), [], tmp_path / "kept"

    def stop(done):
        ticks.append(done)
        if len(ticks) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FeatureCache(stop, kept).of(model, inputs)
    again = FeatureCache(ticks.append, kept).of(model, inputs).x
    assert ticks == [1, 1, 1, 2, 1]
    whole = FeatureCache(None, tmp_path / "whole").of(model, inputs).x
    torch.testing.assert_close(again, whole)  # batches of other sizes round differently


def test_in_one_training_they_are_extracted_once_until_forgotten(inputs):
    ticks = []
    features, model = FeatureCache(ticks.append), make_model()
    assert features.of(model, inputs) is features.of(model, inputs)
    features.clear()
    features.of(model, inputs)
    assert ticks == [3, 3]


def test_the_key_follows_everything_that_matters(inputs):
    base = key_of(make_model(), inputs)
    assert key_of(make_model(), inputs) == base
    assert key_of(make_model(seed=1), inputs) != base
    assert key_of(make_model(head=SpatialHead), inputs) != base
    assert key_of(make_model(), FileInputs(inputs.paths, 16, aspect="crop")) != base
    assert key_of(make_model(), FileInputs(inputs.paths[:2], 16)) == base  # images have their own
    assert len({*image_keys(inputs, FeatureStore(inputs.paths[0].parent))}) == 3


def test_images_in_memory_are_kept_by_their_bytes(tmp_path):
    x = torch.randint(0, 256, (5, 3, 16, 16), dtype=torch.uint8)
    model, ticks = make_model(), []
    first = FeatureCache(ticks.append, tmp_path / "kept").of(model, ArrayInputs(x))
    again = FeatureCache(ticks.append, tmp_path / "kept").of(model, ArrayInputs(x.clone()))
    assert torch.equal(first.x, again.x)
    assert ticks == [5]
    x[4, 2, 15, 15] ^= 1
    FeatureCache(ticks.append, tmp_path / "kept").of(model, ArrayInputs(x))
    assert ticks == [5, 4, 1]


@pytest.mark.parametrize("bad", [b"something else" * 100, "cut", "folder"])
def test_a_damaged_store_costs_time_only(inputs, tmp_path, bad):
    model, kept = make_model(), tmp_path / "kept"
    first = FeatureCache(None, kept).of(model, inputs)
    file = FeatureStore(kept).file
    good = file.read_bytes()
    file.unlink()
    if bad == "folder":
        file.mkdir()
    else:
        file.write_bytes(good[: len(good) // 2] if bad == "cut" else bad)
    for _ in range(2):
        assert torch.equal(first.x, FeatureCache(None, kept).of(model, inputs).x)
    if bad != "folder":
        ticks = []
        FeatureCache(ticks.append, kept).of(model, inputs)
        assert not ticks


@pytest.fixture
def dataset(pictures):
    names = [path.name for path in pictures]
    labels = LabelMatrix.from_dense(np.eye(len(names), 2, dtype=np.int8))
    return Dataset(
        LabelTable(np.array(names), ("a", "b"), labels, root=pictures[0].parent), None, "d"
    )


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(parts, "ITEMS_PER_PART", 4)
    monkeypatch.setattr(encoder, "BATCH", 2)


def run(dataset, path, **rest):
    return extract_to_file(dataset, path, "cnn", size=16, workers=0, **rest)


def test_the_file_holds_ids_and_features(dataset, tmp_path):
    progress = []
    result = run(dataset, tmp_path / "f.npz", on_progress=progress.append)
    assert result.to_json() == {
        "out": str(tmp_path / "f.npz"), "items": 7, "dim": 48, "backbone": "cnn", "size": 16,
        "data": "d",
    }  # fmt: skip
    assert progress == [2, 4, 6, 7]
    with np.load(tmp_path / "f.npz") as file:
        assert file["x"].shape == (7, 48)
        assert file["x"].dtype == np.float16
        assert file["ids"].tolist() == dataset.table.ids.tolist()
    assert not list(tmp_path.glob(".f.npz.*"))
    shuffled = dataset.table.take([3, 0, 6])
    read = read_features([tmp_path / "f.npz"])
    assert (align(read, shuffled) == read.x[[3, 0, 6]]).all()
    assert read.meta["backbone"] == "cnn"
    assert len(np.unique(read.x.astype(np.float32), axis=0)) == 7


@pytest.mark.parametrize("stop", [2, 4, 6, 7])
def test_a_stopped_extraction_goes_on(dataset, tmp_path, stop):
    def on_progress(done):
        if done == stop:
            raise KeyboardInterrupt

    run(dataset, tmp_path / "whole.npz")
    with pytest.raises(KeyboardInterrupt):
        run(dataset, tmp_path / "f.npz", on_progress=on_progress)
    assert not (tmp_path / "f.npz").exists()
    done = []
    run(dataset, tmp_path / "f.npz", on_progress=done.append)
    assert len(done) == {2: 4, 4: 2, 6: 2, 7: 0}[stop]
    assert (tmp_path / "f.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()


def test_the_file_and_training_share_the_store(dataset, tmp_path, monkeypatch):
    made = []
    computed = Encoder.__call__
    monkeypatch.setattr(
        Encoder, "__call__", lambda self, x: (made.append(len(x)), computed(self, x))[1]
    )
    run(dataset, tmp_path / "one.npz", folder=tmp_path)
    assert sum(made) == 7
    run(dataset, tmp_path / "two.npz", folder=tmp_path)
    assert sum(made) == 7
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    run(dataset, tmp_path / "without.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "without.npz").read_bytes()
    model = Encoder("cnn", 16).model
    paths = tuple(dataset.table.path(row) for row in range(7))
    ticks = []
    x = FeatureCache(ticks.append, tmp_path).of(model, FileInputs(paths, 16)).x
    assert not ticks
    torch.testing.assert_close(x, FeatureCache().of(model, FileInputs(paths, 16)).x)


def test_data_without_image_files_is_refused(feature_data, tmp_path):
    with pytest.raises(InputError, match="no image files"):
        run(feature_data(), tmp_path / "f.npz")


def test_a_changed_image_is_not_mixed_with_the_old_parts(dataset, pictures, tmp_path):
    def on_progress(done):
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(dataset, tmp_path / "f.npz", on_progress=on_progress)
    pictures[0].write_bytes(pictures[6].read_bytes())
    run(dataset, tmp_path / "f.npz")
    x = read_features([tmp_path / "f.npz"]).x
    assert (x[0] == x[6]).all()


def test_tokens_are_the_places_of_the_map(dataset, tmp_path):
    assert run(dataset, tmp_path / "t.npz", tokens=True).dim == 48
    tokens = read_features([tmp_path / "t.npz"]).x.astype(np.float32)
    assert tokens.shape == (7, 4, 48)
    run(dataset, tmp_path / "f.npz")
    pooled = read_features([tmp_path / "f.npz"]).x.astype(np.float32)
    np.testing.assert_allclose(tokens.mean(1), pooled, atol=2e-3)
