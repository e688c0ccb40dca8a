"""The result of a finished training, as it is written to `metrics.json`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.closed_form.kernel import KernelHead, MappedHead
from plusone.data.checks import main_class_warnings
from plusone.data.matrix import LabelMatrix
from plusone.inputs.sampling import RECOVERY_LABELS, TEST_LABELS, blockwise, sample
from plusone.inputs.task import Part, Task
from plusone.methods import get_method
from plusone.metrics import average_precision, evaluate, evaluate_recovery, mean_by_level
from plusone.metrics.calibration_error import mean_and_rate
from plusone.metrics.known import MEANINGS, against
from plusone.models.heads import LinearHead
from plusone.probabilities.calibration import Calibration, HeldOut, fit_calibration
from plusone.probabilities.consistent import as_predicted
from plusone.probabilities.k import LabelsPerItem
from plusone.probabilities.thresholds import Thresholds, find_thresholds
from plusone.results import Example, LabelCounts, RunResult
from plusone.seeds import derive
from plusone.training.expected import ORIGINS, expected_by_calibration
from plusone.training.trainer import Training
from plusone.version import __version__

EXAMPLES = 12
TOP_SCORES = 8  # of an example


def calibrate(
    training: Training, held_out: HeldOut | None = None
) -> tuple[Calibration, Thresholds]:
    """From scores to probabilities and predicted labels, by what is known of held-out items.

    Args:
        training: The run.
        held_out: Its held-out items, if they were scored already.
    """
    held_out = held_out or training.held_out()
    k = expected_by_calibration(training, held_out)
    estimate = k.estimate or (None if k.k is None else LabelsPerItem.given(k.k))
    calibration = fit_calibration(held_out, estimate, ORIGINS[k.source])
    hierarchy = training.task.hierarchy
    scores = as_predicted(held_out.log_odds, calibration, hierarchy)
    thresholds = find_thresholds(replace(held_out, log_odds=scores), calibration, k.k)
    if not (training.recipe.hint_features or get_method(training.recipe.method).needs_hints):
        parts = (training.task.train.observed, training.task.val.observed, held_out.labels)
        seen = np.sum([labels.per_class(1) for labels in parts], axis=0)
        thresholds = thresholds.never(seen == 0)
    return calibration, thresholds.within(hierarchy)


def summarise(
    training: Training,
    folder: Path | None,
    seconds: float,
    rules: Sequence[str] = (),
    calibrated: tuple[Calibration, Thresholds] | None = None,
) -> RunResult:
    """The result of a finished training.

    Args:
        training: The training, with its best weights in place.
        folder: The run folder, if there is one.
        seconds: Duration of the training.
        rules: Reasons for the automatic settings.
        calibrated: What `calibrate` gave, if probabilities are asked for.
    """
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
        "compared": dict(getattr(training, "compared", {})),
        "seconds": round(seconds, 3),
        "run": None if folder is None else os.fspath(folder),
        "data": task.name,
        "lr": recipe.lr,
        "options": dict(recipe.options),
        "mode": _mode(training),
        "head": _head(training),
        "learned": sum(len(part) for part in training.learned.parts),
        "k": training.k,
        "k_from": training.expected.source,
        "recipe": recipe.model_dump(mode="json", exclude_defaults=True),
        "selected_on": training.validator.selected_on,
        "selected_by": training.validator.selected_by,
        "val_against": training.validator.against,
        "weights": training.best.weights,
        "observation": dict(task.observation),
        "items": {"train": len(task.train), "val": len(task.val), "test": len(task.test or ())},
        "version": __version__,
    }
    if calibrated is not None:
        metrics["calibration"] = calibrated[0].about()
        if (salience := calibrated[0].salience) is not None and salience.p_value is not None:
            metrics["calibration"]["picks"] = salience.finding(task.classes)
    if task.test is not None and (labels := _measurable(task.test)) is not None:
        metrics |= _tested(training, task.test, labels, calibrated)
    metrics["examples"] = pick_examples(
        task.train, task.classes, lambda rows: training.predict(task.train, rows)
    )
    if task.train.truth is not None:
        metrics["labels"] = LabelCounts(
            classes=task.classes,
            seen=task.train.observed.per_class(1).tolist(),
            true=task.train.truth.per_class(1).tolist(),
        )
        metrics |= _recovered(training, task.train, task.train.truth)
    if sampled := _sampled(task):
        metrics["sampled"] = sampled
    if task.train.truth is None:
        seen = task.train.observed.per_class(1).tolist()
        metrics["about_labels"] = main_class_warnings(dict(zip(task.classes, seen, strict=True)))
    if rules:
        metrics["rules"] = list(rules)
    return RunResult(**metrics)


def _tested(
    training: Training,
    part: Part,
    labels: LabelMatrix,
    calibrated: tuple[Calibration, Thresholds] | None,
) -> dict[str, Any]:
    """Metrics on the test items: of the scores, and of the probabilities where there are any."""
    rows, empty = _rows(part, TEST_LABELS), training.recipe.empty
    z = blockwise(rows, labels.n_classes, lambda some: training.log_odds(part, some))
    if (hierarchy := training.task.hierarchy) is not None:
        curve = Calibration.none(labels.n_classes) if calibrated is None else calibrated[0]
        z = as_predicted(z, curve, hierarchy)
    labels = labels.take(rows.numpy())
    unknown, *others = MEANINGS[against(labels)]
    truth = labels.dense() if others else labels.dense() == 1  # which is checked in less memory
    p = torch.sigmoid(z)
    metrics = evaluate(p, truth, ranking=z, empty=empty, unknown=unknown)
    per_class = average_precision(z, truth, unknown).tolist()
    tested = {"test_map": metrics["map"], "test": metrics, "test_ap": per_class}
    if hierarchy is not None:
        tested["test_map_by_level"] = mean_by_level(per_class, hierarchy.level)
    for other in others:
        found = evaluate(p, truth, ranking=z, empty=empty, unknown=other)
        tested |= {"test_unknown": int((truth == 0).sum()), f"test_if_{other}": found}
    if calibrated is not None and calibrated[0].calibrated:
        calibration, thresholds = calibrated
        if (some := sample(len(z), labels.n_classes, RECOVERY_LABELS)) is not None:
            z, truth = z[torch.from_numpy(some)], truth[some]
        z = calibration(z)
        p = torch.sigmoid(z)
        values = evaluate(
            p, truth, threshold=thresholds.array, ranking=z, empty=empty, unknown=unknown
        )
        kept = {name: values[name] for name in ("cf1", "of1", "ece", "brier")}
        tested["test_calibrated"] = kept | mean_and_rate(p, truth, unknown)
    return tested


def _measurable(part: Part) -> LabelMatrix | None:
    """The labels that a part is measured against; None if no more than some positives are known."""
    if part.truth is not None:
        return part.truth
    return None if against(part.observed) == "seen" else part.observed


def _recovered(training: Training, part: Part, labels: LabelMatrix) -> dict[str, Any]:
    """Metrics of the model, and of the method's estimates if any, on the hidden training labels."""
    rows = _rows(part, RECOVERY_LABELS)
    truth, seen = labels.dense(rows.numpy()), part.observed.dense(rows.numpy())
    z = blockwise(rows, labels.n_classes, lambda some: training.log_odds(part, some))
    empty = training.recipe.empty
    found = evaluate_recovery(torch.sigmoid(z), truth, seen, empty=empty, ranking=z)
    metrics = {"recovery": found}
    some = None if len(rows) == len(part) else rows
    if (estimates := training.method.estimates(some)) is not None:
        metrics["recovery_estimates"] = evaluate_recovery(estimates, truth, seen, empty=empty)
    return metrics


def _rows(part: Part, most: int) -> Tensor:
    """The rows of a part that are evaluated, int64."""
    chosen = sample(len(part), part.observed.n_classes, most)
    return torch.arange(len(part)) if chosen is None else torch.from_numpy(chosen)


def _sampled(task: Task) -> dict[str, dict[str, int]]:
    """Figures that were computed on a sample: how many items of how many."""
    sampled = {}
    if task.val.of is not None:
        sampled["val"] = {"items": len(task.val), "of": task.val.of}
    for name, part, labels, most in (
        ("test", task.test, None if task.test is None else _measurable(task.test), TEST_LABELS),
        ("recovery", task.train, task.train.truth, RECOVERY_LABELS),
    ):
        known = part is not None and labels is not None
        if part is not None and known and len(rows := _rows(part, most)) < len(part):
            sampled[name] = {"items": len(rows), "of": len(part)}
    return sampled


def _mode(training: Training) -> str:
    """The mode of the training: "linear", "finetune", "linear_init" or "stages"."""
    if training.recipe.stages:
        return "stages"
    inputs = {stage.inputs for stage in training.stages}
    if len(inputs) > 1:
        return "linear_init"
    return "linear" if inputs == {"features"} else "finetune"


def _head(training: Training) -> str:
    """The head: "linear", "kernel", or the name of a class of the method's own."""
    head = training.model.head
    own = type(head.inner if isinstance(head, MappedHead) else head)
    name = "" if own in (LinearHead, KernelHead) else own.__name__.removesuffix("Head").lower()
    space = "kernel" if training.plan.kernel else ""
    return " + ".join(filter(None, (space, name))) or "linear"


def pick_examples(
    part: Part, classes: tuple[str, ...], predict: Callable[[Tensor], Tensor]
) -> list[Example]:
    """Some items for a report, the same ones for every method on the same data.

    Args:
        part: The training items; those with hidden positives are preferred.
        classes: Class names.
        predict: Gives the probabilities `[n, L]` of some rows of the items.
    """
    rows = np.arange(len(part))
    if part.truth is not None:
        hidden = part.truth.per_item(1) - part.observed.per_item(1)
        rows = np.flatnonzero(hidden > 0) if (hidden > 0).any() else rows
    draw = np.random.default_rng(derive(0, "examples"))
    chosen = np.sort(draw.choice(rows, min(EXAMPLES, len(rows)), replace=False))
    seen = part.observed.take(chosen).dense()
    truth = None if part.truth is None else part.truth.take(chosen).dense()
    top = predict(torch.from_numpy(chosen)).topk(min(TOP_SCORES, len(classes)))
    return [
        Example(
            id=str(part.ids[row]),
            seen=_names(classes, seen[place]),
            truth=None if truth is None else _names(classes, truth[place]),
            scores={
                classes[label]: round(value, 4)
                for label, value in zip(
                    top.indices[place].tolist(), top.values[place].tolist(), strict=True
                )
            },
        )
        for place, row in enumerate(chosen)
    ]


def _names(classes: tuple[str, ...], labels: npt.NDArray[np.int8]) -> tuple[str, ...]:
    """Names of the positive classes among labels `[L]`."""
    return tuple(classes[label] for label in np.flatnonzero(labels == 1))
