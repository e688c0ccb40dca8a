"""The owner of an archive answers questions: no step may make the model worse.

Digit scenes stand for photos in folders, each tagged by what is most striking in it: classes differ
in how readily they are named. The truth answers what a review asks.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from plusone.autorecipe import compose, facts_of
from plusone.compare.loop import reviewed
from plusone.data.dataset import Dataset
from plusone.data.formats import read, write
from plusone.data.source import load_source
from plusone.inputs.task import make_task
from plusone.metrics import mean_average_precision
from plusone.metrics.calibration_error import expected_calibration_error
from plusone.reviewing import apply_answers
from plusone.reviewing.questions import WORTH
from plusone.suggestions.find import find
from plusone.training.closed_fit import fit_for
from plusone.training.summary import calibrate

ITEMS, TESTED = 500, 600
# Recall at the thresholds follows the estimate of k, which is too high or too low without answers;
# recall of as many labels as there are does not.
NOISE = {"map": 0.7, "recall": 0.1, "found": 0.01, "error": 0.01}


@pytest.fixture(scope="module")
def archive():
    """Items with one biased label each, all their labels, and test items without labels."""
    scenes = load_source("digits-features")
    truth = scenes.table.truth.dense() == 1
    rows = np.random.default_rng(3).permutation(np.flatnonzero(truth.any(axis=1)))
    rows = rows[: ITEMS + TESTED]
    truth, rng = truth[rows], np.random.default_rng(4)
    striking = rng.normal(size=truth.shape[1]) + rng.gumbel(size=truth.shape)
    label = np.where(truth, striking, -np.inf).argmax(axis=1)
    seen = np.eye(truth.shape[1], dtype=np.int8)[label]
    seen[ITEMS:] = 0
    split = np.repeat(["train", "test"], [ITEMS, TESTED])
    x = np.asarray(scenes.features[rows], dtype=np.float32).reshape(len(rows), -1)
    return Dataset.from_arrays(x, seen, split=split), truth


def recipe_of(data):
    return compose(lambda share: facts_of(data, share), {"method": "recovery"}).recipe


def figures(data, truth):
    """What a run is worth on the test items, and what it says of the number of labels."""
    recipe = recipe_of(data)
    training = fit_for(make_task(data, recipe), recipe)
    list(training.epochs())
    calibration, thresholds = calibrate(training)
    z, y = training.log_odds(training.task.test), truth[ITEMS:]
    p = torch.sigmoid(calibration(z.double())).numpy()
    return {
        "map": 100 * mean_average_precision(z, torch.from_numpy(y.astype(np.int8))),
        "found": float(y.ravel()[np.argsort(-p, axis=None)[: y.sum()]].mean()),
        "recall": float((p >= thresholds.array)[y].mean()),
        "error": float(expected_calibration_error(p, y.astype(int))),
        "k": calibration.k,
        "range": calibration.k_range,
        "from": calibration.origin,
    }


def test_more_answers_are_never_worse(archive, tmp_path):
    data, truth = archive
    suggestions = find(data, recipe_of(data)).suggestions()
    full = replace(data.table, truth=None).labels.from_dense(truth, default=-1)
    asked = reviewed(suggestions, "worth", 400, 0, full, WORTH)
    row, label = suggestions.row[asked], suggestions.label[asked].astype(np.int64)
    steps = []
    for number in (0, 60, len(asked)):
        table = apply_answers(data.table, row[:number], label[:number], truth[row, label][:number])
        write(table, tmp_path / "labels.csv")  # as the review exports it
        table = replace(data.table, **known(tmp_path / "labels.csv", data.table))
        steps.append(figures(replace(data, table=table), truth))
    for before, after in pairwise(steps):
        assert after["map"] > before["map"] - NOISE["map"]
        assert after["recall"] > before["recall"] - NOISE["recall"]
        assert after["found"] > before["found"] - NOISE["found"]
        assert after["error"] < before["error"] + NOISE["error"]
    first, last = steps[0], steps[-1]
    assert last["map"] > first["map"] + 1
    assert (first["from"], last["from"]) == ("seen", "audit")
    k = truth[:ITEMS].sum(axis=1).mean()
    assert last["range"][0] < k < last["range"][1] < first["range"][1]
    assert last["error"] < first["error"]


def known(path, table):
    """Labels and what was named, as a file has them."""
    file = read(path, classes=table.classes).table
    assert file.ids.tolist() == table.ids.tolist()
    return {"labels": file.labels, "named": file.named}
