"""The two readings of EPR, and its need for k."""

import dataclasses

import pytest
import torch

from plusone.errors import InputError


def test_the_paper_with_lambda_l_is_l_times_the_released(make):
    n_classes = 6
    released = make("epr", options={"variant": "released"})
    for options in ({}, {"lam": float(n_classes)}):
        paper = make("epr", n_classes=n_classes, options=options)
        ours, theirs = paper.terms(paper.batch()), released.terms(released.batch())
        assert ours.keys() == theirs.keys() == {"positives", "expected_positives"}
        for name, value in ours.items():
            torch.testing.assert_close(value, n_classes * theirs[name])


def test_the_right_count_costs_nothing(make):
    case = make("epr")
    logits = torch.full((8, 6), torch.logit(torch.tensor(1.7 / 6)).item())
    unseen = torch.zeros(8, 6)
    assert case.on_logits(logits, unseen).item() == pytest.approx(0, abs=1e-10)
    assert case.on_logits(logits + 1, unseen).item() > 1e-3


def test_k_is_needed(make):
    case = make("epr")
    case.method.labels = dataclasses.replace(case.method.labels, expected_positives=None)
    with pytest.raises(InputError, match="needs expected_positives"):
        case.terms(case.batch())
