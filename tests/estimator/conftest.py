"""Made-up data with several labels per item, of which one is seen."""

from __future__ import annotations

import numpy as np
import pytest

NAMES = np.array(["bird", "cat", "dog", "emu"])


class Items:
    """Features, all labels, and one seen label per item."""

    def __init__(self, n: int, seed: int) -> None:
        chance = np.random.default_rng(seed)
        self.x = chance.normal(size=(n, 6)).astype(np.float32)
        score = self.x[:, :4] + 0.2 * chance.normal(size=(n, 4))
        self.truth = (score > 0.3).astype(int)
        self.truth[np.arange(n), score.argmax(axis=1)] = 1
        self.seen = np.array([chance.choice(np.flatnonzero(row)) for row in self.truth])
        self.matrix = np.eye(4, dtype=int)[self.seen]
        self.lists = [[str(NAMES[place])] for place in self.seen]
        self.names = NAMES[self.seen]


@pytest.fixture(scope="session")
def items() -> Items:
    return Items(240, seed=0)


@pytest.fixture(scope="session")
def fresh() -> Items:
    return Items(400, seed=1)
