"""Content keys: as existing folders have them, whatever holds the numbers."""

from __future__ import annotations

import hashlib

import numpy as np
import torch

from plusone.data.lazy import LazyArray
from plusone.data.matrix import LabelMatrix
from plusone.io import keys
from plusone.io.keys import content_key, file_key, file_sample, file_state


def test_the_keys_of_existing_folders(tmp_path):
    parts = ("0.1", None, [1, (2.5, "a")])
    assert content_key(parts) == hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    assert content_key("a\nb", b"c", length=64) == hashlib.sha256(b"a\nbc").hexdigest()
    assert LabelMatrix.from_dense([[1, 0, -1], [0, 1, 0]]).digest() == "cbef44a688d0d614"
    (tmp_path / "a").write_bytes(b"abc")
    assert file_key(tmp_path / "a") == content_key("abc")


def test_arrays_count_by_their_values_wherever_they_are(monkeypatch):
    x = np.random.default_rng(0).random((10, 3), dtype=np.float32)
    key = content_key(x.tobytes())
    monkeypatch.setattr(keys, "BLOCK", 25)
    for same in (x, np.asfortranarray(x), torch.from_numpy(x), LazyArray([x[:4], x[4:]])):
        assert content_key(same) == key
    assert content_key(torch.from_numpy(x).T.contiguous().T) == key
    assert content_key(torch.tensor(3)) == content_key(np.array(3)) != content_key(np.array(4))
    assert content_key(torch.ones(2, dtype=torch.bfloat16)) == content_key(b"\x80?" * 2)
    assert content_key(x[:0]) == content_key()


def test_names_that_are_not_text():
    assert content_key("\udcff") == content_key(b"\xff")


def test_the_state_of_a_file(tmp_path):
    path = tmp_path / "a"
    assert file_state(path) is None
    path.write_bytes(b"abc")
    assert file_state(path) == (3, path.stat().st_mtime_ns)


def test_samples_of_files(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"")
    empty = file_sample(path, 4, 8)
    path.write_bytes(bytes(1000))
    before = file_sample(path, 4, 8)
    assert before != empty
    assert len(before) < 60
    for place, noticed in ((0, True), (999, True), (332, True), (500, False)):
        content = bytearray(1000)
        content[place] = 1
        path.write_bytes(content)
        assert (file_sample(path, 4, 8) != before) == noticed, place
    path.write_bytes(bytes(1001))
    assert file_sample(path, 4, 8) != before
