import numpy as np
import pytest

from plusone.errors import InputError
from plusone.suggest.accept import accept, largest_set, summary
from plusone.suggest.calibration import Calibrated, Correction


def some(others=()):
    p = np.array([[1.0, 0.9, 0.5], [0.95, 1.0, 0.2], [0.8, 0.3, 1.0]])
    observed = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=np.int8)
    return Calibrated(p, others, p), observed


def test_the_largest_set_is_found():
    rng = np.random.default_rng(0)
    for _ in range(20):
        p = rng.random(30)
        best = max(n for n in range(31) if n == 0 or np.sort(p)[::-1][:n].mean() >= 0.8)
        chosen = largest_set(p, 0.8)
        assert chosen.sum() == best
        assert p[chosen].min(initial=2) >= p[~chosen].max(initial=-1)
    assert not largest_set(np.array([0.5]), 0.8).any()
    assert largest_set(np.zeros(0), 0.8).shape == (0,)


def test_seen_labels_are_never_accepted_and_all_classes_share_the_target():
    found, observed = some()
    made = accept(found, observed, 0.85)
    assert np.argwhere(made.mask).tolist() == [[0, 1], [1, 0], [2, 0]]
    assert made.expected == pytest.approx((0.9 + 0.95 + 0.8) / 3)
    assert made.count == 3
    assert made.threshold[:2].tolist() == [0.8, 0.9]
    assert np.isnan(made.threshold[2])
    assert made.low is None
    assert made.by_class[0] == (2, pytest.approx(0.875))


def test_each_class_can_have_to_reach_the_target():
    found, observed = some()
    made = accept(found, observed, 0.9, per_class=True)
    assert np.argwhere(made.mask).tolist() == [[0, 1], [1, 0]]


def test_nothing_accepted_is_no_error():
    found, observed = some()
    made = accept(found, observed, 0.99)
    assert (made.count, made.expected) == (0, None)
    result = summary(made, ("a", "b", "c"), np.ones((3, 3), dtype=bool), 6)
    assert result["true_precision"] is None


def test_less_lucky_audits_give_the_lower_bound():
    worse = tuple(Correction(-shift, np.ones(2), np.zeros(3)) for shift in np.linspace(0, 1, 41))
    found, observed = some(worse)
    made = accept(found, observed, 0.85)
    assert made.low is not None
    assert made.low < made.expected
    assert made.low == pytest.approx(worse[38](found.probabilities[made.mask]).mean(), abs=1e-3)


def test_the_truth_is_only_reported():
    found, observed = some()
    truth = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], dtype=bool)
    made = accept(found, observed, 0.85)
    result = summary(made, ("a", "b", "c"), truth, 3)
    assert result["true_precision"] == pytest.approx(2 / 3)
    assert result["recovered"] == pytest.approx(2 / 3)
    assert [row["true_precision"] for row in result["classes"]] == [0.5, 1.0, None]
    assert "true_precision" not in summary(made, ("a", "b", "c"), None, 0)


@pytest.mark.parametrize("target", [0, 1, 1.5])
def test_targets_must_make_sense(target):
    with pytest.raises(InputError, match="between 0 and 1"):
        accept(*some(), target)
