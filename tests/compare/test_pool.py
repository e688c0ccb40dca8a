"""Processes that work for us, fail for us, and end with us."""

from __future__ import annotations

import math
import operator
import os
import signal
import time
from collections import deque

import psutil
import pytest

from plusone.errors import InputError, RunError
from plusone.methods import get_method
from plusone.parallel import worker_pool as pool


def in_processes(work, items, workers, name):
    return pool.in_processes(work, deque(items), workers, name)


def children():
    return [child for child in psutil.Process().children() if "spawn_main" in str(child.cmdline())]


def test_all_items_are_worked_on_and_nobody_is_left():
    results = in_processes(math.factorial, range(7), 2, str)
    assert sorted(results) == sorted(math.factorial(n) for n in range(7))
    assert children() == []
    assert list(in_processes(math.factorial, [], 2, str)) == []


def test_an_error_in_the_work_names_the_item():
    with pytest.raises(RunError, match=r"^item -1: ValueError: .*(domain|nonnegative)"):
        list(in_processes(math.sqrt, [-1], 1, lambda item: f"item {item}"))
    assert children() == []


def test_input_errors_stay_input_errors():
    from plusone.data.formats import read

    with pytest.raises(InputError, match=r"^nowhere: no such file or folder$"):
        list(in_processes(read, ["nowhere"], 1, str))


def test_a_process_that_dies_is_a_sentence():
    with pytest.raises(RunError, match=r"^job 9: its process died, with exit code 9"):
        list(in_processes(os._exit, [9, 9], 1, lambda item: f"job {item}"))
    with pytest.raises(RunError, match=r"its process died, killed by SIGKILL \(out of memory"):
        list(in_processes(signal.raise_signal, [signal.SIGKILL], 1, str))
    assert children() == []


def test_an_import_that_fails_in_the_process_is_the_cause(tmp_path, monkeypatch):
    """A plug-in that was changed after the command began, say."""
    (tmp_path / "broken.py").write_text("INFOS = ()\n")
    monkeypatch.setenv("PLUSONE_PLUGINS", str(tmp_path / "broken.py"))
    with pytest.raises(InputError, match=r"broken\.py: the plug-in has no INFO"):
        list(in_processes(get_method, ["an"], 1, str))
    assert children() == []


def test_leaving_early_ends_running_work_at_once():
    results = in_processes(time.sleep, [0, 3600], 2, str)
    next(results)
    assert len(children()) == 2
    results.close()  # and does not wait for the hour of the sleep
    assert children() == []


def test_workers_ignore_ctrl_c_and_use_one_thread():
    (threads,) = in_processes(os.getenv, ["OMP_NUM_THREADS"], 1, str)
    assert threads == "1"
    before = signal.getsignal(signal.SIGINT)
    (handler,) = in_processes(signal.getsignal, [signal.SIGINT], 1, str)
    assert handler is signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) is before


def test_order_of_results_is_the_order_of_finishing():
    assert list(in_processes(operator.neg, [1, 2, 3], 1, str)) == [-1, -2, -3]


def test_work_can_be_added_while_results_come():
    waiting = deque([5])
    results = []
    for result in pool.in_processes(math.factorial, waiting, 2, str):
        results.append(result)
        if result == 120:
            waiting.extend([3, 4])
    assert sorted(results) == [6, 24, 120]
    assert children() == []
