"""Image files on their way into training, prediction and extraction."""

import multiprocessing
from contextlib import closing
from unittest.mock import patch

import numpy as np
import pytest
import torch
from PIL import Image

from plusone.data.dataset import Dataset
from plusone.data.features import read_features
from plusone.data.images import decode, decode_all
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.features.extraction import extract_to_file
from plusone.inputs.loader import ArrayInputs, FileInputs
from plusone.inputs.task import make_task
from plusone.prediction.items import find_items, inputs_for
from plusone.prediction.load import load_run
from plusone.prediction.tags import predict_all
from plusone.recipe import make_recipe
from plusone.training import run
from plusone.training.closed_fit import fit_for
from plusone.training.run import train

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


def test_the_next_epoch_begins_before_the_evaluation(dataset):
    recipe, before, passes = recipe_for(workers=1, cache_mb=0, epochs=3), children(), []
    task, original = make_task(dataset, recipe), FileInputs.batches

    def batches(self, *arguments):
        passes.append("train" if self is task.train.inputs else "val")
        return original(self, *arguments)

    training = fit_for(task, recipe)
    with patch.object(FileInputs, "batches", batches), closing(task.workers):
        first = next(training.epochs())
        assert passes == ["train", "train", "val"]
        task.workers.close()  # as if it were stopped here
        assert children() == before
        rest = list(training.epochs())
        assert passes[3:] == ["train", "val", "val"]
    assert children() == before
    alone = recipe_for(workers=0, cache_mb=0, epochs=3)
    straight = fit_for(make_task(dataset, alone), alone).epochs()
    assert [one.losses for one in straight] == [one.losses for one in (first, *rest)]


def children():
    return {child.pid for child in multiprocessing.active_children()}


def test_workers_stay_over_the_epochs_and_end_with_the_training(dataset, tmp_path):
    recipe, before, seen = recipe_for(workers=2, cache_mb=0, epochs=3), children(), []
    straight = train(
        make_task(dataset, recipe),
        recipe,
        tmp_path / "straight",
        on_record=lambda _: seen.append(children() - before),
    )
    assert len(seen[0]) == 4  # two for training items and two for validation items
    assert seen == [seen[0]] * 3
    assert children() == before

    def stop(record):
        if record.epoch == 2:
            raise KeyboardInterrupt

    with (
        patch.object(run, "SECONDS_BETWEEN_CHECKPOINTS", 0),
        pytest.raises(KeyboardInterrupt),
    ):
        train(make_task(dataset, recipe), recipe, tmp_path / "stopped", on_record=stop)
    assert children() == before
    alone = recipe_for(workers=0, cache_mb=0, epochs=3)
    resumed = train(make_task(dataset, alone), alone, tmp_path / "stopped", resume=True)
    assert resumed.val_map == straight.val_map
    weights = [tmp_path / name / "model.safetensors" for name in ("straight", "stopped")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_workers_end_when_an_image_is_broken(dataset, tmp_path):
    recipe, before = recipe_for(workers=2, cache_mb=0), children()
    task = make_task(dataset, recipe)
    paths(dataset, task.train)[3].write_bytes(b"no image")
    with pytest.raises(InputError, match=r"\.png: cannot be read as an image \(it is of no known"):
        train(task, recipe, tmp_path / "run")
    assert children() == before


def test_extraction_with_another_aspect(dataset, tmp_path):
    found = {}
    for aspect in ("stretch", "crop"):
        file = tmp_path / f"{aspect}.npz"
        result = extract_to_file(dataset, file, "cnn", 16, workers=0, aspect=aspect)
        assert result.settings.get("aspect", "stretch") == aspect
        found[aspect] = read_features([file])
    assert found["crop"].meta["aspect"] == "crop"
    assert not np.array_equal(found["crop"].x, found["stretch"].x)
