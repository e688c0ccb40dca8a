"""Methods that learn from hints."""

import math

import pytest
import torch
from torch.nn.functional import softplus

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.methods import METHODS
from plusone.methods._hinted import highest, lowest
from plusone.types import Clock, TrainLabels

NAN = torch.nan


def total_without_hints(make, name, options):
    case = make(name, options=options)
    case.method.hints = None
    return [case.total(case.batch(), Clock(0, epoch, 8, 0, 1)) for epoch in range(8)]


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_gpr_without_hints_and_count_is_gr(make, variant):
    mine = total_without_hints(make, "gpr", {"reg": 0.0, "variant": variant})
    case = make("gr", options={"variant": variant})
    assert mine == [case.total(case.batch(), Clock(0, epoch, 8, 0, 1)) for epoch in range(8)]


@pytest.fixture
def some(make):
    """A method, logits, labels of all three states, and hints with none for one item."""

    def build(name, **options):
        case = make(name, options=options)
        y, hints = case.observed.clone(), case.method.hints
        hints[2] = NAN
        y[0, y[0] == 0] = torch.tensor([-1.0, 0, 0, 0, 0])
        hints[0, y[0] == 0] = torch.tensor([options["theta"], 0.9, 0.1, 0.2])
        z = 2 * torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
        return case, z.requires_grad_(), y, hints

    return build


def test_vlpl_by_a_loop(some, same):
    case, z, y, hints = some("vlpl", alpha=0.3, beta=0.6, theta=0.5, rho=0.8)
    total = 0.0
    for logit, label, hint in zip(z.flatten(), y.flatten(), hints.flatten(), strict=True):
        p, lp, ln = torch.sigmoid(logit), softplus(-logit), softplus(logit)
        if label != 0:
            total += lp if label > 0 else ln
        elif hint > 0.5:
            total += 0.6 * (0.8 * lp + 0.2 * ln)
        else:
            total += -0.3 * (p * lp + (1 - p) * ln)
    same(case.on_logits(z, y), total / 48, z)


def test_gpr_by_a_loop(some, same):
    """In the third of five epochs; the weights of pseudo positives meet both limits."""
    options = {"w": 3.0, "mu": 0.9, "sigma": 0.1, "sigma_start": 0.3, "q2": 0.3, "q3": 1.2}
    options |= {"lam1": 0.6, "lam2": 0.2, "rho": 0.8, "reg": 0.7, "theta": 0.4, "top": 2}
    case, z, y, hints = some("gpr", negatives=0.4, **options)
    w, b, mu, sigma = 0.4 * 3, -2, 0.5 + 0.6 * 0.4, 0.3 - 0.6 * 0.2
    total, weights = 0.0, set()
    for logits, labels, row in zip(z, y, hints.tolist(), strict=True):
        order = [] if math.isnan(row[0]) else sorted(range(6), key=row.__getitem__)
        high, low = [j for j in order[-2:] if row[j] >= 0.4], order[:2]
        for j, (logit, label) in enumerate(zip(logits, labels, strict=True)):
            p, lp, ln = torch.sigmoid(logit), softplus(-logit), softplus(logit)
            v = math.exp(-((p.item() - mu) ** 2) / (2 * sigma**2))
            khat = 1 / (1 + math.exp(-w * p.item() - b))
            if label != 0:
                total += lp if label > 0 else ln
            elif j in high:
                weight = min(max(1 - v, 0.2), 0.6)
                weights.add(weight)
                total += weight * (0.8 * lp + 0.2 * ln)
            elif j in low:
                total += v * ln
            else:
                total += v * khat * (1 - p**0.3) / 0.3
                total += v * (1 - khat) * (1 - (1 - p) ** 1.2) / 1.2
    assert {0.2, 0.6} < weights
    count = (torch.sigmoid(z).sum() / 8 - 1.7) / 6
    same(case.on_logits(z, y), total / 48 + 0.7 * count**2, z)


def test_pseudo_labels_of_gpr():
    info = METHODS["gpr"]
    labels = TrainLabels(LabelMatrix.from_dense([[1, 0, 0, 0, 0]]))
    method = info.build(labels, info.make_options({"top": 2, "negatives": 0.4}))
    hints = torch.tensor(
        [
            [0.6, 0.9, 0.7, 0.1, 0.2],  # two of three above theta
            [0.1, 0.2, 0.3, 0.0, 0.5],  # theta itself counts
            [0.9, 0.8, NAN, NAN, NAN],  # what is high is not low as well
            [0.45, NAN, NAN, NAN, NAN],  # 0.4 of one hint is none
            [0.45, 0.3, 0.1, NAN, NAN],
            [NAN] * 5,
        ]
    )
    assert method.pseudo_labels(hints).tolist() == [
        [0, 1, 1, -1, -1],
        [-1, 0, 0, -1, 1],
        [1, 1, 0, 0, 0],
        [0, 0, 0, 0, 0],
        [0, 0, -1, 0, 0],
        [0, 0, 0, 0, 0],
    ]


def test_equal_hints_give_exact_numbers():
    hints = torch.zeros(3, 10)
    assert highest(hints, 3).sum(1).tolist() == [3, 3, 3]
    assert lowest(hints, 0.29).sum(1).tolist() == [2, 2, 2]
    assert not lowest(hints, 0.0).any()
    for share in range(101):  # some products are a little too small in floating point
        assert lowest(torch.zeros(100), share / 100).sum() == share


def test_options_that_cannot_work_are_refused():
    for options, match in (({"lam2": 0.8}, "lam2 must not be"), ({"negatives": 1.5}, "share")):
        with pytest.raises(InputError, match=match):
            METHODS["gpr"].make_options(options)
