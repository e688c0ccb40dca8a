"""Table 1 of the GR paper: the unified formula equals the losses written by themselves."""

import re
from pathlib import Path

import pytest
import torch

from plusone import losses
from plusone.losses import UnifiedLoss
from plusone.losses.robust import constant, minus_log_not_p, minus_log_p
from plusone.methods import METHODS

PAGE = Path(__file__).parents[2] / "docs" / "methods" / "unknown.md"
GR = {"w": 10.0, "b": -8.0, "mu": 0.8, "sigma": 0.5}
TAU = 0.6


def found_positive(z, y):
    """Labels in which confident unobserved ones are positives."""
    confident = (y == 0) & (torch.sigmoid(z.detach()) > TAU)
    return torch.where(confident, 1, y)


def only_low_are_negative(z, y):
    low = (y == 0) & (torch.sigmoid(z.detach()) <= TAU)
    return torch.where(low, -1, y)


def soft_labels(z):
    p = torch.sigmoid(z.detach())
    return torch.where(p <= TAU, p, -1.0)


PAIRS = {
    "en": (UnifiedLoss.en(TAU), lambda z, y: losses.observed_bce(z, only_low_are_negative(z, y))),
    "en, tau 1 is an": (UnifiedLoss.en(1.0), losses.assume_negative),
    "en, tau < 0 ignores": (UnifiedLoss.en(-1.0), losses.observed_bce),
    "em": (UnifiedLoss.em(0.2), lambda z, y: losses.entropy_maximization(z, y, alpha=0.2)),
    "em with apl": (
        UnifiedLoss.em(0.2, beta=0.9, tau=TAU),
        lambda z, y: losses.entropy_with_pseudo_labels(z, y, soft_labels(z), alpha=0.2, beta=0.9),
    ),
    "hill": (UnifiedLoss.hill(), lambda z, y: losses.hill(z, y, margin=0.0, gamma=0.0)),
    "hill 2": (UnifiedLoss.hill(2.0), lambda z, y: losses.hill(z, y, lam=2.0, margin=0, gamma=0)),
    "splc": (UnifiedLoss.splc(TAU), lambda z, y: losses.hill(z, found_positive(z, y))),
    "splc 0.5 3": (
        UnifiedLoss.splc(TAU, margin=0.5, gamma=3.0, lam=1.7),
        lambda z, y: losses.hill(z, found_positive(z, y), margin=0.5, gamma=3.0, lam=1.7),
    ),
    "splc released": (
        UnifiedLoss.splc(TAU, variant="released"),
        lambda z, y: losses.self_corrected(z, y, tau=TAU),
    ),
    "gr": (UnifiedLoss.gr(**GR), lambda z, y: losses.generalized_robust(z, y, **GR)),
    "gr 0.3 0 1.5": (
        UnifiedLoss.gr(**GR, q1=0.3, q2=0.0, q3=1.5),
        lambda z, y: losses.generalized_robust(z, y, **GR, q1=0.3, q2=0.0, q3=1.5),
    ),
}


def values_and_gradients(loss, z, y):
    x = z.clone().requires_grad_()
    table = loss(x, y)
    weight = torch.linspace(0.5, 2, table.numel(), dtype=z.dtype).view_as(table)
    (gradient,) = torch.autograd.grad((table * weight).sum(), x)
    return table.detach(), gradient


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-10), (torch.float32, 3e-6)])
def test_each_column_equals_the_direct_implementation(name, dtype, close):
    generator = torch.Generator().manual_seed(3)
    z = torch.randn(40, 30, generator=generator, dtype=torch.float64).to(dtype) * 4
    y = torch.randint(-1, 2, (40, 30), generator=generator)
    unified, direct = PAIRS[name]
    found, expected = values_and_gradients(unified, z, y), values_and_gradients(direct, z, y)
    for state in (1, 0, -1):  # a difference cannot hide behind the larger numbers of another state
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a[y == state], b[y == state], rtol=close, atol=close)


def test_trust_and_weight_see_stopped_logits():
    seen = []

    def spy(z):
        seen.append(z.requires_grad)
        return torch.sigmoid(z)

    z = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    zero = torch.zeros(3, 4)
    loss = UnifiedLoss(k_hat=spy, v=spy, l1=minus_log_p, l2=minus_log_p, l3=minus_log_not_p)
    (found,) = torch.autograd.grad(loss(z, zero).sum(), z)
    assert seen == [False, False]
    p = torch.sigmoid(z.detach())
    torch.testing.assert_close(found, p * ((1 - p) * p - p * (1 - p)))  # 0: k = p is a fixed point
    through = UnifiedLoss(constant(0.0), constant(1.0), minus_log_p, minus_log_p, minus_log_not_p)
    torch.testing.assert_close(
        values_and_gradients(through, z.detach(), zero)[0], minus_log_not_p(z.detach())
    )


def test_apls_pseudo_labels_have_no_gradient_when_they_are_new():
    z = torch.linspace(-6, -1, 11).unsqueeze(0)
    loss = UnifiedLoss.em(0.2, beta=0.9, tau=TAU)
    table, gradient = values_and_gradients(loss, z, torch.zeros_like(z))
    assert (table > 0).all()
    torch.testing.assert_close(gradient, torch.zeros_like(z), atol=1e-7, rtol=0)


def test_the_weight_does_not_touch_seen_labels():
    z = torch.randn(2, 5, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([[1, -1, 1, -1, 1], [0] * 5])
    loss = UnifiedLoss(constant(0.5), constant(0.0), minus_log_p, minus_log_p, minus_log_not_p)
    torch.testing.assert_close(loss(z, y)[0], losses.assume_negative(z, y)[0])
    assert not loss(z, y)[1].any()


def test_a_part_that_is_missing_is_refused():
    with pytest.raises(TypeError, match="l3"):
        UnifiedLoss(constant(0.0), constant(1.0), minus_log_p, minus_log_p)
    with pytest.raises(ValueError, match="variant must be one of"):
        UnifiedLoss.splc(variant="code")


def test_the_example_of_the_documentation_trains():
    (code,) = re.findall(
        r"<!-- example: unified -->\n```python\n(.*?)```",
        PAGE.read_text(encoding="utf-8"),
        re.DOTALL,
    )
    before, names = dict(METHODS), {}
    try:
        exec(compile(code, PAGE.name, "exec"), names)
    finally:
        METHODS.clear()
        METHODS.update(before)
    fitted = names["fitted"]
    assert fitted.metrics["method"] == "patient"
    assert fitted.metrics["val_map"] > 0.7
