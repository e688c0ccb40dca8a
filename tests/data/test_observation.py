"""Observation schemes: what they let through, and that they repeat the published labels."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from plusone.data.matrix import LabelMatrix
from plusone.data.observation import (
    SCHEMES,
    All,
    Biased,
    Fraction,
    PositivesAndNegatives,
    Single,
    YesNo,
    describe_scheme,
    observe,
    observe_table,
    parse_scheme,
)
from plusone.data.table import LabelTable, hold_out_validation
from plusone.errors import InputError

TRUTHS = arrays(
    np.int8, array_shapes(min_dims=2, max_dims=2, max_side=9), elements=st.integers(0, 1)
)
SEEDS = st.integers(0, 2**32 - 1)


def random_truth(n, n_classes, share=0.3, seed=0):
    return (np.random.default_rng(seed).random((n, n_classes)) < share).astype(np.int8)


def as_matrix(truth):
    return LabelMatrix.from_dense(truth, default=-1)


def test_a_share_of_all_labels_is_known():
    truth = random_truth(4000, 10)
    seen = observe(truth, "partial(0.1)", 3)
    known = seen != 0
    assert (np.where(truth == 1, 1, -1)[known] == seen[known]).all()
    for value in (1, -1):  # within five standard errors of 10 %
        of_all = (np.where(truth == 1, 1, -1) == value).sum()
        assert abs((seen == value).sum() - 0.1 * of_all) < 5 * np.sqrt(0.09 * of_all)
    assert (observe(truth, "partial(1)", 0) == np.where(truth == 1, 1, -1)).all()
    with pytest.raises(InputError, match="between 0 and 1, not 10"):
        parse_scheme("partial(10)")


def test_single_repeats_the_published_labels_of_coco(shared):
    with np.load(shared / "data/coco2014/coco_train2014.npz") as file:
        truth, published = file["labels"], file["observed_seed1200"]
    seen = observe(as_matrix(truth), "single", 1200)
    assert len(seen) == 82_081
    assert seen.per_item(1).tolist() == (published >= 0).astype(int).tolist()
    assert seen.indices.tolist() == published[published >= 0].tolist()


@settings(max_examples=40)
@given(TRUTHS, SEEDS)
def test_schemes_of_one_positive_reveal_exactly_one_and_only_true_ones(truth, seed):
    weights = np.arange(1.0, truth.shape[1] + 1)
    for scheme in (Single(), Single("fast"), YesNo(), Biased(weights)):
        seen = observe(truth, scheme, seed)
        assert set(np.unique(seen)) <= {0, 1}
        assert (truth[seen == 1] == 1).all()
        assert ((seen == 1).sum(1) == truth.any(1)).all()


@settings(max_examples=40)
@given(TRUTHS, SEEDS, st.floats(0, 1))
def test_fraction_reveals_only_true_positives(truth, seed, q):
    seen = observe(truth, Fraction(q), seed)
    assert set(np.unique(seen)) <= {0, 1}
    assert (truth[seen == 1] == 1).all()
    assert (observe(truth, Fraction(0.0), seed) == 0).all()
    assert (observe(truth, Fraction(1.0), seed) == truth).all()


@settings(max_examples=40)
@given(TRUTHS, SEEDS)
def test_all_reveals_everything(truth, seed):
    assert (observe(truth, "all", seed) == np.where(truth == 1, 1, -1)).all()


@settings(max_examples=60)
@given(
    TRUTHS,
    SEEDS,
    st.one_of(st.none(), st.integers(0, 12)),
    st.one_of(st.none(), st.integers(0, 12)),
)
def test_counts_of_positives_and_negatives(truth, seed, n_pos, n_neg):
    seen = observe(truth, PositivesAndNegatives(n_pos, n_neg), seed)
    assert (truth[seen == 1] == 1).all()
    assert (truth[seen == -1] == 0).all()
    for state, wanted in ((1, n_pos), (-1, n_neg)):
        present = (truth == max(state, 0)).sum(1)
        expected = present if wanted is None else np.minimum(present, wanted)
        assert (seen == state).sum(1).tolist() == expected.tolist()


def test_single_is_the_stream_of_the_protocol():
    truth = random_truth(50, 7)
    rng = np.random.RandomState(5)
    for row, seen in zip(truth, observe(truth, PositivesAndNegatives(1, 1), 5), strict=True):
        positives, negatives = np.flatnonzero(row), np.flatnonzero(row == 0)
        rng.shuffle(positives)
        rng.shuffle(negatives)
        assert np.flatnonzero(seen == 1).tolist() == positives[:1].tolist()
        assert np.flatnonzero(seen == -1).tolist() == negatives[:1].tolist()
    single = observe(truth, "single", 5)
    assert (single == (observe(truth, "positives_and_negatives(1, 1)", 5) == 1)).all()
    assert (single == (observe(truth, "positives_and_negatives(1, None)", 5) == 1)).all()


def test_fraction_keeps_about_q():
    truth = np.ones((1000, 40), dtype=np.int8)
    for q in (0.1, 0.75):
        assert abs(observe(truth, Fraction(q), 3).mean() - q) < 4 * np.sqrt(q * (1 - q) / 40_000)


def test_biased_never_picks_a_class_of_weight_zero():
    truth = random_truth(300, 4, 0.6)
    weights = np.array([0.0, 1.0, 2.0, 3.0])
    seen = observe(truth, Biased(weights), 0)
    assert (seen[:, 0] == 0).all()
    assert (seen.sum(1) == truth[:, 1:].any(1)).all()


def test_biased_proportions():
    truth = np.ones((20_000, 3), dtype=np.int8)
    weights = np.array([1.0, 3.0, 6.0])
    expected = weights / weights.sum() * len(truth)
    counts = observe(truth, Biased(weights), 1).sum(0)
    assert ((counts - expected) ** 2 / expected).sum() < 20  # chi-square, 2 degrees of freedom


def test_biased_weights_per_label():
    truth = np.ones((200, 3), dtype=np.int8)
    weights = np.zeros((200, 3))
    weights[np.arange(200), np.arange(200) % 3] = 0.1
    seen = observe(truth, Biased(weights), 0)
    assert seen.argmax(1).tolist() == (np.arange(200) % 3).tolist()
    assert describe_scheme(Biased(weights)) == "biased(<weights 200 x 3>)"


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((1.0, 2.0), r"shape \(2,\); expected one per class \(3,\) or one per label \(4, 3\)"),
        ((1.0, -1.0, 1.0), "finite and not negative"),
        ((1.0, float("nan"), 1.0), "finite and not negative"),
        ((1.0, float("inf"), 1.0), "finite and not negative"),
        (("a", "b", "c"), "numbers"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(InputError, match=message):
        observe(random_truth(4, 3), Biased(weights), 0)


def test_number_of_questions():
    n_classes, k = 11, 3
    truth = np.zeros((20_000, n_classes), dtype=np.int8)
    truth[:, :k] = 1
    result = YesNo()(as_matrix(truth), 0)
    assert result.questions.min() >= 1
    assert result.questions.max() <= n_classes - k + 1
    assert abs(result.questions.mean() - (n_classes + 1) / (k + 1)) < 0.06
    counts = result.labels.per_class(1)[:k]
    assert (abs(counts - len(truth) / k) < 300).all()  # about 4.5 standard deviations


@settings(max_examples=40)
@given(TRUTHS, SEEDS)
def test_answers_of_the_questions(truth, seed):
    result = YesNo(keep_negatives=True)(as_matrix(truth), seed)
    seen = result.labels.dense()
    assert (truth[seen == -1] == 0).all()
    assert (np.abs(seen).sum(1) == result.questions).all()
    assert (result.questions[~truth.any(1)] == truth.shape[1]).all()
    assert ((seen == 1) == (observe(truth, YesNo(), seed) == 1)).all()


def test_questions_over_several_chunks(monkeypatch):
    monkeypatch.setattr("plusone.data.observation.ROWS_AT_ONCE", 7)
    truth = random_truth(30, 5)
    result = YesNo()(as_matrix(truth), 0)
    assert (result.labels.dense().sum(1) == truth.any(1)).all()
    assert len(result.questions) == 30


def test_fast_single_is_uniform():
    truth = np.zeros((20_000, 6), dtype=np.int8)
    truth[:, [1, 2, 5]] = 1
    counts = observe(truth, "single(protocol='fast')", 9).sum(0)[[1, 2, 5]]
    assert ((counts - 20_000 / 3) ** 2 / (20_000 / 3)).sum() < 20


RANDOM = ["single", "single('fast')", "positives_and_negatives(1, 1)", "fraction(0.5)", "yes_no"]


@pytest.mark.parametrize("scheme", [*RANDOM, "biased((1, 1, 1, 1, 1, 1))"])
def test_the_seed_decides(scheme):
    truth = random_truth(60, 6, 0.6)
    assert (observe(truth, scheme, 4) == observe(truth, scheme, 4)).all()
    assert (observe(truth, scheme, 4) != observe(truth, scheme, 5)).any()


@pytest.mark.parametrize("scheme", [*RANDOM, "all", "biased((1, 1, 1))"])
def test_no_items_at_all(scheme):
    assert observe(np.zeros((0, 3), dtype=np.int8), scheme).shape == (0, 3)


@pytest.mark.parametrize(
    "scheme",
    [
        Single(),
        Single("fast"),
        All(),
        PositivesAndNegatives(),
        PositivesAndNegatives(3, None),
        Fraction(0.25),
        Biased((1.0, 0.5)),
        YesNo(),
        YesNo(keep_negatives=True),
    ],
)
def test_a_scheme_reads_its_own_description(scheme):
    assert parse_scheme(describe_scheme(scheme)) == scheme


def test_every_scheme_can_be_named():
    for name in ("single", "all", "yes_no", "positives_and_negatives"):
        assert type(parse_scheme(f"  {name} ")) is SCHEMES[name]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("singel", "unknown observation scheme 'singel'; known: single, all"),
        ("fraction(2)", "between 0 and 1"),
        ("fraction(-0.1)", "between 0 and 1"),
        ("fraction('a')", "fraction"),
        ("fraction", "missing"),
        ("all(1)", "all"),
        ("fraction(p=0.5)", "unexpected keyword"),
        ("positives_and_negatives(-1)", "n_pos must be a whole number"),
        ("positives_and_negatives(1, 0.5)", "n_neg must be a whole number"),
        ("single('cole2020')", "protocol must be"),
        ("", "cannot read"),
        ("single(", "cannot read"),
        ("1 + 1", "cannot read"),
        ("fraction({[]: 1})", "cannot read"),
        ("(" * 5000, "cannot read"),
        ("__import__('os')", "unknown observation scheme"),
        ("single(__import__('os').system('true'))", "cannot read"),
        ("fraction(open('/tmp/x', 'w'))", "cannot read"),
        ("os.system('true')", "cannot read"),
    ],
)
def test_bad_texts_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse_scheme(text)


def test_the_kind_of_container_stays():
    truth = random_truth(6, 4)
    seen = observe(truth)
    assert isinstance(seen, np.ndarray)
    assert seen.dtype == np.int8
    tensor = observe(torch.from_numpy(truth))
    assert isinstance(tensor, torch.Tensor)
    assert tensor.dtype == torch.int8
    matrix = observe(as_matrix(truth))
    assert isinstance(matrix, LabelMatrix)
    assert tensor.tolist() == seen.tolist() == matrix.dense().tolist()
    assert (observe(np.where(truth, 1, -1)) == seen).all()
    assert (observe(truth.astype(bool)) == seen).all()
    with pytest.raises(TypeError, match="not list"):
        observe(truth.tolist())


def table(truth, split=None):
    names = [f"i{row}" for row in range(len(truth))]
    classes = [f"c{column}" for column in range(truth.shape[1])]
    return LabelTable.complete(names, classes, as_matrix(truth), split=split)


def test_every_split_of_a_table_has_a_fresh_generator():
    truth = random_truth(40, 6, 0.5)
    split = np.array(["test", "train", "val", "train"] * 10)
    observed = observe_table(table(truth, split), "single", 7)
    for name in ("train", "val", "test"):
        rows = split == name
        assert (observed.labels.dense()[rows] == observe(truth[rows], "single", 7)).all()
    assert observed.truth.digest() == as_matrix(truth).digest()
    assert observed.observation == {
        "scheme": "single(protocol='cole2021')",
        "seed": 7,
        "digest": observed.labels.digest(),
    }
    whole = observe_table(table(truth), "single", 7)
    assert (whole.labels.dense() == observe(truth, "single", 7)).all()


def test_questions_are_recorded():
    truth = random_truth(40, 6, 0.5)
    split = np.array(["train", "test"] * 20)
    record = observe_table(table(truth, split), YesNo(), 7).observation
    asked = sum(YesNo()(as_matrix(truth[split == s]), 7).questions.sum() for s in ("train", "test"))
    assert record["questions"] == asked
    assert record["questions_per_item"] == pytest.approx(asked / 40)


def test_a_table_without_truth_is_refused():
    seen = LabelTable(np.array(["a"]), ("x", "y"), LabelMatrix.from_dense([[1, 0]]))
    with pytest.raises(InputError, match="only seen labels"):
        observe_table(seen)


def test_holding_out_after_observing_keeps_the_published_labels():
    truth = random_truth(23, 5, 0.5)
    observed = hold_out_validation(observe_table(table(truth), "single", 1200))
    order = np.random.RandomState(1200).permutation(23)
    n_val = 5  # round(0.2 * 23)
    assert observed.rows_of("val").tolist() == sorted(order[23 - n_val :].tolist())
    assert observed.rows_of("train").tolist() == sorted(order[: 23 - n_val].tolist())
    assert (observed.labels.dense() == observe(truth, "single", 1200)).all()
