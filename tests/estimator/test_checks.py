"""scikit-learn's own checks of estimators, and where a multi-label classifier differs."""

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from plusone import PlusOneClassifier

ONE_CLASS = (
    "one class per item in y is one seen label of several, so predict gives a matrix of labels and "
    "not one class"
)
DIFFERENT = {
    "check_classifiers_train": ONE_CLASS,
    "check_classifiers_classes": ONE_CLASS,
    "check_decision_proba_consistency": "two classes are two labels: decision_function has two "
    "columns and not one",
    "check_sample_weight_equivalence_on_dense_data": "weights decide how often an item is visited; "
    "the same on average as repeating it, not bit for bit",
}
BY_CLASS = {
    "check_classifier_multioutput": "predicts above a threshold of each class, chosen on held-out "
    "items; with threshold=0.5 the check passes",
}
CHOSEN = PlusOneClassifier("gr", epochs=2, random_state=0)


@pytest.fixture(autouse=True)
def float32_resolution(monkeypatch):
    """Predictions are float32, and their last digit may depend on an item's place in a product."""
    compare = estimator_checks.assert_allclose_dense_sparse

    def close(x, y, rtol=1e-7, atol=1e-9, err_msg=""):
        compare(x, y, rtol=max(rtol, 1e-6), atol=atol, err_msg=err_msg)

    monkeypatch.setattr(estimator_checks, "assert_allclose_dense_sparse", close)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([CHOSEN], expected_failed_checks=lambda _: DIFFERENT | BY_CLASS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("check", BY_CLASS)
def test_checks_that_pass_with_one_threshold(check):
    estimator = PlusOneClassifier("an", epochs=2, threshold=0.5, random_state=0)
    getattr(estimator_checks, check)("PlusOneClassifier", estimator)
