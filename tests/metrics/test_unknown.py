"""Truth in three states: what is unknown is masked, or counts as negative, or as positive."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from plusone.metrics import (
    average_precision,
    brier_score,
    coverage_error,
    evaluate,
    evaluate_recovery,
    expected_calibration_error,
    hamming_loss,
    mean_average_precision,
    one_error,
    precision_recall,
    predictive_values,
    ranking_loss,
)
from plusone.metrics.calibration_error import mean_and_rate


@pytest.fixture
def tables():
    rng = np.random.default_rng(0)
    scores = rng.random((60, 9)).round(2)  # with ties
    states = rng.choice([1, 0, -1], p=[0.3, 0.4, 0.3], size=scores.shape)
    return scores, states


def known_pairs(scores, states):
    return zip(scores.tolist(), states.tolist(), strict=True)


def test_a_class_is_ranked_among_its_known_labels(tables):
    scores, states = tables
    expected = [
        average_precision_score(y[y != 0] == 1, s[y != 0])
        for s, y in zip(scores.T, states.T, strict=True)
    ]
    np.testing.assert_allclose(average_precision(scores, states), expected, rtol=0, atol=1e-12)
    assert mean_average_precision(scores, states) == pytest.approx(np.mean(expected))


def test_metrics_of_items_by_loops(tables):
    scores, states = tables
    coverage, losses, errors = [], [], []
    for s, y in known_pairs(scores, states):
        positive = [a for a, b in zip(s, y, strict=True) if b == 1]
        negative = [a for a, b in zip(s, y, strict=True) if b == -1]
        lowest = min(positive, default=np.inf)
        coverage.append(sum(a >= lowest for a in positive + negative))
        wrong = sum(p <= n for p in positive for n in negative)
        losses.append(wrong / max(len(positive) * len(negative), 1))
        if positive:
            known = [(a, -place, b) for place, (a, b) in enumerate(zip(s, y, strict=True)) if b]
            errors.append(max(known)[2] != 1)
    assert coverage_error(scores, states) == pytest.approx(np.mean(coverage))
    assert ranking_loss(scores, states) == pytest.approx(np.mean(losses))
    assert one_error(scores, states) == pytest.approx(np.mean(errors))


def test_metrics_of_entries_leave_unknown_ones_out(tables):
    scores, states = tables
    p, y = scores[states != 0][:, None], states[states != 0][:, None]  # one class: pooled values
    for metric in (hamming_loss, brier_score, expected_calibration_error):
        assert metric(scores, states) == pytest.approx(metric(p, y))
    for metric, keys in (
        (precision_recall, ("op", "or", "of1")),
        (predictive_values, ("ppv_pooled", "npv_pooled")),
        (mean_and_rate, ("mean_probability", "true_rate")),
    ):
        masked, alone = metric(scores, states), metric(p, y)
        assert [masked[key] for key in keys] == pytest.approx([alone[key] for key in keys])
    per_class = [
        precision_recall(s[y != 0][:, None], y[y != 0][:, None])
        for s, y in zip(scores.T, states.T, strict=True)
    ]
    for key in ("cp", "cr"):
        assert precision_recall(scores, states)[key] == pytest.approx(
            np.mean([each[key] for each in per_class])
        )


@pytest.mark.parametrize(("unknown", "filled"), [("negative", -1), ("positive", 1)])
def test_the_two_assumptions_are_complete_tables(tables, unknown, filled):
    scores, states = tables
    complete = np.where(states == 0, filled, states)
    found, expected = evaluate(scores, states, unknown=unknown), evaluate(scores, complete)
    assert found == pytest.approx(expected, nan_ok=True)
    assert found["map"] != pytest.approx(evaluate(scores, states)["map"], abs=1e-3)


def test_the_two_assumptions_are_no_bounds():
    """The masked value can lie outside of both, and so can that of the complete truth."""
    scores = np.array([[0.9], [0.8], [0.7], [0.6]])

    def found(*states):
        ways = ("masked", "negative", "positive")
        truth = np.array(states)[:, None]
        return [mean_average_precision(scores, truth, unknown=way) for way in ways]

    assert found(0, 1, -1, 0) == pytest.approx([1, 1 / 2, 11 / 12])
    _, *ends = found(1, 0, -1, 0)
    assert min(ends) > found(1, -1, -1, 1)[0] == pytest.approx(3 / 4)


def test_a_table_of_zeros_and_ones_is_complete(tables):
    scores, states = tables
    binary = (states == 1).astype(int)
    same = evaluate(scores, np.where(binary, 1, -1))
    assert evaluate(scores, binary) == evaluate(scores, binary, unknown="negative") == same
    assert evaluate(scores, np.where(binary, 1, -1), unknown="masked") == same
    with pytest.raises(ValueError, match="got 'ignored'"):
        evaluate(scores, binary, unknown="ignored")


def test_a_class_without_a_known_negative_is_not_measured():
    scores = np.array([[0.9, 0.9, 0.1], [0.8, 0.8, 0.2], [0.7, 0.1, 0.3]])
    truth = np.array([[1, 1, 1], [1, -1, 1], [0, 1, 1]])  # the third class has no unknown label
    found = average_precision(scores, truth).tolist()
    assert np.isnan(found[0])
    assert found[1:] == pytest.approx([(1 + 2 / 3) / 2, 1.0])
    expected = np.mean(found[1:])
    for empty in ("skip", "zero"):
        assert mean_average_precision(scores, truth, empty) == pytest.approx(expected)
    assert evaluate(scores, truth, top_k=1)["map"] == pytest.approx(expected)
    only = np.array([[1], [0]])  # masked: no negative at all
    assert np.isnan(mean_average_precision(scores[:2, :1], only, unknown="masked"))


def test_hidden_labels_are_known_ones():
    scores = np.array([[0.9], [0.8], [0.7], [0.6]])
    truth = np.array([[1], [0], [-1], [1]])
    seen = np.array([[1], [0], [0], [0]])
    found = evaluate_recovery(scores, truth, seen)
    assert (found["hidden_map"], found["hidden_ap"], found["hidden_positives"]) == (0.5, 0.5, 1)
