"""The classifier inside scikit-learn's own machinery."""

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from plusone import PlusOneClassifier
from plusone.estimator import cross_val_probabilities

pytestmark = pytest.mark.slow


def quick(method="an", **rest):
    return PlusOneClassifier(method, **{"epochs": 6, "lr": 0.03, "random_state": 0} | rest)


def mean_ap(truth, scores):
    return average_precision_score(truth, scores, average="macro")


def test_pipeline(items, fresh):
    model = make_pipeline(StandardScaler(), quick()).fit(100 * items.x + 7, items.names)
    assert mean_ap(fresh.truth, model.predict_proba(100 * fresh.x + 7)) > 0.85
    assert model.predict(fresh.x).shape == (400, 4)
    weighted = make_pipeline(StandardScaler(), quick())
    weighted.fit(items.x, items.names, plusoneclassifier__sample_weight=np.ones(240))
    assert weighted.classes_.tolist() == ["bird", "cat", "dog", "emu"]


@pytest.mark.parametrize("form", ["names", "matrix"])
@pytest.mark.parametrize("method", ["predict_proba", "decision_function"])
def test_cross_val_predict(items, form, method):
    found = cross_val_predict(quick(), items.x, getattr(items, form), cv=3, method=method)
    assert found.shape == (240, 4)
    assert mean_ap(items.truth, found) > 0.85


def test_cross_val_predict_of_labels(items):
    found = cross_val_predict(quick(), items.x, items.names, cv=3)
    assert found.shape == (240, 4)


def test_cross_val_probabilities_take_every_form(items):
    states = items.matrix.copy()
    states[(items.truth == 0) & (np.arange(240)[:, None] % 2 == 0)] = -1
    found = cross_val_probabilities(quick("em"), items.x, states, folds=3)
    assert mean_ap(items.truth, found) > 0.85
    frame = pd.DataFrame(items.x)
    lists = cross_val_probabilities(
        make_pipeline(StandardScaler(), quick()), frame, items.lists, folds=3
    )
    assert mean_ap(items.truth, lists) > 0.85
    # Recoded by scikit-learn, the same matrix is refused instead of misread.
    with pytest.raises(ValueError, match="holds 2"):
        cross_val_predict(quick(), items.x, states, cv=3, method="predict_proba")


def test_out_of_sample_is_out_of_sample():
    """Labels without any meaning cannot be predicted for items that were not seen."""
    chance = np.random.default_rng(0)
    x, y = chance.normal(size=(120, 100)).astype(np.float32), chance.integers(4, size=120)
    found = cross_val_probabilities(quick(), x, y, folds=3)
    assert mean_ap(np.eye(4)[y], found) < 0.4
    assert quick().fit(x, y).score(x, y) > 0.55


def test_grid_search(items):
    grid = {"method": ["an", "em"], "lr": np.array([1e-5, 3e-2])}
    search = GridSearchCV(quick(epochs=3), grid, cv=3).fit(items.x, items.names)
    assert search.best_params_["lr"] == 3e-2
    assert search.predict_proba(items.x).shape == (240, 4)
    options = GridSearchCV(
        quick("em", epochs=2), {"options": [{"alpha": 0.05}, {"alpha": 0.2}]}, cv=KFold(2)
    )
    assert options.fit(items.x, items.lists).best_params_["options"]["alpha"] in (0.05, 0.2)


def test_cross_val_score_against_the_truth(items):
    assert cross_val_score(quick(), items.x, items.matrix, cv=3).mean() > 0.4


def test_joblib(items, tmp_path):
    model = quick().fit(items.x, items.names)
    joblib.dump(model, tmp_path / "model.joblib")
    loaded = joblib.load(tmp_path / "model.joblib")
    assert (loaded.predict_proba(items.x) == model.predict_proba(items.x)).all()
