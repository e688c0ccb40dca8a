"""Seen labels that are probably wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.probabilities.picks import UNIFORM, Picked
from plusone.probabilities.wrong import NoisyPicks, _in_order, find_wrong


def made(share: float, n: int = 600, n_classes: int = 8, seed: int = 0):
    """Scores, seen labels and which of them are wrong."""
    rng = np.random.default_rng(seed)
    z = rng.normal(-3.0, 2.5, size=(n, n_classes))
    z[np.arange(n), rng.integers(n_classes, size=n)] += 5.0
    truth = rng.random(z.shape) < 1 / (1 + np.exp(-z))
    truth[np.arange(n), np.where(truth.any(axis=1), truth.argmax(axis=1), z.argmax(axis=1))] = True
    label = (truth * rng.random(truth.shape)).argmax(axis=1)
    wrong = np.arange(n) < share * n
    for row in np.flatnonzero(wrong):
        label[row] = rng.choice(np.flatnonzero(~truth[row]))
    states = np.eye(n_classes, dtype=np.int8)[label]
    return (
        1 / (1 + np.exp(-z)),
        LabelMatrix.from_dense(states),
        wrong,
        float(truth.sum(axis=1).mean()),
    )


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.05, 0.1])
def test_wrong_labels_come_first_and_have_an_upper_limit(share):
    scores, states, wrong, k = made(share)
    found = find_wrong(scores, states, k)
    assert found.row.tolist() == list(range(len(scores)))
    assert found.most is not None
    assert wrong.sum() <= found.most
    if share:
        order = np.argsort(-found.score)
        assert wrong[order[: wrong.sum()]].mean() > 0.6
        assert found.most < 3 * wrong.sum()
    else:
        assert found.most < 0.03 * len(scores)
    assert f"At most {found.most} of 600" in found.sentence
    assert found.to_dict()["at_most"] == found.most


@pytest.mark.slow
def test_scores_that_say_nothing_give_no_upper_limit():
    _, states, _, k = made(0.05, n=100)
    found = find_wrong(np.full(states.shape, 0.3), states, k)
    assert found.most is None
    assert found.to_dict()["at_most"] is None
    assert "cannot tell" in found.sentence


def test_the_order_is_the_mean_of_two_ranks():
    share, own = np.array([0.9, 0.5, 0.1, 0.2]), np.array([0.6, 0.1, 0.8, 0.2])
    # Ranks of the share 4, 3, 1, 2; of the seen label's score, the lowest first, 2, 4, 1, 3.
    assert _in_order(share, own).tolist() == [0.5, 0.9, 0.1, 0.2]


def test_the_mixture_sums_to_one_and_knows_what_is_absent():
    z = torch.tensor([[3.0, -2.0, 0.5, -4.0]], dtype=torch.float64)
    noisy = NoisyPicks(UNIFORM, 0.2, torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64))
    each = [Picked(torch.tensor([label])) for label in range(4)]
    assert sum(noisy.log_likelihood(z, one).exp().item() for one in each) == pytest.approx(1)
    assert sum(noisy.log_wrong(z, one).exp().item() for one in each) == pytest.approx(1)
    wrong = [noisy.wrong(z, one).item() for one in each]
    assert wrong[0] < 0.05 < wrong[1] < wrong[3]
    after = noisy.posterior(z, each[1])[0]
    assert after[1] == pytest.approx(1 - wrong[1])
    assert after[0] > UNIFORM.posterior(z, each[1])[0, 0]  # a wrong label says nothing against it


def test_items_that_a_person_has_checked_are_not_judged():
    scores, states, _, k = made(0.1, n=60)
    dense = states.dense()
    dense[3, (dense[3].argmax() + 1) % 8] = 1  # two seen labels
    states = LabelMatrix.from_dense(dense)
    found = find_wrong(scores, states, k, known=np.array([0, 1]))
    assert set(range(60)) - set(found.row.tolist()) == {0, 1, 3}
    assert (found.instead != found.label[:, None]).all()
    assert (np.diff(found.fit, axis=1) <= 0).all()
    with pytest.raises(InputError, match="one seen positive"):
        find_wrong(scores[:10], states.take(range(10)), k)
