"""Data whose labels are known by construction, and out-of-sample scores for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.data.observation import observe
from plusone.data.table import LabelTable
from plusone.probabilities.scores import Scores
from plusone.probabilities.unseen_labels import Block, Calibrated, Checked


@dataclass(frozen=True)
class Made:
    """Labels drawn with known probabilities, one of them seen, and scores that are too sure."""

    probabilities: npt.NDArray[np.float64]
    truth: npt.NDArray[np.bool_]
    observed: npt.NDArray[np.int8]
    scores: npt.NDArray[np.float64]

    @property
    def table(self) -> LabelTable:
        n, n_classes = self.truth.shape
        return LabelTable(
            np.array([f"item{row}" for row in range(n)]),
            tuple(f"class{label}" for label in range(n_classes)),
            LabelMatrix.from_dense(self.observed),
            LabelMatrix.from_dense(self.truth.astype(int), default=-1),
        )


def make(n: int = 1000, n_classes: int = 6, seed: int = 0) -> Made:
    rng = np.random.default_rng(seed)
    x = rng.normal(-1.5, 2.5, size=(n, n_classes))
    p = 1 / (1 + np.exp(-x))
    truth = rng.random(p.shape) < p
    kept = truth.any(axis=1)
    x, p, truth = x[kept], p[kept], truth[kept]
    observed = observe(truth.astype(np.int8), "single", seed)
    scores = 1 / (1 + np.exp(-(2 * x + 1)))  # too steep and too high
    return Made(p, truth, observed, scores)


def as_calibrated(
    before: npt.NDArray[np.float64], states: npt.NDArray[np.int8], checked: Checked | None = None
) -> Calibrated:
    """Probabilities that are known, corrected by an audit if there is one."""

    def at(rows: npt.NDArray[np.int64]) -> Block:
        p = before[rows]
        corrected = p if checked is None else checked.corrected_table(p, states[rows])
        return Block(p, corrected, p)

    return Calibrated(at, LabelMatrix.from_dense(states), Scores.of(before), checked)


@pytest.fixture(scope="session")
def made() -> Made:
    return make()


def small_dataset(n: int = 320) -> Dataset:
    """Features from which four of the labels can be read."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 6)).astype("float32")
    truth = (x[:, :4] > 0.3).astype(int)
    truth[truth.sum(axis=1) == 0, 0] = 1
    split = np.where(np.arange(n) < n - 20, "train", "test")
    return Dataset.from_arrays(x, truth, complete=True, split=split, name="made")


@pytest.fixture(scope="session")
def small() -> Dataset:
    return small_dataset()
