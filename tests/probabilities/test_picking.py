"""The pick models against sums over all label sets, and saliences against picks of known labels."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from plusone.probabilities.picks import (
    DOUBT,
    ERRORS,
    EXPLICIT,
    UNIFORM,
    Picked,
    PickModel,
    Salience,
    given_seen,
    learn_salience,
    random_picks_p_value,
    shrunken_salience,
)


def by_hand(p, seen, e=None):
    """P(seen), and P(label | seen), by going through all sets of labels."""
    e = np.ones(len(p)) if e is None else np.asarray(e)
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
            named = chance * e[seen] / (e * labels).sum()
            total += named
            joint += named * np.array(labels)
    return total / any_label, joint / total, means / any_label


SALIENCES = (None, (1.0,) * 8, (3, 0.2, 1, 1, 5, 0.5, 2, 0.7), (1e-3, 20, 1, 1, 1, 1, 1, 400))


@pytest.mark.parametrize("e", SALIENCES)
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_sum_over_all_sets(seed, e):
    rng, picks = np.random.default_rng(seed), PickModel(e)
    z = torch.from_numpy(rng.normal(-1, 2.5, size=(3, 8)))
    p = torch.sigmoid(z).numpy()
    assert (p < EXPLICIT).any()
    assert (p > EXPLICIT).any()
    picked = Picked(torch.tensor([0, 3, 7]))
    for row, seen in enumerate((0, 3, 7)):
        chance, after, before = by_hand(p[row], seen, e)
        near = 1e-6 if e is None else 1e-4  # of the sum in log t
        assert picks.log_likelihood(z, picked).exp()[row] == pytest.approx(chance, rel=near)
        np.testing.assert_allclose(picks.posterior(z, picked)[row], after, rtol=20 * near)
        np.testing.assert_allclose(picks.label_means(z, picked)[row], before, rtol=1e-9)


def test_the_chances_of_all_labels_sum_to_one():
    rng = np.random.default_rng(0)
    z = torch.from_numpy(rng.normal(size=(1, 30))).repeat(30, 1)
    for picks in (UNIFORM, PickModel(rng.lognormal(size=30))):
        total = picks.log_likelihood(z, Picked(torch.arange(30))).exp().sum()
        assert total == pytest.approx(1.0, abs=1e-5)


def test_several_seen_positives_and_items_without_any():
    z, picks = torch.zeros(3, 3, dtype=torch.float64), PickModel([4.0, 1.0, 1.0])
    states = np.array([[1, 1, 0], [0, 0, 0], [-1, 1, 0]], dtype=np.int8)
    found = given_seen(z, states, picks)
    # The first of several counts as picked, and the others are known to be there.
    _, after, before = by_hand([0.5, 1.0, 0.5], 0, [4, 1, 1])
    np.testing.assert_allclose(found[0], [1, 1, after[2]], rtol=1e-3)
    _, _, before = by_hand([0.5, 0.5, 0.5], 0)
    np.testing.assert_allclose(found[1], before, rtol=1e-9)
    np.testing.assert_allclose(found[2], [0, 1, by_hand([0.5, 0.5], 0)[1][1]], rtol=1e-3)


def picks_of(truth, e, seed=0):
    """One label of each item, named in proportion to its salience."""
    odds = truth * np.asarray(e)
    edges = (odds / odds.sum(1, keepdims=True)).cumsum(1)
    label = (edges > np.random.default_rng(seed).random((len(truth), 1))).argmax(1)
    return np.eye(truth.shape[1], dtype=np.int8)[label]


def test_saliences_are_learned_from_picks_among_known_labels():
    rng, e = np.random.default_rng(0), np.array([4.0, 1.0, 0.5, 0.5, 0.25])
    truth = (rng.random((4000, 5)) < 0.5).astype(float)
    truth[truth.sum(1) == 0, 0] = 1
    seen = torch.from_numpy(picks_of(truth, e))
    found = learn_salience(torch.from_numpy(truth), seen).numpy()
    np.testing.assert_allclose(found, e / e.mean(), rtol=0.15)
    weights = torch.from_numpy((rng.random(4000) < 0.5).astype(float))
    half = learn_salience(torch.from_numpy(truth), seen, weights)
    kept = learn_salience(*(part[weights == 1] for part in (torch.from_numpy(truth), seen)))
    torch.testing.assert_close(half, kept)
    # Items with nothing seen, or nothing unobserved, tell nothing.
    more = torch.cat([seen, torch.zeros(9, 5, dtype=torch.int8), 2 * seen[:9] - 1])
    present = torch.cat([torch.from_numpy(truth), torch.rand(18, 5, dtype=torch.float64)])
    torch.testing.assert_close(learn_salience(present, more).numpy(), found)


def test_classes_that_never_meet_others_keep_the_average():
    truth = np.eye(3)[np.arange(300) % 3]
    found = learn_salience(torch.from_numpy(truth), torch.from_numpy(truth.astype(np.int8)))
    np.testing.assert_allclose(found, 1.0, atol=0.02)


def test_saliences_lose_what_errors_explain():
    seen = torch.eye(2, dtype=torch.float64).repeat(4, 1)
    e = torch.tensor([1.2, 1 / 1.2], dtype=torch.float64)
    spread = np.log(1.2)  # on both sides of 1, in equal shares
    found = shrunken_salience(e, seen)
    logs = (1 - ERRORS**2 / spread**2) * spread
    assert (found[0] / found[1]).log() == pytest.approx(2 * logs)
    assert found.mean() == pytest.approx(1)
    assert torch.equal(shrunken_salience(e**0.2, seen), torch.ones(2, dtype=torch.float64))
    weights = torch.tensor([3.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(
        shrunken_salience(e, seen[:2], weights),
        shrunken_salience(e, torch.cat([seen[:1], seen[:1], seen[:2]])),
    )


def test_a_finding_in_words():
    random = Salience((1.1, 0.9), (0.2, 0.2), 0.4)
    assert not random.found
    assert "no sign" in random.finding(["person", "ball"])
    salience = Salience((1.8, 0.2), (0.1, 0.1), 0.05)
    low, high = salience.interval(0)
    assert low < 1.8 < high
    sentence = salience.finding(["person", "ball"])
    assert sentence.index("person 1.8 x") < sentence.index("ball 0.2 x")
    assert "seem" in sentence
    assert DOUBT in sentence
    assert "cannot be told" in replace(salience, p_value=None).finding(["person", "ball"])
    audited = replace(salience, audited=60)
    assert "60 audited items" in audited.finding(["person", "ball"])
    assert DOUBT not in audited.finding(["person", "ball"])
    for each in (salience, audited):
        assert Salience.from_dict(each.to_dict()) == each


@pytest.mark.parametrize("many", [1, 2])
def test_picks_among_known_labels_are_tested_exactly(many):
    """At 5 %, whatever the labels are; a class that is always alone is no bias."""
    found = {}
    for name, e in (("random", np.ones(6)), ("biased", np.array([6.0, 3, 1, 1, 1, 0.3]))):
        values = []
        for seed in range(60):
            rng = np.random.default_rng(seed)
            truth = rng.random((100, 6)) < 0.4
            truth[np.arange(100), rng.integers(5, size=100)] = True
            truth[:20] = np.eye(6, dtype=bool)[5]
            order = np.where(truth, np.log(e) + rng.gumbel(size=truth.shape), -np.inf)
            last = np.sort(order, axis=1)[:, -many, None]
            values.append(random_picks_p_value(truth, truth & (order >= last), seed))
        found[name] = np.mean(np.array(values) <= 0.05)
    assert found["random"] <= 0.12
    assert found["biased"] >= 0.9


def test_items_with_one_label_say_nothing_of_picks():
    alone = np.eye(3, dtype=bool)
    assert random_picks_p_value(alone, alone) is None


@pytest.mark.parametrize("e", [(1.0, 0.0), (1.0, -1.0), (1.0, float("nan")), ((1.0,),)])
def test_saliences_must_be_positive_numbers(e):
    with pytest.raises(ValueError, match="positive numbers"):
        PickModel(e)


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
