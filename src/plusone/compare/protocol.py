"""What the rows of a comparison share, and what a reader must be told where they do not.

A table ranks methods only if their rows have the same head and learn from the same items. The
protocol `papers`, the default, sees to that: seen negatives weigh 1, as the formulas have it,
closed forms do not learn from validation items, and on fixed features all rows have a linear head,
or the kernel head where the list has a method with a closed form. With the protocol `product` every
row is what `plusone train` makes of the method; then rows may differ in more than the method.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from plusone.compare.jobs import JobResult, Settings
from plusone.data.checks import label_warnings
from plusone.methods import get_method

if TYPE_CHECKING:
    from plusone.compare.rows import Row

PROTOCOLS: Mapping[str, str] = {
    "papers": "papers (all rows have the same head and learn from the same training items; seen "
    "negatives weigh 1, as the formulas have it)",
    "product": "product (each row as plusone train runs the method: its own head, closed forms "
    "learn from validation items too, seen negatives are weighted)",
}
SEEDS = "± is the standard deviation over seeds: of initial weights, batch order and augmentation; "
ONE_DRAW = SEEDS + (
    "it does not contain the draw of the observed labels, which all runs share (--draws)"
)
DRAWS = SEEDS.replace(
    "of initial", "of the observed labels, the validation items where the data has none, initial"
) + ("it does not contain the draw of the test items")


def shared_settings(protocol: str, methods: Iterable[str], *, on_features: bool) -> Settings:
    """Settings of every row; what the user gives takes precedence."""
    if protocol == "product":
        return {}
    shared: Settings = {"seen_negatives": "full", "use_validation": False}
    if on_features:
        solved = any(get_method(name).closed_form for name in methods)
        shared["head"] = "kernel" if solved else "linear"
    return shared


def searched(tried: Sequence[JobResult]) -> str:
    """What was searched for a row, from all of its runs: "lr: 4, options: 3", or "-".

    A closed form searches within a run too, by leave-one-out errors.
    """
    counts = {
        "lr": len({run.lr for run in tried}),
        "options": len({str(sorted(run.options.items())) for run in tried}),
    }
    parts = [f"{name}: {count}" for name, count in counts.items() if count > 1]
    solved = tried and get_method(tried[0].method).closed_form
    return ", ".join(parts + ["leave-one-out"] * bool(solved)) or "-"


def is_edge(rate: float | None, tried: Sequence[JobResult]) -> bool:
    """Whether a chosen learning rate is the lowest or the highest of several that were tried."""
    rates = {run.lr for run in tried}
    return len(rates) > 1 and rate in (min(rates), max(rates))


def still_improving(runs: Sequence[JobResult]) -> bool:
    """Whether the best epoch of most runs is the last one, of several."""
    late = [run.best_epoch == run.epochs[-1].epoch > 1 for run in runs if run.epochs]
    return sum(late) > len(runs) / 2


def unlike(rows: Sequence[Row]) -> str | None:
    """How ranked rows differ in more than the method, a sentence; None if they do not."""
    rivals = [row for row in rows if row.competes]
    parts = []
    for what, values in (
        ("head", {row.method: row.head for row in rivals if row.head}),
        ("items learned from", {row.method: f"{row.learned:,}" for row in rivals if row.learned}),
    ):
        kinds = Counter(values.values())
        if len(kinds) > 1:
            (usual, count), *others = kinds.most_common()
            groups = [
                f"{kind}: {', '.join(name for name, value in values.items() if value == kind)}"
                for kind in ([usual] if count == 1 else []) + [kind for kind, _ in others]
            ]
            rest = [f"{usual}: the others"] if count > 1 else []
            parts.append(f"{what} ({'; '.join(groups + rest)})")
    if not parts:
        return None
    return (
        f"rows differ in more than the method, in {' and '.join(parts)}: their ranks compare both"
    )


def warnings_about(rows: Sequence[Row]) -> list[str]:
    """What to know before citing a table, a sentence each."""
    sentences = [sentence] if (sentence := unlike(rows)) else []
    if edge := [f"{row.method} ({row.lr:g})" for row in rows if row.at_edge]:
        sentences.append(
            f"the chosen learning rate is at the edge of those tried, so a better one may be "
            f"beyond it: {', '.join(edge)}"
        )
    if late := [row.method for row in rows if row.improving]:
        sentences.append(
            f"the best epoch is the last one, so more epochs may be better: {', '.join(late)}"
        )
    return sentences


def spread_of(rows: Sequence[Row]) -> str | None:
    """What the spread of a table contains; None with one seed."""
    if all(row.seeds < 2 for row in rows):
        return None
    return DRAWS if any(len(row.digests) > 1 for row in rows) else ONE_DRAW


def data_warnings(results: Sequence[JobResult]) -> dict[str, list[str]]:
    """Warnings of each data set: about its observed labels, from its first run, and about runs."""
    first: dict[str, JobResult] = {}
    of_runs: dict[str, dict[str, None]] = {}
    for result in results:
        for text in (text for record in result.epochs for text in record.remarks):
            of_runs.setdefault(result.data, {})[text] = None
        if result.labels is not None and get_method(result.method).scheme == "single":
            first.setdefault(result.data, result)
    found = {
        data: label_warnings(run.labels.classes, run.labels.seen)
        for data, run in first.items()
        if run.labels is not None
    }
    for data, sentences in of_runs.items():
        found.setdefault(data, []).extend(sentences)
    return found
