"""An audit by a person: some items are drawn, and all their labels are asked about.

The questions are a folder of suggestions with every unobserved label of the items drawn, so that
the review page asks them and keeps the answers. Items drawn unevenly have their weights beside it
(`plusone.suggestions.find.drawn_weights`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.io.files import write_json
from plusone.probabilities.accept import accept
from plusone.probabilities.answers import answers_from
from plusone.probabilities.drawing import draw_audit
from plusone.probabilities.unseen_labels import calibrate
from plusone.suggestions.find import AUDIT_WEIGHTS, PRECISION, Found
from plusone.suggestions.folder import Suggestions, write_suggestions

NOTHING_YET = (
    "after {items} items nothing can be promised at {target:.0f} % yet; go on, or ask for less"
)
PROMISE = (
    "after {items} items {count} labels could be accepted at {target:.0f} %, at least {low:.0f} % "
    "of them right (95 % confidence)"
)


def write_questions(
    found: Found, folder: Path, number: int, *, stratified: bool, run: str = ""
) -> int:
    """Draws items and writes a folder that asks for all their labels; returns how many items.

    Args:
        found: Probabilities of all labels.
        folder: The folder to write.
        number: How many items to draw.
        stratified: Whether items that tell more are drawn more often; their weights are written.
        run: The run behind the probabilities.
    """
    observed, calibrated = found.observed, found.calibrated
    open_rows = np.flatnonzero(observed.per_item(0) > 0)
    number = min(number, len(open_rows))
    if stratified:
        rows, weight = draw_audit(calibrated, number, found.seed)
    else:
        rng = np.random.default_rng(found.seed)
        rows = np.sort(rng.choice(open_rows, number, replace=False))
    drawn = calibrated.at(rows)
    at, label = np.nonzero(observed.dense(rows) == 0)
    order = np.lexsort((-drawn.probabilities[at, label], at))
    at, label = at[order], label[order]
    questions = Suggestions(
        replace(found.table, truth=None),
        found.rows[rows[at]],
        label.astype(np.int32),
        drawn.probabilities[at, label].astype(np.float32),
        drawn.scores[at, label].astype(np.float32),
        {"data": found.name, "method": found.method, "run": run, "stratified": stratified},
    )
    write_suggestions(questions, folder)
    if stratified:
        names = found.table.ids[found.rows[rows]].tolist()
        weights = dict(zip(names, weight.tolist(), strict=True))
        write_json(folder / AUDIT_WEIGHTS, {"weights": weights})
    return number


def promise(found: Found, audited: LabelTable, drawn: dict[str, float] | None = None) -> str:
    """What could be accepted after an audit, as a sentence.

    Args:
        found: Probabilities of all labels, without the audit.
        audited: Items with all their labels.
        drawn: Weights of the items, if they were drawn unevenly.
    """
    table = found.table.take(found.rows)
    summary = found.calibrated.summary
    assert summary is not None
    about = {"items": len(audited), "target": 100 * PRECISION}
    try:
        answers = answers_from(audited, table, seed=found.seed)
    except InputError:  # nothing new was said
        return NOTHING_YET.format(**about)
    answers = answers if drawn is None else answers.weighted(table.ids, drawn)
    after = calibrate(found.scores, found.observed, k=summary.k, answers=answers, seed=found.seed)
    accepted = accept(after, PRECISION, groups=found.groups)
    if not accepted.count or accepted.low is None:
        return NOTHING_YET.format(**about)
    return PROMISE.format(count=accepted.count, low=100 * accepted.low, **about)
