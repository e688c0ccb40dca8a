"""A run whose learning rate is chosen by training is the best run of the stack."""

import json

import pytest
import torch

from plusone.inputs.task import make_task
from plusone.io.jsonl import read_jsonl
from plusone.prediction.load import load_run
from plusone.recipe import make_recipe
from plusone.training import trainer
from plusone.training.rates import FACTORS, pick_rate
from plusone.training.run import train


@pytest.fixture
def trained(monkeypatch):
    """The learning rate of every run that is made."""
    made, first = [], trainer.Training.__init__

    def init(self, task, recipe, **rest):
        made.append(recipe.lr)
        first(self, task, recipe, **rest)

    monkeypatch.setattr(trainer.Training, "__init__", init)
    return made


@pytest.mark.parametrize("images", [False, True])
def test_the_best_run_of_the_stack_is_the_run(images, trained, feature_data, image_data, tmp_path):
    recipe = make_recipe({"method": "gr", "epochs": 3, "lr": 0.01, "mode": "linear"})
    recipe = recipe.model_copy(update={"backbone": "cnn", "batch_size": 8})
    task = make_task(image_data() if images else feature_data(), recipe)
    picked = pick_rate(task, recipe, folder=tmp_path / "features")
    assert picked is not None
    assert len(trained) == len(FACTORS) + images  # one more holds backbone and head
    found = train(task, picked.training.recipe, tmp_path / "picked", picked=picked)
    assert len(trained) == len(FACTORS) + images
    features = tmp_path / "features"
    alone = train(task, picked.training.recipe, tmp_path / "alone", features=features)
    apart = {"seconds", "run"}
    for name, value in alone.to_json().items():
        if isinstance(value, float) and name not in apart:
            assert getattr(found, name) == pytest.approx(value, abs=1e-4), name
    files = [{path.name for path in (tmp_path / name).iterdir()} for name in ("picked", "alone")]
    assert files[0] == files[1]
    lines = [list(read_jsonl(tmp_path / name / "records.jsonl")) for name in ("picked", "alone")]
    for mine, theirs in zip(*lines, strict=True):
        assert mine.keys() == theirs.keys()
        assert mine["losses"] == pytest.approx(theirs["losses"], rel=1e-3)
    inputs = task.test.inputs
    mine, theirs = (load_run(tmp_path / name).probabilities(inputs) for name in ("picked", "alone"))
    torch.testing.assert_close(mine, theirs, atol=1e-3, rtol=0)


def test_a_picked_run_that_was_stopped_resumes(feature_data, tmp_path):
    recipe = make_recipe({"method": "gr", "epochs": 2, "lr": 0.01})
    task, folder = make_task(feature_data(), recipe), tmp_path / "run"
    picked = pick_rate(task, recipe)

    def stop(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(task, picked.training.recipe, folder, picked=picked, on_record=stop)
    assert not (folder / "metrics.json").exists()
    again = pick_rate(task, recipe)
    result = train(task, again.training.recipe, folder, picked=again, resume=True)
    assert [line["epoch"] for line in read_jsonl(folder / "records.jsonl")] == [1, 2]
    assert json.loads((folder / "metrics.json").read_text())["val_map"] == result.val_map
