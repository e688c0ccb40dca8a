from dataclasses import replace

import numpy as np
import pytest
import torch

from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.metrics.calibration_error import expected_calibration_error
from plusone.probabilities.answers import Answers, answers_from
from plusone.probabilities.correction import fit_correction
from plusone.probabilities.curve import fit_to_picks
from plusone.probabilities.k import LabelsPerItem
from plusone.probabilities.log_odds import log_odds
from plusone.probabilities.picks import Salience
from plusone.probabilities.unseen_labels import calibrate

pytestmark = pytest.mark.slow


def error(probabilities, made):
    unseen = made.observed == 0
    return expected_calibration_error(
        probabilities[unseen][:, None], made.truth[unseen][:, None].astype(int)
    )


def audit_of(made, rows):
    table = made.table
    labels = LabelMatrix.from_dense(made.truth[rows].astype(int), default=-1)
    return LabelTable(table.ids[rows], table.classes, labels)


@pytest.fixture(scope="module")
def blind(made):
    k = made.truth.sum(axis=1).mean()
    return calibrate(made.scores, made.table.labels, k=LabelsPerItem.given(k))


@pytest.fixture(scope="module")
def curve(made):
    return fit_to_picks(made.scores, made.table.labels, 2.0)


def test_seen_labels_alone_calibrate_where_the_assumptions_hold(made, blind):
    found = blind
    assert error(made.scores, made) > 0.1
    assert error(found.probabilities, made) < 0.03
    assert "No audit" in found.summary.sentence
    assert (found.probabilities[made.observed == 1] == 1).all()


def test_a_wrong_k_is_put_right_by_an_audit(made):
    k = 0.7 * made.truth.sum(axis=1).mean()
    rows = np.random.default_rng(0).choice(len(made.truth), 200, replace=False)
    answers = answers_from(audit_of(made, rows), made.table)
    found = calibrate(made.scores, made.table.labels, k=LabelsPerItem.given(k), answers=answers)
    before = found.at(np.arange(len(made.truth))).before
    assert error(found.probabilities, made) < 0.6 * error(before, made)
    assert found.summary.audit.items == 200
    assert "1200 answers" not in found.summary.sentence  # the seen label of each is no answer
    assert f"{200 * 5} answers about 200 items" in found.summary.sentence


def test_classes_with_a_curve_of_their_own_are_followed(made):
    scores = made.scores.copy()
    scores[:, 0] = scores[:, 0] ** 3  # one class is scored much lower
    k = made.truth.sum(axis=1).mean()
    found = calibrate(scores, made.table.labels, k=LabelsPerItem.given(k)).probabilities
    unseen = made.observed[:, 0] == 0
    assert found[unseen, 0].mean() == pytest.approx(made.truth[unseen, 0].mean(), abs=0.05)


def test_curves_rise_and_scores_of_0_and_1_are_fine(curve):
    grid = np.linspace(0, 1, 101)[:, None].repeat(6, axis=1)
    assert (np.diff(curve(torch.from_numpy(log_odds(grid))).numpy(), axis=0) >= 0).all()
    found = curve.given_seen(grid, np.zeros(grid.shape, dtype=np.int8))
    assert np.isfinite(found).all()
    assert ((found >= 0) & (found <= 1)).all()


def test_seen_negatives_are_0_and_seen_positives_1(made, curve):
    observed = made.observed.copy()
    observed[0] = [1, -1, 0, 0, 0, 0]
    found = curve.given_seen(made.scores, observed)
    assert found[0, :2].tolist() == [1.0, 0.0]


def test_calibration_needs_some_seen_labels(made):
    with pytest.raises(InputError, match="at least 20"):
        fit_to_picks(made.scores[:10], made.table.labels.take(range(10)), 2.0)


def test_the_same_input_gives_the_same_result(made, curve):
    again = fit_to_picks(made.scores, made.table.labels, 2.0)
    one, other = (made_of.given_seen(made.scores, made.observed) for made_of in (curve, again))
    np.testing.assert_array_equal(one, other)


def test_a_label_that_was_not_named_is_less_likely_than_before_the_naming(made, curve):
    nothing = np.zeros_like(made.observed)
    before = curve.given_seen(made.scores, nothing)
    after = curve.given_seen(made.scores, made.observed)
    assert (after <= before + 1e-9)[made.observed == 0].all()


def test_no_answers_leave_probabilities_alone_and_many_move_them():
    p = np.full(400, 0.6)
    label, yes = np.zeros(400, dtype=np.int64), np.arange(400) % 10 < 3
    none = fit_correction(p[:0], label[:0], yes[:0], 2)
    np.testing.assert_allclose(none(np.array([[0.2, 0.9]])), [[0.2, 0.9]], atol=1e-5)
    moved = fit_correction(p, label, yes, 2)
    assert moved(np.array([0.6]), np.array([0]))[0] == pytest.approx(0.3, abs=0.02)
    some = fit_correction(p[:10], label[:10], yes[:10], 2)
    assert 0.3 < some(np.array([0.6]), np.array([0]))[0] < 0.6
    # A class that nobody asked about follows the common line only.
    assert moved(np.array([0.6]), np.array([1]))[0] > moved(np.array([0.6]), np.array([0]))[0]


def test_answers_of_a_review_count_even_where_the_run_has_seen_them(made):
    table = made.table
    states = np.zeros((2, 6), dtype=np.int8)
    first, second = (np.flatnonzero(made.observed[row] == 0) for row in (0, 1))
    states[0, first[0]], states[1, second[1]] = 1, -1
    audit = LabelTable(table.ids[:2], table.classes, LabelMatrix.from_dense(states))
    answers = answers_from(audit, table)
    assert answers.row.tolist() == [0, 1]
    assert answers.label.tolist() == [first[0], second[1]]
    assert answers.yes.tolist() == [True, False]
    assert not len(answers.complete)
    seen = made.observed.copy()
    seen[:2] = np.where(states != 0, states, seen[:2])
    retrained = replace(table, labels=LabelMatrix.from_dense(seen))
    again = answers_from(replace(audit, labels=LabelMatrix.from_dense(seen[:2])), retrained)
    assert len(again) == 2  # one of the two positives of the first item was the named one
    assert again.yes.tolist() == [True, False]
    found = calibrate(made.scores, retrained.labels, k=LabelsPerItem.given(2.0), answers=again)
    assert found.probabilities[1, second[1]] == 0


def test_seen_labels_are_no_answers_where_an_item_has_several(made):
    table, row = made.table, int(np.flatnonzero(made.truth.sum(axis=1) == 3)[0])
    seen = made.observed.copy()
    seen[row, np.flatnonzero(made.truth[row])[:2]] = 1  # two or three of three are seen
    several = replace(table, labels=LabelMatrix.from_dense(seen))
    answers = answers_from(audit_of(made, np.array([row])), several)
    assert answers.label.tolist() == np.flatnonzero(seen[row] == 0).tolist()


def test_an_audit_without_negatives_is_complete(made):
    rows = np.arange(30)
    table = made.table
    labels = LabelMatrix.from_dense(made.truth[rows].astype(int))
    answers = answers_from(LabelTable(table.ids[rows], table.classes, labels), table)
    assert answers.complete.tolist() == rows.tolist()
    assert len(answers) == 30 * 5


@pytest.mark.parametrize(
    ("ids", "classes", "words"),
    [
        (["item0", "strange"], None, "item 'strange'"),
        (["item0", "item1"], ("class0", "cow"), "class 'cow'"),
    ],
)
def test_an_audit_of_something_else_is_refused(made, ids, classes, words):
    classes = classes or made.table.classes
    labels = LabelMatrix.from_lists([[0], [1]], len(classes))
    with pytest.raises(InputError, match=words):
        answers_from(LabelTable(np.array(ids), classes, labels), made.table)


def test_an_audit_that_adds_nothing_is_refused(made):
    table = made.table
    rows = np.arange(3)
    labels = LabelMatrix.from_dense(np.where(made.observed[rows] == 1, 1, 0))
    seen = LabelTable(table.ids[rows], ("class0",), LabelMatrix.from_dense(labels.dense()[:, :1]))
    only = replace(seen, labels=LabelMatrix.from_lists([[], [], []], 1, negatives=[[], [], []]))
    named = np.flatnonzero(made.observed[:, 0] == 1)[:1]
    one = LabelTable(table.ids, ("class0",), LabelMatrix.from_dense(made.observed[:, :1]))
    audit = LabelTable(table.ids[named], ("class0",), LabelMatrix.from_lists([[0]], 1))
    with pytest.raises(InputError, match="no labels other than"):
        answers_from(audit, one)
    assert len(answers_from(only, table)) >= 1


def test_a_short_audit_says_no_to_classes_that_it_does_not_name(made):
    table, rows = made.table, np.arange(30)
    named = made.observed[rows].argmax(1)
    classes = tuple(sorted({table.classes[label] for label in named}))
    lists = [[classes.index(table.classes[label])] for label in named]
    audit = LabelTable(table.ids[rows], classes, LabelMatrix.from_lists(lists, len(classes)))
    answers = answers_from(audit, table)
    assert len(answers.complete) == len(rows)
    assert not answers.yes.any()
    assert len(answers) == len(rows) * (len(table.classes) - 1)


def test_an_audit_counts_k_and_says_how_classes_are_named(made):
    rng, n_classes = np.random.default_rng(0), made.truth.shape[1]
    e = np.where(np.arange(n_classes) == 0, 8.0, 1.0)
    odds = made.truth * e
    edges = (odds / odds.sum(1, keepdims=True)).cumsum(1)
    states = np.eye(n_classes, dtype=np.int8)[(edges > rng.random((len(odds), 1))).argmax(1)]
    rows = rng.permutation(len(odds))[:200]
    at, label = np.nonzero(states[rows] == 0)
    answers = Answers(rows[at], label, made.truth[rows[at], label], rows)
    first = LabelsPerItem(1.3, 1.1, 2.0, len(odds), salience=Salience((1.0,) * n_classes))
    found = calibrate(made.scores, LabelMatrix.from_dense(states), k=first, answers=answers)
    k = found.summary.k
    assert k.source == "counted"
    assert k.k == pytest.approx(made.truth[rows].sum(1).mean())
    assert k.low < made.truth.sum(1).mean() < k.high
    values = np.array(k.salience.values)
    assert values[0] > 2 * values[1:].max()
    assert k.salience.found  # tested on what was named among the labels of audited items
    assert k.salience.audited == (made.truth[rows].sum(1) > 1).sum()


def test_saturated_scores_do_not_tie():
    """Beyond 1e-6 and 1 - 1e-6 all scores were once the same, and so were their ranks."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 3)) * 12  # log-odds of a model that is far too sure
    scores = 1 / (1 + np.exp(-z))
    true = rng.random(z.shape) < 1 / (1 + np.exp(-z / 8))
    states = np.zeros(z.shape, dtype=np.int8)
    for row in np.flatnonzero(true.any(axis=1)):
        states[row, rng.choice(np.flatnonzero(true[row]))] = 1
    curve = fit_to_picks(scores, LabelMatrix.from_dense(states), 1.5)
    fitted = curve(torch.from_numpy(log_odds(scores))).numpy()
    labels = LabelMatrix.from_dense(states)
    found = calibrate(scores, labels, k=LabelsPerItem.given(1.5)).probabilities
    correction = fit_correction(scores[:, 0], np.zeros(200, dtype=int), true[:, 0], 3)
    for each in (fitted, correction(scores)):
        for label in range(3):
            assert (np.diff(each[np.argsort(z[:, label]), label]) > 0).all()
    hidden = found[states == 0]
    assert len(np.unique(hidden)) == len(hidden)
