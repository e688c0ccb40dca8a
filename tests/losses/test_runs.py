"""Leading dimensions are independent runs, and no loss waits for a value on the host."""

from __future__ import annotations

from pathlib import Path

import torch

from plusone import losses

NO_LOSSES = {
    "Reduction",
    "UnifiedLoss",
    "Variant",
    "balanced_lambda",
    "weigh_negatives",
    "weigh_unobserved",
}


def values(loss, *tables):
    result = loss(*tables)
    return list(result.values()) if isinstance(result, dict) else [result]


def test_a_stack_of_runs_equals_the_loop_over_them(any_loss):
    runs, batch, classes = (2, 3), 5, 7
    generator = torch.Generator().manual_seed(0)
    z = 3 * torch.randn(2, *runs, batch, classes, generator=generator, dtype=torch.float64)
    y = torch.randint(-1, 2, (*runs, batch, classes), generator=generator)
    z, other = z.requires_grad_()
    leaf = z.detach().clone().requires_grad_()
    torch.manual_seed(0)
    stacked = values(any_loss, leaf, other.detach(), y)
    torch.manual_seed(0)
    one_by_one = [
        values(any_loss, z[r, s], other[r, s].detach(), y[r, s])
        for r in range(runs[0])
        for s in range(runs[1])
    ]
    for term, whole in enumerate(stacked):
        parts = torch.stack([each[term] for each in one_by_one])
        assert whole.shape == (*runs, *parts.shape[1:])
        torch.testing.assert_close(whole, parts.unflatten(0, runs))
        if whole.requires_grad:
            (slope,) = torch.autograd.grad(whole.sum(), leaf, retain_graph=True)
            (expected,) = torch.autograd.grad(parts.sum(), z, retain_graph=True)
            torch.testing.assert_close(slope, expected)


def test_no_value_is_read_on_the_host(any_loss):
    """Tensors of the device "meta" have shapes but no values: reading one is an error."""
    z = torch.empty(2, 4, 6, device="meta", requires_grad=True)
    y = torch.empty(4, 6, device="meta", dtype=torch.int8)
    result = values(any_loss, z[0], z[1], y)
    moving = [term.sum() for term in result if term.requires_grad]
    if moving:
        torch.stack(moving).sum().backward()


def test_no_loss_is_forgotten():
    text = Path(__file__).with_name("registry.py").read_text()
    missing = {name for name in losses.__all__ if f"losses.{name}" not in text}
    assert missing <= NO_LOSSES
