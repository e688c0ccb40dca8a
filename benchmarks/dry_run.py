"""Compares estimates of `plusone train --dry-run` with the runs themselves.

    python benchmarks/dry_run.py                  all cases, as a table for docs/doctor.md
    python benchmarks/dry_run.py --only gr role   some of them

Estimate and run are made in processes of their own, one after the other, on the embedded digits.
They are timed in processor time on one thread, which other work on the machine disturbs less;
`--wall` takes the clock and all threads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from functools import partial
from typing import Any

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "an": ("digits-features", {"method": "an"}),
    "gr": ("digits-features", {"method": "gr"}),
    "role": ("digits-features", {"method": "role"}),
    "recovery": ("digits-features", {"method": "recovery"}),
    "an, images, cnn": ("digits", {"method": "an", "backbone": "cnn", "epochs": 3}),
}


def child(name: str, what: str, clock: str) -> dict[str, Any]:
    """Estimates one case, or runs it."""
    if clock == "processor":
        import torch

        torch.set_num_threads(1)
        time.perf_counter = time.process_time
    from plusone import fit
    from plusone.autorecipe import compose, facts_of
    from plusone.data.source import load_source
    from plusone.training.dry_run import estimate_run, peak_bytes

    data, settings = CASES[name]
    dataset = load_source(data)
    if what == "estimate":
        composed = compose(partial(facts_of, dataset), settings)
        estimate = estimate_run(dataset, composed.recipe, rate_open="lr" in composed.chosen)
        seconds = estimate.seconds, estimate.low, estimate.high
        return {"seconds": seconds, "bytes": estimate.bytes}
    started = time.perf_counter()
    fit(dataset, **settings)
    return {"seconds": time.perf_counter() - started, "bytes": peak_bytes()}


def run(name: str, what: str, clock: str) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--child", name, what, clock]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--wall", action="store_true", help="time by the clock")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(child(*given.child)))
        return
    print("| run | estimate | range | real | ratio | MB, estimate | real | ratio | load |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in given.only:
        clock = "wall" if given.wall else "processor"
        estimate, real = run(name, "estimate", clock), run(name, "real", clock)
        (seconds, low, high), took = estimate["seconds"], real["seconds"]
        needs, needed = (each["bytes"] / 1e6 for each in (estimate, real))
        print(
            f"| {name} | {seconds:.1f} s | {low:.1f} to {high:.1f} s | {took:.1f} s | "
            f"{seconds / took:.2f} | {needs:.0f} | {needed:.0f} | {needs / needed:.2f} | "
            f"{os.getloadavg()[0]:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
