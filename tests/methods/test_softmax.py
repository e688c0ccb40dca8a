"""The multi-class baseline."""

import torch
from torch.nn import functional


def test_probabilities_sum_to_one(make):
    logits = torch.randn(5, 6, generator=torch.Generator().manual_seed(0)) * 10
    scores = make("softmax").method.probabilities(logits)
    torch.testing.assert_close(scores.sum(1), torch.ones(5))


def test_it_is_the_usual_cross_entropy(make):
    case = make("softmax")
    logits = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
    target = torch.arange(8) % 6
    observed = functional.one_hot(target, 6).float()
    expected = functional.cross_entropy(logits, target)
    torch.testing.assert_close(case.on_logits(logits, observed), expected)


def test_log_odds_rank_where_probabilities_round(make):
    """Logits of features in the thousands: as in float64, and no two different ones tie."""
    logits = torch.randn(400, 6, generator=torch.Generator().manual_seed(0)) * 3000 - 20_000
    method = make("softmax").method
    found, z = method.log_odds(logits), logits.double()
    others = [z[:, [c for c in range(6) if c != label]].logsumexp(1) for label in range(6)]
    exact = z - torch.stack(others, dim=1)
    torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-2)
    for column in found.T:
        assert len(column.unique()) > 390
    assert method.log_odds(torch.zeros(2, 1)).isfinite().all()  # one class
