"""Labels and logits that a loss refuses, with a sentence that says why."""

from __future__ import annotations

import pytest
import torch

from plusone.losses import assume_negative, expected_positives
from plusone.losses._logits import known_labels


@pytest.mark.parametrize("value", [2.0, 0.5, -2.0, float("nan")])
def test_labels_of_another_state(value):
    z, y = torch.zeros(2, 3), torch.tensor([[1.0, 0, -1], [0, value, 0]])
    with pytest.raises(ValueError, match=r"labels must be 1 .* one is"):
        assume_negative(z, y)
    with pytest.raises(ValueError, match="labels must be 1"):
        expected_positives(z, y=y, k=1.0)
    with known_labels():  # the training loop, whose labels come from a label matrix
        assume_negative(z, y)


def test_logits_that_are_whole_numbers():
    z, y = torch.zeros(2, 3), torch.zeros(2, 3)
    with pytest.raises(ValueError, match="logits must be floating-point"):
        assume_negative(z.long(), y)
    assert assume_negative(z.half(), y.bool()).dtype == torch.float16
