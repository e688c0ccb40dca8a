"""MIME: the distribution of the logits, the loss by a loop, and pseudo labels for good."""

import math

import pytest
import torch

from plusone.errors import InputError
from plusone.methods import METHODS
from plusone.methods.mime import BottleneckHead
from plusone.types import Batch, Clock, Outputs

SMALL = {"width": 8, "heads": 2, "feedforward": 16, "latent": 4}
CLOCK = Clock(0, 1, 5, 0, 3)


@pytest.fixture
def mime(make):
    return lambda **options: make("mime", options=SMALL | options)


def test_a_logit_is_distributed_as_the_mean_of_samples():
    """As z = mean of 10 samples mu + sd * noise, logit = w . z + b."""
    torch.manual_seed(0)
    sizes = {name: SMALL[name] for name in ("width", "heads", "feedforward")}
    head = BottleneckHead(5, 3, latent=4, draws=10, **sizes).eval()
    with torch.no_grad():
        out = head(torch.randn(1, 5))
        mu, log_sd, spread = out.embeddings.split((4, 4, 1), dim=-1)
        noise = torch.randn(20_000, 10, 3, 4)
        z = (mu + log_sd.exp() * noise).mean(1)
        sampled = (z * head.weight).sum(-1) + head.bias
    torch.testing.assert_close(sampled.mean(0), out.logits[0], atol=0.01, rtol=0)
    torch.testing.assert_close(sampled.std(0), spread[0, :, 0], atol=0.01, rtol=0.03)


def test_the_loss_by_a_loop(mime):
    case = mime(beta=0.3)
    batch = case.batch()
    (out,) = case.outputs(batch)
    case.method.corrected[2] = True
    terms, again = (case.method.loss((out,), batch, CLOCK) for _ in range(2))
    other = case.method.loss((out,), batch, Clock(0, 1, 5, 1, 3))
    assert terms["an"].equal(again["an"])  # a step can be repeated
    assert not terms["an"].equal(other["an"])  # and the next one draws anew
    total = count = 0
    for row in out.embeddings.flatten(0, 1).tolist():
        for mu, log_sd in zip(row[:4], row[4:8], strict=True):
            total += -0.5 * (1 + 2 * log_sd - mu**2 - math.exp(2 * log_sd))
            count += 1
    assert terms["bottleneck"].item() == pytest.approx(0.3 * total / count, rel=1e-4)
    still = torch.cat((out.embeddings[..., :8], torch.zeros(8, 6, 1)), dim=-1)
    exact = case.method.loss((Outputs(out.logits, out.features, still),), batch, CLOCK)["an"]
    costs = []
    for row, (logits, labels) in enumerate(zip(out.logits, batch.observed, strict=True)):
        for z, y in zip(logits.tolist(), labels.tolist(), strict=True):
            positive = y == 1 or (row == 2 and y == 0)
            costs.append(math.log1p(math.exp(-z if positive else z)))
    assert exact.item() == pytest.approx(sum(costs) / len(costs), rel=1e-5)


def test_a_standard_normal_costs_nothing(mime):
    case = mime(beta=1.0)
    out = Outputs(torch.zeros(2, 6), torch.zeros(2, 5), torch.zeros(2, 6, 9))
    batch = Batch((out.features,), torch.zeros(2, 6), torch.arange(2))
    assert case.method.loss((out,), batch, CLOCK)["bottleneck"] == 0


def test_confident_labels_become_positives_for_good(mime):
    case = mime(first=2)
    case.method.labels.observed.dense()
    high = torch.full((8, 6), 3.0)  # p 0.953
    high[:, 0] = 2.9  # p 0.948
    case.method.after_epoch(Clock(0, 0, 5, 0, 3), lambda: pytest.fail("before epoch 2"))
    case.method.after_epoch(Clock(0, 1, 5, 0, 3), lambda: high)
    unobserved = torch.from_numpy(case.method.labels.observed.dense() == 0)
    expected = unobserved.clone()
    expected[:, 0] = False
    assert case.method.corrected.equal(expected)
    case.method.after_epoch(Clock(0, 2, 5, 0, 3), lambda: -high)
    assert case.method.corrected.equal(expected)
    assert case.method.estimates()[expected].eq(1).all()


def test_settings_that_cannot_work_are_rejected():
    for options, message in (
        ({"threshold": 0.0}, "need 0 < threshold <= 1"),
        ({"latent": 0}, "latent must be at least 1, got 0"),
        ({"width": 9}, "width 9 cannot be split among 4 heads"),
    ):
        with pytest.raises(InputError, match=message):
            METHODS["mime"].make_options(options)
