"""LAC's contrast and pseudo-label consistency: golden values, naive loops, corner cases."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from torch.nn.functional import normalize

from plusone.losses import contrastive, label_aware_contrast, pseudo_label_consistency


def naive_contrast(z, classes, n, temperature, variant, total):
    """The definitions, one pair at a time; the first `n` embeddings are the batch."""
    z, classes = z.tolist(), classes.tolist()
    everything = range(len(z))

    def similar(i, j):
        return sum(a * b for a, b in zip(z[i], z[j], strict=True)) / temperature

    costs = []
    for k in everything if variant == "released" else range(n):
        positives = [j for j in everything if j != k and classes[j] == classes[k]]
        if variant == "released":
            against = [t for t in everything if t != k]
        else:
            against = [t for t in everything if classes[t] != classes[k]]
        if not positives or not against:
            continue
        below = math.log(sum(math.exp(similar(k, t)) for t in against))
        costs.append([below - similar(k, j) for j in positives])
    if variant == "released":
        return sum(sum(cost) / len(cost) for cost in costs) / max(len(costs), 1)
    return sum(sum(cost) for cost in costs) / total


def embeddings(n, d=5, seed=0):
    return normalize(torch.randn(n, d, generator=torch.Generator().manual_seed(seed)), dim=1)


@pytest.mark.parametrize("number", [0, 1])
def test_golden_values(shared: Path, number: int):
    cases = json.loads((shared / "golden" / "official_losses.json").read_text())["lac"]
    assert len(cases) == 2
    case = cases[number]
    z = torch.tensor(case["features"], requires_grad=True)  # [n, views, d]
    value = label_aware_contrast(
        z.transpose(0, 1).flatten(0, 1),
        torch.tensor(case["classes"]).repeat(z.shape[1]),
        temperature=case["temperature"],
        variant="released",
    )
    value.backward()
    assert value.item() == pytest.approx(case["value"], rel=1e-5)
    torch.testing.assert_close(z.grad, torch.tensor(case["grad"]), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("queued", [0, 6])
def test_contrast_equals_the_naive_loop(variant, queued):
    z = embeddings(9 + queued)
    classes = torch.tensor([0, 1, 1, 2, 0, 0, 3, 2, 1, 0, 4, 1, 2, 2, 5])[: 9 + queued]
    found = label_aware_contrast(
        z[:9],
        classes[:9],
        queue=z[9:],
        queue_classes=classes[9:],
        temperature=0.7,
        total=40,
        variant=variant,
    )
    expected = naive_contrast(z, classes, 9, 0.7, variant, 40)
    assert found.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_blocks_of_anchors_and_padding_change_nothing(variant, monkeypatch):
    z, classes = embeddings(16).requires_grad_(), torch.arange(16) % 5

    def contrast(padding):
        padded = torch.cat((z[10:], torch.ones(padding, 5)))
        kinds = torch.cat((classes[10:], torch.full((padding,), -1)))
        value = label_aware_contrast(
            z[:10], classes[:10], queue=padded, queue_classes=kinds, variant=variant
        )
        return value, *torch.autograd.grad(value, z)

    expected = contrast(0)
    torch.testing.assert_close(contrast(3), expected)
    monkeypatch.setattr(contrastive, "BLOCK", 40)
    torch.testing.assert_close(contrast(0), expected)


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_no_gradient_reaches_the_queue(variant):
    z, queue = embeddings(4).requires_grad_(), embeddings(3, seed=1).requires_grad_()
    label_aware_contrast(
        z,
        torch.tensor([0, 1, 0, 2]),
        queue=queue,
        queue_classes=torch.tensor([2, 1, 0]),
        variant=variant,
    ).backward()
    assert queue.grad is None
    assert z.grad.abs().sum() > 0


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("classes", [[], [3], [1, 1, 1], [0, 1, 2]])
def test_nothing_to_contrast_is_finite(variant, classes):
    z = embeddings(len(classes)).requires_grad_()
    found = label_aware_contrast(z, torch.tensor(classes, dtype=torch.int64), variant=variant)
    found.backward()
    assert found.isfinite()
    assert z.grad.isfinite().all()
    if variant == "paper" or len(classes) < 2 or len(set(classes)) == len(classes):
        assert found == 0


def test_same_class_attracts_and_others_repel():
    z = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]], requires_grad=True)
    label_aware_contrast(z, torch.tensor([0, 0, 1])).backward()
    assert -z.grad[0] @ torch.tensor([0.6, 0.8]) > 0  # towards its own class
    assert -z.grad[1] @ torch.tensor([0.0, 1.0]) < 0  # away from the other


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_consistency_equals_the_naive_loop(variant):
    make = torch.Generator().manual_seed(0)
    strong, weak = torch.randn(2, 6, 5, generator=make) * 2
    y = torch.randint(-1, 2, (6, 5), generator=make)
    total, count = 0.0, 0
    for i in range(6):
        for j in range(5):
            p, q = weak[i, j].sigmoid().item(), strong[i, j].sigmoid().item()
            seen = int(y[i, j])
            if variant == "paper" and seen:
                continue
            if seen == 1 or (seen == 0 and p >= 0.7):
                total, count = total - math.log(q), count + 1
            elif seen == -1 or p <= 1 - 0.7:
                total, count = total - math.log(1 - q), count + 1
    expected = total / (count if variant == "released" else 6)
    found = pseudo_label_consistency(strong, weak, y, delta=0.7, variant=variant)
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_consistency_trains_the_strong_view_only():
    strong, weak = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1))
    strong, weak = strong.clone().requires_grad_(), (3 * weak).requires_grad_()
    pseudo_label_consistency(strong, weak, torch.zeros(3, 4), delta=0.6).backward()
    assert weak.grad is None
    assert strong.grad.abs().sum() > 0


def test_wrong_options_are_refused():
    z = torch.zeros(2, 3)
    with pytest.raises(ValueError, match=r"delta must lie between 0.5 and 1, got 0.2"):
        pseudo_label_consistency(z, z, z, delta=0.2)
    with pytest.raises(ValueError, match="temperature must be positive, got 0"):
        label_aware_contrast(z, torch.zeros(2), temperature=0)
    with pytest.raises(ValueError, match="variant must be one of"):
        label_aware_contrast(z, torch.zeros(2), variant="other")
