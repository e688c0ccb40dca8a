"""What must hold for every loss."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor


def inputs(batch: int, classes: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(batch * 1000 + classes)
    z = torch.randn(batch, classes, generator=generator, dtype=torch.float64) * 3
    y = torch.randint(-1, 2, (batch, classes), generator=generator)
    return z.to(dtype), y


def naive(case, z: Tensor, y: Tensor) -> Tensor:
    rows = [case.oracle(a, b) for a, b in zip(z.tolist(), y.tolist(), strict=True)]
    return torch.tensor(rows, dtype=torch.float64)


def test_equals_the_slow_oracle(case):
    for shape, dtype in product([(1, 1), (1, 5), (7, 1), (6, 9)], [torch.float64, torch.float32]):
        z, y = inputs(*shape, dtype)
        tolerance = 1e-9 if dtype == torch.float64 else 2e-5
        torch.testing.assert_close(
            case.call(z, y).double(), naive(case, z.double(), y), rtol=tolerance, atol=tolerance
        )
    # A single positive, and a row of each kind.
    z, _ = inputs(4, 5)
    y = torch.tensor([[0, 0, 1, 0, 0], [0] * 5, [-1] * 5, [1] * 5])
    torch.testing.assert_close(case.call(z, y), naive(case, z, y), rtol=1e-9, atol=1e-9)


def test_gradient_equals_finite_differences(case):
    if case.stopped:
        pytest.skip("parts of the formula are stopped; see test_special_cases.py")
    z, y = inputs(4, 6)
    assert torch.autograd.gradcheck(lambda x: case.call(x, y), z.requires_grad_())


def test_finite_at_extreme_logits(case):
    extremes = [-100.0, -90.0, -87.5, -30.0, 0.0, 30.0, 87.5, 90.0, 100.0]
    y = torch.tensor([[1] * 9, [0] * 9, [-1] * 9, [1, 0, -1] * 3, [0, 0, 1] * 3, [-1, 1, 0] * 3])
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        z = torch.tensor([extremes] * 6, dtype=dtype, requires_grad=True)
        expected = naive(case, z.detach().double(), y)
        half = dtype if dtype != torch.float32 else torch.bfloat16
        for autocast in (False, True):
            with torch.autocast("cpu", dtype=half, enabled=autocast):
                loss = case.call(z, y)
            (slope,) = torch.autograd.grad(loss.sum(), z)
            assert loss.dtype == slope.dtype == dtype
            assert loss.isfinite().all()
            assert slope.isfinite().all()
            torch.testing.assert_close(loss.double(), expected, rtol=1e-2, atol=2e-5)


def test_a_seen_negative_of_weight_w_is_w_seen_and_the_rest_unobserved(case):
    z, y = inputs(6, 8)
    weighted = torch.where(y < 0, -0.3, y.double())
    expected = 0.3 * case.call(z, y) + 0.7 * case.call(z, y.clamp(min=0))
    torch.testing.assert_close(case.call(z, weighted), expected)


def test_any_label_type(case):
    z, y = inputs(3, 4, torch.float32)
    for dtype in (torch.int8, torch.int64, torch.float32, torch.float64):
        torch.testing.assert_close(case.call(z, y.to(dtype)), case.call(z, y), rtol=0, atol=0)
    for dtype in (torch.bool, torch.uint8):
        torch.testing.assert_close(case.call(z, (y > 0).to(dtype)), case.call(z, y.clamp(min=0)))


def test_views_and_arguments_are_left_alone(case):
    z, y = inputs(6, 8)
    z_before, y_before = z.clone(), y.double()
    for a, b in ((z.t().contiguous().t(), y.double()), (z[::2, 1:], y.double()[::2, 1:])):
        torch.testing.assert_close(case.call(a, b), case.call(a.contiguous(), b.contiguous()))
    labels = y_before.clone()
    case.call(z, labels)
    assert torch.equal(z, z_before)
    assert torch.equal(labels, y_before)


def test_shapes_must_match(case):
    with pytest.raises((ValueError, RuntimeError)):
        case.call(torch.zeros(2, 3), torch.zeros(2, 1))


@settings(max_examples=15)
@given(data=st.data(), batch=st.integers(1, 4), classes=st.integers(1, 6))
def test_random_shapes_and_labels(case, data, batch, classes):
    size = batch * classes
    numbers = st.floats(-60, 60, width=32)
    z = torch.tensor(data.draw(st.lists(numbers, min_size=size, max_size=size)))
    y = torch.tensor(data.draw(st.lists(st.integers(-1, 1), min_size=size, max_size=size)))
    z, y = z.reshape(batch, classes).requires_grad_(), y.reshape(batch, classes)
    loss = case.call(z, y)
    loss.sum().backward()
    assert loss.shape == (batch, classes)
    assert loss.isfinite().all()
    assert z.grad.isfinite().all()


def test_a_seen_negative_costs_minus_log_not_p(case):
    if not case.negative_is_ln:
        pytest.skip("smoothed, pairwise or left out: said in its docstring")
    z = torch.linspace(-9, 9, 19, dtype=torch.float64).unsqueeze(0).requires_grad_()
    y = torch.full((1, 19), -1)
    loss = case.call(z, y)
    loss.sum().backward()
    torch.testing.assert_close(loss.detach(), torch.nn.functional.softplus(z.detach()))
    torch.testing.assert_close(z.grad, torch.sigmoid(z.detach()))
    assert (loss.diff() > 0).all()
