"""How long the open trainings of a comparison will take."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

Kind = tuple[str, str, str]  # data, method, mode


def seconds_left(
    open_jobs: Sequence[Kind], done: Sequence[tuple[Kind, float]], workers: int
) -> float | None:
    """An estimate in seconds; None before anything is done.

    A training takes as long as those of its own kind did on average; if there are none yet, as
    those on the same data, and failing these as any.

    Args:
        open_jobs: Kinds of the trainings that are not done.
        done: Kinds and seconds of those that are.
        workers: How many run at a time.
    """
    if not done:
        return None
    by_kind: dict[Kind, list[float]] = {}
    by_data: dict[str, list[float]] = {}
    for kind, seconds in done:
        by_kind.setdefault(kind, []).append(seconds)
        by_data.setdefault(kind[0], []).append(seconds)
    every = [seconds for _, seconds in done]
    total = sum(fmean(by_kind.get(kind) or by_data.get(kind[0]) or every) for kind in open_jobs)
    return total / max(1, min(workers, len(open_jobs)))
