from __future__ import annotations

import pytest

from plusone.analysis.counts import class_counts
from plusone.errors import InputError
from plusone.prediction.run_folder import read_metrics


def test_seen_and_missing_positives_with_the_most_frequent_class_first(result):
    labels = {"classes": ["cat", "dog"], "seen": [1, 2], "true": [2, 5]}
    found = class_counts(result(data="pets", items={"train": 6}, labels=labels))
    assert [(row.name, row.seen, row.missing) for row in found.rows] == [
        ("dog", 2, 3),
        ("cat", 1, 1),
    ]


@pytest.mark.slow
def test_counts_of_a_real_run(an_run, halves):
    found = class_counts(read_metrics(an_run))
    assert found.data == "halves"
    assert found.items == 128
    assert sum(row.seen for row in found.rows) == 128  # one positive per item
    true = [row.true for row in found.rows]
    assert true == sorted(true, reverse=True)
    assert found.missing_share == pytest.approx(1 - 128 / sum(true))


def test_unknown_truth_is_refused(result):
    with pytest.raises(InputError, match="photos: the missing positives are not known"):
        class_counts(result(data="photos", items={"train": 3}))
