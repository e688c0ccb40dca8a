"""Estimates of runs, as `train --dry-run` and `doctor` print them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from plusone.cli.printing import duration, emit, out, say, table

if TYPE_CHECKING:
    from plusone.autorecipe import Composed
    from plusone.data.dataset import Dataset
    from plusone.training.dry_run import RunEstimate

GB = 1e9


def show_estimate(dataset: Dataset, composed: Composed, data: str, *, as_json: bool) -> None:
    """Estimates a run and prints it, for people or for machines."""
    from plusone.training.dry_run import estimate_run

    estimate = estimate_run(dataset, composed.recipe, rate_open="lr" in composed.chosen)
    if as_json:
        emit(estimate_json(estimate))
    else:
        print_estimate(estimate, data)


def estimate_json(estimate: RunEstimate) -> dict[str, Any]:
    """An estimate for machines."""
    return asdict(estimate) | {"bytes": estimate.bytes}


def print_estimate(estimate: RunEstimate, data: str) -> None:
    """Time and memory of a run, what was measured, and whether memory suffices."""
    from plusone.device import host_memory

    rows = [
        (part.what, part.measured, part.epoch, part.seconds, part.low, part.high)
        for part in estimate.parts
    ]
    rows.append(("whole run", "", None, estimate.seconds, estimate.low, estimate.high))
    shown = [
        (
            what,
            measured,
            None if epoch is None else duration(epoch),
            duration(seconds),
            f"{duration(low)} to {duration(high)}",
        )
        for what, measured, epoch, seconds, low, high in rows
    ]
    items = ", ".join(f"{count:,} {split}" for split, count in estimate.items.items() if count)
    title = f"{estimate.method} on {data} ({items} items, {estimate.classes:,} classes)"
    out.print(table(title, ("part", "measured", "an epoch", "time", "range"), shown, text=2))
    say(
        "the rest is extrapolated; the range is the spread of what was measured, widened, and "
        "other work on this machine changes it. Not counted: reading the data, and the report"
    )
    if estimate.peak_bytes is None:
        say("memory: not known on this system")
        return
    needed, more = estimate.peak_bytes + estimate.more_bytes, estimate.more_bytes
    known = f", of which {more / GB:.1f} GB by the shapes of tables" if more > GB / 20 else ""
    say(f"memory: about {needed / GB:.1f} GB at the peak{known}")
    if estimate.device_bytes is not None:
        say(f"memory of the device: {estimate.device_bytes / GB:.1f} GB at the peak")
    _, free = host_memory()
    if free is not None and needed > free + estimate.peak_bytes:
        say(f"warning: {free / GB:.1f} GB are free, and this run needs {needed / GB:.1f} GB")
