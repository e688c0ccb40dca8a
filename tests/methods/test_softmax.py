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
