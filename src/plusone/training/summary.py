"""What a finished training is worth: the content of `metrics.json`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plusone.data.matrix import LabelMatrix
from plusone.metrics import average_precision, evaluate, evaluate_recovery
from plusone.results import RunResult
from plusone.seeds import derive
from plusone.training.task import RECOVERED, TESTED, Part, Task, blockwise, sample
from plusone.training.thresholds import Thresholds, find_thresholds
from plusone.training.trainer import Training
from plusone.version import __version__


def validation_thresholds(training: Training) -> Thresholds:
    """The probability above which a label of each class counts, found on the validation items."""
    val, blind = training.task.val, training.recipe.select_on == "observed"
    scores = training.predict(val)
    return find_thresholds(scores, val.observed, None if blind else val.truth, training.k)


def summarise(
    training: Training, folder: Path | None, seconds: float, rules: Sequence[str] = ()
) -> RunResult:
    """The result of a finished training."""
    task, recipe = training.task, training.recipe
    assert training.best is not None
    metrics: dict[str, Any] = {
        "method": recipe.method,
        "seed": recipe.seed,
        "val_map": training.best.val_map,
        "val_score": training.best.score,
        "test_map": None,
        "best_epoch": training.best.epoch,
        "stage_val_map": list(training.stage_maps),
        "seconds": round(seconds, 3),
        "run": None if folder is None else os.fspath(folder),
        "data": task.name,
        "lr": recipe.lr,
        "options": dict(recipe.options),
        "mode": _mode(training),
        "k": training.k,
        "k_from": training.expected.source,
        "recipe": recipe.model_dump(mode="json", exclude_defaults=True),
        "selected_on": training.validator.selected_on,
        "selected_by": training.validator.selected_by,
        "weights": training.best.weights,
        "observation": dict(task.observation),
        "items": {"train": len(task.train), "val": len(task.val), "test": len(task.test or ())},
        "version": __version__,
    }
    if task.test is not None and task.test.truth is not None:
        metrics |= _tested(training, task.test, task.test.truth)
    metrics["examples"] = pick_examples(
        task.train, task.classes, lambda rows: training.predict(task.train, rows)
    )
    if task.train.truth is not None:
        metrics["labels"] = {
            "classes": list(task.classes),
            "seen": task.train.observed.per_class(1).tolist(),
            "true": task.train.truth.per_class(1).tolist(),
        }
        metrics |= _recovered(training, task.train, task.train.truth)
    if sampled := _sampled(task):
        metrics["sampled"] = sampled
    if rules:
        metrics["rules"] = list(rules)
    return RunResult(**metrics)


def _tested(training: Training, part: Part, labels: LabelMatrix) -> dict[str, Any]:
    """The result on the test items."""
    rows = _rows(part, TESTED)
    scores = blockwise(rows, labels.n_classes, lambda some: training.predict(part, some))
    truth = labels.dense(rows.numpy()) == 1
    found = evaluate(scores, truth, empty=training.recipe.empty)
    per_class = average_precision(scores, truth).tolist()
    return {"test_map": found["map"], "test": found, "test_ap": per_class}


def _recovered(training: Training, part: Part, labels: LabelMatrix) -> dict[str, Any]:
    """What the model, and the method where it keeps estimates, know of the hidden labels."""
    rows = _rows(part, RECOVERED)
    truth, seen = labels.dense(rows.numpy()) == 1, part.observed.dense(rows.numpy())
    scores = blockwise(rows, labels.n_classes, lambda some: training.predict(part, some))
    empty = training.recipe.empty
    found = {"recovery": evaluate_recovery(scores, truth, seen, empty=empty)}
    some = None if len(rows) == len(part) else rows
    if (estimates := training.method.estimates(some)) is not None:
        found["recovery_estimates"] = evaluate_recovery(estimates, truth, seen, empty=empty)
    return found


def _rows(part: Part, most: int) -> Tensor:
    """Rows of a part to look at."""
    some = sample(len(part), part.observed.n_classes, most)
    return torch.arange(len(part)) if some is None else torch.from_numpy(some)


def _sampled(task: Task) -> dict[str, dict[str, int]]:
    """Of which figures only a sample of the items was looked at: how many, of how many."""
    found = {}
    if task.val.of is not None:
        found["val"] = {"items": len(task.val), "of": task.val.of}
    for name, part, most in (("test", task.test, TESTED), ("recovery", task.train, RECOVERED)):
        known = part is not None and part.truth is not None
        if part is not None and known and len(rows := _rows(part, most)) < len(part):
            found[name] = {"items": len(rows), "of": len(part)}
    return found


def _mode(training: Training) -> str:
    """How it was trained, in a word."""
    if training.recipe.stages:
        return "stages"
    inputs = {stage.inputs for stage in training.stages}
    if len(inputs) > 1:
        return "linear_init"
    return "linear" if inputs == {"features"} else "finetune"


COUNT = 12
TOP = 8


def pick_examples(
    part: Part, classes: tuple[str, ...], predict: Callable[[Tensor], Tensor]
) -> list[dict[str, Any]]:
    """Items for a report, the same ones for every method on the same data.

    Args:
        part: The training items; those with labels to find are preferred.
        classes: Class names.
        predict: Gives the probabilities `[n, L]` of some rows of the items.

    Returns:
        For each item `id`, `seen` and `truth` (class names; `truth` is None where it is not
        known), and `scores`, the highest ones by class name.
    """
    rows = np.arange(len(part))
    if part.truth is not None:
        hidden = part.truth.per_item(1) - part.observed.per_item(1)
        rows = np.flatnonzero(hidden > 0) if (hidden > 0).any() else rows
    draw = np.random.default_rng(derive(0, "examples"))
    chosen = np.sort(draw.choice(rows, min(COUNT, len(rows)), replace=False))
    seen = part.observed.take(chosen).dense()
    truth = None if part.truth is None else part.truth.take(chosen).dense()
    top = predict(torch.from_numpy(chosen)).topk(min(TOP, len(classes)))
    return [
        {
            "id": str(part.ids[row]),
            "seen": [classes[label] for label in np.flatnonzero(seen[place] == 1)],
            "truth": None
            if truth is None
            else [classes[label] for label in np.flatnonzero(truth[place] == 1)],
            "scores": {
                classes[label]: round(value, 4)
                for label, value in zip(
                    top.indices[place].tolist(), top.values[place].tolist(), strict=True
                )
            },
        }
        for place, row in enumerate(chosen)
    ]
