"""Validation and test labels in three states: training and `evaluate_run` do the same with them."""

import dataclasses

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from plusone.data.matrix import LabelMatrix
from plusone.prediction.evaluate import evaluate_run
from plusone.prediction.load import Predictor
from plusone.probabilities.calibration import Calibration
from plusone.training.summary import summarise

FAST = {"epochs": 2, "lr": 0.02, "batch_size": 32}


def labelled(data, states):
    """The same items with these labels, and no truth beside them."""
    labels = LabelMatrix.from_dense(states)
    return dataclasses.replace(
        data, table=dataclasses.replace(data.table, labels=labels, truth=None)
    )


@pytest.fixture
def trained(training, feature_data):
    """`trained(hide)`: training and result after `hide` set some true labels to 0."""

    def make(hide, **settings):
        data = feature_data()
        states = hide(data.table.truth.dense(), np.random.default_rng(0))
        data = labelled(data, states)
        made = training(data, observe="given", **FAST | settings)
        for _ in made.epochs():
            pass
        return data, made, summarise(made, None, 0.0)

    return make


def some(states, rng):
    return np.where(rng.random(states.shape) < 0.4, 0, states)


def mean_ap(scores, states, *, masked):
    """By scikit-learn."""
    columns = [
        (y[y != 0] == 1, s[y != 0]) if masked else (y == 1, s)
        for y, s in zip(states.T, np.asarray(scores).T, strict=True)
    ]
    return np.mean([average_precision_score(y, s) for y, s in columns])


def test_unknown_labels_are_left_out_of_all_figures(trained):
    data, made, result = trained(some)
    val, test = made.task.val, made.task.test
    assert (result.selected_on, result.val_against) == ("observed", "known")
    for part, found in ((val, result.val_map), (test, result.test_map)):
        states = part.observed.dense()
        expected = mean_ap(made.log_odds(part), states, masked=True)
        assert found == pytest.approx(expected, abs=1e-12)
        assert found > mean_ap(made.log_odds(part), states, masked=False) + 0.05
    predictor = Predictor(
        made.recipe, made.task.classes, made.task.shape, False, made.model, made.method,
        Calibration.none(4),
    )  # fmt: skip
    measured = evaluate_run(predictor, data, "test")
    assert measured.against == "known"
    assert measured.unknown == result.test_unknown == test.observed.per_class(0).sum() > 0
    assert result.test == pytest.approx({name: measured.metrics[name] for name in result.test})
    for end, values in (
        ("negative", result.test_if_negative),
        ("positive", result.test_if_positive),
    ):
        assert values == pytest.approx({name: measured.ends[end][name] for name in result.test})
    maps = [result.test["map"], result.test_if_negative["map"], result.test_if_positive["map"]]
    for figure in maps:
        assert f"{100 * figure:.2f}" in result.headline()
    assert "against the known labels" in result.headline()


def test_with_positives_alone_the_rest_counts_as_negative(trained):
    _, made, result = trained(lambda states, rng: np.maximum(some(states, rng), 0))
    assert (result.val_against, result.test_map, result.test_unknown) == ("seen", None, 0)
    expected = mean_ap(made.log_odds(made.task.val), made.task.val.observed.dense(), masked=False)
    assert result.val_map == pytest.approx(expected, abs=1e-12)
    assert "against the seen labels" in result.headline()

    def apart(states, rng):  # negatives of one class, positives of the others: no AP if masked
        return np.where(np.arange(4) == 0, np.minimum(states, 0), np.maximum(states, 0))

    _, made, result = trained(apart)
    assert (result.val_against, result.test_map) == ("seen", None)
    assert 0 < result.val_map <= 1


def test_complete_labels_have_no_unknown_ones(trained, training, feature_data):
    """Known without a truth beside them, or as the truth: the same figures."""
    _, _, given = trained(lambda states, rng: states, method="bce", select_on="observed")
    made = training(feature_data(), method="bce", select_on="observed", **FAST)
    for _ in made.epochs():
        pass
    result = summarise(made, None, 0.0)
    assert given.val_against == result.val_against == "truth"
    for name in ("val_map", "test_map", "test", "test_ap", "test_if_negative", "test_unknown"):
        assert getattr(given, name) == getattr(result, name)
    assert result.test_if_negative is None
    assert "unknown" not in result.headline()


def test_a_truth_with_unknown_labels(training, feature_data):
    """Epochs are chosen by the mAP of the known labels; recovery counts known labels only."""
    data = feature_data()
    states = some(data.table.truth.dense(), np.random.default_rng(1))
    truth = LabelMatrix.from_dense(states)
    single = LabelMatrix.from_dense((states == 1) & (np.cumsum(states == 1, axis=1) == 1))
    table = dataclasses.replace(data.table, labels=single, truth=truth)
    made = training(dataclasses.replace(data, table=table), observe="given", **FAST)
    records = list(made.epochs())
    result = summarise(made, None, 0.0)
    assert (result.selected_on, result.selected_by, result.val_against) == ("truth", "map", "known")
    assert result.val_map == max(record.val_map for record in records)
    for part, found in (
        (made.task.val, result.val_map),
        (made.task.test, result.test_map),
        (made.task.train, result.recovery["recovery_map"]),
    ):
        expected = mean_ap(made.log_odds(part), part.truth.dense(), masked=True)
        assert found == pytest.approx(expected, abs=1e-12)
    assert records[0].probe is None
