"""JSON lines: whole or not at all, and what a kill leaves behind."""

from __future__ import annotations

import pytest

from plusone.io.jsonl import append_jsonl, read_jsonl, repair_jsonl, write_jsonl


def test_values_come_back_in_order(tmp_path):
    path = tmp_path / "a.jsonl"
    write_jsonl(path, [{"a": 1}])
    append_jsonl(path, [2, "é\u2028"], None)
    append_jsonl(path)
    assert list(read_jsonl(path)) == [{"a": 1}, [2, "é\u2028"], None]
    assert path.read_bytes().count(b"\n") == 3


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_cut_line_is_passed_over_and_removed_by_the_next_writer(tmp_path, cut):
    path = tmp_path / "a.jsonl"
    append_jsonl(path, {"n": 1}, {"n": 22})
    path.write_bytes(path.read_bytes()[:-cut])
    left = [1, 22] if cut == 1 else [1]  # only the end of the line is lost
    left = [] if cut == 11 else left
    if cut == 11:  # the first line lost its end, too
        path.write_bytes(path.read_bytes()[:-1])
    assert [value["n"] for value in read_jsonl(path)] == left
    append_jsonl(path, {"n": 3})
    assert [value["n"] for value in read_jsonl(path)] == [*left, 3]
    assert path.read_bytes().count(b"\n") == len(left) + 1


def test_a_damaged_line_is_refused_with_its_row_or_skipped(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'1\n\xff\n{"a"\n\n2\n{"b')
    with pytest.raises(ValueError, match="row 2: is not valid JSON"):
        list(read_jsonl(path))
    assert list(read_jsonl(path, skip_damaged=True)) == [1, 2]
    repair_jsonl(path)
    assert path.read_bytes() == b'1\n\xff\n{"a"\n\n2\n'


def test_repairing_what_is_missing_or_empty_does_nothing(tmp_path):
    repair_jsonl(tmp_path / "none")
    (tmp_path / "empty").touch()
    repair_jsonl(tmp_path / "empty")
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
