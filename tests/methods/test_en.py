"""EN: exact counts, exact averages, and the view as a threshold."""

import numpy as np
import pytest
import torch

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.losses import UnifiedLoss, assume_negative
from plusone.methods import METHODS
from plusone.methods.en import lowest, missing_negatives
from plusone.types import Batch, Clock, Outputs, TrainLabels

CLOCK = Clock(0, 1, 5, 0, 1)


def build(name, labels, k=1.5, **options):
    info = METHODS[name]
    return info.build(TrainLabels(LabelMatrix.from_dense(labels), k), info.make_options(options))


def single(n_items, n_classes, seed=0):
    labels = np.zeros((n_items, n_classes), dtype=int)
    labels[np.arange(n_items), np.random.default_rng(seed).integers(0, n_classes, n_items)] = 1
    return labels


def visit(method, logits, labels, rows=None):
    """One step of all or some rows; returns the terms."""
    rows = torch.arange(len(logits)) if rows is None else torch.as_tensor(rows)
    out = Outputs(logits[rows], logits[rows])
    batch = Batch((logits[rows],), torch.from_numpy(labels).float()[rows], rows)
    terms = method.loss((out,), batch, CLOCK)
    method.after_step((out,), batch, CLOCK)
    return terms


def end_epoch(method):
    method.after_epoch(CLOCK, lambda: pytest.fail("no pass of its own is needed"))


def counts(labels, k):
    return missing_negatives(TrainLabels(LabelMatrix.from_dense(labels), k)).tolist()


def test_expected_counts():
    labels = single(100, 4)
    seen = labels.sum(0)
    found = counts(labels, 1.5)
    assert found == [100 - round(1.5 * n) for n in seen]
    assert counts(labels, 1.0) == (100 - seen).tolist()
    assert counts(labels, 0.5) == (100 - seen).tolist()
    assert counts(labels, 40.0) == [0] * 4


def test_expected_counts_without_one_positive_each():
    two = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 0], [-1, 0, 0]])  # k N / S = 1.5 * 4 / 4
    assert counts(two, 1.5) == [4 - 1 - 3, 4 - 3, 4]
    none = np.zeros((3, 2), dtype=int)
    assert counts(none, 1.5) == [3, 3]


def test_lowest_marks_exactly_as_many_even_among_equals():
    generator = torch.Generator().manual_seed(0)
    confidence = torch.randint(0, 4, (50, 6), generator=generator) / 4
    among = torch.rand(50, 6, generator=generator) < 0.7
    counts = torch.tensor([0, 1, 7, 20, 11, 3])
    marked = lowest(confidence, among, counts)
    assert marked.sum(0).tolist() == counts.tolist()
    assert not (marked & ~among).any()
    for column in range(1, 6):
        inside, rest = marked[:, column], among[:, column] & ~marked[:, column]
        assert confidence[inside, column].max() <= confidence[rest, column].min()


def test_the_first_epoch_assumes_negatives():
    labels, logits = single(30, 5), torch.randn(30, 5)
    loss = visit(build("en", labels), logits, labels)["loss"]
    expected = assume_negative(logits, torch.from_numpy(labels)).mean()
    torch.testing.assert_close(loss, expected)


def test_after_it_the_lowest_are_negatives_and_the_rest_cost_nothing():
    labels = single(40, 5)
    labels[3, labels[3] == 0] = -1  # seen negatives count among the expected ones
    method = build("en", labels)
    logits = torch.randn(40, 5, generator=torch.Generator().manual_seed(1))
    visit(method, logits, labels)
    end_epoch(method)
    expected = 40 - np.round(labels.clip(0).sum(0) * 1.5) - (labels < 0).sum(0)
    assert method.negatives.sum(0).tolist() == expected.tolist()
    x = logits.clone().requires_grad_()
    out = Outputs(x, x)
    batch = Batch((x,), torch.from_numpy(labels).float(), torch.arange(40))
    method.loss((out,), batch, CLOCK)["loss"].backward()
    y, p = torch.from_numpy(labels), torch.sigmoid(logits)
    slope = torch.where(y == 1, p - 1, torch.where((y == -1) | method.negatives, p, 0.0)) / 200
    torch.testing.assert_close(x.grad, slope)
    ignored = (y == 0) & ~method.negatives
    assert ignored.any()
    for column in range(5):
        low = logits[method.negatives[:, column], column].max()
        assert low <= logits[ignored[:, column], column].min()


def test_it_equals_the_threshold_of_table_1():
    labels = single(60, 3)
    logits = torch.randn(60, 3, generator=torch.Generator().manual_seed(2))
    method = build("en", labels)
    visit(method, logits, labels)
    end_epoch(method)
    y, p = torch.from_numpy(labels), torch.sigmoid(logits)
    below = torch.where(method.negatives, p, -torch.inf).amax(0)
    above = torch.where((y == 0) & ~method.negatives, p, torch.inf).amin(0)
    assert (below < above).all()
    x, w = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    batch = Batch((x,), y.float(), torch.arange(60))
    term = method.loss((Outputs(x, x),), batch, CLOCK)["loss"]
    unified = UnifiedLoss.en((below + above) / 2)(w, y).mean()
    torch.testing.assert_close(term, unified)
    torch.testing.assert_close(torch.autograd.grad(term, x), torch.autograd.grad(unified, w))


def test_the_average_is_exact_and_does_not_depend_on_the_order():
    labels, decay = single(12, 4), 0.75
    generator = torch.Generator().manual_seed(0)
    epochs = [torch.randn(12, 4, generator=generator) for _ in range(3)]
    ordered, mixed = build("en", labels, decay=decay), build("en", labels, decay=decay)
    for logits in epochs:
        visit(ordered, logits, labels)
        for rows in torch.randperm(12, generator=generator).split(5):
            visit(mixed, logits, labels, rows)
    a, b, c = (torch.sigmoid(logits) for logits in epochs)
    expected = decay * (decay * a + (1 - decay) * b) + (1 - decay) * c
    torch.testing.assert_close(ordered.confidence, expected)
    torch.testing.assert_close(mixed.confidence, expected)
    end_epoch(ordered)
    end_epoch(mixed)
    assert torch.equal(ordered.negatives, mixed.negatives)


def test_an_item_that_was_never_visited_stays_a_negative():
    labels = single(20, 3)
    method = build("en", labels)
    visit(method, torch.randn(20, 3), labels, rows=range(19))
    end_epoch(method)
    assert method.negatives[19].equal(torch.from_numpy(labels[19] == 0))


def test_estimates():
    labels = np.array([[1, 0, -1], [0, 1, 0]])
    method = build("en", labels)
    assert method.estimates().tolist() == (labels == 1).astype(float).tolist()
    logits = torch.tensor([[-5.0, 1.0, 5.0], [0.0, -5.0, -1.0]])
    visit(method, logits, labels)
    p = torch.sigmoid(logits)
    expected = torch.tensor([[1.0, p[0, 1], 0.0], [p[1, 0], 1.0, p[1, 2]]])
    torch.testing.assert_close(method.estimates(), expected)


@pytest.mark.parametrize("name", ["en", "en_cl", "en_scl"])
def test_the_number_of_positives_is_needed(name):
    with pytest.raises(InputError, match="need expected_positives"):
        build(name, single(4, 3), k=None)
