from __future__ import annotations

import json

import pytest

from plusone.analysis.runs import read_epochs
from plusone.errors import InputError
from plusone.training.run_folder import read_metrics


def test_a_folder_and_its_result_give_the_same(an_run):
    found = read_epochs(an_run)
    assert [epoch["epoch"] for epoch in found] == [1, 2, 3, 4]
    assert all(sum(epoch["probe"]["positives"]) for epoch in found)
    assert read_epochs(str(an_run)) == found
    assert read_epochs(read_metrics(an_run).to_json()) == found
    assert read_epochs({"epochs": found, "run": None}) == found


def test_a_line_that_a_kill_cut_off_is_passed_over(an_run, tmp_path):
    text = (an_run / "records.jsonl").read_text()
    (tmp_path / "records.jsonl").write_text(text + text[:30])
    assert read_epochs(tmp_path) == read_epochs(an_run)
    (tmp_path / "records.jsonl").write_text("{\n" + text)
    with pytest.raises(InputError, match=r"records\.jsonl, row 1: is not valid JSON"):
        read_epochs(tmp_path)


def test_what_has_no_records_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no records\.jsonl"):
        read_epochs(tmp_path)
    with pytest.raises(InputError, match="result of gr has no records"):
        read_epochs(json.loads('{"method": "gr", "run": null}'))
