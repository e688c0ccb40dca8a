"""MIME: the distribution of the logits, the loss by a loop, and pseudo labels for good."""

import pytest
import torch
from torch.nn.functional import softplus

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.methods import METHODS
from plusone.methods.mime import BottleneckHead, ClassNetworks
from plusone.seeds import generator
from plusone.types import Clock, Outputs, TrainLabels

SMALL = {"width": 8, "heads": 2, "feedforward": 16, "latent": 4}
CLOCK = Clock(0, 1, 5, 0, 3)


@pytest.fixture
def mime(make):
    return lambda **options: make("mime", options=SMALL | options)


@pytest.mark.parametrize("kind", [BottleneckHead, ClassNetworks])
def test_a_logit_is_distributed_as_the_mean_of_samples(kind):
    """As z = mean of 10 samples mu + sd * noise, logit = w . z + b."""
    torch.manual_seed(0)
    names = ("width",) if kind is ClassNetworks else ("width", "heads", "feedforward")
    head = kind(5, 3, latent=4, draws=10, **{name: SMALL[name] for name in names}).eval()
    with torch.no_grad():
        out = head(torch.randn(1, 5))
        mu, log_sd, spread = out.embeddings.split((4, 4, 1), dim=-1)
        noise = torch.randn(20_000, 10, 3, 4)
        z = (mu + log_sd.exp() * noise).mean(1)
        sampled = (z * head.weight).sum(-1) + head.bias
    torch.testing.assert_close(sampled.mean(0), out.logits[0], atol=0.01, rtol=0)
    torch.testing.assert_close(sampled.std(0), spread[0, :, 0], atol=0.01, rtol=0.03)


def test_each_class_has_a_network_of_its_own_on_vectors():
    """By a loop over classes; attention over one token would give all of them the same vector."""
    torch.manual_seed(0)
    labels = TrainLabels(LabelMatrix.from_dense([[1, 0, 0]]), places=False)
    head = METHODS["mime"].build(labels, METHODS["mime"].make_options({"latent": 4})).make_head(5)
    assert isinstance(head, ClassNetworks)
    with torch.no_grad():
        x = torch.randn(2, 5)
        out = head(x)
        for j in range(3):
            rows = slice(64 * j, 64 * (j + 1))
            hidden = torch.relu(x @ head.first.weight[rows].T + head.first.bias[rows])
            mu, s = (hidden @ head.second[j] + head.shift[j]).split(4, dim=1)
            torch.testing.assert_close(out.embeddings[:, j, :8], torch.cat((mu, s / 2), dim=1))
            torch.testing.assert_close(out.logits[:, j], mu @ head.weight + head.bias)
    assert not torch.allclose(out.embeddings[:, 0], out.embeddings[:, 1])


def test_the_loss_by_a_loop(mime, same):
    case = mime(beta=0.3)
    y = case.observed.clone()
    y[2, 0] = -1  # it stays a negative, also where labels were corrected
    batch = case.batch(observed=y)
    (out,) = case.outputs(batch)
    logits, embeddings = (x.detach().requires_grad_() for x in (out.logits, out.embeddings))
    outs = (Outputs(logits, out.features, embeddings),)
    case.method.corrected[2] = True
    terms, again = (case.method.loss(outs, batch, CLOCK) for _ in range(2))
    other = case.method.loss(outs, batch, Clock(0, 1, 5, 1, 3))
    assert terms["an"].equal(again["an"])  # a step can be repeated
    assert not terms["an"].equal(other["an"])  # and the next one draws anew
    drawn = torch.randn(8, 6, generator=generator(case.method.labels.seed, "bottleneck", 0, 1, 0))
    an = divergence = 0.0
    for i in range(8):
        for j in range(6):
            mu, log_sd, spread = embeddings[i, j].split((4, 4, 1))
            z, y = logits[i, j] + spread[0] * drawn[i, j], batch.observed[i, j]
            an += softplus(-z if y == 1 or (i == 2 and y == 0) else z) / 48
            for m, s in zip(mu, log_sd, strict=True):
                divergence += -0.5 * (1 + 2 * s - m**2 - torch.exp(2 * s)) / (48 * 4)
    same(terms["an"], an, logits, embeddings)
    same(terms["bottleneck"], 0.3 * divergence, logits, embeddings)


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
