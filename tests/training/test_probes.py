"""Probes of other items, before training and for each class."""

from __future__ import annotations

import numpy as np
import pytest

from plusone.errors import InputError


@pytest.mark.parametrize("where", ["training", "validation", "test"])
def test_full_probes_of_any_items_before_and_during_training(training, feature_data, where):
    data = feature_data(60)
    settings = {"method": "gr", "epochs": 2, "probe": "full", "probe_on": where, "lr": 0.1}
    run = training(data, **settings)
    part = {"training": run.task.train, "validation": run.task.val, "test": run.task.test}[where]
    truth = part.truth.dense() == 1
    hidden = truth & (part.observed.dense() == 0) if where == "training" else truth
    at_first = run.method.probabilities(run.inputs.logits(part, run.model)).numpy()
    first, last = run.epochs()
    for probe in (first.probe_before, first.probe, last.probe):
        assert sum(probe.positives) == hidden.sum()
        for cls, (positives, negatives) in enumerate(probe.by_class):
            assert sum(positives) == hidden[:, cls].sum()
            assert sum(negatives) == (~truth[:, cls]).sum()
        assert np.array_equal(np.sum([p for p, _ in probe.by_class], axis=0), probe.positives)
    below = np.histogram(at_first[hidden], bins=100, range=(0, 1))[0]
    assert np.array_equal(first.probe_before.positives, below)
    assert last.probe_before is None
    assert first.probe.distance != first.probe_before.distance


def test_probes_change_nothing_else(training, feature_data):
    plain, probed = (
        list(training(feature_data(60), epochs=2, probe=probe).epochs())
        for probe in ("off", "full")
    )
    assert [row.losses for row in plain] == [row.losses for row in probed]
    assert [row.val_map for row in plain] == [row.val_map for row in probed]


def test_no_test_items_to_probe(training, feature_data):
    with pytest.raises(InputError, match="probe_on = test"):
        training(feature_data(60, split=None), probe_on="test")
