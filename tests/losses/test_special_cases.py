"""Identities that the papers state, and the parts that are not tables `[B, L]`."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from plusone import losses


@pytest.fixture
def z() -> torch.Tensor:
    return torch.randn(5, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 3


@pytest.fixture
def y() -> torch.Tensor:
    labels = torch.zeros(5, 8, dtype=torch.int8)
    labels[torch.arange(5), torch.tensor([0, 3, 7, 2, 5])] = 1
    return labels


def test_limits_that_are_assume_negative(z, y):
    an = losses.assume_negative(z, y)
    for same in (
        losses.weak_negative(z, y, gamma=1.0),
        losses.assume_negative_smoothed(z, y, eps_p=0.0, eps_n=0.0),
        losses.focal(z, y, gamma=0.0),
        losses.asymmetric(z, y, gamma_neg=0.0, gamma_pos=0.0),
        losses.entropy_minimization(z, y, alpha=0.0, negatives=True),
        losses.observed_bce(z, 2 * y - 1),
    ):
        torch.testing.assert_close(same, an, rtol=1e-12, atol=1e-14)


def test_n_ls_leaves_the_positive_alone(z, y):
    n_ls = losses.assume_negative_smoothed(z, y, eps_p=0.0, eps_n=0.1)
    an_ls = losses.assume_negative_smoothed(z, y)
    torch.testing.assert_close(n_ls[y == 0], an_ls[y == 0])
    torch.testing.assert_close(n_ls[y == 1], losses.assume_negative(z, y)[y == 1])


def test_released_smoothing_is_twice_the_papers(z, y):
    released = losses.assume_negative_smoothed(z, y, eps_p=0.1, eps_n=0.1, variant="released")
    paper = losses.assume_negative_smoothed(z, y, eps_p=0.2, eps_n=0.2)
    torch.testing.assert_close(released, paper)


def test_hill_without_margin_is_the_column_of_gr_table_1(z, y):
    z = z.requires_grad_()
    loss = losses.hill(z, y, margin=0.0, gamma=0.0)
    (gradient,) = torch.autograd.grad(loss.sum(), z)
    p = torch.sigmoid(z)
    expected = torch.where(y == 1, -functional.logsigmoid(z), (1.5 - p) * p**2)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient[y == 0], (3 * p**2 * (1 - p) ** 2)[y == 0])  # Eq. 33


def test_generalized_cross_entropy_limits(z):
    p = torch.sigmoid(z)
    lp = -functional.logsigmoid(z)
    torch.testing.assert_close(losses.generalized_cross_entropy(z, q=1.0), 1 - p)
    torch.testing.assert_close(losses.generalized_cross_entropy(z, q=0.0), lp)
    torch.testing.assert_close(losses.generalized_cross_entropy(z, q=1e-9), lp, rtol=1e-6, atol=0)
    assert torch.autograd.gradcheck(
        lambda x: losses.generalized_cross_entropy(x, q=0.7), z.requires_grad_()
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("q", [0.0, 0.01, 1.0, 1.5])
def test_generalized_cross_entropy_is_finite(dtype, q):
    x = torch.tensor([-100.0, 0.0, 100.0], dtype=dtype, requires_grad=True)
    loss = losses.generalized_cross_entropy(x, q=q)
    loss.sum().backward()
    assert loss.dtype == dtype
    assert loss.isfinite().all()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("q", [(0.01, 0.01, 1.0), (0.5, 0.01, 1.5), (0.0, 0.2, 0.0)])
def test_gr_gradient_is_equation_18_times_v(z, y, q):
    q1, q2, q3 = q
    options = {"w": 4.0, "b": -3.0, "mu": 0.6, "sigma": 0.4}
    y = y.clone()
    y[0, 4] = -1
    x = z.clone().requires_grad_()
    loss = losses.generalized_robust(x, y, q1=q1, q2=q2, q3=q3, **options)
    (gradient,) = torch.autograd.grad(loss.sum(), x)
    p = torch.sigmoid(z)
    k = losses.false_negative_probability(p, w=4.0, b=-3.0)
    v = losses.confidence_weight(p, mu=0.6, sigma=0.4)
    eq18 = (1 - k) * (1 - p) ** q3 * p - k * p**q2 * (1 - p)
    torch.testing.assert_close(gradient[y == 0], (v * eq18)[y == 0])
    torch.testing.assert_close(gradient[y == 1], (-(p**q1) * (1 - p))[y == 1])
    torch.testing.assert_close(gradient[y == -1], p[y == -1])

    learned = {name: torch.tensor(value, dtype=z.dtype) for name, value in options.items()}
    x2 = z.clone().requires_grad_()
    slow = losses.generalized_robust(x2, y, q1=q1, q2=q2, q3=q3, **learned)
    torch.testing.assert_close(slow, loss)
    torch.testing.assert_close(torch.autograd.grad(slow.sum(), x2)[0], gradient)


def test_gr_learned_gives_gradients_to_its_parameters_per_class(z, y):
    start = {"w": 2.0, "b": -1.0, "mu": 0.7, "sigma": 0.5}
    learned = {
        name: torch.full((8,), value, dtype=z.dtype, requires_grad=True)
        for name, value in start.items()
    }
    losses.generalized_robust(z, y, **learned).sum().backward()
    assert all((value.grad != 0).all() for value in learned.values())
    assert torch.autograd.gradcheck(
        lambda *values: losses.generalized_robust(z, y, **dict(zip(start, values, strict=True))),
        tuple(learned.values()),
    )


def test_em_gradient_is_equation_31(z, y):
    z = z.requires_grad_()
    (gradient,) = torch.autograd.grad(losses.entropy_maximization(z, y, alpha=0.3).sum(), z)
    p = torch.sigmoid(z)
    torch.testing.assert_close(gradient[y == 0], (0.3 * z * p * (1 - p))[y == 0])


def test_em_without_alpha_ignores_unobserved(z, y):
    loss = losses.entropy_maximization(z, y, alpha=0.0)
    torch.testing.assert_close(loss, losses.observed_bce(z, y))
    assert (loss[y == 0] == 0).all()


def test_entropy_is_never_negative_in_float32():
    z = torch.linspace(-60, 60, 4001).unsqueeze(0)
    assert (losses.entropy_maximization(z, torch.zeros_like(z), alpha=1.0) <= 0).all()


def test_sampled_negative_expects_weak_negative(z, y):
    generator = torch.Generator().manual_seed(0)
    draws = 4000
    many = losses.sampled_negative(
        z.repeat(draws, 1), y.repeat(draws, 1), generator=generator
    ).reshape(draws, 5, 8)
    expected = losses.weak_negative(z, y)
    assert ((many != 0).sum(2) == 2).all()
    error = (many.mean(0) - expected).abs()
    scale = many.std(0) / math.sqrt(draws)
    assert (error <= 5 * scale + 1e-9).all()


def test_sample_negative_respects_seen_labels():
    y = torch.tensor([[1, -1, 0, 0], [1, 1, -1, 1], [0, 0, 0, 0]], dtype=torch.int8)
    generator = torch.Generator().manual_seed(3)
    for _ in range(50):
        drawn = losses.sample_negative(y, generator=generator)
        assert drawn.dtype == torch.int8
        assert torch.equal(drawn[y != 0], y[y != 0])
        assert (drawn - y).sum(1).tolist() == [-1, 0, -1]
    assert (y[2] == 0).all()
    assert losses.sample_negative(torch.tensor([[True, False]])).tolist() == [[1, -1]]


def test_sample_negative_is_repeatable(y):
    first, second = (
        losses.sample_negative(y, generator=torch.Generator().manual_seed(5)) for _ in range(2)
    )
    assert torch.equal(first, second)


def test_pairwise_ranking_row_sum_is_the_double_loop(z, y):
    y = y.clone()
    y[1, 6], y[2, 0] = 1, -1
    p = torch.sigmoid(z)
    for row in range(5):
        total = sum(
            max(0.0, 1 - p[row, i].item() + p[row, j].item())
            for i in range(8)
            for j in range(8)
            if y[row, i] == 1 and y[row, j] != 1
        )
        assert losses.pairwise_ranking(z, y)[row].sum().item() == pytest.approx(total)


def test_softmax_is_cross_entropy_on_one_positive(z, y):
    found = losses.reduce(losses.softmax_cross_entropy(z, y), "item")
    torch.testing.assert_close(found, functional.cross_entropy(z, y.argmax(1)))


def test_softmax_charges_a_seen_negative_for_its_share(z, y):
    y = y.clone()
    y[:, 1] = -1
    share = torch.softmax(z, 1)[:, 1]
    found = losses.softmax_cross_entropy(z, y)
    torch.testing.assert_close(found[:, 1], -torch.log1p(-share))


def test_softmax_of_a_certain_seen_negative_is_finite():
    z = torch.tensor([[100.0, 0.0, -1000.0]], requires_grad=True)
    cost = losses.softmax_cross_entropy(z, torch.tensor([[-1.0, 0.0, 1.0]]))
    assert cost.flatten().tolist() == [100.0, 0.0, 1100.0]
    cost.sum().backward()
    assert z.grad.isfinite().all()


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_expected_positives(z, y, variant):
    y = y.clone()
    y[0, 4] = -1
    terms = losses.expected_positives(z, y, k=2.0, lam=3.0, variant=variant)
    seen = sum(
        math.log1p(math.exp(-z[i, j].item() * y[i, j].item()))
        for i in range(5)
        for j in range(8)
        if y[i, j] != 0
    )
    khat = torch.sigmoid(z).sum().item() / 5
    divisor = 5 if variant == "paper" else 40
    assert terms["positives"].item() == pytest.approx(seen / divisor)
    assert terms["expected_positives"].item() == pytest.approx(3 * ((khat - 2) / 8) ** 2)
    assert torch.autograd.gradcheck(
        lambda x: tuple(losses.expected_positives(x, y, k=2.0, variant=variant).values()),
        z.requires_grad_(),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_expected_positives_is_finite_and_keeps_its_type(dtype):
    z = torch.tensor([[-100.0, 100.0, 0.0]], dtype=dtype, requires_grad=True)
    terms = losses.expected_positives(z, torch.tensor([[1, -1, 0]]), k=1.0)
    sum(terms.values()).backward()
    assert all(term.dtype == dtype and term.isfinite() for term in terms.values())
    assert z.grad.isfinite().all()


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_online_estimation_stops_the_gradient_of_each_target(z, y, variant):
    phi = z.flip(0)
    for name, stopped in (("classifier", phi), ("estimate", z)):
        leaf = (z if name == "classifier" else phi).clone().requires_grad_()

        def half(x, name=name, stopped=stopped):
            pair = (x, stopped) if name == "classifier" else (stopped, x)
            return losses.online_estimation(*pair, y, k=2.0, variant=variant)[name]

        assert torch.autograd.gradcheck(half, leaf)
    both = [x.clone().requires_grad_() for x in (z, phi)]
    term = losses.online_estimation(*both, y, k=2.0, variant=variant)["classifier"]
    assert torch.autograd.grad(term, both[1], allow_unused=True) == (None,)


def test_reductions():
    loss = torch.arange(6.0).reshape(2, 3)
    assert losses.reduce(loss).item() == 2.5
    assert losses.reduce(loss, "item").item() == 7.5
    assert losses.reduce(loss, "sum").item() == 15
    assert losses.reduce(loss, "none") is loss
    with pytest.raises(ValueError, match="median"):
        losses.reduce(loss, "median")


def test_penalties():
    a, b = torch.tensor([1.0, -2.0], requires_grad=True), torch.tensor([[3.0]])
    assert losses.l1_penalty([a, b]).item() == 6
    assert losses.squared_l2_penalty(iter([a, b])).item() == 14
    losses.squared_l2_penalty(a).backward()
    assert a.grad.tolist() == [2, -4]
    with pytest.raises(ValueError, match="at least one"):
        losses.l1_penalty([])


@pytest.mark.parametrize(
    "call",
    [
        lambda z, y: losses.weak_negative(z, y, gamma=2.0),
        lambda z, y: losses.focal(z, y, gamma=-1.0),
        lambda z, y: losses.asymmetric(z, y, shift=1.0),
        lambda z, y: losses.hill(z, y, gamma=-1.0),
        lambda z, y: losses.observed_bce(z, y, eps=1.0),
        lambda z, y: losses.assume_negative_smoothed(z, y, variant="code"),
        lambda z, y: losses.generalized_robust(z, y, w=0.0, b=0.0, q2=-1.0),
        lambda z, y: losses.generalized_robust(z, y, w=0.0, b=0.0, variant="code"),
        lambda z, y: losses.generalized_cross_entropy(z, q=-0.1),
        lambda z, y: losses.expected_positives(z, y, k=1.0, variant="code"),
    ],
)
def test_wrong_options_are_named(call, z, y):
    with pytest.raises(ValueError, match="got"):
        call(z, y)
