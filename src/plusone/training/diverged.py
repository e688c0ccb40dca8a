"""A training that left the finite numbers: found out early, its last good weights kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from plusone.errors import DivergedError, InputError
from plusone.io.files import write_json
from plusone.parallel.processes import is_writer
from plusone.training import checkpoint
from plusone.version import __version__

if TYPE_CHECKING:
    from plusone.training.trainer import Best, Training


FILE = "stopped.json"


def check_weights(training: Training, epoch: int) -> None:
    """Refuses weights that are not finite: a finite loss can have a gradient that is not.

    Args:
        training: Whose weights.
        epoch: The epoch that just ended, from 1.
    """
    for name, weight in training.model.state_dict().items():
        if weight.is_floating_point() and not bool(torch.isfinite(weight).all()):
            raise DivergedError(
                f"the weights {name} are not finite after epoch {epoch} of {training.recipe.method}"
            )


def keep_good(training: Training, folder: Path, error: DivergedError) -> DivergedError:
    """Writes the best weights so far into the run folder, so that the run can be used.

    Returns:
        What to raise: the error with what was kept and what to do next.
    """
    best = training.best or training.before
    kept = "there are no good weights to keep yet"
    if best is not None:
        _write(training, folder, best)
        kept = f"{folder} keeps the weights of epoch {best.epoch}, plusone predict takes them"
    if is_writer():  # last: whoever finds this file finds the weights
        about = {"why": error.what, "epoch": None if best is None else best.epoch}
        write_json(folder / FILE, about)
    lower = training.recipe.lr / 10
    return DivergedError(
        error.what,
        f"{kept}; start anew with a smaller learning rate, such as --lr {lower:g}, and another "
        "--out",
    )


def _write(training: Training, folder: Path, best: Best) -> None:
    from plusone.training.summary import validation_thresholds
    from plusone.training.thresholds import write_thresholds

    training.model.load_state_dict(best.model)
    training.method.load_state_dict(best.method)
    tensors = {f"model.{name}": value for name, value in best.model.items()}
    tensors |= {f"method.{name}": value for name, value in best.method.items()}
    thresholds = validation_thresholds(training)
    if is_writer():
        checkpoint.save(folder / "model.safetensors", tensors, {"version": __version__})
        write_thresholds(folder, training.task.classes, thresholds)


def refuse_diverged(folder: Path) -> None:
    """Refuses to go on with a run that would only stop at the same place again."""
    if (said := _said(folder)) is not None:
        raise InputError(
            f"{folder}: {said['why']}, and going on would end there again; start anew with a "
            "smaller learning rate and another --out"
        )


def warning(folder: Path) -> str | None:
    """What whoever uses a run must know if it stopped early; None if it did not."""
    said = _said(folder)
    if said is None:
        return None
    return f"this run stopped early ({said['why']}); these are its weights of epoch {said['epoch']}"


def _said(folder: Path) -> dict[str, Any] | None:
    from plusone.training.run_folder import read_plain

    return read_plain(folder / FILE, ("why", "epoch")) if (folder / FILE).exists() else None
