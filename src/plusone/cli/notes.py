"""What a person should know of the data before a training begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plusone.training.task import Task

SHOWN = 5


def notes(task: Task) -> list[str]:
    """What is unusual about the data, a sentence each."""
    found = []
    if task.val.of is not None:
        found.append(
            f"validation looks at a sample: {len(task.val)} of {task.val.of} items, because "
            "figures of all would take much memory"
        )
    seen = task.train.observed.per_class(1)
    names = [name for name, count in zip(task.classes, seen, strict=True) if not count]
    if names:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        found.append(
            "warning: no seen positive, so nothing can be learned of "
            f"{'it' if len(names) == 1 else 'them'}: {', '.join(names[:SHOWN])}{more}"
        )
    return found
