import numpy as np
import pytest
import torch

from plusone.training.loader import visiting_order


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_without_weights_it_is_a_permutation():
    expected = torch.randperm(50, generator=draw())
    assert torch.equal(visiting_order(50, None, draw()), expected)
    assert torch.equal(visiting_order(50, np.full(50, 3.0), draw()), expected)


@pytest.mark.parametrize("seed", range(5))
def test_visits_are_the_share_rounded_down_or_up(seed):
    weights = np.random.default_rng(seed).exponential(size=200) * (np.arange(200) % 5 > 0)
    order = visiting_order(200, weights, draw(seed)).numpy()
    assert len(order) == 200
    visits, share = np.bincount(order, minlength=200), 200 * weights / weights.sum()
    assert (visits >= np.floor(share - 1e-9)).all()
    assert (visits <= np.ceil(share + 1e-9)).all()
    assert not visits[weights == 0].any()


def test_shares_are_met_on_average_and_neighbours_are_mixed():
    weights = np.array([1.0, 2.0, 0.5, 1.5])
    visits = np.zeros(4)
    for seed in range(400):
        visits += np.bincount(visiting_order(4, weights, draw(seed)).numpy(), minlength=4)
    assert visits / 400 == pytest.approx(4 * weights / weights.sum(), abs=0.08)
    first = {visiting_order(4, weights, draw(seed))[0].item() for seed in range(50)}
    assert first == {0, 1, 2, 3}
