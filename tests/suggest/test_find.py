from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plusone.data.dataset import Dataset
from plusone.data.observation import observe_table
from plusone.errors import InputError
from plusone.metrics import mean_average_precision
from plusone.recipe import make_recipe
from plusone.reviewing.reviewed_labels import apply_answers
from plusone.suggestions.find import find, suggest
from plusone.training.crossfit import cross_fit

pytestmark = pytest.mark.slow

RECIPE = make_recipe({"method": "an", "epochs": 8, "lr": 3e-2, "expected_positives": 2.0})


@pytest.fixture(scope="module")
def seen(small: Dataset) -> Dataset:
    return replace(small, table=observe_table(small.table))


def test_unseen_labels_are_ranked_item_by_item(seen: Dataset) -> None:
    found = suggest(seen, RECIPE, 3, least=0.1, top=2)
    assert found.row.max() < 300  # test items are left alone
    assert (np.diff(found.row) >= 0).all()
    same = np.diff(found.row) == 0
    assert (np.diff(found.probability)[same] <= 0).all()
    assert np.bincount(found.row).max() <= 2
    assert found.probability.min() >= 0.1
    states = seen.table.labels.dense()
    assert (states[found.row, found.label] == 0).all()
    assert found.about["calibration"]["audit"] is None
    assert len(found.table) == 320


@pytest.mark.rounding
def test_probabilities_are_right_about_data_that_can_be_learned(seen: Dataset) -> None:
    assert seen.table.truth is not None
    k = float(seen.table.truth.per_item(1).mean())
    found = find(seen, RECIPE, 3, positives=k)
    assert found.truth is not None
    hidden, truth = found.observed.dense() == 0, found.truth.dense() == 1
    assert mean_average_precision(found.calibrated.probabilities, truth) > 0.85
    sure = hidden & (found.calibrated.probabilities > 0.8)
    assert sure.sum() > 30
    assert truth[sure].mean() > 0.7  # one class would need a slope of its own


def test_the_truth_changes_nothing(seen: Dataset) -> None:
    blind = replace(seen, table=replace(seen.table, truth=None))
    one, other = suggest(seen, RECIPE, 2), suggest(blind, RECIPE, 2)
    np.testing.assert_array_equal(one.probability, other.probability)


def test_complete_tables_are_observed_first(small: Dataset, seen: Dataset) -> None:
    one, other = suggest(small, RECIPE, 2), suggest(seen, RECIPE, 2)
    np.testing.assert_array_equal(one.row, other.row)
    with pytest.raises(InputError, match="nothing is missing"):
        suggest(small, RECIPE.model_copy(update={"observe": "given"}), 2)


def test_an_audit_is_used(seen: Dataset) -> None:
    assert seen.table.truth is not None
    rows = np.arange(40)
    audit = replace(seen.table.take(rows), labels=seen.table.truth.take(rows), truth=None)
    found = suggest(seen, RECIPE, 2, audit=audit)
    assert found.about["calibration"]["audit"]["items"] == 40


def test_an_audit_of_test_items_is_refused(seen: Dataset) -> None:
    assert seen.table.truth is not None
    rows = np.arange(300, 320)
    audit = replace(seen.table.take(rows), labels=seen.table.truth.take(rows), truth=None)
    with pytest.raises(InputError, match="test items only"):
        suggest(seen, RECIPE, 2, audit=audit)


def test_what_a_review_exports_is_an_audit(seen: Dataset, tmp_path: Path) -> None:
    assert seen.table.truth is not None
    found = suggest(seen, RECIPE, 2, keep=tmp_path)
    asked = np.random.default_rng(0).permutation(len(found))[:60]
    row, label = found.row[asked], found.label[asked].astype(np.int64)
    yes = seen.table.truth.dense(row)[np.arange(len(row)), label] == 1
    exported = replace(apply_answers(seen.table, row, label, yes), truth=None)
    again = suggest(seen, RECIPE, 2, keep=tmp_path, audit=exported)
    audit = again.about["calibration"]["audit"]
    assert (audit["answers"], audit["yes"]) == (60, int(yes.sum()))
    only_yes = replace(exported, labels=exported.labels.only_positives())
    with pytest.raises(InputError, match="every item"):
        suggest(seen, RECIPE, 2, keep=tmp_path, audit=only_yes)


def test_finished_folds_are_used_again_and_others_are_not(seen: Dataset, tmp_path: Path) -> None:
    done: list[tuple[int, bool]] = []
    stop = tmp_path / "folds"

    def on_epoch(number: int) -> None:
        if number == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cross_fit(seen, RECIPE, 3, keep=stop, on_epoch=on_epoch)
    assert len(list(stop.iterdir())) == 1
    resumed = cross_fit(seen, RECIPE, 3, keep=stop, on_fold=lambda *fold: done.append(fold))
    assert done == [(0, True), (1, False), (2, False)]
    whole = cross_fit(seen, RECIPE, 3)
    np.testing.assert_array_equal(resumed.scores.table(), whole.scores.table())
    done.clear()
    other = RECIPE.model_copy(update={"epochs": 2})
    cross_fit(seen, other, 3, keep=stop, on_fold=lambda *fold: done.append(fold))
    assert not any(kept for _, kept in done)
    assert len(list(stop.iterdir())) == 3  # those of the other settings are gone
