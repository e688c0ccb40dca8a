"""What answers changed: a run beside the run whose suggestions were answered.

Both are measured on the labels that people named of the same validation items, each item by a model
that has not seen it; so the figures differ by the answers alone.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from plusone.errors import InputError
from plusone.inputs.task import Task
from plusone.prediction.run_folder import read_metrics, read_observed
from plusone.results import RunResult

SENTENCE = (
    "{answers} answers since {run}: val mAP {before} before, {now} now (the same {items} items, "
    "measured against the labels that were named, so both are too low){k}"
)


def since_answers(task: Task, result: RunResult, folder: Path) -> str | None:
    """What changed since the run whose suggestions were answered; None without one to compare with.

    Args:
        task: The data of the run.
        result: Its result.
        folder: Its folder; the run before is looked for beside it, and in the current folder.
    """
    name, answers = task.observation.get("run"), task.observation.get("answers")
    if not isinstance(name, str) or not name or Path(name).name != name or task.val.named is None:
        return None
    places = [place / name for place in (folder.parent, Path())]
    run = next((place for place in places if (place / "metrics.json").is_file()), None)
    if run is None or run.resolve() == folder.resolve():
        return None
    try:
        before, seen = read_metrics(run), read_observed(run)
    except (InputError, OSError):
        return None
    rows = seen.rows_of("val")
    named = (seen.named or seen.labels).take(rows)
    same = (
        before.against == result.against == "seen"
        and before.method == result.method
        and seen.classes == task.classes
        and np.array_equal(seen.ids[rows], task.val.ids)
        and np.array_equal(named.dense() == 1, task.val.named.dense() == 1)
    )
    if not same:
        return None
    k = ""
    if before.calibration and result.calibration:
        k = "; labels per item " + " before, ".join(
            _k(one.calibration or {}) for one in (before, result)
        )
        k += " now"
    return SENTENCE.format(
        answers=answers,
        run=run,
        before=f"{100 * before.val_map:.2f}",
        now=f"{100 * result.val_map:.2f}",
        items=len(rows),
        k=k,
    )


def _k(calibration: dict[str, object]) -> str:
    """K with its range."""
    k, ends = calibration.get("k"), calibration.get("k_range")
    if not isinstance(k, float):
        return "not known"
    between = "" if not isinstance(ends, list) else " ({:.3g} to {:.3g})".format(*ends)
    return f"{k:.3g}{between}"
