from __future__ import annotations

import pytest

from plusone.errors import InputError
from plusone.prediction.run_folder import read_metrics
from plusone.report.runs import by_seed, read_epochs


def test_a_folder_and_its_result_give_the_same(an_run):
    found = read_epochs(an_run)
    assert [epoch.epoch for epoch in found] == [1, 2, 3, 4]
    assert all(sum(epoch.probe.positives) for epoch in found)
    assert read_epochs(str(an_run)) == found
    result = read_metrics(an_run)
    assert read_epochs(result) == found
    assert read_epochs(result.model_copy(update={"epochs": tuple(found), "run": None})) == found


def test_a_line_that_a_kill_cut_off_is_passed_over(an_run, tmp_path):
    text = (an_run / "records.jsonl").read_text()
    (tmp_path / "records.jsonl").write_text(text + text[:30])
    assert read_epochs(tmp_path) == read_epochs(an_run)
    (tmp_path / "records.jsonl").write_text("{\n" + text)
    with pytest.raises(InputError, match=r"records\.jsonl, row 1: is not valid JSON"):
        read_epochs(tmp_path)
    (tmp_path / "records.jsonl").write_text(text + '{"epoch": 5}\n')
    with pytest.raises(InputError, match=r"records\.jsonl, row 5: .*stage is missing"):
        read_epochs(tmp_path)


def test_what_has_no_records_is_refused(tmp_path, result):
    with pytest.raises(InputError, match=r"no records\.jsonl"):
        read_epochs(tmp_path)
    with pytest.raises(InputError, match="result of gr has no records"):
        read_epochs(result(method="gr"))


def test_groups_differ_by_more_than_the_seed(result):
    runs = [result(seed=seed, recipe={"seed": seed}) for seed in (0, 1)]
    groups = by_seed([runs[0], result(method="gr"), runs[1], result(recipe={"epochs": 3})])
    assert [len(group) for group in groups] == [2, 1, 1]
