"""What settings are chosen by."""

from plusone.compare.cells import outcome
from plusone.compare.entries import best_settings
from plusone.compare.summary import mean_score, summarise
from plusone.compare.tables import markdown_tables


def test_the_score_decides_and_old_results_have_map_for_one(result):
    assert result(val=0.4).choice_score == 0.4
    assert result(val=0.4, val_score=0.7).choice_score == 0.7
    assert result(val=0.4, val_score=None).choice_score == 0.4
    assert mean_score([result(val=0.25), result(val_score=0.75)]) == 0.5


def test_everything_that_chooses_uses_it(result):
    high_map = result(lr=1e-2, val=0.9, val_score=0.1, test=0.3)
    high_score = result(lr=1e-3, val=0.2, val_score=0.8, test=0.6)
    tried = [{"lr": 1e-2}, {"lr": 1e-3}]
    assert best_settings(tried, [high_map, high_score]) == tried[1]
    assert outcome([high_map, high_score]).lr == 1e-3
    (row,) = summarise([high_map, high_score]).rows
    assert (row.lr, row.val_map, row.val_score) == (1e-3, 0.2, 0.8)


def test_without_a_test_split_methods_are_ranked_by_it(result):
    rows = summarise(
        [
            result("an", val=0.9, val_score=0.5, test=None),
            result("gr", val=0.2, val_score=0.8, test=None),
        ]
    ).rows
    assert [row.method for row in rows if row.best] == ["gr"]


def test_tables_show_it_where_it_is_not_the_map(result):
    seen = summarise([result("an", val=0.9, val_score=0.5), result("gr", val=0.2, val_score=0.8)])
    assert "| val score |" in markdown_tables(seen, {}, ())
    assert "0.8000" in markdown_tables(seen, {}, ())
    known = summarise([result("an", val=0.9, val_score=0.9), result("gr", val=0.2, val_score=0.2)])
    assert "val score" not in markdown_tables(known, {}, ())
