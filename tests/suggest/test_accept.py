import numpy as np
import pytest

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.probabilities.accept import accept, largest_set, summary
from plusone.probabilities.answers import Answers
from plusone.probabilities.unseen_labels import check

from .conftest import as_calibrated


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Also few labels are accepted here."""
    monkeypatch.setattr("plusone.probabilities.accept.FEWEST", 1)


def some():
    p = np.array([[1.0, 0.9, 0.5], [0.95, 1.0, 0.2], [0.8, 0.3, 1.0]])
    observed = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=np.int8)
    return as_calibrated(p, observed)


def test_the_largest_set_is_found():
    rng = np.random.default_rng(0)
    for _ in range(20):
        p = rng.random(30)
        best = max(n for n in range(31) if n == 0 or np.sort(p)[::-1][:n].mean() >= 0.8)
        chosen = largest_set(p, 0.8)
        assert chosen.sum() == best
        assert p[chosen].min(initial=2) >= p[~chosen].max(initial=-1)
    assert not largest_set(np.array([0.5]), 0.8).any()
    assert largest_set(np.zeros(0), 0.8).shape == (0,)


def test_few_parts_of_an_audit_charge_more_than_two_standard_errors():
    p, parts = np.full(20, 0.95), 10
    spread = np.where(np.arange(parts) < parts / 2, -1, 1)

    def accepted(errors):
        """With a jackknife by which the target is so many standard errors below the mean."""
        size = 0.05 / errors / (parts - 1) ** 0.5
        return largest_set(p, 0.9, [p + size * sign for sign in spread]).sum()

    assert accepted(2.1) == 0  # enough for the normal distribution
    assert accepted(2.5) == 20


def test_seen_labels_are_never_accepted_and_all_classes_share_the_target():
    made = accept(some(), 0.85)
    assert (made.row.tolist(), made.label.tolist()) == ([0, 1, 2], [1, 0, 0])
    assert made.expected == pytest.approx((0.9 + 0.95 + 0.8) / 3)
    assert made.count == 3
    assert made.threshold[:2].tolist() == [0.8, 0.9]
    assert np.isnan(made.threshold[2])
    assert made.low is None
    assert made.by_class[0] == (2, pytest.approx(0.875))


def test_each_class_can_have_to_reach_the_target():
    made = accept(some(), 0.9, per_class=True)
    assert (made.row.tolist(), made.label.tolist()) == ([0, 1], [1, 0])


def test_nothing_accepted_is_no_error():
    made = accept(some(), 0.99)
    assert (made.count, made.expected) == (0, None)
    result = summary(made, ("a", "b", "c"), LabelMatrix.from_dense(np.ones((3, 3), dtype=int)), 6)
    assert result["true_precision"] is None


def test_a_few_labels_are_not_accepted(monkeypatch):
    monkeypatch.setattr("plusone.probabilities.accept.FEWEST", 4)
    assert accept(some(), 0.85).count == 0


def audited(seed, items, bias, n=400, n_classes=5, copies=1, grouped=True):
    """Labels with known probabilities, calibrated wrongly by `bias`, and an audit.

    Each item may have copies, which are audited together; `grouped` tells so.
    """
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 3, size=(n, n_classes))
    z += rng.normal(0, 1, size=(n, 1))  # labels of an item go together
    truth = rng.random(z.shape) < 1 / (1 + np.exp(-z))
    p = 1 / (1 + np.exp(-z - bias))
    rows = rng.permutation(n)[:items]
    if copies > 1:
        p, truth = np.repeat(p, copies, axis=0), np.repeat(truth, copies, axis=0)
        p = 1 / (1 + np.exp(-np.log(p / (1 - p)) - rng.normal(0, 0.3, size=p.shape)))
        rows = (copies * rows[:, None] + np.arange(copies)).flatten()
    observed = np.zeros(truth.shape, dtype=np.int8)
    row, label = np.repeat(rows, n_classes), np.tile(np.arange(n_classes), len(rows))
    group = row // copies if copies > 1 and grouped else None
    answers = Answers(row, label, truth[row, label], rows, group)
    checked = check(answers, p[row, label], p.shape)
    return as_calibrated(p, observed, checked), as_calibrated(p, observed), truth, rows


def test_audited_labels_are_known_and_others_are_bounded():
    found, _, _, rows = audited(0, 60, 2.0)
    made = accept(found, 0.8)
    assert made.count
    assert not np.isin(made.row, rows).any()
    checked, right = made.checked
    assert 0 < right <= checked
    assert 0 < made.low < right / checked


@pytest.mark.slow
@pytest.mark.parametrize("bias", [-2.0, 2.0])
def test_the_bound_holds_and_the_target_is_met_whatever_the_calibration_was(bias):
    shares, held = [], []
    for seed in range(60):
        found, blind, truth, _ = audited(seed, 60, bias)
        made = accept(found, 0.9)
        if made.count:
            shares.append(truth[made.row, made.label].mean())
            held.append(shares[-1] >= made.low)
    assert len(shares) >= 40
    assert np.mean(shares) > 0.9
    assert np.mean(held) >= 0.95
    made = accept(blind, 0.9)  # without an audit the bias stays
    share = truth[made.row, made.label].mean()
    assert share < 0.8 if bias > 0 else share > 0.9


@pytest.mark.slow
def test_groups_count_as_one_and_items_of_a_group_would_promise_too_much():
    """Items with eight copies each, 40 of 300 of them audited."""
    met = {True: [], False: []}
    for seed in range(40):
        for grouped, found in met.items():
            made, _, truth, _ = audited(seed, 40, 0.0, 300, copies=8, grouped=grouped)
            groups = np.repeat(np.arange(300), 8) if grouped else None
            accepted = accept(made, 0.9, groups=groups)
            if accepted.count:
                found.append(truth[accepted.row, accepted.label].mean() >= 0.9)
    assert len(met[True]) >= 10
    assert np.mean(met[True]) >= 0.8
    assert np.mean(met[False]) < np.mean(met[True])


def test_an_audit_that_is_too_small_supports_nothing():
    made, blind, *_ = audited(0, 3, 0.0)
    assert accept(made, 0.9).count == 0
    assert accept(blind, 0.9).count > 0


def test_copies_correct_as_one_item_does_and_count_as_one_label(monkeypatch):
    rng = np.random.default_rng(0)
    p, states = rng.random((30, 4)), np.zeros((30, 4), dtype=np.int8)
    rows = np.arange(8)
    row, label = np.repeat(rows, 4), np.tile(np.arange(4), 8)
    yes = rng.random(32) < 0.5
    one = check(Answers(row, label, yes, rows), p[row, label], p.shape)
    three = [np.repeat(each, 3, axis=0) for each in (p, states)]
    copies = np.concatenate([3 * row + copy for copy in range(3)])
    answers = Answers(copies, np.tile(label, 3), np.tile(yes, 3), np.arange(24), np.tile(row, 3))
    same = check(answers, np.tile(p[row, label], 3), three[0].shape)
    found = [as_calibrated(p, states, one), as_calibrated(*three, same)]
    np.testing.assert_allclose(found[1].probabilities[::3], found[0].probabilities)
    groups, found = np.repeat(np.arange(30), 3), as_calibrated(*three)
    accepted = accept(found, 0.9, groups=groups)
    different = len(np.unique(4 * groups[accepted.row] + accepted.label))
    monkeypatch.setattr("plusone.probabilities.accept.FEWEST", different + 1)
    assert accept(found, 0.9, groups=groups).count == 0
    assert accept(found, 0.9).count == accepted.count


def test_the_truth_is_only_reported():
    truth = LabelMatrix.from_dense([[1, 1, 0], [0, 1, 1], [1, 0, 1]])
    made = accept(some(), 0.85)
    result = summary(made, ("a", "b", "c"), truth, 3)
    assert result["true_precision"] == pytest.approx(2 / 3)
    assert result["recovered"] == pytest.approx(2 / 3)
    assert [row["true_precision"] for row in result["classes"]] == [0.5, 1.0, None]
    assert "true_precision" not in summary(made, ("a", "b", "c"), None, 0)


@pytest.mark.parametrize("target", [0, 1, 1.5])
def test_targets_must_make_sense(target):
    with pytest.raises(InputError, match="between 0 and 1"):
        accept(some(), target)
