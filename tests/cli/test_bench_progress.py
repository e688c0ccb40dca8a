"""Progress: whether it is shown, and the time left."""

from __future__ import annotations

import queue

import pytest
from rich.console import Console
from tests.patience import PATIENCE

from plusone.cli import printing
from plusone.cli.board import seconds_left

AN, GR, OTHER = ("d", "an", ""), ("d", "gr", ""), ("e", "an", "")


def test_nothing_is_known_before_anything_is_done():
    assert seconds_left([AN], [], 2) is None


def test_own_kind_then_same_data_then_anything():
    done = [(AN, 2.0), (AN, 4.0), (GR, 9.0)]
    assert seconds_left([AN], done, 1) == pytest.approx(3)
    assert seconds_left([("d", "em", "")], done, 1) == pytest.approx(5)
    assert seconds_left([OTHER], [(AN, 2.0)], 1) == pytest.approx(2)
    assert seconds_left([], done, 2) == 0


def test_workers_share_it_but_not_one_training():
    assert seconds_left([AN] * 4, [(AN, 3.0)], 2) == pytest.approx(6)
    assert seconds_left([AN], [(AN, 3.0)], 2) == pytest.approx(3)


def test_colours_that_were_asked_for_make_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr(printing, "err", Console(stderr=True, force_terminal=True))  # FORCE_COLOR=1
    with printing.progress("training", 3) as (bar, task):
        bar.update(task, completed=2)
    assert capsys.readouterr().err == ""


def test_without_a_terminal_lines_say_how_far_it_is_and_correct_the_time(monkeypatch):
    lines = queue.Queue()
    monkeypatch.setattr(printing, "say", lines.put)
    monkeypatch.setattr(printing, "BETWEEN_LINES", 0.01)
    clock = [0.0]
    with printing.progress("reading", None) as (bar, task):
        bar.get_time = bar.tasks[task]._get_time = lambda: clock[0]
        steps = printing.Steps(bar, task)
        for clock[0] in (1.0, 2.0, 3.0):
            steps.extracted(100, 1000)
        assert _until(lines, "300 of 1,000").endswith("about 7.0 s left")
        for clock[0] in (13.0, 23.0, 33.0, 43.0):  # slower than at first
            steps.extracted(100, 1000)
        assert _until(lines, "700 of 1,000").endswith("about 30 s left")


def _until(lines, what):
    """The first line with a text in it."""
    return next(line for line in iter(lambda: lines.get(timeout=PATIENCE), None) if what in line)
