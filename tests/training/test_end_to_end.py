"""Fine-tuning on labels that a closed form recovered."""

import itertools

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from plusone.build import plan_of
from plusone.export.onnx import export_onnx
from plusone.inputs.task import make_task
from plusone.metrics import mean_average_precision
from plusone.models.backbones import BACKBONES, core
from plusone.models.branches import Branches
from plusone.prediction.load import load_run
from plusone.recipe import make_recipe
from plusone.training import run
from plusone.training.closed_fit import fit_for
from plusone.training.crossfit import cross_fit
from plusone.training.dry_run import estimate_run
from plusone.training.end_to_end import BOTH, COMPARED, FROZEN, EndToEnd
from plusone.training.selection import Validation, Validator

SETTINGS = {"method": "recovery", "mode": "finetune", "epochs": 2, "lr": 1e-3, "ema": 0.9}


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Settings with pretrained weights."""
    path = tmp_path_factory.mktemp("weights") / "cnn.safetensors"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_file(core(BACKBONES["cnn"].build(1, 16, "random")).state_dict(), path)
    return SETTINGS | {"weights": str(path), "backbone": "cnn", "image_size": 16}


def solved(given, data, **settings):
    """The closed form alone, on frozen features of the training items."""
    alone = {"mode": "linear", "use_validation": False, "ema": None}
    recipe = make_recipe(given, alone, settings)
    made = fit_for(make_task(data, recipe), recipe)
    assert len(list(made.epochs())) == 1
    return made


def test_the_network_learns_recovered_labels_from_the_closed_form_on(given, image_data):
    recipe, data = make_recipe(given), image_data(96)
    made = fit_for(make_task(data, recipe), recipe)
    assert isinstance(made, EndToEnd)
    made.begin_training()
    frozen = solved(given, data)
    torch.testing.assert_close(made.method.targets, frozen.method.targets)
    start = solved(given, data, head="linear").log_odds(frozen.task.val)
    torch.testing.assert_close(made.log_odds(made.task.val), start)
    torch.testing.assert_close(made.averages["ema"].model.head.weight, made.model.head.weight)
    assert [record.epoch for record in made.epochs()] == [1, 2]
    torch.testing.assert_close(made.method.targets, frozen.method.targets)
    assert tuple(made.compared) == COMPARED
    assert made.compared[FROZEN] == pytest.approx(frozen.best.val_map)
    score = made.validator(made.held_out().log_odds).score
    assert score == pytest.approx(made.best.score)


@pytest.fixture
def later_is_better(monkeypatch):
    """Every model that is evaluated counts as better than those before; the mean comes last."""
    scores = itertools.count()

    def better(self, log_odds):
        return Validation(mean_average_precision(log_odds, self._labels), next(scores))

    monkeypatch.setattr(Validator, "__call__", better)


@pytest.mark.parametrize(
    ("head", "use_validation", "crops"), [("auto", False, "five"), ("linear", True, "one")]
)
@pytest.mark.usefixtures("later_is_better")
def test_stopped_at_any_time_it_ends_the_same(
    head, use_validation, crops, given, image_data, tmp_path, monkeypatch
):
    monkeypatch.setattr(run, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    settings = {"head": head, "use_validation": use_validation, "crops": crops}
    recipe = make_recipe(given, settings)
    data = image_data(96)
    task = make_task(data, recipe)
    whole = run.train(task, recipe, tmp_path / "whole")
    assert whole.learned == len(task.train) + use_validation * len(task.val)
    assert (whole.val_map == pytest.approx(whole.compared[BOTH])) != use_validation

    def interrupt(record):
        if record.epoch == 2:
            raise KeyboardInterrupt

    def full(*given):
        raise OSError("no space left")

    stopped = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):  # with the first epoch saved
        run.train(make_task(data, recipe), recipe, stopped, on_record=interrupt)
    with monkeypatch.context() as patched:
        patched.setattr(run, "_write_model", full)  # with everything trained
        with pytest.raises(OSError, match="space"):
            run.train(make_task(data, recipe), recipe, stopped, resume=True)
    result = run.train(make_task(data, recipe), recipe, stopped, resume=True)
    left = {"seconds": 0, "run": None, "val_score": 0}
    assert result.model_copy(update=left) == whole.model_copy(update=left)

    predictor, task = load_run(stopped), make_task(data, recipe)
    assert isinstance(predictor.model.backbone, Branches)
    found = mean_average_precision(
        predictor.log_odds(task.val.inputs), torch.from_numpy(task.val.truth.dense())
    )
    if not use_validation:  # else it knows these items
        assert found == pytest.approx(result.val_map, abs=1e-6)
    x, probabilities = predictor.features(task.val.inputs), predictor.probabilities(task.val.inputs)
    torch.testing.assert_close(predictor.of_features(x), probabilities, atol=1e-5, rtol=0)
    if head == "auto":
        sample = next(task.val.inputs.batches(torch.arange(4), 4, ("plain",), 0))[0]
        assert export_onnx(predictor, tmp_path / "model.onnx", sample, {}) < 1e-4


def test_left_out_items_are_predicted_by_networks_that_did_not_learn_them(given, image_data):
    made = cross_fit(image_data(), make_recipe(given, {"epochs": 1}), 2)
    assert np.bincount(made.fold).tolist() == [24, 24]
    assert ((made.scores.table() > 0) & (made.scores.table() < 1)).all()
    assert made.features is None


def test_what_it_costs_is_estimated(given, image_data):
    estimate = estimate_run(image_data(96), make_recipe(given, {"crops": "five"}))
    assert "before and after" in estimate.parts[0].what
    assert [part.epoch is not None for part in estimate.parts[1:]] == [False, True, False]


@pytest.mark.parametrize(
    "settings", [{"method": "em"}, {"weights": "random"}, {"mode": "linear"}, {"head": "labelwise"}]
)
def test_other_runs_are_as_they_were(settings, given, image_data):
    recipe = make_recipe(given, settings)
    assert not plan_of(recipe, images=True).end_to_end
    assert not isinstance(fit_for(make_task(image_data(), recipe), recipe), EndToEnd)
