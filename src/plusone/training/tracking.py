"""Sends metrics to TensorBoard, MLflow or W&B.

A listener is anything with the three methods of `Listener`. TensorBoard, MLflow and Weights &
Biases are listeners by name; none of them is imported unless it is asked for. Their own environment
variables (`MLFLOW_TRACKING_URI`, `WANDB_MODE` and so on) apply.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from plusone.errors import InputError, RunError
from plusone.extras import install_command
from plusone.io.files import write_json
from plusone.io.jsonl import read_jsonl
from plusone.io.readers import read_json
from plusone.prediction.run_folder import read_description
from plusone.recipe import Recipe
from plusone.results import EpochRecord, RunDescription, RunResult

IDS = "tracking.json"  # in a run folder: under which id a tracker knows the run
PROJECT = "plusone"  # where runs are collected, unless the environment names a project


class Listener(Protocol):
    """Takes what a training tells, on rank 0 only."""

    def start(self, folder: Path, recipe: Recipe, description: RunDescription, epochs: int) -> None:
        """Called before the first epoch.

        Args:
            folder: The run folder.
            recipe: All settings.
            description: What is known of the data.
            epochs: How many epochs are behind a run that resumes, else 0.
        """

    def record(self, record: EpochRecord, step: int) -> None:
        """Called after every epoch; `step` counts them over all stages, from 1."""

    def finish(self, result: RunResult | None) -> None:
        """Called at the end, with None if the training stopped before it."""


class Tracking:
    """Tells listeners about one run.

    A listener that fails at the start stops the training, which has cost nothing yet. One that
    fails later, for example because its server is gone, is left out with a warning.

    Args:
        listeners: Who is told.
        folder: The run folder, with the description of the data and the epochs that are behind it.
        recipe: All settings.
    """

    def __init__(self, listeners: Sequence[Listener], folder: Path, recipe: Recipe) -> None:
        self.listeners: list[Listener] = []
        self.step = len(list(read_jsonl(folder / "records.jsonl"))) if listeners else 0
        for listener in listeners:
            try:
                listener.start(folder, recipe, read_description(folder), self.step)
            except Exception as error:
                self.close()
                raise RunError(f"{_name(listener)} could not be started: {error}") from error
            self.listeners.append(listener)

    def record(self, record: EpochRecord) -> None:
        """Passes an epoch on."""
        self.step += 1
        for listener in list(self.listeners):
            try:
                listener.record(record, self.step)
            except Exception as error:
                self.listeners.remove(listener)
                _warn(listener, error)

    def close(self, result: RunResult | None = None) -> None:
        """Passes the result on, if there is one; nobody listens any more."""
        for listener in self.listeners:
            try:
                listener.finish(result)
            except Exception as error:
                _warn(listener, error)
        self.listeners = []


def _name(listener: Listener) -> str:
    return type(listener).__name__


def _warn(listener: Listener, error: Exception) -> None:
    warnings.warn(f"{_name(listener)} gets no more figures: {error}", stacklevel=3)


def figures(record: EpochRecord) -> dict[str, float]:
    """The numbers of an epoch by the names that trackers show."""
    numbers = {f"loss/{name}": value for name, value in record.losses.items()}
    numbers |= {"val/map": record.val_map, "epoch/seconds": record.seconds}
    numbers |= {"epoch/stage": float(record.stage), "epoch/best": float(record.best)}
    if record.selected_by != "map":
        numbers[f"val/{record.selected_by}"] = record.val_score
    return {name: value for name, value in numbers.items() if value is not None}


def final_figures(result: RunResult) -> dict[str, float]:
    """The numbers of a finished training by the names that trackers show."""
    numbers: dict[str, float | None] = {
        "final/val_map": result.val_map,
        "final/test_map": result.test_map,
        "final/best_epoch": float(result.best_epoch),
        "final/seconds": result.seconds,
    }
    parts = {
        "test": result.test,
        "test_if_negative": result.test_if_negative,
        "test_if_positive": result.test_if_positive,
        "test_calibrated": result.test_calibrated,
        "recovery": result.recovery,
    }
    for part, values in parts.items():
        numbers |= {f"{part}/{name}": value for name, value in (values or {}).items()}
    return {name: value for name, value in numbers.items() if value is not None}


def plain_settings(recipe: Recipe, description: RunDescription) -> dict[str, Any]:
    """The name of the data and the settings that are not None, as a flat table."""
    plain = recipe.model_dump(exclude_none=True, exclude={"cache_dir"})  # a place on this machine
    values = {"data": description.data, **plain}
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{name}": entry for name, entry in value.items()}
        else:
            flat[key] = value
    return {
        key: value if isinstance(value, bool | int | float | str) else str(value)
        for key, value in flat.items()
    }


def _known_id(folder: Path, tracker: str) -> str | None:
    """Under which id a tracker knows the run of a folder."""
    try:
        known = read_json(folder / IDS)
    except (OSError, ValueError):
        return None
    value = known.get(tracker) if isinstance(known, dict) else None
    return value if isinstance(value, str) else None


def _keep_id(folder: Path, tracker: str, value: str) -> None:
    ids = {name: known for name in TRACKERS if (known := _known_id(folder, name)) is not None}
    write_json(folder / IDS, ids | {tracker: value})


class TensorBoard:
    """Event files in `RUN/tensorboard`."""

    def start(self, folder: Path, recipe: Recipe, description: RunDescription, epochs: int) -> None:
        self.settings = plain_settings(recipe, description)
        # Epochs that are trained again replace those of a process that was killed.
        self.writer: Any = import_module("torch.utils.tensorboard").SummaryWriter(
            str(folder / "tensorboard"), purge_step=epochs + 1 if epochs else None
        )
        self.writer.add_text("recipe", f"```toml\n{recipe.to_toml()}```")

    def record(self, record: EpochRecord, step: int) -> None:
        self.step = step
        for name, value in figures(record).items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def finish(self, result: RunResult | None) -> None:
        if result is not None:
            self.writer.add_hparams(self.settings, final_figures(result), run_name=".")
        self.writer.close()


class MLflow:
    """A run in the tracking store that MLflow is set up for, by default in this folder."""

    def start(self, folder: Path, recipe: Recipe, description: RunDescription, epochs: int) -> None:
        entities = import_module("mlflow.entities")
        self.metric: Any = entities.Metric
        self.client: Any = import_module("mlflow").MlflowClient()
        known = _known_id(folder, "mlflow") if epochs else None
        if known is not None:
            self.client.update_run(known, status="RUNNING")
            self.run = known
            return
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
        experiment = self.client.get_experiment_by_name(name)
        number = experiment.experiment_id if experiment else self.client.create_experiment(name)
        self.run = self.client.create_run(number, run_name=folder.resolve().name).info.run_id
        settings = plain_settings(recipe, description).items()
        parameters = [entities.Param(key, str(value)[:500]) for key, value in settings]
        self.client.log_batch(self.run, params=parameters)
        _keep_id(folder, "mlflow", self.run)

    def record(self, record: EpochRecord, step: int) -> None:
        self._log(figures(record), step)

    def finish(self, result: RunResult | None) -> None:
        if result is not None:
            self._log(final_figures(result), 0)
        self.client.set_terminated(self.run, "FINISHED" if result is not None else "KILLED")

    def _log(self, numbers: Mapping[str, float], step: int) -> None:
        now = int(time.time() * 1000)
        metrics = [self.metric(name, value, now, step) for name, value in numbers.items()]
        self.client.log_batch(self.run, metrics=metrics)


class WandB:
    """A run of Weights & Biases, with its files in the run folder."""

    def start(self, folder: Path, recipe: Recipe, description: RunDescription, epochs: int) -> None:
        known = _known_id(folder, "wandb") if epochs else None
        self.run: Any = import_module("wandb").init(
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            name=folder.resolve().name,
            dir=str(folder),
            config=plain_settings(recipe, description),
            id=known,
            resume="allow" if known else None,
        )
        _keep_id(folder, "wandb", self.run.id)

    def record(self, record: EpochRecord, step: int) -> None:
        self.run.log(figures(record), step=step)

    def finish(self, result: RunResult | None) -> None:
        if result is not None:
            self.run.summary.update(final_figures(result))
        self.run.finish(exit_code=0 if result is not None else 1)


# By the names of their packages.
TRACKERS: Mapping[str, type[TensorBoard] | type[MLflow] | type[WandB]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WandB,
}


def make_listeners(names: Sequence[str]) -> list[Listener]:
    """The trackers of these names.

    Raises:
        InputError: A name is unknown, or its package is not installed.
    """
    for name in names:
        if name not in TRACKERS:
            raise InputError(f"unknown tracker {name!r}; there are {', '.join(TRACKERS)}")
        if find_spec(name) is None:
            raise InputError(f"--track {name}: it is not installed: {install_command(name)}")
    return [TRACKERS[name]() for name in dict.fromkeys(names)]
