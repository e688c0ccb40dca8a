"""Features of image files, extracted once."""

import numpy as np
import pytest

from plusone.data.dataset import Dataset
from plusone.data.features import align, read_features
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.training import features
from plusone.training.features import extract_to_file


@pytest.fixture
def dataset(pictures):
    names = [path.name for path in pictures]
    labels = LabelMatrix.from_dense(np.eye(len(names), 2, dtype=np.int8))
    return Dataset(
        LabelTable(np.array(names), ("a", "b"), labels, root=pictures[0].parent), None, "d"
    )


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(features, "ITEMS_PER_PART", 4)
    monkeypatch.setattr(features, "BATCH", 2)


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
