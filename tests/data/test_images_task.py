"""Image files on their way into training, prediction and extraction."""

import numpy as np
import pytest
import torch
from PIL import Image

from plusone.data.dataset import Dataset
from plusone.data.features import read_features
from plusone.data.images import decode, decode_all
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.recipe import make_recipe
from plusone.training.build import load_run
from plusone.training.features import extract_to_file
from plusone.training.items import find_items, inputs_for
from plusone.training.loader import ArrayInputs, FileInputs
from plusone.training.run import train
from plusone.training.tagging import predict_all
from plusone.training.task import make_task

pytestmark = pytest.mark.slow

N = 16


@pytest.fixture
def dataset(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "photos"
    folder.mkdir()
    names = [f"{number:02d}.png" for number in range(N)]
    for number, name in enumerate(names):
        pixels = rng.integers(0, 256, (20 + number, 34, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / name)
    labels = LabelMatrix.from_dense(np.eye(2, dtype=np.int8)[np.arange(N) % 2])
    return Dataset(LabelTable(np.array(names), ("a", "b"), labels, root=folder), None, "photos")


def recipe_for(**settings):
    general = {"method": "an", "epochs": 1, "image_size": 16, "workers": 0, "val_share": 0.3}
    return make_recipe(general, settings)


def paths(dataset, part):
    return [dataset.table.root / name for name in part.ids]


def test_the_disk_cache_is_written_once(dataset, tmp_path):
    ticks = []
    cache = tmp_path / "cache"
    for cache_mb in (0, 2000):
        recipe = recipe_for(cache_dir=str(cache), cache_mb=cache_mb, aspect="crop")
        task = make_task(dataset, recipe, lambda: ticks.append(1))
        for part in (task.train, task.val):
            assert isinstance(part.inputs, ArrayInputs)
            expected = decode_all(paths(dataset, part), 16, aspect="crop")
            assert torch.equal(part.inputs.x, expected)
    assert len(ticks) == N
    assert len(list(cache.iterdir())) == 2


def test_memory_files_and_disk_give_the_same_batches(dataset, tmp_path):
    found = []
    for settings in ({}, {"cache_mb": 0}, {"cache_mb": 0, "cache_dir": str(tmp_path / "c")}):
        inputs = make_task(dataset, recipe_for(**settings)).train.inputs
        batches = inputs.batches(torch.arange(len(inputs)), 4, ("weak", "strong"), 7)
        found.append([torch.cat(parts) for parts in zip(*batches, strict=True)])
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("aspect", ["stretch", "crop"])
def test_a_run_predicts_with_its_aspect_and_without_its_cache(dataset, tmp_path, aspect):
    cache = tmp_path / "cache"
    recipe = recipe_for(aspect=aspect, cache_dir=str(cache), cache_mb=0, select_on="observed")
    train(make_task(dataset, recipe), recipe, tmp_path / "run")
    for file in cache.iterdir():
        file.unlink()
    cache.rmdir()
    predictor = load_run(tmp_path / "run")
    root = dataset.table.root
    x = torch.stack([decode(path, 16, aspect) for path in sorted(root.iterdir())])
    expected = predictor.probabilities(ArrayInputs(x))
    found = predict_all(predictor, find_items(predictor, [str(root)]))
    torch.testing.assert_close(torch.cat([part.probabilities for part in found]), expected)
    inputs = inputs_for(predictor, dataset, np.arange(N))
    assert isinstance(inputs, FileInputs)
    torch.testing.assert_close(predictor.probabilities(inputs), expected)
    assert not cache.exists()


def test_extraction_with_another_aspect(dataset, tmp_path):
    found = {}
    for aspect in ("stretch", "crop"):
        file = tmp_path / f"{aspect}.npz"
        result = extract_to_file(dataset, file, "cnn", 16, workers=0, aspect=aspect)
        assert result.settings.get("aspect", "stretch") == aspect
        found[aspect] = read_features([file])
    assert found["crop"].meta["aspect"] == "crop"
    assert not np.array_equal(found["crop"].x, found["stretch"].x)
