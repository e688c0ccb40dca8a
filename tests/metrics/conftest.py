"""Probabilities with ties, and seen labels with a class that nobody saw."""

import numpy as np
import pytest


@pytest.fixture(params=range(4))
def case(request):
    """Probabilities `[N, L]` and observed labels `[N, L]`."""
    rng = np.random.default_rng(request.param)
    n, n_classes = 30, 5
    found = np.round(rng.random((n, n_classes)), 1 + request.param % 2)  # ties
    observed = rng.choice([1, 0, -1], p=[0.25, 0.6, 0.15], size=(n, n_classes)).astype(np.int8)
    observed[:, 3] = np.minimum(observed[:, 3], 0)  # nobody saw it
    return found, observed
