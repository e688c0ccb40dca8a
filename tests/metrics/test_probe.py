from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import wasserstein_distance

from plusone.data.matrix import LabelMatrix
from plusone.data.observation import observe
from plusone.metrics.probe import prober_for
from plusone.results import Probe


def labels(n: int = 200, classes: int = 7) -> tuple[np.ndarray, np.ndarray]:
    truth = (np.random.default_rng(0).random((n, classes)) < 0.3).astype(np.int8) * 2 - 1
    truth[:, 0] = 1
    return truth, observe(truth)


def test_histograms_and_distance_are_those_of_a_naive_loop() -> None:
    truth, seen = labels()
    scores = torch.rand(truth.shape, generator=torch.Generator().manual_seed(1))
    prober = prober_for(LabelMatrix.from_dense(truth, default=-1), LabelMatrix.from_dense(seen))
    assert prober is not None
    probe = prober(scores)
    values: dict[int, list[float]] = {1: [], -1: []}
    for row, column in np.ndindex(*truth.shape):
        if seen[row, column] == 0:
            values[truth[row, column]].append(float(scores[row, column]))
    for counts, label in ((probe.positives, 1), (probe.negatives, -1)):
        expected = np.zeros(100, dtype=int)
        for value in values[label]:
            expected[min(int(value * 100), 99)] += 1
        assert np.abs(counts - expected).sum() <= 2  # a value on the edge of a bin may fall on
        assert sum(counts) == len(values[label])  # either side of it in float32
    assert probe.distance == pytest.approx(wasserstein_distance(values[1], values[-1]), abs=1e-4)


def test_nothing_is_hidden_from_full_labels() -> None:
    truth, seen = labels()
    full = LabelMatrix.from_dense(truth, default=-1)
    assert prober_for(full, full) is None
    assert prober_for(None, LabelMatrix.from_dense(seen)) is None


def test_a_probe_survives_json() -> None:
    probe = Probe(positives=range(100), negatives=[1] * 100, distance=0.25)
    again = Probe.model_validate(probe.to_json())
    assert again == probe


def test_without_hidden_positives_there_is_no_distance() -> None:
    truth = np.array([[1, -1, -1], [-1, 1, -1]], dtype=np.int8)
    prober = prober_for(
        LabelMatrix.from_dense(truth, default=-1), LabelMatrix.from_dense(observe(truth))
    )
    assert prober is not None
    assert prober(torch.rand(2, 3)).distance is None
