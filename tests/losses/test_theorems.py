"""LASD, Theorem 5.2: what makes learning from one positive label as good as from all of them."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plusone import losses
from plusone.data.observation import observe

K = 5
LABEL_SETS = [set(c) for size in range(1, K + 1) for c in combinations(range(K), size)]

# Theorem 5.2 holds for any loss of one positive label; a few of each kind.
LOSSES = {
    "an": losses.assume_negative,
    "wan": losses.weak_negative,
    "em": lambda z, y: losses.entropy_maximization(z, y, alpha=0.2),
    "gr": lambda z, y: losses.generalized_robust(z, y, w=2.0, b=-2.0, mu=0.8, sigma=0.5),
    "lasd": lambda z, y: losses.leveraged_asymmetric(z, y, lam_plus=0.3, lam_minus=0.4, tau=0.6),
}


def costs(loss, z):
    """The loss of an item for each label that may be the seen one, `[K]`."""
    return loss(z.expand(K, K), torch.eye(K, dtype=torch.float64)).sum(1)


@pytest.mark.parametrize("name", LOSSES)
@given(seed=st.integers(0, 2**31), concentration=st.floats(0.05, 5.0))
@settings(max_examples=30)
def test_theorem_5_2_both_risks_are_equal(name, seed, concentration):
    """On random label distributions: Assumption 5.1 gives p(z | x), Eq. 9 the full-label loss."""
    make = torch.Generator().manual_seed(seed)
    z = 3 * torch.randn(K, generator=make, dtype=torch.float64)
    weights = torch.rand(len(LABEL_SETS), generator=make, dtype=torch.float64) ** (
        1 / concentration
    )
    p_sets = weights / weights.sum()
    cost = costs(LOSSES[name], z)
    p_seen = torch.zeros(K, dtype=torch.float64)
    full_risk = 0.0
    for p, labels in zip(p_sets.tolist(), LABEL_SETS, strict=True):
        full_risk += p * sum(cost[label].item() for label in labels) / len(labels)
        for label in labels:
            p_seen[label] += p / len(labels)
    assert p_seen.sum().item() == pytest.approx(1.0)
    assert (p_seen @ cost).item() == pytest.approx(full_risk, rel=1e-9)


def test_the_simulated_annotator_fulfils_assumption_5_1():
    """The seen label is uniform among the positives, so the risks above are those of training."""
    n = 6000
    for labels in ({0, 2, 3}, {1, 4}):
        truth = torch.zeros(n, K, dtype=torch.int64)
        truth[:, sorted(labels)] = 1
        seen = observe(truth, "single", 3)
        shares = (seen == 1).double().mean(0)
        for label in range(K):
            expected = 1 / len(labels) if label in labels else 0.0
            assert shares[label].item() == pytest.approx(expected, abs=0.03)


def test_theorem_5_2_needs_the_uniform_pick():
    """An annotator who prefers some labels gives another risk: the test above can fail."""
    z = torch.tensor([2.0, -1.0, 0.5, -3.0, 1.0], dtype=torch.float64)
    cost = costs(LOSSES["lasd"], z)
    uniform = cost[[0, 1]].mean()
    biased = 0.9 * cost[0] + 0.1 * cost[1]
    assert abs(uniform - biased) > 0.1
