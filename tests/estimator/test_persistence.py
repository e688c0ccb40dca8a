"""A fitted classifier in a file without code: skops, and what a state holds."""

from __future__ import annotations

import copy
import pickle
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from plusone import PlusOneClassifier
from plusone.errors import InputError

OWN = "plusone.estimator.plusone_classifier.PlusOneClassifier"
PLAIN = (str, int, float, bool, type(None))


@pytest.fixture(scope="module")
def items() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32)
    return x, np.array(["a", "b", "c"])[x[:, :3].argmax(axis=1)]


def kinds(value: Any) -> set[type]:
    """The types of everything in a state."""
    if isinstance(value, dict):
        return set().union(*map(kinds, value.keys()), *map(kinds, value.values()))
    if isinstance(value, list | tuple):
        return set().union(*map(kinds, value))
    return {type(value)}


CASES = {
    "recovery": {},
    "another kernel": {"method": "recovery", "settings": {"kernel": "rbf"}},
    "a scale of each feature": {"method": "gr", "settings": {"standardize": True}},
    "a head of its own": {"method": "lac"},
    "a method with numbers of its own": {"method": "role", "threshold": [0.2, 0.3, 0.4]},
}


@pytest.mark.parametrize("name", CASES)
def test_skops_trusts_all_but_the_class_itself(items, name):
    skops = pytest.importorskip("skops.io", reason="the extra skops is not installed")
    x, y = items
    epochs = {} if name in ("recovery", "another kernel") else {"epochs": 2}
    model = PlusOneClassifier(random_state=0, **epochs, **CASES[name]).fit(x, y)
    content = skops.dumps(model)
    assert skops.get_untrusted_types(data=content) == [OWN]
    again = skops.loads(content, trusted=[OWN])
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.history_ == model.history_
    assert again.recipe_.portable == model.recipe_.portable
    assert again.calibration_ == model.calibration_
    assert again.get_params().keys() == model.get_params().keys()


def test_a_pipeline_in_a_file_of_skops(items, tmp_path):
    skops = pytest.importorskip("skops.io", reason="the extra skops is not installed")
    x, y = items
    model = make_pipeline(StandardScaler(), PlusOneClassifier(random_state=0)).fit(x, y)
    skops.dump(model, tmp_path / "model.skops")
    assert skops.get_untrusted_types(file=tmp_path / "model.skops") == [OWN]
    again = skops.load(tmp_path / "model.skops", trusted=[OWN])
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))


def test_a_state_is_plain_values_and_arrays(items):
    model = PlusOneClassifier("em", epochs=1, random_state=0).fit(*items)
    assert kinds(model.__getstate__()) == {*PLAIN, np.ndarray}
    assert "torch" not in str(pickle.dumps(model))
    assert PlusOneClassifier().__getstate__()["method"] is None
    again = copy.deepcopy(model)
    np.testing.assert_array_equal(again.predict_proba(items[0]), model.predict_proba(items[0]))


def test_a_state_keeps_the_parents_of_classes(items):
    from dataclasses import replace

    from plusone.data.hierarchy import Hierarchy

    model = PlusOneClassifier("em", epochs=1, random_state=0).fit(*items)
    model.predictor_ = replace(model.predictor_, hierarchy=Hierarchy((1, None, 1)))
    again = pickle.loads(pickle.dumps(model))
    assert again.predictor_.hierarchy == model.predictor_.hierarchy


def test_pickles_of_earlier_releases_are_read(items):
    model = PlusOneClassifier("em", epochs=1, random_state=0).fit(*items)
    old = PlusOneClassifier.__new__(PlusOneClassifier)
    old.__setstate__(dict(vars(model)))
    assert old.predictor_ is model.predictor_


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"recipe": "method = 3"}, "the saved classifier: method"),
        ({"recipe": "= ="}, "is damaged"),
        ({"classes": ["a"]}, "the saved classifier"),
        ({"shape": [10**12]}, "its inputs have the shape"),
        ({"shape": [2**25]}, "far larger model"),
        ({"parents": [None, None, 3]}, "parents are not classes"),
        ({"parents": [1, 2, 0]}, "in a circle"),
        ({"weights": {}}, "do not fit"),
        ({"weights": None}, "is damaged"),
        ({"calibration": {"from": "seen"}}, "train again"),
    ],
)
def test_damaged_states_are_refused(items, change, why):
    state = PlusOneClassifier("em", epochs=1, random_state=0).fit(*items).__getstate__()
    state["predictor_"] |= change
    with pytest.raises(InputError, match=why):
        PlusOneClassifier.__new__(PlusOneClassifier).__setstate__(state)


def test_a_file_without_our_class_is_refused(items):
    skops = pytest.importorskip("skops.io", reason="the extra skops is not installed")
    model = PlusOneClassifier("em", epochs=1, random_state=0).fit(*items)
    with pytest.raises(Exception, match="Untrusted types"):
        skops.load(BytesIO(skops.dumps(model)))
