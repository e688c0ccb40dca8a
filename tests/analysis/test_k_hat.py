from __future__ import annotations

import numpy as np
import pytest

from plusone.analysis.hidden import gr_k_hat, posterior
from plusone.errors import InputError


def test_khat_is_constant_first_and_ends_where_the_options_say():
    first = gr_k_hat(1, 8)
    assert (first.w, first.b) == (0.0, -2.0)
    assert set(first.k_hat) == {1 / (1 + np.exp(2.0))}
    last = gr_k_hat(8, 8, {"w": 10.0, "b": -8.0}, p=[0.0, 0.8, 1.0])
    assert (last.w, last.b) == (10.0, -8.0)
    assert last.k_hat == pytest.approx([1 / (1 + np.exp(8)), 0.5, 1 / (1 + np.exp(-2))])


def test_the_released_schedule_lags():
    assert gr_k_hat(8, 8, {"variant": "released"}).w == pytest.approx(2 * 7 / 8)


def test_the_posterior_meets_bayes_rule_by_counting():
    """Of positives a share a is seen: of labels with confidence p, what share of the unseen?"""
    n, k = 1_000_000, 1.46
    for p in (0.1, 0.5, 0.9):
        positive = p * n
        unseen = positive * (1 - 1 / k)
        assert posterior([p], k)[0] == pytest.approx(unseen / (n - positive / k))


def test_bad_values_are_refused():
    with pytest.raises(InputError, match="epoch 9 is not one of the epochs 1 to 8"):
        gr_k_hat(9, 8)
    with pytest.raises(InputError, match="unknown method option 'ww'"):
        gr_k_hat(1, 8, {"ww": 1.0})
    with pytest.raises(InputError, match="at least one positive"):
        posterior([0.5], k=0.5)
