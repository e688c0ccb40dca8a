"""A command in which a process is killed after some epochs, or passes of a closed form.

killed.py RANK COUNT ARGUMENTS
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from plusone.cli.app import main
from plusone.closed_form.vectors import Passes
from plusone.training import run

original, make_pass = run.train, Passes.__call__
done = 0


def count() -> None:
    global done
    done += 1
    if done == int(sys.argv[2]) and os.environ["RANK"] == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)


def train(*values: Any, on_record: Any, **rest: Any) -> Any:
    def counted(record: Any) -> None:
        on_record(record)
        count()

    return original(*values, on_record=counted, **rest)


def counted_pass(passes: Passes, make: Any) -> Any:
    before = len(passes.sums)
    sums = make_pass(passes, make)
    if len(passes.sums) > before:
        count()
    return sums


if __name__ == "__main__":
    run.SECONDS_BETWEEN_CHECKPOINTS = run.SECONDS_BETWEEN_PASSES = 0
    run.train, Passes.__call__ = train, counted_pass
    main(sys.argv[3:])
