"""Training into a run folder, which holds the results and everything needed to resume.

| file | content |
| --- | --- |
| `recipe.toml` | all settings |
| `data.json` | data set, classes, input shape, observation scheme, versions |
| `observed.npz` | the observed labels, with scheme, seed and digest |
| `classes.csv` | the parents of the classes, if they have any |
| `records.jsonl` | one line per epoch |
| `checkpoint.safetensors` | the state to resume from (removed when the run is complete) |
| `model.safetensors` | the best weights: all that prediction needs |
| `memory.safetensors` | scores of held-out items, and what the method remembers of each item |
| `calibration.json` | from its scores to probabilities, in plain numbers |
| `thresholds.json` | above which probability each class is predicted; may be edited |
| `metrics.json` | the result; it exists only when the run is complete |
| `stopped.json` | why training stopped, if it diverged |
| `tracking.json` | under which ids trackers know the run, if there are any |

`plusone train` adds `report.html`, and `broken.csv` if images had to be left out.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plusone.data.classes_file import CLASSES, write_parents
from plusone.data.formats import write as write_table
from plusone.data.table import LabelTable
from plusone.errors import DivergedError, InputError, RunError
from plusone.inputs.loader import ArrayInputs, FileInputs, MappedInputs
from plusone.inputs.task import Part, Task, named_of
from plusone.io.files import clear_leftovers, write_json, write_text
from plusone.io.jsonl import append_jsonl, read_jsonl, write_jsonl
from plusone.io.keys import content_key, file_sample, file_state
from plusone.methods import plugin_of
from plusone.parallel.processes import (
    LostProcessError,
    broadcast,
    check_same,
    is_main_process,
    world,
)
from plusone.prediction import checkpoint
from plusone.prediction.load import MEMORY
from plusone.prediction.run_folder import (
    STOPPED,
    Divergence,
    for_this_computer,
    read_description,
    read_metrics,
    read_recipe,
    refuse_diverged,
)
from plusone.probabilities.calibration import Calibration, write_calibration
from plusone.probabilities.consistent import as_predicted
from plusone.probabilities.left_out import kept_scores
from plusone.probabilities.thresholds import Thresholds, write_thresholds
from plusone.recipe import FORMAT, Recipe
from plusone.results import EpochRecord, RunDescription, RunResult
from plusone.training.closed_fit import fit_for
from plusone.training.expected import Expected
from plusone.training.rates import Picked
from plusone.training.reuse import kept_by_run
from plusone.training.state import weights_and_memory
from plusone.training.summary import calibrate, summarise
from plusone.training.tracking import Listener, Tracking
from plusone.training.trainer import Training
from plusone.types import Clock
from plusone.version import __version__

SECONDS_BETWEEN_CHECKPOINTS = 1.0
SECONDS_BETWEEN_PASSES = 20.0  # of a closed form, until they are saved
SAMPLES, SAMPLE_BYTES = 4, 4096  # pieces of an image file that stand for its content


def train(
    task: Task,
    recipe: Recipe,
    folder: Path,
    *,
    resume: bool = False,
    on_record: Callable[[EpochRecord], None] | None = None,
    on_step: Callable[[Clock], None] | None = None,
    on_extract: Callable[[int], None] | None = None,
    source: Mapping[str, Any] | None = None,
    rules: Sequence[str] = (),
    features: Path | None = None,
    listeners: Sequence[Listener] = (),
    picked: Picked | None = None,
) -> RunResult:
    """Trains into a run folder and returns what `metrics.json` holds.

    Where several processes train together, rank 0 reads and writes the folder.

    Args:
        task: The data.
        recipe: The settings.
        folder: The run folder; it must not hold a run unless `resume`.
        resume: Resume the run in `folder`; the result of a complete run is returned.
        on_record: Called after every epoch.
        on_step: Called after every step.
        on_extract: Called with the number of items whose features were just extracted.
        source: How the data was read, for a later evaluation.
        rules: Reasons for the automatic settings, for the result.
        features: Folder where features of image files are cached for later runs.
        listeners: Who is told about settings, epochs and the result, such as trackers.
        picked: The finished run of this recipe, where its learning rate was chosen by training.
    """
    if not resume and broadcast((folder / "recipe.toml").exists):
        raise InputError(
            f"{folder}: holds a run already; --resume continues it, or choose another --out"
        )
    data = fingerprint(task)
    complete = broadcast(lambda: _complete(task, data, recipe, folder))
    if complete is not None:
        return RunResult.from_json(complete, str(folder / "metrics.json"))
    if world()[1] > 1:
        check_same(f"{recipe.to_toml()} {data}", "the settings or the data")
    # Before anything is written: invalid settings must not leave a run behind.
    training = (
        fit_for(task, recipe, on_step=on_step, on_extract=on_extract, features=features)
        if picked is None
        else picked.training
    )
    if is_main_process() and not (folder / "recipe.toml").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_table(observed_table(task), folder / "observed.npz")
        if task.hierarchy is not None:
            write_parents(folder / CLASSES, task.classes, task.hierarchy)
        plugin = plugin_of(recipe.method)
        known = training.method.side_information
        description = describe(task, data, training.expected, source, plugin, known)
        write_json(folder / "data.json", description.to_json())
        write_text(folder / "recipe.toml", recipe.to_toml())
    started = saved = time.perf_counter()
    spent = 0.0

    def save(after: float) -> None:
        """Saves the run if the last time is some seconds ago."""
        nonlocal saved
        now = time.perf_counter()
        if broadcast(lambda: now - saved >= after):
            _save(training, folder, spent + now - started)
            saved = time.perf_counter()

    training.keep_passes(lambda: save(SECONDS_BETWEEN_PASSES))
    if picked is None:
        spent, epochs = _restore(training, folder), training.epochs()
    else:
        write_jsonl(folder / "records.jsonl", [])
        spent, epochs = sum(record.seconds for record in picked.records), iter(picked.records)
    mapped = _mapped_files(task)
    listeners = listeners if is_main_process() else ()
    with closing(task.workers), closing(Tracking(listeners, folder, recipe)) as tracking:
        with _saving_best(training, folder):
            for record in epochs:
                _check_unchanged(mapped)
                if is_main_process():
                    append_jsonl(folder / "records.jsonl", record.to_json())
                tracking.record(record)
                if on_record is not None:
                    on_record(record)
                save(SECONDS_BETWEEN_CHECKPOINTS)
        seconds = spent + time.perf_counter() - started
        calibrated = _write_model(training, folder)
        result = summarise(training, folder, seconds, rules, calibrated)
        tracking.close(result)
    if is_main_process():
        write_json(folder / "metrics.json", result.to_json())
        (folder / "checkpoint.safetensors").unlink(missing_ok=True)
    return result


def _mapped_files(task: Task) -> dict[Path, tuple[int, int] | None]:
    """The files from which features are read during the training, and their states."""
    parts = [part.inputs for part in (task.train, task.val, task.test) if part is not None]
    pieces = [piece for x in parts if isinstance(x, MappedInputs) for piece in x.x.pieces]
    names = {piece.filename for piece in pieces if isinstance(piece, np.memmap)}
    return {Path(name): file_state(Path(name)) for name in names if name is not None}


def _check_unchanged(mapped: Mapping[Path, tuple[int, int] | None]) -> None:
    """Stops a training whose features are rewritten while it reads them."""
    for path, state in mapped.items():
        if file_state(path) != state:
            raise RunError(
                f"{path}: was changed while the training reads it; put the old file back and add "
                "--resume, or train anew"
            )


def _complete(task: Task, data: str, recipe: Recipe, folder: Path) -> dict[str, Any] | None:
    """The result of the run in a folder, if it is complete; refuses runs that cannot resume."""
    if not (folder / "recipe.toml").exists():
        return None
    _check_same_run(folder, recipe, task, data)
    clear_leftovers(folder)
    if (folder / "metrics.json").exists():
        return read_metrics(folder).to_json()
    refuse_diverged(folder)
    return None


@contextmanager
def _saving_best(training: Training, folder: Path) -> Iterator[None]:
    """Saves the best weights of a run that diverges, so that the run can be used."""
    try:
        yield
    except DivergedError as error:
        best = training.best or training.before
        saved = "there are no good weights to keep yet"
        if best is not None:
            _write_model(training, folder)
            saved = (
                f"the weights of epoch {best.epoch} are saved in {folder} and can be used with "
                "`plusone predict`"
            )
        if is_main_process():  # last: where this file is, the weights are
            divergence = Divergence(why=error.what, epoch=None if best is None else best.epoch)
            write_json(folder / STOPPED, divergence.to_json())
        lower = training.recipe.lr / 10
        raise DivergedError(
            error.what,
            f"{saved}; start anew with a smaller learning rate, such as --lr {lower:g}, and "
            "another --out",
        ) from None


def _write_model(training: Training, folder: Path) -> tuple[Calibration, Thresholds]:
    """Writes the current weights, their calibration and their thresholds."""
    tensors, tables = weights_and_memory(training)
    held_out = training.held_out()
    calibration, thresholds = calibrate(training, held_out)
    if is_main_process():
        checkpoint.save(folder / "model.safetensors", tensors, {"version": __version__})
        rows = held_out.rows
        if rows is None:  # the last ones are held out
            rows = len(training.task.train) + np.arange(len(training.task.val))
        predicted = as_predicted(held_out.log_odds, calibration, training.task.hierarchy)
        held_out = replace(held_out, log_odds=predicted)
        scores = kept_scores(held_out, calibration, rows, calibration.picks)
        whole, key = kept_by_run(training)
        tables |= scores.tensors() | whole
        checkpoint.save(folder / MEMORY, tables, {"version": __version__} | key)
        write_calibration(folder, training.task.classes, calibration)
        write_thresholds(folder, training.task.classes, thresholds)
    return calibration, thresholds


def describe(
    task: Task,
    data: str,
    k: Expected,
    source: Mapping[str, Any] | None,
    plugin: str | None = None,
    side_information: str = "",
) -> RunDescription:
    """The description of the data of a run.

    Args:
        task: The data.
        data: Its `fingerprint`.
        k: The expected positives.
        source: How the data was read.
        plugin: The plug-in that has the method.
        side_information: What the method knows besides inputs and labels.
    """
    values = {
        "format": FORMAT,
        "data": task.name,
        "classes": list(task.classes),
        "images": task.images,
        "shape": list(task.shape),
        "k": k.k,
        "k_from": k.source,
        "source": dict(source or {}),
        "observation": dict(task.observation),
        "items": {"train": len(task.train), "val": len(task.val), "test": len(task.test or ())},
        "fingerprint": data,
        "made_by": dict(task.made_by),
        "versions": {
            "plusone": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    own = {"plugin": plugin, "side_information": side_information}
    return RunDescription.model_validate(values | {key: text for key, text in own.items() if text})


def fingerprint(task: Task) -> str:
    """A hash of the items' names and inputs.

    Arrays are hashed completely, image files by their size and `SAMPLES` pieces of their content.
    """
    contents: list[object] = []
    for part in (task.train, task.val, task.test):
        if part is None:
            continue
        contents.append("\n".join(part.ids.tolist()))
        if part.groups is not None:
            contents.append("\n".join(part.groups.tolist()))
        if part.hints is not None:
            contents.append(part.hints)
        if isinstance(part.inputs, ArrayInputs | MappedInputs):
            x = part.inputs.x
            contents += [(tuple(x.shape), str(x.dtype).removeprefix("torch.")), x]
        elif isinstance(part.inputs, FileInputs):
            contents += [file_sample(path, SAMPLES, SAMPLE_BYTES) for path in part.inputs.paths]
    return content_key(*contents)


def observed_table(task: Task) -> LabelTable:
    """The observed labels of training and validation items, without the truth."""
    parts: list[tuple[str, Part]] = [("train", task.train), ("val", task.val)]
    groups = [part.groups for _, part in parts if part.groups is not None]
    return LabelTable(
        ids=np.concatenate([part.ids for _, part in parts]),
        classes=task.classes,
        labels=task.train.observed.concatenate([part.observed for _, part in parts]),
        split=np.repeat([name for name, _ in parts], [len(part) for _, part in parts]),
        observation=task.observation,
        groups=np.concatenate(groups) if groups else None,
        named=named_of([part for _, part in parts]),
    )


def _check_same_run(folder: Path, recipe: Recipe, task: Task, data: str) -> None:
    """Refuses to resume with other settings or other data."""
    old, recipe = read_recipe(folder).portable, for_this_computer(recipe).portable
    changed = [name for name in Recipe.model_fields if getattr(old, name) != getattr(recipe, name)]
    if changed:
        values = ", ".join(f"{name} was {getattr(old, name)!r}" for name in changed)
        raise InputError(f"{folder}: cannot resume with other settings ({values})")
    before = read_description(folder)
    now = {
        "observation": json.loads(json.dumps(dict(task.observation))),
        "classes": task.classes,
        "fingerprint": data,
    }
    for name, what in (
        ("observation", "the seen labels are"),
        ("classes", "the classes are"),
        ("fingerprint", "the items or their inputs are"),
    ):
        if getattr(before, name) != now[name]:
            raise InputError(f"{folder}: cannot resume, {what} not the same as before")


def _save(training: Training, folder: Path, seconds: float) -> None:
    tensors, plain = training.state()
    if is_main_process():
        checkpoint.save(folder / "checkpoint.safetensors", tensors, plain | {"seconds": seconds})


def _restore(training: Training, folder: Path) -> float:
    """Loads the checkpoint, if any, and drops later records; returns the seconds spent."""
    path, lines = folder / "checkpoint.safetensors", folder / "records.jsonl"
    if not broadcast(path.exists):
        if is_main_process():
            write_jsonl(lines, [])
        _check_same_knowledge(training, folder)
        return 0.0
    tensors, plain = checkpoint.load(path) if is_main_process() else ({}, {})
    plain = broadcast(lambda: plain)
    try:
        training.load_state(tensors, plain)
        seconds = float(plain["seconds"])
    except LostProcessError:
        raise
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path}: does not fit the run beside it ({first})") from None
    if not is_main_process():
        return seconds
    records = read_jsonl(lines, skip_damaged=True) if lines.exists() else ()
    write_jsonl(lines, [record for record in records if _is_known(training, record)])
    return seconds


def _check_same_knowledge(training: Training, folder: Path) -> None:
    """Refuses to begin anew in a folder whose run knew something else.

    A checkpoint has what the method made of it.
    """
    before = broadcast(lambda: read_description(folder).side_information)
    now = training.method.side_information
    if before != now:
        raise InputError(
            f"{folder}: cannot resume, {training.recipe.method} knew {before or 'nothing more'} "
            f"and now knows {now or 'nothing more'}; install what it used, or train anew"
        )


def _is_known(training: Training, record: Any) -> bool:
    """Whether a line of `records.jsonl` is an epoch that a restored training has behind it."""
    try:
        return bool((record["stage"], record["epoch"]) <= (training.stage, training.epoch))
    except (KeyError, TypeError):
        return False
