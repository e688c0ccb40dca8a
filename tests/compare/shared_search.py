"""A search with trainings that take no time; as a script, in a process of its own.

Arguments: the address of a database, a name, how many trials, a file for what was trained, and
"hang" for a training that never ends.
"""

import json
import sys
import time
from math import log10
from pathlib import Path

from plusone.compare import search
from plusone.compare.bench import Entry
from plusone.compare.jobs import JobResult
from plusone.data.source import Source


def tune(url, name, trials, log, manner="work"):
    """The choice of one search."""

    def run(jobs):
        for job in jobs:
            line = json.dumps([name, job.recipe.lr, job.recipe.options]) + "\n"
            with open(log, "ab", buffering=0) as file:
                file.write(line.encode())
            while manner == "hang":
                time.sleep(0.1)
            time.sleep(0.05)
        return [
            JobResult.model_construct(val_map=0.9 - 0.1 * abs(log10(job.recipe.lr) + 3))
            for job in jobs
        ]

    entries = [Entry(Source("digits-features"), "em", {})]
    folder = Path(log).parent / name
    return search.tune_by_optuna(
        entries, (), 0, run, trials=int(trials), folder=folder, storage=url
    )


if __name__ == "__main__":
    search.HEARTBEAT, search.GRACE, search.POLL_SECONDS = 1, 3, 0.2
    print(json.dumps(tune(*sys.argv[1:])))
