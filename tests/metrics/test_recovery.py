"""Recovery of hidden labels against loops over the unobserved entries."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from plusone.metrics import evaluate_recovery, hidden_average_precision, mean_average_precision


def problem(seed, items=60, labels=6):
    rng = np.random.default_rng(seed)
    scores = rng.random((items, labels)).round(1)
    truth = rng.random((items, labels)) < 0.4
    observed = np.zeros((items, labels), dtype=np.int8)
    for row in range(items):
        if truth[row].any():
            observed[row, rng.choice(np.flatnonzero(truth[row]))] = 1
    observed[0, ~truth[0]] = -1
    return scores, truth, observed


def test_recovery_equals_a_loop():
    scores, truth, observed = problem(0)
    aps, recalls, pooled = [], [], []
    for label in range(scores.shape[1]):
        entries = [
            (s, t)
            for s, t, o in zip(scores[:, label], truth[:, label], observed[:, label], strict=True)
            if o == 0
        ]
        pooled += entries
        aps.append(average_precision_score([t for _, t in entries], [s for s, _ in entries]))
        hidden = [s for s, t in entries if t]
        recalls.append(sum(s > 0.5 for s in hidden) / len(hidden))
    hidden = [s for s, t in pooled if t]
    np.testing.assert_allclose(
        hidden_average_precision(scores, truth, observed).numpy(), aps, rtol=0, atol=1e-12
    )
    assert evaluate_recovery(scores, truth, torch.from_numpy(observed)) == pytest.approx(
        {
            "recovery_map": mean_average_precision(scores, truth),
            "hidden_map": np.mean(aps),
            "hidden_ap": average_precision_score([t for _, t in pooled], [s for s, _ in pooled]),
            "hidden_recall": np.mean(recalls),
            "hidden_found": sum(s > 0.5 for s in hidden) / len(hidden),
            "hidden_positives": len(hidden),
        },
        abs=1e-12,
    )


def test_threshold_moves_what_is_found():
    scores, truth, observed = problem(1)
    low = evaluate_recovery(scores, truth, observed, threshold=-1.0)
    high = evaluate_recovery(scores, truth, observed, threshold=2.0)
    assert (low["hidden_found"], low["hidden_recall"]) == (1.0, 1.0)
    assert (high["hidden_found"], high["hidden_recall"]) == (0.0, 0.0)


def test_observed_entries_do_not_matter_to_hidden_values():
    scores, truth, observed = problem(2)
    changed = np.where(observed == 0, scores, 1 - scores)
    before = evaluate_recovery(scores, truth, observed)
    after = evaluate_recovery(changed, truth, observed)
    assert before.pop("recovery_map") != after.pop("recovery_map")
    assert before == after


def test_nothing_hidden():
    scores, truth, _ = problem(3)
    everything = np.where(truth, 1, -1)
    got = evaluate_recovery(scores, truth, everything)
    assert got["hidden_positives"] == 0
    for key in ("hidden_map", "hidden_ap", "hidden_recall", "hidden_found"):
        assert np.isnan(got[key])
    assert np.isnan(evaluate_recovery(scores, truth, everything, empty="zero")["hidden_map"])
    assert hidden_average_precision(scores, truth, everything).isnan().all()


def test_a_class_without_hidden_positives():
    scores = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
    truth = torch.tensor([[1, 0], [0, 1]])
    observed = torch.tensor([[1, 0], [0, 0]])
    assert evaluate_recovery(scores, truth, observed)["hidden_map"] == 1.0
    # `empty` is about classes that nobody has, not about classes with nothing hidden.
    assert evaluate_recovery(scores, truth, observed, empty="zero")["hidden_map"] == 1.0


@pytest.mark.parametrize(
    ("observed", "message"),
    [
        (torch.zeros(3, 3), r"observed must have the shape of scores, \(2, 3\), got \(3, 3\)"),
        (torch.full((2, 3), 7), "observed must hold 1, 0 and -1 only, got 7 at item 0, label 0"),
    ],
)
def test_bad_observed_is_named(observed, message):
    with pytest.raises(ValueError, match=message):
        evaluate_recovery(torch.zeros(2, 3), torch.zeros(2, 3), observed)


def test_saturated_scores_are_ranked_by_their_log_odds():
    z = torch.tensor([[50.0], [200.0], [100.0], [-3.0]])
    truth, observed = torch.tensor([[0], [1], [1], [0]]), torch.tensor([[0], [1], [0], [0]])
    tied = evaluate_recovery(torch.sigmoid(z), truth, observed)
    exact = evaluate_recovery(torch.sigmoid(z), truth, observed, ranking=z)
    assert (tied["recovery_map"], exact["recovery_map"]) == (pytest.approx(2 / 3), 1.0)
    assert (exact["hidden_map"], exact["hidden_ap"], exact["hidden_found"]) == (1.0, 1.0, 1.0)
