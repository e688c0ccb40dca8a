"""GR with learned khat and v: what gets which gradient, and what is saved."""

import numpy as np
import pytest
import torch

import plusone
from plusone.data import Dataset
from plusone.errors import InputError
from plusone.losses import generalized_robust
from plusone.types import Clock, Stage

LEARNED = ("learned_w", "learned_b", "learned_mu", "learned_sigma")
CLOCK = Clock(0, 2, 5, 0, 1)


def backward(case):
    for name in LEARNED:
        getattr(case.method, name).grad = None
    z = torch.randn(8, 6, generator=torch.Generator().manual_seed(0)).requires_grad_()
    case.on_logits(z, case.observed, CLOCK).backward()
    return z


def test_it_starts_where_the_papers_schedules_start(make):
    method = make("gr_learned").method
    for name, start in zip(LEARNED, (0.0, -2.0, 0.5, 2.0), strict=True):
        assert getattr(method, name).tolist() == [start] * 6
    assert [name for name, _ in method.named_parameters()] == list(LEARNED)


def test_the_model_is_trained_as_in_gr_with_the_same_numbers(make):
    case = make("gr_learned")
    z = backward(case)
    fixed = z.detach().clone().requires_grad_()
    gr = generalized_robust(fixed, case.observed, w=0.0, b=-2.0, mu=0.5, sigma=2.0).mean()
    gr.backward()
    torch.testing.assert_close(z.grad, fixed.grad)


def test_gradients_are_those_of_the_formula(make):
    case = make("gr_learned")
    z = backward(case).detach()
    p, unobserved = torch.sigmoid(z), (case.observed == 0).float()
    khat, gap = torch.sigmoid(torch.tensor(-2.0)), p - 0.5
    v = torch.exp(-(gap**2) / 8)
    l2, l3 = (1 - p**0.01) / 0.01, p
    mix, share = khat * l2 + (1 - khat) * l3, unobserved / z.numel()
    slope = v * khat * (1 - khat) * (l2 - l3) * share
    expected = {
        "learned_w": (slope * p).sum(0),
        "learned_b": slope.sum(0),
        "learned_mu": (v * gap / 4 * mix * share).sum(0),
        "learned_sigma": (v * gap**2 / 8 * mix * share).sum(0),
    }
    for name, value in expected.items():
        torch.testing.assert_close(getattr(case.method, name).grad, value, rtol=1e-4, atol=1e-7)


def test_learning_khat_alone_leaves_v_on_its_schedule(make):
    case = make("gr_learned", options={"learn_v": False})
    backward(case)
    assert case.method.learned_w.grad.abs().sum() > 0
    assert case.method.learned_mu.grad is None
    trained = [name for name, p in case.method.named_parameters() if p.requires_grad]
    assert trained == ["learned_w", "learned_b"]
    last = case.method.schedule(Clock(0, 4, 5, 0, 1))
    assert (last["mu"], last["sigma"]) == pytest.approx((0.8, 0.5))
    case.method.begin_stage(Stage(inputs="features", epochs=5, lr=1e-3, options={"learn_v": True}))
    assert all(p.requires_grad for p in case.method.parameters())


def test_an_option_without_effect_is_refused(make):
    with pytest.raises(InputError, match="set learn_v to false"):
        make("gr_learned", options={"mu": 0.7})
    case = make("gr_learned", options={"mu": 0.7, "learn_v": False})
    assert case.total(case.batch()).isfinite()


@pytest.mark.parametrize("sigma", [1e-3, 0.0, -1.0])
def test_a_width_of_nothing_is_survived(make, sigma):
    case = make("gr_learned")
    with torch.no_grad():
        case.method.learned_sigma.fill_(sigma)
        case.method.learned_mu.fill_(0.5)
    logits = torch.zeros(8, 6, requires_grad=True)  # p = mu: the weight is 1 however narrow
    case.on_logits(logits, case.observed).backward()
    assert logits.grad.isfinite().all()
    assert all(getattr(case.method, name).grad.isfinite().all() for name in LEARNED)


def test_training_moves_them_and_the_result_keeps_them():
    x = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    data = Dataset.from_arrays(x, (x[:, :4] > 0.3).astype(int), complete=True)
    fitted = plusone.fit(data, "gr_learned", epochs=8, lr=0.02)
    tensors, _ = fitted.training.state()
    for name in LEARNED:
        value = tensors[f"method.{name}"]
        assert value.shape == (4,)
        assert len(set(value.tolist())) == 4
    assert fitted.metrics["val_map"] > 0.75
