"""From results to rows: the learning rate, the gap, the table."""

from __future__ import annotations

import pytest

from plusone.bench.summary import gap_closed, markdown, summarise


def result(method, lr, seed, val, test, **rest):
    return {
        "method": method,
        "data": "d",
        "lr": lr,
        "options": {},
        "seed": seed,
        "val_map": val,
        "test_map": test,
        "seconds": 2.0 + seed,
    } | rest


def test_validation_picks_the_learning_rate():
    rows = summarise(
        [
            result("an", 0.1, 0, 0.50, 0.99),
            result("an", 0.1, 1, 0.52, 0.97),
            result("an", 0.01, 0, 0.60, 0.40),
            result("an", 0.01, 1, 0.70, 0.60),
        ]
    )
    (row,) = rows
    assert (row.lr, row.seeds) == (0.01, 2)
    assert row.val_map == pytest.approx(0.65)
    assert row.test_map == pytest.approx(0.5)
    assert row.test_sd == pytest.approx(0.1 * 2**0.5)
    assert row.seconds == pytest.approx(2.5)
    assert row.recovery_map is None


def test_one_seed_and_no_test_split():
    (row,) = summarise([result("an", 0.1, 0, 0.5, None, recovery={"recovery_map": 0.7})])
    assert (row.test_map, row.test_sd, row.recovery_map) == (None, None, 0.7)
    assert gap_closed([row]) == {}


def test_gap_closed():
    rows = summarise([result(m, 1, 0, 0, t) for m, t in (("an", 0.5), ("x", 0.6), ("bce", 0.9))])
    assert gap_closed(rows) == pytest.approx({"an": 0, "x": 0.25, "bce": 1})
    assert gap_closed(rows[:2]) == {}
    upside_down = summarise([result("an", 1, 0, 0, 0.9), result("bce", 1, 0, 0, 0.5)])
    assert gap_closed(upside_down) == {}


def test_markdown():
    assert markdown(("a", "b"), [("x|y", 1)]) == "| a | b |\n| --- | --- |\n| x\\|y | 1 |\n"
