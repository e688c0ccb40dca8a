"""Rejecting, correcting and leveraging: golden values, naive loops, special cases, theorems."""

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plusone import losses


def random_case(batch=5, classes=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    z = 3 * torch.randn(batch, classes, generator=generator, dtype=torch.float64)
    y = torch.randint(-1, 2, (batch, classes), generator=generator).double()
    return z, y


@pytest.fixture(scope="module")
def cases(shared):
    return json.loads((shared / "golden" / "official_losses.json").read_text())["cases"]


@pytest.mark.parametrize("name", ["ll_r", "ll_ct", "ll_cp", "splc_epoch0", "splc_epoch1", "em_apl"])
def test_golden(cases, name):
    for case in cases:
        golden = case["losses"][name]
        z = torch.tensor(case["logits"], requires_grad=True)
        y = torch.tensor(case["observed"])
        tolerance, gradient_tolerance = 1e-5, 1e-5
        if name.startswith("ll_"):
            rule = "reject" if name == "ll_r" else "correct"
            share = golden["params"]["rejected"] / z.numel()
            table = losses.large_loss(z, y, share=share, rule=rule)
        elif name.startswith("splc"):
            table = losses.self_corrected(z, y, correct=name.endswith("1"))
        else:  # that program adds 1e-5 inside the logarithm
            tolerance, gradient_tolerance = 2e-3, 2e-2
            labels = torch.tensor(case["apl_labels"])
            soft = torch.where(labels < 0, -labels, -1.0)
            options = {key: golden["params"][key] for key in ("alpha", "beta")}
            table = losses.entropy_with_pseudo_labels(z, (labels == 1).float(), soft, **options)
        table.mean().backward()
        expected = torch.tensor(golden["grad"])
        assert table.mean().item() == pytest.approx(golden["value"], rel=tolerance, abs=1e-6)
        assert (z.grad - expected).abs().max() <= gradient_tolerance * expected.abs().max()


def test_golden_role(cases):
    for case in cases:
        golden, estimated = case["losses"]["role"], torch.tensor(case["estimated"])
        z = torch.tensor(case["logits"], requires_grad=True)
        phi = torch.logit(estimated.double()).float().requires_grad_()
        terms = losses.online_estimation(
            z, phi, torch.tensor(case["observed"]), k=case["k"], variant="released"
        )
        total = terms["classifier"] + terms["estimate"]
        total.backward()
        assert total.item() == pytest.approx(golden["value"], rel=2e-3)
        slope = torch.tensor(golden["grad_estimated"]) * estimated * (1 - estimated)
        for ours, expected in ((z.grad, torch.tensor(golden["grad"])), (phi.grad, slope)):
            assert (ours - expected).abs().max() <= 2e-2 * expected.abs().max()


@given(st.integers(0, 10_000), st.floats(0, 1))
@settings(max_examples=60)
def test_large_losses_against_a_loop(seed, share):
    z, y = random_case(seed=seed)
    z = z.round()  # with ties
    unobserved = sorted(z[i, j].item() for i in range(5) for j in range(7) if y[i, j] == 0)
    count = min(math.ceil(round(share * 35, 6)), len(unobserved))
    level = unobserved[-count] if count else math.inf
    marked = losses.large_losses(z, y, share=share)
    for i in range(5):
        for j in range(7):
            assert marked[i, j] == (y[i, j] == 0 and z[i, j] >= level)


def test_self_corrected_against_a_loop():
    z, y = random_case()
    table = losses.self_corrected(z, y)
    for i in range(5):
        for j in range(7):
            x = z[i, j].item() - (y[i, j] > 0).item()
            p = 1 / (1 + math.exp(-x))
            if y[i, j] > 0 or (y[i, j] == 0 and p > 0.6):
                expected = (1 - p) ** 2 * -math.log(p)
            elif y[i, j] < 0:
                expected = -math.log(1 - p)
            else:
                expected = p**2 * -math.log(1 - p)
            assert table[i, j].item() == pytest.approx(expected, rel=1e-9)


def test_lasd_reduces_to_its_special_cases():
    z, y = random_case()
    y = y.clamp(min=0)
    both = {"lam_plus": 1.0, "lam_minus": 1.0}
    splc = losses.self_corrected(z, y, margin=0.0, gamma=2.0)
    ours = losses.leveraged_asymmetric(z, y, **both, tau=0.6, gamma_pos=2.0, gamma_neg=2.0)
    torch.testing.assert_close(ours, splc)
    asl = losses.asymmetric(z, y, gamma_neg=4.0, gamma_pos=0.0)
    torch.testing.assert_close(losses.leveraged_asymmetric(z, y, **both, tau=1.0), asl)
    wan = losses.weak_negative(z, y, gamma=0.2)
    plain = {"gamma_pos": 0.0, "gamma_neg": 0.0}
    ours = losses.leveraged_asymmetric(z, y, lam_plus=0.0, lam_minus=0.2, tau=1.0, **plain)
    torch.testing.assert_close(ours, wan)


@given(st.integers(0, 10_000), st.floats(0, 1), st.floats(0, 1), st.integers(1, 6))
@settings(max_examples=80)
def test_theorem_5_3_average_over_positives_is_the_full_label_loss(seed, plus, minus, k):
    """With right pseudo-labels the mean of the loss over the possible seen labels is Eq. 11."""
    generator = torch.Generator().manual_seed(seed)
    n_classes, tau, gamma_pos, gamma_neg = 8, 0.7, 1.0, 4.0
    truth = torch.zeros(n_classes, dtype=torch.bool)
    truth[torch.randperm(n_classes, generator=generator)[:k]] = True
    level = math.log(tau / (1 - tau))
    spread = 0.01 + 3 * torch.rand(n_classes, generator=generator, dtype=torch.float64)
    z = torch.where(truth, level + spread, level - spread)[None]
    options = {"lam_plus": plus, "lam_minus": minus, "tau": tau}
    gammas = {"gamma_pos": gamma_pos, "gamma_neg": gamma_neg}
    total = 0.0
    for seen in torch.nonzero(truth).flatten().tolist():
        y = torch.zeros(1, n_classes)
        y[0, seen] = 1
        total += losses.leveraged_asymmetric(z, y, **options, **gammas).sum().item() / k
    p = torch.sigmoid(z[0])
    positive = ((1 - p) ** gamma_pos * -torch.log(p))[truth].sum()
    negative = (p**gamma_neg * -torch.log(1 - p))[~truth].sum()
    full = (1 / k + plus * (1 - 1 / k)) * positive + minus * negative
    assert total == pytest.approx(full.item(), rel=1e-9)


@given(st.floats(0, 1), st.integers(1, 9))
def test_theorem_5_4_balances_positives_and_negatives(plus, k):
    """Then all positives together weigh as much as all negatives together."""
    n_classes = 10
    minus = losses.balanced_lambda(plus, k=k, n_classes=n_classes)
    per_positive = 1 / k + plus * (1 - 1 / k)
    assert k * per_positive == pytest.approx((n_classes - k) * minus)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_extreme_logits_stay_finite(dtype):
    values = torch.tensor([-100.0, -1.0, 0.0, 1.0, 100.0]).repeat(3, 1)
    y = torch.tensor([[1.0], [0.0], [-1.0]]).expand(3, 5)
    for function in (
        lambda z: losses.large_loss(z, y, share=0.2),
        lambda z: losses.self_corrected(z, y),
        lambda z: losses.leveraged_asymmetric(z, y, lam_plus=0.1, lam_minus=0.1),
        lambda z: losses.entropy_with_pseudo_labels(z, y, torch.full((3, 5), 0.2)),
        lambda z: losses.consistency(z, -z),
    ):
        z = values.to(dtype).requires_grad_()
        table = function(z)
        table.sum().backward()
        assert table.shape == z.shape
        assert table.isfinite().all()
        assert z.grad.isfinite().all()


def test_bad_values_are_refused():
    z, y = random_case()
    with pytest.raises(ValueError, match="'reject' or 'correct'"):
        losses.large_loss(z, y, share=0.1, rule="keep")
    with pytest.raises(ValueError, match="between 1 and"):
        losses.balanced_lambda(0.1, k=10, n_classes=10)
