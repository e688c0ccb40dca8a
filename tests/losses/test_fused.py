"""Losses reduced block by block: the same numbers, without tables of the losses' size."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from plusone import losses
from plusone.losses import closed_form, contrastive


class Made(TorchDispatchMode):
    """Writes down how many numbers each new tensor has; views make none."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, Tensor) and not tensor._is_view():
                start = tensor.untyped_storage().data_ptr()
                given = [x for x in (*args, *(kwargs or {}).values()) if isinstance(x, Tensor)]
                if all(start != x.untyped_storage().data_ptr() for x in given):
                    self.sizes.append(tensor.numel())
        return result


def inputs(batch: int, classes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(batch, classes, generator=generator, dtype=torch.float64) * 3
    y = torch.randint(-1, 2, (batch, classes), generator=generator)
    return z.requires_grad_(), y


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(closed_form, "BLOCK", 20)


@pytest.mark.parametrize("reduction", ["mean", "item", "sum"])
def test_equals_the_reduced_table(case, reduction, small_blocks):
    z, y = inputs(11, 7)
    expected = losses.reduce(case.call(z, y), reduction)
    found = losses.reduced(case.call, z, y, reduction=reduction)
    torch.testing.assert_close(found, expected)
    (slope,) = torch.autograd.grad(expected, z)
    for factor in (1.0, -2.5):
        (own,) = torch.autograd.grad(factor * found, z, retain_graph=True)
        torch.testing.assert_close(own, factor * slope)


def test_backward_twice_adds_up(small_blocks):
    z, y = inputs(9, 6)
    value = losses.reduced(losses.assume_negative, z, y)
    value.backward(retain_graph=True)
    once = z.grad.clone()
    value.backward()
    torch.testing.assert_close(z.grad, 2 * once)


def test_half_precision(small_blocks):
    z, y = inputs(9, 6)
    half = z.detach().bfloat16().requires_grad_()
    value = losses.reduced(losses.entropy_maximization, half, y)
    value.backward()
    assert value.dtype == half.grad.dtype == torch.bfloat16
    expected = losses.reduce(losses.entropy_maximization(half.detach().float(), y))
    torch.testing.assert_close(value.float(), expected, rtol=1e-2, atol=1e-3)


def test_none_is_the_table_and_other_words_are_refused(small_blocks):
    z, y = inputs(9, 6)
    table = losses.reduced(losses.assume_negative, z, y, reduction="none")
    assert torch.equal(table, losses.assume_negative(z, y))
    with pytest.raises(ValueError, match="reduction must be one of"):
        losses.reduced(losses.assume_negative, z, y, reduction="other")


@pytest.mark.parametrize(
    "loss",
    [
        losses.assume_negative,
        losses.entropy_maximization,
        losses.hill,
        losses.self_corrected,
        losses.softmax_cross_entropy,
        losses.UnifiedLoss.em(),
        partial(losses.generalized_robust, w=2.0, b=-2.0),
    ],
)
def test_only_the_gradient_has_the_size_of_the_logits(loss):
    z = torch.randn(300, 1000, generator=torch.Generator().manual_seed(0)).requires_grad_()
    y = torch.zeros(300, 1000)
    with Made() as made:
        losses.reduced(loss, z, y).backward()
    assert sum(size > closed_form.BLOCK for size in made.sizes) <= 2  # and autograd's own copy
    with Made() as made:
        losses.reduce(loss(z, y)).backward()
    assert sum(size > closed_form.BLOCK for size in made.sizes) > 2


def test_terms_of_several_views_with_something_learned(monkeypatch):
    (a, y), (b, _) = inputs(12, 5), inputs(12, 5, seed=1)
    w = torch.linspace(-1, 1, 5, dtype=torch.float64, requires_grad=True)

    def tables(views, known):
        one, two = views
        return {"far": (one - w * two).square(), "seen": losses.observed_bce(one, known[0])}

    def terms():
        found = losses.reduced_terms(
            tables, (a, b), (y,), "item", {"far": 0.3, "seen": 1.0}.__getitem__, [w]
        )
        return found, torch.autograd.grad(found["far"] + 2 * found["seen"], (a, b, w))

    expected, slopes = terms()
    monkeypatch.setattr(closed_form, "BLOCK", 20)
    found, own = terms()
    assert list(found) == ["far", "seen"]
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(own, slopes)


def test_a_term_may_leave_out_some_blocks(monkeypatch):
    z, _ = inputs(12, 5)
    weight = torch.ones(12, 5, dtype=torch.float64)
    weight[:4] = weight[8:] = 0

    def tables(views, known):
        part = views[0] if known[0].any() else views[0].detach()
        return {"part": part.square() * known[0], "all": views[0].square()}

    monkeypatch.setattr(closed_form, "BLOCK", 20)
    found = losses.reduced_terms(tables, (z,), (weight,), "sum")
    (slope,) = torch.autograd.grad(found["part"], z)
    torch.testing.assert_close(slope, 2 * z.detach() * weight)


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_counting_and_estimating_in_blocks(variant, monkeypatch):
    (z, y), (phi, _) = inputs(12, 7), inputs(12, 7, seed=1)

    def slopes():
        terms = losses.online_estimation(z, phi, y, k=2.0, variant=variant)
        terms |= losses.expected_positives(z, y, k=2.0, lam=3.0, variant=variant)
        return terms, torch.autograd.grad(torch.stack(list(terms.values())).sum(), (z, phi))

    expected = slopes()
    monkeypatch.setattr(closed_form, "BLOCK", 20)
    torch.testing.assert_close(slopes(), expected)
    for name in ("classifier", "estimate"):
        assert torch.autograd.gradcheck(
            lambda a, b, name=name: losses.online_estimation(
                a, b.detach() if name == "classifier" else b, y, k=2.0
            )["classifier"],
            (z, phi.detach()),
        )


def test_gr_teaches_the_shape_of_its_weights():
    z, y = inputs(6, 5)
    start = {"w": 2.0, "b": -1.0, "mu": 0.7, "sigma": 0.5}
    learned = [torch.full((5,), v, dtype=torch.float64, requires_grad=True) for v in start.values()]

    def table(*values):
        return losses.generalized_robust(z.detach(), y, **dict(zip(start, values, strict=True)))

    assert torch.autograd.gradcheck(table, learned)


def test_the_level_of_large_losses_equals_sorting():
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(400, 500, generator=generator).round(decimals=2)  # with ties
    y = (torch.rand(400, 500, generator=generator) < 0.1).float()
    ordered = z[y == 0].sort(descending=True).values
    for share in (1e-6, 0.001, 0.01, 0.2, 0.9, 1.0):
        count = min(math.ceil(round(share * z.numel(), 6)), len(ordered))
        assert losses.large_loss_level(z, y, share=share) == ordered[count - 1].item()
    assert losses.large_loss_level(z, y, share=0.0) == math.inf
    assert losses.large_loss_level(z, torch.ones_like(y), share=0.5) == math.inf


def test_a_sample_that_misleads_does_not_change_the_level():
    z = torch.zeros(400, 500)
    z.view(-1)[::12] = 5.0  # just where the sample looks
    y = torch.zeros(400, 500)
    assert losses.large_loss_level(z, y, share=0.0001) == 5.0
    assert losses.large_loss_level(z, y, share=0.15) == 0.0


def test_blocks_draw_the_same_negatives(monkeypatch):
    _, y = inputs(30, 9)
    sparse = torch.zeros(30, 9)
    sparse[torch.arange(29), torch.arange(29) % 9] = 1
    sparse[5] = -1
    for labels in (y, sparse, torch.zeros(3, 30)):
        monkeypatch.setattr(closed_form, "BLOCK", 1 << 16)
        draw = partial(losses.sample_negative, labels)
        whole = draw(generator=torch.Generator().manual_seed(0))
        monkeypatch.setattr(closed_form, "BLOCK", 20)
        assert torch.equal(draw(generator=torch.Generator().manual_seed(0)), whole)


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_the_contrast_compares_a_block_of_anchors_at_a_time(variant, monkeypatch):
    n, queued, width = 300, 200, 8
    generator = torch.Generator().manual_seed(0)
    z = torch.nn.functional.normalize(torch.randn(n + queued, width, generator=generator), dim=1)
    classes = torch.randint(20, (n + queued,), generator=generator)
    own = z[:n].clone().requires_grad_()
    contrast = partial(
        losses.label_aware_contrast,
        own,
        classes[:n],
        queue=z[n:],
        queue_classes=classes[n:],
        variant=variant,
    )
    expected = contrast()
    (slope,) = torch.autograd.grad(expected, own)
    monkeypatch.setattr(contrastive, "BLOCK", 6000)
    with Made() as made:
        found = contrast()
        (blocked,) = torch.autograd.grad(found, own)
    assert max(made.sizes) <= 6000
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(blocked, slope)


def test_anchors_without_positives_are_not_compared():
    z = torch.nn.functional.normalize(torch.randn(50, 4), dim=1).requires_grad_()
    classes = torch.arange(50)
    classes[:2] = 0
    with Made() as made:
        losses.label_aware_contrast(z, classes).backward()
    assert max(made.sizes) <= 50 * 4  # two rows of 50 similarities, never 50 of them
