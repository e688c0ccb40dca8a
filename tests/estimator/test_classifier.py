"""What the classifier learns, tells and refuses."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from plusone import METHODS, PlusOneClassifier
from plusone.errors import InputError
from plusone.estimator.plusone_classifier import suitable_fraction
from plusone.inputs.loader import ArrayInputs
from plusone.metrics import mean_average_precision


def quick(method="an", **rest):
    return PlusOneClassifier(method, **{"epochs": 12, "lr": 0.03, "random_state": 0} | rest)


@pytest.mark.parametrize("method", ["an", "gr", "em", "softmax"])
def test_it_learns_all_labels_from_one(items, fresh, method):
    model = quick(method).fit(items.x, items.names)
    assert model.classes_.tolist() == ["bird", "cat", "dog", "emu"]
    scores = model.predict_proba(fresh.x)
    assert scores.shape == (400, 4)
    assert scores.min() >= 0
    assert scores.max() <= 1
    found = mean_average_precision(scores, fresh.truth)
    assert found > 0.85
    assert model.score(fresh.x, fresh.truth) == pytest.approx(found)
    assert model.score(fresh.x, fresh.names) < found
    # The thresholds find most labels, where 0.5 misses what assumed negatives push down.
    predicted = model.predict(fresh.x)
    assert set(np.unique(predicted)) <= {0, 1}
    hits = (predicted * fresh.truth).sum()
    assert 2 * hits / (predicted.sum() + fresh.truth.sum()) > 0.7
    assert (predicted == (scores > model.thresholds_)).all()
    # Scores of any size are in the same order.
    logits = model.decision_function(fresh.x)
    for column in range(4):
        order = np.argsort(logits[:, column])
        assert (np.diff(scores[order, column]) >= 0).all()


def test_a_score_leaves_unknown_labels_out(items, fresh):
    model = quick(epochs=2).fit(items.x, items.names)
    hidden = np.random.default_rng(0).random(fresh.truth.shape) < 0.4
    states = np.where(hidden, 0, 2 * fresh.truth - 1)
    scores = model.decision_function(fresh.x)
    expected = mean_average_precision(scores, states, unknown="masked")
    assert (
        model.score(fresh.x, states) == model.score(fresh.x, sparse.csr_array(states)) == expected
    )
    seen = np.maximum(states, 0)  # positives alone: the rest counts as negative
    as_negative = mean_average_precision(scores, seen, unknown="negative")
    assert model.score(fresh.x, seen) == as_negative < expected - 0.05
    seen[:, 0] = np.minimum(states[:, 0], 0)  # no class with both: masked, there is no mAP
    assert model.score(fresh.x, seen) == mean_average_precision(scores, seen == 1)


def test_logits_are_logits(items):
    model = quick().fit(items.x, items.names)
    logits = model.decision_function(items.x)
    scores = model.predictor_.raw.probabilities(ArrayInputs(torch.from_numpy(items.x)))
    assert scores.numpy() == pytest.approx(1 / (1 + np.exp(-logits)), abs=1e-6)


def test_every_form_of_labels_and_inputs_gives_the_same_model(items):
    expected = quick(epochs=2).fit(items.x, items.seen).predict_proba(items.x)
    forms = [items.names, items.lists, items.matrix, sparse.csr_matrix(items.matrix)]
    forms += [torch.from_numpy(items.matrix), pd.Series(items.names), pd.DataFrame(items.matrix)]
    for y in forms:
        found = quick(epochs=2).fit(items.x, y).predict_proba(items.x)
        assert (found == expected).all()
    frame = pd.DataFrame(items.x, columns=[f"f{number}" for number in range(6)])
    for x in (torch.from_numpy(items.x), items.x.astype(np.float64), items.x.tolist(), frame):
        model = quick(epochs=2).fit(x, items.seen)
        assert (model.predict_proba(x) == expected).all()
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    assert model.n_features_in_ == 6


def test_half_precision_inputs(items):
    half = torch.from_numpy(items.x)
    for x in (half.half(), half.bfloat16()):
        assert quick(epochs=2).fit(x, items.seen).predict_proba(x).dtype == np.float32


def test_negatives_and_more_positives_are_used_as_seen(items, fresh):
    """All labels of a class given as negatives: it is never predicted."""
    states = np.where(items.truth == 1, 1, -1)
    full = quick("iun").fit(items.x, states)
    assert full.score(fresh.x, fresh.truth) > 0.95
    with pytest.raises(InputError, match="learns from seen negatives"):
        quick("iun").fit(items.x, items.matrix)
    partial = items.matrix.copy()
    partial[:, 3] = np.where(items.truth[:, 3] == 1, 0, -1)
    partial[:5, 3] = 1
    low = quick("em").fit(items.x, partial).predict_proba(items.x)[:, 3]
    plain = quick("em").fit(items.x, items.matrix).predict_proba(items.x)[:, 3]
    absent = items.truth[:, 3] == 0
    assert low[absent].mean() < plain[absent].mean() / 2


def test_what_a_fit_tells(items):
    model = quick(epochs=5).fit(items.x, items.names)
    assert model.n_iter_ == len(model.history_) == 5
    assert model.history_[-1]["losses"]["loss"] < model.history_[0]["losses"]["loss"]
    assert {"val_map", "seconds", "best"} <= model.history_[0].keys()
    assert [entry["best"] for entry in model.history_][model.best_epoch_ - 1]
    assert model.recipe_.batch_size == 16
    assert model.recipe_.method == "an"


def test_patience_ends_training(items):
    model = quick(epochs=200, patience=2).fit(items.x, items.names)
    assert model.n_iter_ < 200
    assert model.n_iter_ == model.best_epoch_ + 2


def test_verbose_prints_a_line_per_epoch(items, capsys):
    quick(epochs=3).fit(items.x, items.names)
    assert capsys.readouterr().out == ""
    quick(epochs=3, verbose=1).fit(items.x, items.names)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("epoch 3/3  loss 0.")


def test_random_state_decides_everything(items):
    first, again, other = (
        quick(epochs=2, random_state=seed).fit(items.x, items.names).predict_proba(items.x)
        for seed in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()
    drawn = quick(epochs=2, random_state=np.random.RandomState(1)).fit(items.x, items.names)
    assert (drawn.predict_proba(items.x) == first).all()


def test_settings_reach_the_engine(items):
    model = quick(
        "em",
        epochs=np.int64(2),
        options={"alpha": np.float64(0.2)},
        batch_size=8,
        weight_decay=0.1,
        settings={"optimizer": "adamw", "ema": 0.9},
    ).fit(items.x, items.names)
    recipe = model.recipe_
    assert (recipe.options, recipe.batch_size, recipe.epochs) == ({"alpha": 0.2}, 8, 2)
    assert (recipe.optimizer, recipe.ema, recipe.weight_decay) == ("adamw", 0.9, 0.1)
    lac = PlusOneClassifier("lac", epochs=1).fit(items.x, items.names)
    assert lac.recipe_.optimizer == "adamw"
    assert lac.n_iter_ == 2


@pytest.mark.parametrize("method", [n for n in METHODS if METHODS[n].trains_on(["features"])])
def test_every_method_can_be_fitted_and_pickled(items, method):
    y = np.where(items.truth == 1, 1, -1) if METHODS[method].scheme != "single" else items.matrix
    x, y = items.x[:80], y[:80]
    model = PlusOneClassifier(method, epochs=1, expected_positives=2.0, random_state=0)
    hints = np.random.default_rng(0).random(y.shape)
    model.fit(x, y, sample_weight=np.linspace(0.5, 2, len(x)), hints=hints)
    scores = model.predict_proba(x)
    assert np.isfinite(scores).all()
    assert (pickle.loads(pickle.dumps(model)).predict_proba(x) == scores).all()


def test_a_pickle_holds_neither_data_nor_memory_of_the_method(items):
    many = np.repeat(items.x, 8, axis=0), np.repeat(items.names, 8)
    model = PlusOneClassifier("role", epochs=1, expected_positives=2.0).fit(*many)
    # Label estimates of 1920 items and 4 classes alone would need as much.
    assert len(pickle.dumps(model)) < 30_000


def test_thresholds_may_be_given(items, fresh):
    model = quick(threshold=0.5).fit(items.x, items.names)
    assert model.thresholds_.tolist() == [0.5] * 4
    assert (model.predict(fresh.x) == (model.predict_proba(fresh.x) > 0.5)).all()
    own = quick(threshold=[0.1, 0.2, 0.3, 0.4]).fit(items.x, items.names)
    assert own.thresholds_.tolist() == [0.1, 0.2, 0.3, 0.4]
    chosen = quick().fit(items.x, items.names).thresholds_
    told = quick(expected_positives=2.0).fit(items.x, items.names).thresholds_
    assert (chosen != told).any()
    with pytest.raises(InputError, match="one for each of 4"):
        quick(threshold=[0.1, 0.2]).fit(items.x, items.names)


def test_validation_items_of_ones_own(items, fresh):
    model = quick().fit(items.x, items.names, validation=(fresh.x, fresh.names))
    assert model.history_[0]["selected_on"] == "observed"
    assert model.history_[0]["val_map"] < 1
    complete = pd.DataFrame(np.where(fresh.truth == 1, 1, -1), columns=model.classes_)
    audited = quick().fit(items.x, items.names, validation=(fresh.x, complete))
    assert audited.history_[0]["selected_on"] == "truth"
    predicted = audited.predict(fresh.x)
    hits = (predicted * fresh.truth).sum()
    assert 2 * hits / (predicted.sum() + fresh.truth.sum()) > 0.8


def test_scores_over_classes_that_were_not_fitted(items, fresh):
    known = items.names != "emu"
    model = quick(epochs=2).fit(items.x[known], items.names[known])
    with pytest.warns(UserWarning, match=r"1 classes of y were not seen in fit.*'emu'"):
        found = model.score(fresh.x, fresh.names)
    assert 0 < found < 1
    with (
        pytest.raises(InputError, match="no positive label"),
        pytest.warns(UserWarning, match="'emu'"),
    ):
        model.score(fresh.x[:2], ["emu", "emu"])


def test_bad_calls_are_refused(items):
    x, names = items.x, items.names
    with pytest.raises(NotFittedError):
        quick().predict(x)
    with pytest.raises(InputError, match="unknown method 'magic'"):
        quick("magic").fit(x, names)
    with pytest.raises(InputError, match="unknown method option 'beta'"):
        quick("em", options={"beta": 1.0}).fit(x, names)
    with pytest.raises(InputError, match="unknown setting 'speed'"):
        quick(settings={"speed": 1}).fit(x, names)
    with pytest.raises(InputError, match="X has 240 rows, y has 239"):
        quick().fit(x, names[1:])
    with pytest.raises(InputError, match="y has 1 class"):
        quick().fit(x, ["cat"] * len(x))
    with pytest.raises(InputError, match="no positive label"):
        quick().fit(x, np.zeros((len(x), 3), dtype=int))
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        quick().fit(sparse.csr_matrix(x), names)
    with pytest.raises(ValueError, match="NaN"):
        quick().fit(np.full_like(x, np.nan), names)
    model = quick(epochs=1).fit(x, names)
    with pytest.raises(ValueError, match="expecting 6 features"):
        model.predict(x[:, :5])
    with pytest.raises(InputError, match="X has 2 rows, y has 1"):
        model.score(x[:2], names[:1])


def test_clones_are_unfitted_and_equal(items):
    model = quick("em", options={"alpha": 0.3}, threshold=0.4).fit(items.x, items.names)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "classes_")


def test_share_held_out_by_rule(items):
    assert [suitable_fraction(n) for n in (1_000, 50_000, 1_000_000)] == [0.2, 0.1, 0.005]
    first, more = (
        quick(epochs=1, batch_size=1, validation_fraction=share).fit(items.x, items.names)
        for share in (None, 0.5)
    )
    assert (first.thresholds_ != more.thresholds_).any()
    with pytest.raises(InputError, match="validation_fraction must be between 0 and 1, not 2"):
        quick(validation_fraction=2).fit(items.x, items.names)


@pytest.mark.parametrize("method", ["gr", "softmax"])
def test_features_in_the_thousands_do_not_tie(method):
    """Where probabilities round to 0 and 1, `decision_function` still ranks, in their order."""
    rng = np.random.default_rng(0)
    x = (1000 * rng.normal(size=(300, 6))).astype(np.float32)
    tag = x.argmax(axis=1)
    model = PlusOneClassifier(method, rules=False, lr=0.01, epochs=3, batch_size=32).fit(x, tag)
    scores, p = model.decision_function(x), model.predict_proba(x)
    assert np.isfinite(scores).all()
    for column, probability in zip(scores.T, p.T, strict=True):
        assert len(np.unique(column)) > 280
        assert (np.diff(probability[np.argsort(column, kind="stable")]) >= -1e-7).all()
    rounded = torch.sigmoid(torch.from_numpy(scores)).numpy()
    assert min(len(np.unique(column)) for column in rounded.T) < 280  # raw probabilities do tie
    truth = np.eye(6, dtype=int)[tag]
    assert model.score(x, truth) == pytest.approx(mean_average_precision(scores, truth))
