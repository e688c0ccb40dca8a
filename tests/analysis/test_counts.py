from __future__ import annotations

import json

import pytest

from plusone.analysis.counts import class_counts
from plusone.errors import InputError
from plusone.training.run_folder import read_metrics

pytestmark = pytest.mark.slow


def test_counts_of_a_real_run(an_run, halves):
    found = class_counts(read_metrics(an_run).to_json())
    assert found.data == "halves"
    assert found.items == 128
    assert sum(row.seen for row in found.rows) == 128  # one positive per item
    true = [row.true for row in found.rows]
    assert true == sorted(true, reverse=True)
    assert found.missing_share == pytest.approx(1 - 128 / sum(true))
    assert json.loads(json.dumps(found.to_dict()))["rows"][0]["true"] == true[0]


def test_unknown_truth_is_refused():
    with pytest.raises(InputError, match="photos: the missing positives are not known"):
        class_counts({"data": "photos", "items": {"train": 3}})
