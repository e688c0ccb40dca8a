"""What a finished training is worth: the content of `metrics.json`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from plusone.engine.examples import pick_examples
from plusone.engine.run_files import finite
from plusone.engine.thresholds import Thresholds, find_thresholds
from plusone.engine.training import Training
from plusone.metrics import average_precision, evaluate, evaluate_recovery
from plusone.version import __version__


def validation_thresholds(training: Training) -> Thresholds:
    """The probability above which a label of each class counts, found on the validation items."""
    val, blind = training.task.val, training.recipe.select_on == "observed"
    scores = training.predict(val)
    return find_thresholds(scores, val.observed, None if blind else val.truth, training.k)


def summarise(training: Training, folder: Path | None, seconds: float) -> dict[str, Any]:
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
        "selected_on": training.judge.selected_on,
        "selected_by": training.judge.selected_by,
        "weights": training.best.weights,
        "observation": dict(task.observation),
        "items": {"train": len(task.train), "val": len(task.val), "test": len(task.test or ())},
        "version": __version__,
    }
    if task.test is not None and task.test.truth is not None:
        scores, truth = training.predict(task.test), task.test.truth.dense() == 1
        test = evaluate(scores, truth, empty=recipe.empty)
        per_class = average_precision(scores, truth).tolist()
        metrics |= {"test_map": test["map"], "test": test, "test_ap": per_class}
    scores = training.predict(task.train)
    metrics["examples"] = pick_examples(task.train, task.classes, scores)
    if task.train.truth is not None:
        truth, seen = task.train.truth.dense() == 1, task.train.observed.dense()
        metrics["labels"] = {
            "classes": list(task.classes),
            "seen": task.train.observed.per_class(1).tolist(),
            "true": task.train.truth.per_class(1).tolist(),
        }
        found = {"recovery": scores}
        if (estimates := training.method.estimates()) is not None:
            found["recovery_estimates"] = estimates
        for name, scores in found.items():
            metrics[name] = evaluate_recovery(scores, truth, seen, empty=recipe.empty)
    result: dict[str, Any] = finite(metrics)
    return result


def _mode(training: Training) -> str:
    """How it was trained, in a word."""
    if training.recipe.stages:
        return "stages"
    inputs = {stage.inputs for stage in training.stages}
    if len(inputs) > 1:
        return "linear_init"
    return "linear" if inputs == {"features"} else "finetune"
