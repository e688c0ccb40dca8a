"""SMILE: the graph, its convolution, the draws, and the losses by loops."""

import numpy as np
import pytest
import torch
from scipy import stats

import plusone
from plusone.data import Dataset
from plusone.errors import InputError
from plusone.losses import assume_negative
from plusone.methods import METHODS
from plusone.methods.smile import beta_logits, enhanced_loss, nearest
from plusone.seeds import generator
from plusone.types import Clock

CLOCK = Clock(0, 1, 5, 0, 3)


@pytest.fixture
def smile(make):
    return lambda **options: make("smile", options=options)


def test_neighbours_by_a_loop(monkeypatch):
    for name, size in (("ROWS", 11), ("BLOCK", 7)):
        monkeypatch.setattr(f"plusone.methods.smile.{name}", size)
    x = 1000 + torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    for item, found in enumerate(nearest(x, 3).tolist()):
        others = [other for other in range(30) if other != item]
        near = sorted(others, key=lambda other: (x[item] - x[other]).norm().item())[:3]
        assert set(found) == set(near)
    assert nearest(x[:2], 3).tolist() == [[1], [0]]
    assert nearest(x[:1], 3).shape == (1, 0)


def test_soft_labels_are_those_of_the_whole_graph(smile):
    case = smile()
    x, net = case.model.backbone(case.x).detach(), case.method.enhancer
    adjacency = torch.zeros(8, 8)
    for item, found in enumerate(nearest(x, 3)):
        adjacency[item, found] = 1
    with torch.no_grad():
        hidden = torch.relu(adjacency / 3 @ x @ net.first.weight.T + net.first.bias)
        hidden = adjacency / 3 @ hidden @ net.second.weight.T + net.second.bias
        d = torch.sigmoid(net.last(hidden))
    seen = case.observed == 1
    torch.testing.assert_close(case.method.estimates(), torch.where(seen, 1.0, d))
    some = torch.tensor([6, 1])
    torch.testing.assert_close(case.method.estimates(some), torch.where(seen, 1.0, d)[some])


def test_the_losses_by_a_loop(smile, same):
    """The enhancer has the gradients of its own loss alone, and the classifier those of its own."""
    case = smile(p0=0.2, mu=0.3, rate=0.4, gamma=0.5, delta=0.7)
    net, x = case.method.enhancer, case.model.backbone(case.x).detach()
    near, rows = nearest(x, 3).tolist(), [5, 0, 3, 2]
    # A is not symmetric here; A' is, so that the loss has no direction: MSE(A', A) = MSE(A', A^T).
    assert any((i in near[j]) != (j in near[i]) for i in rows for j in rows)
    batch = case.batch(rows)
    (out,) = case.outputs(batch)
    terms = case.method.loss((out,), batch, CLOCK)
    means = torch.stack([sum(x[j] for j in near[i]) / 3 for i in range(8)])
    hidden = [sum(torch.relu(net.first(means[j])) for j in near[i]) / 3 for i in rows]
    d = torch.sigmoid(net.last(net.second(torch.stack(hidden))))
    noise = generator(case.method.labels.seed, "enhancer", 0, 1, 0)
    drawn = beta_logits(d + 1e-5, 1 - d + 1e-5, noise).sigmoid().clamp(1e-5, 1 - 1e-5)
    x_new = net.rebuilt(x[rows], d)
    classifier = an = an_new = spread = a_error = 0.0
    for i, row in enumerate(rows):
        for j, label in enumerate(batch.observed[i]):
            p, soft, new = torch.sigmoid(out.logits[i, j]), d[i, j], drawn[i, j]
            target = 0.3 * soft.detach() + 0.7 * (1 if label == 1 else 0.2)
            cost = -target * p.log() - (1 - target) * (1 - p).log()
            classifier += cost if label == 1 else 0.4 * cost
            an -= (soft if label == 1 else 1 - soft).log()
            an_new -= (new if label == 1 else 1 - new).log()
            ends = (soft - 1) * soft.digamma() - soft * (1 - soft).digamma()
            spread += soft.lgamma() + (1 - soft).lgamma() + ends
        for k, other in enumerate(rows):
            a_error += ((drawn[i] * drawn[k]).sum() - float(other in near[row])) ** 2
    rebuilt = ((x_new - x[rows]) ** 2).mean() + an_new / 24 + a_error / 16
    expected = {
        "classifier": classifier / 24,
        "enhancer": an / 24,
        "rebuilt": 0.5 * rebuilt,
        "spread": 0.7 * spread / 24,
    }
    weights = [*net.parameters(), *case.model.parameters()]
    assert terms.keys() == expected.keys()
    for name, term in terms.items():
        same(term, expected[name], *weights, rtol=1e-3, atol=1e-4)
    other = case.method.loss((out,), batch, Clock(0, 1, 5, 1, 3))
    assert other["rebuilt"] != terms["rebuilt"]  # the next step draws anew


@pytest.mark.parametrize("d", [0.1, 0.5])
def test_draws_have_the_distribution_and_the_slope_of_its_mean(d):
    """The mean of Beta(d, 1 - d) is d, so its slope is 1."""
    soft = torch.full((60_000,), d, requires_grad=True)
    drawn = beta_logits(soft, 1 - soft, generator(0)).sigmoid()
    (slope,) = torch.autograd.grad(drawn.sum(), soft)
    assert slope.mean().item() == pytest.approx(1, abs=0.03)
    clear = np.linspace(0.01, 0.99, 50)  # float32 has few numbers near 1
    shares = (drawn.detach().numpy()[:, None] <= clear).mean(0)
    np.testing.assert_allclose(shares, stats.beta(d, 1 - d).cdf(clear), atol=0.01)


def test_without_soft_labels_the_classifier_is_an():
    torch.manual_seed(0)
    z, y = torch.randn(4, 6), torch.tensor([1.0, 0, -1, 0, 0, 0]).repeat(4, 1)
    losses = enhanced_loss(z, y, torch.rand(4, 6), p0=0.0, mu=0.0, rate=1.0)
    torch.testing.assert_close(losses, assume_negative(z, y))


def test_the_graph_is_not_saved_and_settings_are_checked(smile):
    case = smile()
    assert not {"graph", "means"} & case.method.state_dict().keys()
    for options in ({"p0": 1.5}, {"rate": -1.0}, {"neighbours": 0}):
        with pytest.raises(InputError, match="must"):
            METHODS["smile"].make_options(options)


def test_tokens_and_standardized_vectors_are_vectors():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, (40, 3))
    for shape, settings in (((40, 5, 4), {}), ((40, 4), {"standardize": True})):
        data = Dataset.from_arrays(rng.normal(size=shape).astype("float32"), y, complete=True)
        fitted = plusone.fit(data, "smile", epochs=1, batch_size=16, **settings)
        assert np.isfinite(fitted.metrics["val_map"])


def test_images_that_change_the_backbone_are_refused():
    images = np.zeros((20, 3, 16, 16), np.uint8)
    data = Dataset.from_arrays(images, np.eye(2, dtype=int)[[0, 1] * 10], complete=True)
    with pytest.raises(InputError, match=r"smile needs one fixed vector .*; use --mode linear"):
        plusone.fit(data, "smile", epochs=1, backbone="cnn")
