"""Features of images: extracted once, kept on disk by what they depend on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from plusone.models.backbones import backbone_for
from plusone.models.classifier import Classifier
from plusone.models.heads import LinearHead, SpatialHead
from plusone.training.features import FeatureCache, key_of
from plusone.training.loader import ArrayInputs, FileInputs


def make_model(seed=0, head=LinearHead):
    torch.manual_seed(seed)
    return Classifier(backbone_for("cnn").build(3, 16), head(48, 2)).eval()


@pytest.fixture
def inputs(tmp_path):
    rng = np.random.default_rng(0)
    paths = tuple(tmp_path / f"{number}.png" for number in range(3))
    for path in paths:
        Image.fromarray(rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(path)
    return FileInputs(paths, 16, workers=0)


def test_a_second_training_takes_them_from_the_file(inputs, tmp_path):
    model, ticks = make_model(), []
    first = FeatureCache(ticks.append, tmp_path / "kept").of(model, inputs)
    assert ticks == [3]
    (kept,) = (tmp_path / "kept").iterdir()
    again = FeatureCache(ticks.append, tmp_path / "kept").of(model, inputs)
    assert ticks == [3]
    assert torch.equal(first.x, again.x)
    np.save(kept, np.zeros((3, 48), np.float32))  # shows that the file is really read
    assert not FeatureCache(None, tmp_path / "kept").of(model, inputs).x.any()


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
    assert key_of(make_model(), FileInputs(inputs.paths[:2], 16)) != base
    Image.new("RGB", (9, 9)).save(inputs.paths[0])
    assert key_of(make_model(), inputs) != base


def test_images_in_memory_are_kept_by_their_bytes(tmp_path):
    x = torch.randint(0, 256, (5, 3, 16, 16), dtype=torch.uint8)
    model, ticks = make_model(), []
    made = FeatureCache(ticks.append, tmp_path / "kept")
    first = made.of(model, ArrayInputs(x))
    assert list((tmp_path / "kept").iterdir()) == made.files
    again = FeatureCache(ticks.append, tmp_path / "kept").of(model, ArrayInputs(x.clone()))
    assert torch.equal(first.x, again.x)
    assert ticks == [5]
    x[4, 2, 15, 15] ^= 1
    FeatureCache(ticks.append, tmp_path / "kept").of(model, ArrayInputs(x))
    assert ticks == [5, 5]


def test_the_key_reads_all_images_however_many_at_a_time(monkeypatch):
    x = torch.randint(0, 256, (5, 3, 16, 16), dtype=torch.uint8)
    whole = key_of(make_model(), ArrayInputs(x))
    monkeypatch.setattr("plusone.io.keys.BLOCK", 1)
    assert key_of(make_model(), ArrayInputs(x)) == whole


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
