"""`standardize`: a training on raw features is that on standardized ones, and so is its model."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.training.conftest import scores_of

from plusone.errors import InputError
from plusone.export import export_run
from plusone.inputs.loader import ArrayInputs
from plusone.inputs.task import make_task
from plusone.prediction.load import load_run
from plusone.recipe import make_recipe
from plusone.training.closed_fit import fit_for
from plusone.training.run import train

LAC = {"width": 8, "heads": 2, "feedforward": 8}
CASES = [("gr", "linear", {}), ("an", "kernel", {}), ("lac", "linear", LAC),
         ("recovery", "linear", {}), ("recovery", "kernel", {})]  # fmt: skip


def raw_and_scaled(feature_data, **settings):
    """Two tasks and recipes: features of very different size, and standardized by hand."""
    given = {"epochs": 3, "batch_size": 16, "lr": 0.01, "expected_positives": 1.7, "gamma": 1.5}
    by_hand = make_recipe(given, settings)
    data = feature_data(120)
    size = np.array([1e3, 1, 1e-3, 50, 1, 1, 1, 1], dtype=np.float32)
    x = np.asarray(data.features) * size + 7 * size
    raw = make_task(replace(data, features=x), by_hand)
    parts = [raw.train.inputs.x]
    if settings["method"] == "recovery":  # learns from validation items too, if they have a label
        parts = [part.inputs.x[part.observed.per_item(1) > 0] for part in (raw.train, raw.val)]
    learned = torch.cat(parts).double().numpy()
    scaled = ((x - learned.mean(0)) / learned.std(0)).astype(np.float32)
    again = make_recipe(given, settings | {"standardize": True})
    return x, scaled, (raw, again), (make_task(replace(data, features=scaled), by_hand), by_hand)


@pytest.mark.parametrize(("method", "head", "options"), CASES)
def test_it_is_a_training_on_standardized_features(method, head, options, feature_data, tmp_path):
    x, scaled, raw, by_hand = raw_and_scaled(
        feature_data, method=method, head=head, options=options
    )
    train(*raw, tmp_path / "run")
    expected = fit_for(*by_hand)
    for _ in expected.epochs():
        pass
    found = load_run(tmp_path / "run").raw.probabilities(ArrayInputs(torch.from_numpy(x)))
    wanted = scores_of(expected, ArrayInputs(torch.from_numpy(scaled)))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)


def test_a_resumed_training_ends_the_same(feature_data):
    _, _, (task, recipe), _ = raw_and_scaled(feature_data, method="lac", head="linear", options=LAC)
    whole, stopped = fit_for(task, recipe), fit_for(task, recipe)
    for number, _ in enumerate(whole.epochs()):
        if number == 3:  # in the second stage
            stopped.load_state(*deepcopy(whole.state()))
    for _ in stopped.epochs():
        pass
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, stopped.model.state_dict()[name]), name
    finished = fit_for(task, recipe)
    finished.load_state(*whole.state())
    assert finished.done


@pytest.mark.slow
def test_the_onnx_model_takes_raw_features(feature_data, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    x, _, raw, _ = raw_and_scaled(feature_data, method="recovery", head="kernel")
    train(*raw, tmp_path / "run")
    export_run(tmp_path / "run", tmp_path / "model", onnx=True)
    session = runtime.InferenceSession(str(tmp_path / "model" / "model.onnx"))
    found = session.run(["probabilities"], {session.get_inputs()[0].name: x})[0]
    wanted = load_run(tmp_path / "run").probabilities(ArrayInputs(torch.from_numpy(x)))
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-5)


def test_it_needs_one_fixed_vector_for_each_item(feature_data, image_data):
    recipe = make_recipe({"method": "an", "standardize": True, "mode": "finetune"})
    with pytest.raises(InputError, match="changes the backbone; use --mode linear"):
        fit_for(make_task(image_data(), recipe), recipe)
    data = feature_data(120)
    recipe = make_recipe({"method": "lac", "standardize": True, "options": LAC})
    tokens = np.repeat(np.asarray(data.features)[:, None], 3, 1)
    with pytest.raises(InputError, match="lac is trained on several vectors"):
        fit_for(make_task(replace(data, features=tokens), recipe), recipe)
