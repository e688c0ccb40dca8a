"""CRISP: the best bin, the risk, the warm-up, and where the priors come from."""

import math

import numpy as np
import pytest
import torch

import plusone
from plusone.data import Dataset, LabelMatrix
from plusone.errors import InputError
from plusone.losses import assume_negative as an
from plusone.losses import class_prior_risk, reduce
from plusone.methods import METHODS
from plusone.probabilities.best_bin import best_bin_priors
from plusone.types import Batch, Clock, Outputs, TrainLabels


def best_bin_by_a_loop(scores, seen, delta=0.01, tau=0.01):
    n, own = len(scores), [s for s, y in zip(scores, seen, strict=True) if y]
    if not own:
        return 0.0
    c = math.sqrt(math.log(4 / delta) / (2 * n)) + math.sqrt(math.log(4 / delta) / (2 * len(own)))
    bins = []
    for z in sorted(set(scores), reverse=True):
        q = sum(s >= z for s in scores) / n
        q_p = sum(s >= z for s in own) / len(own)
        if q_p:
            bins.append(((q + (1 + tau) * c) / q_p, q / q_p))
    return min(max(min(bins)[1], len(own) / n), 1.0)


@pytest.mark.parametrize("digits", [1, 6])  # many ties, and none
def test_the_best_bin_by_a_loop(digits):
    rng = np.random.default_rng(0)
    truth = rng.random((90, 20)) < rng.random(20) * 0.8
    scores = (truth + rng.normal(size=truth.shape)).round(digits)
    seen = truth & (rng.random(truth.shape) < 0.4)
    seen[:, 3] = False
    priors = best_bin_priors(torch.from_numpy(scores), torch.from_numpy(seen))
    columns = zip(scores.T.tolist(), seen.T.tolist(), strict=True)
    expected = torch.tensor([best_bin_by_a_loop(*column) for column in columns])
    torch.testing.assert_close(priors.float(), expected)


def test_a_perfect_scorer_gives_the_exact_prior():
    truth = torch.zeros(400, 3, dtype=torch.bool)
    for column, count in enumerate((40, 120, 300)):
        truth[:count, column] = True
    scores = truth + torch.linspace(0, 0.5, 400)[:, None]
    seen = truth.clone()
    seen[1::2] = False  # every second positive is hidden
    torch.testing.assert_close(best_bin_priors(scores, seen), torch.tensor([0.1, 0.3, 0.75]))


def test_the_risk_by_a_loop():
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(7, 4, generator=generator, dtype=torch.float64)
    y = torch.randint(-1, 2, (7, 4), generator=generator)
    y[:, 2] = 0  # no seen positive in the batch
    priors = torch.tensor([0.3, 0.1, 0.6, 0.9], dtype=torch.float64)
    positives = away = 0.0
    for logits, labels, pi in zip(z.T.tolist(), y.T.tolist(), priors.tolist(), strict=True):
        p = [1 / (1 + math.exp(-logit)) for logit in logits]
        own = [1 - value for value, label in zip(p, labels, strict=True) if label == 1]
        positives += 2 * pi * sum(own) / len(own) if own else 0.0
        seen_negative = [v for v, label in zip(p, labels, strict=True) if label < 0]
        positives -= sum(math.log(1 - v) for v in seen_negative) / 7
        away += abs(sum(p) / 7 - pi)
    terms = class_prior_risk(z, y, priors=priors)
    assert terms["positives"].item() == pytest.approx(positives)
    assert terms["priors"].item() == pytest.approx(away)


def test_the_second_part_has_one_sign_for_each_class_and_is_zero_at_the_truth():
    z = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    priors = torch.tensor([0.01, 0.99, 0.5])
    class_prior_risk(z, torch.zeros(6, 3), priors=priors)["priors"].backward()
    signs = z.grad.sign()
    assert signs.eq(signs[0]).all()
    assert signs[0, :2].tolist() == [1, -1]
    truth = torch.tensor([[1.0, 0], [1, 0], [0, 1], [0, 0]])
    terms = class_prior_risk(99 * (2 * truth - 1), truth, priors=truth.mean(0))
    assert sum(terms.values()) < 1e-6


LABELS = np.eye(3, dtype=int)[[0, 0, 1, 2, 2, 2]]


def build(priors=None, **options):
    labels = TrainLabels(LabelMatrix.from_dense(LABELS), class_priors=priors)
    return METHODS["crisp"].build(labels, METHODS["crisp"].make_options(options))


def terms_of(method, z, epoch, stage=0):
    y = torch.from_numpy(LABELS).float()
    batch = Batch((z,), y, torch.arange(len(z)))
    return method.loss((Outputs(z, z),), batch, Clock(stage, epoch, 5, 0, 1))


def test_warm_up_then_priors_of_every_epoch():
    method, z = build(), torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    y = torch.from_numpy(LABELS).float()
    assert terms_of(method, z, 0)["warmup"].equal(reduce(an(z, y), "item"))
    assert terms_of(method, z, 0, stage=1).keys() == {"positives", "priors"}  # fine-tuning
    assert method.priors.tolist() == pytest.approx([2 / 6, 1 / 6, 3 / 6])  # what was seen
    method.after_epoch(Clock(0, 0, 5, 0, 1), lambda: z)
    torch.testing.assert_close(method.priors, best_bin_priors(z, y == 1))
    expected = class_prior_risk(z, y, priors=method.priors)
    assert all(value.equal(expected[name]) for name, value in terms_of(method, z, 1).items())


def test_a_running_mean_decides_the_sign_alone():
    z = torch.full((6, 3), 1.0, requires_grad=True)
    plain, slow = build((0.5, 0.5, 0.5)), build((0.5, 0.5, 0.5), decay=0.9)
    slow.mean.zero_()
    (up,) = torch.autograd.grad(terms_of(plain, z, 1)["priors"], z)
    (down,) = torch.autograd.grad(terms_of(slow, z, 1)["priors"], z)
    torch.testing.assert_close(up, -down)
    slow.after_step((Outputs(z, z),), None, Clock(0, 1, 5, 0, 1))
    torch.testing.assert_close(slow.mean, 0.1 * torch.sigmoid(z[0]).detach())


def test_priors_that_are_given_counted_or_estimated():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 8)).astype(np.float32)
    data = Dataset.from_arrays(x, (x[:, :4] > 0.4).astype(int), complete=True)

    def priors(given):
        fitted = plusone.fit(data, "crisp", epochs=2, lr=0.01, class_priors=given)
        return fitted.training.method.priors, fitted.training.task.train

    found, train = priors("truth")
    counted = torch.from_numpy(train.truth.per_class(1) / len(train)).float()
    torch.testing.assert_close(found, counted)
    assert priors((0.1, 0.2, 0.3, 0.4))[0].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])
    seen = torch.from_numpy(train.observed.per_class(1) / len(train)).float()
    for own in (priors("estimate")[0], priors(None)[0]):
        assert (own >= seen - 1e-6).all()
        assert own.sum() > 1.05  # hidden positives are expected too
    with pytest.raises(InputError, match="class_priors has 2 numbers for the 4 classes there are"):
        priors((0.1, 0.2))
