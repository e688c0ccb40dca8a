"""The uniform-pick model against sums over all label sets."""

from itertools import product

import numpy as np
import pytest
import torch

from plusone.probabilities.picks import EXPLICIT, UNIFORM, Picked


def by_hand(p, seen):
    """P(seen), and P(label | seen), by going through all sets of labels."""
    joint = np.zeros(len(p))
    total = any_label = 0.0
    means = np.zeros(len(p))
    for labels in product((0, 1), repeat=len(p)):
        chance = np.prod([p[m] if y else 1 - p[m] for m, y in enumerate(labels)])
        if not any(labels):
            continue
        any_label += chance
        means += chance * np.array(labels)
        if labels[seen]:
            total += chance / sum(labels)
            joint += chance / sum(labels) * np.array(labels)
    return total / any_label, joint / total, means / any_label


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_sum_over_all_sets(seed):
    rng = np.random.default_rng(seed)
    z = torch.from_numpy(rng.normal(-1, 2.5, size=(3, 8)))
    p = torch.sigmoid(z).numpy()
    assert (p < EXPLICIT).any()
    assert (p > EXPLICIT).any()
    picked = Picked(torch.tensor([0, 3, 7]))
    for row, seen in enumerate((0, 3, 7)):
        chance, after, before = by_hand(p[row], seen)
        assert UNIFORM.log_likelihood(z, picked).exp()[row] == pytest.approx(chance, rel=1e-6)
        np.testing.assert_allclose(UNIFORM.posterior(z, picked)[row], after, rtol=1e-5)
        np.testing.assert_allclose(UNIFORM.label_means(z, picked)[row], before, rtol=1e-9)


def test_the_chances_of_all_labels_sum_to_one():
    z = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 30))).repeat(30, 1)
    assert UNIFORM.log_likelihood(z, Picked(torch.arange(30))).exp().sum() == pytest.approx(1.0)


def test_seen_negatives_are_as_if_the_class_were_not_there():
    z = torch.from_numpy(np.random.default_rng(1).normal(size=(1, 5)))
    negative = torch.tensor([[False, False, True, False, True]])
    with_them, kept = Picked(torch.tensor([0]), negative), ~negative[0]
    without = Picked(torch.tensor([0]))
    assert UNIFORM.log_likelihood(z, with_them) == pytest.approx(
        UNIFORM.log_likelihood(z[:, kept], without)
    )
    found = UNIFORM.posterior(z, with_them)
    torch.testing.assert_close(found[:, kept], UNIFORM.posterior(z[:, kept], without))
    assert not found[:, ~kept].any()
    assert len(with_them[torch.tensor([0])]) == 1


def test_extreme_logits_stay_finite_and_have_gradients():
    z = torch.tensor([[60.0, -60.0, 0.0], [-60.0, -60.0, -60.0]], dtype=torch.float64)
    z.requires_grad_()
    value = UNIFORM.log_likelihood(z, Picked(torch.tensor([1, 2])))
    assert torch.isfinite(value).all()
    value.sum().backward()
    assert torch.isfinite(z.grad).all()
    assert torch.autograd.gradcheck(
        lambda x: UNIFORM.log_likelihood(x, Picked(torch.tensor([1]))),
        torch.tensor([[0.3, -0.4, -4.0]], dtype=torch.float64, requires_grad=True),
    )
