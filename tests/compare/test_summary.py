"""From results to rows: the learning rate, the gap, the marks, the table."""

from __future__ import annotations

import pytest

from plusone.compare.summary import markdown, summarise


def test_validation_picks_the_learning_rate(result):
    (row,) = summarise(
        [
            result("an", 0, 0.1, 0.50, 0.99),
            result("an", 1, 0.1, 0.52, 0.97),
            result("an", 0, 0.01, 0.60, 0.40),
            result("an", 1, 0.01, 0.70, 0.60),
        ]
    ).rows
    assert (row.lr, row.seeds) == (0.01, 2)
    assert row.val_map == pytest.approx(0.65)
    assert row.test_map == pytest.approx(0.5)
    assert row.test_sd == pytest.approx(0.1 * 2**0.5)
    assert row.seconds == pytest.approx(2.5)
    assert row.recovery_map is None
    assert len(row.keys) == 2
    assert row.best
    assert not row.within_noise


def test_one_seed_and_no_test_split(result):
    (row,) = summarise([result(test=None, recovery={"recovery_map": 0.7})]).rows
    assert (row.test_map, row.test_sd, row.recovery_map) == (None, None, 0.7)
    assert row.gap_closed is None
    assert row.score == 0.5


def test_only_seeds_are_repetitions(result):
    short, long = {"epochs": 1}, {"epochs": 3}
    trained = [result(val=0.5, recipe=short), result(val=0.6, recipe=long)]
    (row,) = summarise(
        [one.model_copy(update={"key": str(place)}) for place, one in enumerate(trained)]
    ).rows
    assert (row.seeds, row.val_map) == (1, 0.6)


def test_a_training_counts_once(result):
    (row,) = summarise([result(), result(), result(seed=1)]).rows
    assert row.seeds == 2


def gaps(rows):
    return {row.method: row.gap_closed for row in rows}


def test_gap_closed_within_each_table(result):
    scores = (("an", 0.5), ("em", 0.6), ("bce", 0.9))
    rows = [result(m, test=t) for m, t in scores]
    rows += [result(m, test=t / 2, mode="finetune") for m, t in scores]
    tables = summarise(rows).tables()
    assert list(tables) == [("d", "linear"), ("d", "finetune")]
    for found in tables.values():
        assert gaps(found) == pytest.approx({"an": 0, "em": 0.25, "bce": 1})
    assert set(gaps(summarise(rows[:2]).rows).values()) == {None}
    upside_down = summarise([result("an", test=0.9), result("bce", test=0.5)])
    assert set(gaps(upside_down.rows).values()) == {None}


def test_methods_that_see_more_labels_do_not_compete(result):
    scores = {"gr": 0.7, "em": 0.6, "bce": 0.9, "iun": 0.8, "iu": 0.75, "bce_ls": 0.95}
    results = [
        result(method, seed, test=score + 0.001 * seed * (method == "em"))
        for method, score in scores.items()
        for seed in (0, 1)
    ]
    summary = summarise(results)
    marked = {row.method: (row.best, row.within_noise) for row in summary.rows}
    assert marked.pop("gr") == (True, False)
    assert set(marked.values()) == {(False, False)}
    assert {row.method for row in summary.rows if row.p_seeds is not None} == {"em"}
    (test,) = summary.tests
    assert (test["data"], test["mode"], test["methods"], test["seeds"]) == ("d", "linear", 2, 2)


def test_within_noise_of_the_best(result):
    table = {"an": (0.50, 0.52, 0.51), "em": (0.58, 0.62, 0.59), "gr": (0.60, 0.61, 0.60)}
    results = [
        result(method, seed, test=score)
        for method, scores in table.items()
        for seed, score in enumerate(scores)
    ]
    rows = {row.method: row for row in summarise(results).rows}
    assert rows["gr"].best
    assert rows["em"].within_noise
    assert not rows["an"].within_noise
    assert rows["an"].p_seeds < 0.05 < rows["em"].p_seeds


def test_with_one_seed_the_classes_decide(result):
    best = [0.5, 0.6, 0.7, 0.8, 0.9, 0.55, 0.65, 0.75]
    near = [0.52, 0.58, 0.71, 0.79, 0.88, 0.56, 0.66, 0.72]
    far = [score - 0.1 - 0.01 * number for number, score in enumerate(best)]
    rows = {
        row.method: row
        for row in summarise(
            [
                result("gr", test=0.68, test_ap=best),
                result("em", test=0.67, test_ap=near),
                result("an", test=0.5, test_ap=far),
                result("wan", test=0.4),
                result("wan_sampled", test=0.68),
            ]
        ).rows
    }
    assert rows["em"].within_noise
    assert not rows["an"].within_noise
    assert rows["an"].p_classes < 0.05
    assert rows["wan"].p_classes is None
    assert not rows["wan"].within_noise, "no test could tell"
    assert rows["wan_sampled"].within_noise, "the same score"


def test_markdown():
    assert markdown(("a", "b"), [("x|y", 1)]) == "| a | b |\n| --- | --- |\n| x\\|y | 1 |\n"
