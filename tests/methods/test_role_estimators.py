"""The label estimators of ROLE: start, memory, what a step touches, what is remembered."""

import math

import pytest
import torch

from plusone.data.matrix import LabelMatrix
from plusone.methods import role
from plusone.methods.role import (
    DenseEstimator,
    FactoredEstimator,
    NetworkEstimator,
    with_seen,
)
from plusone.training.optim import row_state
from plusone.types import TrainLabels


def labels(n=40, n_classes=6, seed=0):
    rows = torch.arange(n).tolist()
    columns = [row % n_classes for row in rows]
    matrix = LabelMatrix.from_entries(rows, columns, 1, (n, n_classes))
    return TrainLabels(matrix, 1.5, seed)


def bytes_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def test_the_factored_estimator_starts_with_the_spread_of_the_published_start():
    wanted = math.log(1.5) / math.sqrt(3)  # standard deviation of uniform +-logit(0.6)
    for rank in (2, 64):
        made = FactoredEstimator(4000, 200, rank, seed=1)
        phi = made.recall(torch.arange(4000)).detach()
        assert phi.mean().item() == pytest.approx(0, abs=0.02)
        assert phi.std().item() == pytest.approx(wanted, rel=0.15)
        again = FactoredEstimator(4000, 200, rank, seed=1)
        other = FactoredEstimator(4000, 200, rank, seed=2)
        assert torch.equal(phi, again.recall(torch.arange(4000)))
        assert not torch.equal(phi, other.recall(torch.arange(4000)))


def test_the_factored_logit_is_a_product_and_two_biases():
    made = FactoredEstimator(5, 4, 2, seed=0)
    with torch.no_grad():
        made.item_bias.weight.copy_(torch.arange(5.0)[:, None])
        made.class_bias.copy_(torch.tensor([0.5, 0.25, 0.0, -1.0]))
    index = torch.tensor([3, 1, 3])
    found = made(index, torch.zeros(3, 1))
    for place, item in enumerate(index.tolist()):
        for label in range(4):
            product = (made.items.weight[item] * made.classes[label]).sum()
            expected = product + item + made.class_bias[label]
            torch.testing.assert_close(found[place, label], expected)


def test_a_rank_above_the_number_of_classes_is_cut():
    assert FactoredEstimator(9, 3, 64, seed=0).items.weight.shape == (9, 3)


def test_the_factored_estimator_of_imagenet_fits_into_one_gigabyte():
    with torch.device("meta"):  # the real constructor, without the memory
        made = FactoredEstimator(1_281_167, 1000, 64, seed=0)
    tables = [made.items.weight, made.item_bias.weight]
    dense = [made.classes, made.class_bias]
    assert {id(weight) for weight in made.parameters()} == {id(w) for w in tables + dense}
    moments = [value for table in tables for value in row_state(table).values()]
    total = bytes_of([*tables, *dense, *dense, *dense, *moments])  # Adam: two moments each
    assert 650e6 < total < 1e9
    assert not list(made.buffers())


def test_gradients_of_the_factored_estimator_are_as_large_as_the_batch():
    made = FactoredEstimator(1000, 6, 4, seed=0)
    made(torch.tensor([5, 900]), torch.zeros(2, 1)).square().sum().backward()
    for table in (made.items, made.item_bias):
        grad = table.weight.grad
        assert grad.is_sparse
        assert grad.coalesce().indices().tolist() == [[5, 900]]
    assert not made.classes.grad.is_sparse


def test_seen_positives_get_their_places_and_no_gradient():
    phi = torch.zeros(2, 3, requires_grad=True)
    fixed = with_seen(phi, torch.tensor([[1.0, 0.0, -1.0], [0.0, 0.0, 0.0]]))
    torch.testing.assert_close(fixed[0].sigmoid(), torch.tensor([0.995, 0.5, 0.5]))
    fixed.sum().backward()
    assert phi.grad.tolist() == [[0, 1, 1], [1, 1, 1]]


def test_the_network_depends_on_the_seed_of_the_labels_alone():
    made = []
    for seed in (0, 0, 1):
        torch.manual_seed(len(made))
        made.append(NetworkEstimator(3, labels(seed=seed), 5).first.weight)
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


def test_the_network_notes_what_it_says_about_the_batch(monkeypatch):
    made = NetworkEstimator(3, labels(), 5)
    index, features = torch.tensor([4, 30]), torch.randn(2, 3)
    with torch.no_grad():
        made.remember(index, features)
    torch.testing.assert_close(
        made.recall(index), made(index, features).detach(), rtol=1e-3, atol=1e-3
    )
    assert made.noted.view(40, -1).any(1).nonzero().flatten().tolist() == [4, 30]
    assert bytes_of(made.buffers()) == 2 * 40 * 6
    monkeypatch.setattr(role, "KEPT", 40 * 6 - 1)
    large = NetworkEstimator(3, labels(), 5)
    large.remember(index, features)
    assert not large.recalls
    assert large.state_dict().keys() == {
        "first.weight", "first.bias", "second.weight", "second.bias",
    }  # fmt: skip


def test_the_dense_estimator_holds_a_number_for_every_label():
    made = DenseEstimator(labels())
    index = torch.tensor([2, 7])
    assert torch.equal(made(index, torch.zeros(2, 1)), made.phi[index])
    assert torch.equal(made.recall(index), made.phi[index])
    assert made.phi[2, 2].sigmoid().item() == pytest.approx(0.995)
    assert bytes_of(made.parameters()) == 4 * 40 * 6
