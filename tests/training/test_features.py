"""Features of images: extracted once, cached by content, or written to a file."""

import numpy as np
import pytest
import torch
from PIL import Image

from plusone.data.dataset import Dataset
from plusone.data.features import align, read_features
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.features import encoder, parts
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


def test_a_second_training_takes_them_from_the_file(inputs, tmp_path):
    model, ticks = make_model(), []
    first = FeatureCache(ticks.append, tmp_path / "kept").of(model, inputs)
    assert ticks == [3]
    (kept,) = (tmp_path / "kept").iterdir()
    again = FeatureCache(ticks.append, tmp_path / "kept").of(model, inputs)
    assert ticks == [3]
    assert torch.equal(first.x, again.x)
    stored = dict(np.load(kept))
    with kept.open("wb") as file:  # shows that the file is really read
        np.savez(file, ids=stored["ids"], x=0 * stored["x"])
    assert not FeatureCache(None, tmp_path / "kept").of(model, inputs).x.any()


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
    assert len(list(kept.iterdir())) == 2  # the third was made, but not written
    again = FeatureCache(ticks.append, kept).of(model, inputs).x
    assert ticks == [1, 1, 1, 2, 1]
    whole = FeatureCache(None, tmp_path / "whole").of(model, inputs).x
    torch.testing.assert_close(again, whole)  # batches of other sizes round differently
    assert len(list((tmp_path / "whole").iterdir())) == 1  # its pieces are one file at the end


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
    assert len({*image_keys(inputs)}) == 3


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


def test_a_damaged_file_is_made_anew(inputs, tmp_path):
    model = make_model()
    first = FeatureCache(None, tmp_path / "kept").of(model, inputs)
    (kept,) = (tmp_path / "kept").iterdir()
    good = kept.read_bytes()
    for bad in (b"", good[:40], b"something else"):
        kept.write_bytes(bad)
        again = FeatureCache(None, tmp_path / "kept").of(model, inputs)
        assert torch.equal(first.x, again.x)
        assert kept.read_bytes() == good


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
