"""Methods of presence-only and positive-unlabelled learning: naive loops and special cases."""

import math

import pytest
import torch
from torch.nn.functional import logsigmoid

from plusone.losses import assume_negative, reduce
from plusone.types import Batch, Outputs

LOGITS = torch.randn(8, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2


def costs(z):
    """-log p and -log(1 - p)."""
    return math.log1p(math.exp(-z)), math.log1p(math.exp(z))


def labels(case):
    """The seen labels, with two items without any and a seen negative."""
    y = case.observed.clone()
    y[5] = y[6] = 0
    y[0, (y[0] == 0).nonzero()[0]] = -1
    return y


@pytest.mark.parametrize("loss", ["an_full", "an_ssdl"])
@pytest.mark.parametrize("entropy", [False, True])
def test_sinr_by_a_loop(make, loss, entropy):
    case = make("sinr", options={"loss": loss, "positive_weight": 7.0, "entropy": entropy})
    y, z = labels(case), LOGITS

    def unobserved(i, c):
        lp, ln = costs(z[i, c])
        p = math.exp(-lp)
        return -(p * lp + (1 - p) * ln) if entropy else ln

    records = [i for i in range(8) if any(y[i] != 0)]
    places = [i for i in range(8) if all(y[i] == 0)]
    elsewhere = [sum(unobserved(j, c) for j in places) / len(places) for c in range(6)]
    total = 0.0 if loss == "an_ssdl" else sum(elsewhere) / 6
    for i in records:
        for c in range(6):
            lp, ln = costs(z[i, c])
            if loss == "an_ssdl":
                cost = lp + elsewhere[c] if y[i, c] == 1 else ln if y[i, c] == -1 else 0.0
                total += cost / len(records)
            else:
                cost = 7 * lp if y[i, c] == 1 else ln if y[i, c] == -1 else unobserved(i, c)
                total += cost / len(records) / 6
    assert case.on_logits(z, y).item() == pytest.approx(total, rel=1e-5, abs=1e-5)


def test_sinr_with_weight_one_and_no_unlabelled_items_is_an(make):
    case = make("sinr", options={"positive_weight": 1.0})
    expected = reduce(assume_negative(LOGITS, case.observed))
    assert case.on_logits(LOGITS, case.observed).item() == pytest.approx(expected.item(), rel=1e-6)


def test_the_full_weighted_loss_by_a_loop(make):
    case = make("full_weighted")  # every item of the data has a label
    y, z = labels(case), LOGITS
    seen = [int((case.observed[:, c] == 1).sum()) for c in range(6)]
    records = [i for i in range(8) if any(y[i] != 0)]
    places = [i for i in range(8) if all(y[i] == 0)]
    total = 0.0
    for c in range(6):
        w = 8 / max(seen[c], 1)
        for i in records:
            lp, ln = costs(z[i, c])
            group = w / max(w - 1, 1 / 8) if seen[c] else 1.0
            cost = w * lp if y[i, c] == 1 else ln if y[i, c] == -1 else 0.8 * group * ln
            total += cost / len(records) / 6
        total += sum(0.2 * costs(z[i, c])[1] for i in places) / len(places) / 6
    assert case.on_logits(z, y).item() == pytest.approx(total, rel=1e-5)


def test_full_weights_balance_presences_and_absences(make):
    """At p = 1/2, what a class costs as present and as absent is the same, common or rare."""
    case = make("full_weighted", options={"lambda2": 1.0})
    for c in (case.observed == 1).any(0).nonzero()[:, 0].tolist():
        seen = case.observed[:, c] == 1
        absent = case.method.group[c] * (~seen).sum()
        assert case.method.presence[c] * seen.sum() == pytest.approx(float(absent), rel=1e-5)


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_nnpu_by_a_loop(make, beta):
    case = make("nnpu", options={"beta": beta, "gamma": 0.5})
    y = labels(case)
    z = LOGITS + 6 * y - 3  # sure of the seen labels
    total, corrected = 0.0, 0
    for c in range(6):
        share = float((case.observed[:, c] == 1).sum()) / 8
        prior = min(1.7 * share, 1.0)  # k of the case
        positive = unlabelled = own = negative = 0.0
        for i in range(8):
            lp, ln = costs(z[i, c])
            if y[i, c] == -1:
                negative += ln / 8
                continue
            unlabelled += ln / 8
            if y[i, c] == 1:
                positive += prior / share * lp / 8
                own += prior / share * ln / 8
        r = unlabelled - own
        corrected += r < -beta
        total += (-0.5 * r if r < -beta else positive + r) + negative
    assert corrected
    assert case.on_logits(z, y).item() == pytest.approx(total / 6, rel=1e-5)


def test_nnpu_with_one_label_per_item_is_an(make):
    case = make("nnpu")
    case.method.weight.fill_(1.0)
    expected = reduce(assume_negative(LOGITS, case.observed))
    assert case.on_logits(LOGITS, case.observed).item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("gamma", [0.0, 1.5])
def test_vpu_by_a_loop(make, gamma):
    case = make("vpu", options={"alpha": 0.4, "gamma": gamma})
    y, z = labels(case), LOGITS
    total = 0.0
    for c in range(6):
        column = z[:, c].tolist()
        mean = sum(column) / 8
        sd = math.sqrt(sum((value - mean) ** 2 for value in column) / 8)
        s = min(1.0, 0.4 * sd)
        p = [1 / (1 + math.exp(-value / s)) for value in column]
        own = [p[i] for i in range(8) if y[i, c] == 1]
        if own:
            every = sum(p) / 8
            total += every**gamma * math.log(every) - sum(map(math.log, own)) / len(own)
        total += sum(costs(column[i])[1] for i in range(8) if y[i, c] == -1) / 8
    assert case.on_logits(z, y).item() == pytest.approx(total, rel=1e-5)


def test_vpu_does_not_see_a_common_factor(make):
    """Probabilities of a class times one number: the same loss (Chen et al. 2020)."""
    case = make("vpu", options={"alpha": 100.0})
    log_p = logsigmoid(LOGITS) - 1

    def loss(shift):
        p = (log_p + shift).exp()
        return case.on_logits(torch.log(p) - torch.log1p(-p), case.observed).item()

    assert loss(0.0) == pytest.approx(loss(-0.7), rel=1e-5)


@pytest.mark.parametrize("use", ["mask", "add"])
def test_labels_of_neighbours_by_a_loop(make, use):
    case = make("neighbours", options={"use": use, "neighbours": 3, "share": 0.4})
    vectors = torch.arange(8.0)[:, None] ** 1.1
    case.method.begin_training(lambda: vectors)
    y, total, candidates = labels(case), 0.0, 0
    for i in range(8):
        near = sorted((abs(float(vectors[i] - vectors[j])), j) for j in range(8) if j != i)[:3]
        for c in range(6):
            share = sum(case.observed[j, c] == 1 for _, j in near) / 3
            candidate = share > 0.4 and y[i, c] == 0
            candidates += candidate
            lp, ln = costs(LOGITS[i, c])
            cost = lp if y[i, c] == 1 else ln
            total += (0.0 if use == "mask" else lp) if candidate else cost
    assert candidates
    features = torch.zeros(8, 5)
    batch = Batch((features,), y, torch.arange(8))
    loss = case.method.loss((Outputs(LOGITS, features),), batch, None)["loss"]
    assert loss.item() == pytest.approx(total / 48, rel=1e-6)
