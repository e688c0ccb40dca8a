from pathlib import Path

import numpy as np
import pytest

from plusone.data import features as module
from plusone.data.features import align, read_features, write_features
from plusone.data.lazy import LazyArray
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.io.arrays import mapped_file, mapped_member

X = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float16)
IDS = [f"i{number:02d}" for number in range(50)]


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_stored_array_is_mapped(tmp_path: Path, order) -> None:
    path = tmp_path / "f.npz"
    np.savez(path, ids=IDS, x=np.asarray(X, order=order))
    found = mapped_member(path, "x", 1)
    assert isinstance(found, np.memmap)
    assert not found.flags.writeable
    assert np.array_equal(found, X)


def test_what_is_not_mapped(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    np.savez(path, x=X)
    assert mapped_member(path, "x", X.nbytes + 1000) is None
    assert mapped_member(path, "y", 1) is None
    np.savez_compressed(path, x=X)
    assert mapped_member(path, "x", 1) is None
    path.write_bytes(b"no zip")
    assert mapped_member(path, "x", 1) is None


def test_an_npy_file_needs_its_ids(tmp_path: Path) -> None:
    path = tmp_path / "f.npy"
    np.save(path, X)
    assert np.array_equal(mapped_file(path), X)
    with pytest.raises(InputError, match=r"f.npy: has no names for its rows; .*/f.ids.txt"):
        read_features([path])
    (tmp_path / "f.ids.txt").write_text("\n".join(IDS) + "\n")
    found = read_features([path])
    assert found.ids.tolist() == IDS
    assert np.array_equal(found.x, X)
    assert np.array_equal(read_features([tmp_path]).x, X)


def test_ids_end_at_line_ends_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", X[:2])
    odd = ["a\u2028b", "c\x0cd"]  # other ways to end a line, which an id may hold
    (tmp_path / "f.ids.txt").write_bytes(("\ufeff" + "\r\n".join(odd) + "\r\n").encode())
    assert read_features([tmp_path / "f.npy"]).ids.tolist() == odd


def test_ids_that_would_fill_the_memory_are_refused(tmp_path: Path, monkeypatch) -> None:
    np.save(tmp_path / "f.npy", X)
    (tmp_path / "f.ids.txt").write_text("\n".join([*IDS[:-1], 1000 * "x"]))
    monkeypatch.setattr("plusone.data.checks.NAMES", 4 * 50 * 999)
    with pytest.raises(InputError, match=r"f.ids.txt: 50 ids of which one has 1000 characters"):
        read_features([tmp_path / "f.npy"])


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"x", lambda b: b"nothing"])
def test_damaged_npy_files(tmp_path: Path, change) -> None:
    path = tmp_path / "f.npy"
    np.save(path, X)
    path.write_bytes(change(path.read_bytes()))
    (tmp_path / "f.ids.txt").write_text("\n".join(IDS))
    with pytest.raises(InputError, match=r"f.npy: is not a readable npy file"):
        read_features([path])


def test_pickled_objects_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.npy"
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="pickled"):
        mapped_file(path)


def test_large_files_are_aligned_without_reading_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_features(tmp_path / "a.npz", IDS[:20], X[:20], {"by": "me"})
    write_features(tmp_path / "b.npz", IDS[20:], X[20:], {"by": "me"})
    monkeypatch.setattr(module, "LARGE", 100)
    monkeypatch.setattr("plusone.data.lazy.LARGE", 100)
    found = read_features([tmp_path])
    assert isinstance(found.x, LazyArray)
    assert all(isinstance(piece, np.memmap) for piece in found.x.pieces)
    assert found.meta == {"by": "me"}
    order = np.random.default_rng(1).permutation(50)
    labels = LabelMatrix.from_lists([[0]] * 50, 1)
    aligned = align(found, LabelTable(np.array(IDS)[order], ("c",), labels))
    assert isinstance(aligned, LazyArray)
    assert aligned.pieces == found.x.pieces
    assert np.array_equal(aligned[:], X[order])
    assert align(found, LabelTable(np.array(IDS), ("c",), labels)) is found.x


def test_bad_numbers_are_found_in_mapped_files(tmp_path: Path, monkeypatch) -> None:
    bad = X.copy()
    bad[33, 2] = np.inf
    np.savez(tmp_path / "f.npz", x=bad, ids=IDS)
    monkeypatch.setattr(module, "LARGE", 100)
    with pytest.raises(InputError, match=r"f.npz, row 33: the features of 'i33' have a NaN"):
        read_features([tmp_path / "f.npz"])
