"""AN plus a norm of the head's weights."""

import pytest
import torch


@pytest.mark.parametrize(("name", "power", "default"), [("l1r", 1, 1e-5), ("l2r", 2, 1e-4)])
def test_the_norm_is_added_to_an(make, name, power, default):
    plain = make("an")
    for lam in (default, 0.5):
        case = make(name, options={} if lam == default else {"lam": lam})
        terms = case.terms(case.batch())
        torch.testing.assert_close(terms["loss"], plain.total(plain.batch()))
        weight = case.model.head.linear.weight
        torch.testing.assert_close(terms["norm"], lam * weight.abs().pow(power).sum())


@pytest.mark.parametrize("name", ["l1r", "l2r"])
def test_the_bias_is_free(make, name):
    case = make(name)
    before = case.method.penalty(case.model.head)["norm"]
    with torch.no_grad():
        case.model.head.linear.bias += 10
    assert torch.equal(case.method.penalty(case.model.head)["norm"], before)
