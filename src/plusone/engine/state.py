"""What a training must remember to go on elsewhere with the same result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from plusone.engine.best import Best
from plusone.engine.build import below

if TYPE_CHECKING:
    from plusone.engine.training import Training

State = dict[str, Tensor]


def pack(training: Training) -> tuple[State, dict[str, Any]]:
    """Everything that changes in training: tensors by name, and plain values."""
    tensors = _named("model", training.model.state_dict())
    tensors |= _named("method", training.method.state_dict())
    if not training.done:
        for number, slot in training.optimizer.state_dict()["state"].items():
            kept = {key: value for key, value in slot.items() if value is not None}
            tensors |= _named(f"optimizer.{number}", kept)
        for name, average in training.averages.items():
            tensors |= _named(name, average.model.state_dict())
    plain: dict[str, Any] = {"stage": training.stage, "epoch": training.epoch}
    plain["stage_maps"] = list(training.stage_maps)
    # Those of the stage before are kept until this one has some.
    before = training.before if training.best is None else None
    for name, best in (("best", training.best), ("before", before)):
        plain[name] = None
        if best is not None:
            tensors |= _named(f"{name}.model", best.model) | _named(f"{name}.method", best.method)
            told = ("score", "val_map", "epoch", "weights")
            plain[name] = {key: getattr(best, key) for key in told}
    return tensors, plain


def unpack(training: Training, tensors: State, plain: dict[str, Any]) -> None:
    """Puts what `pack` gave into a training."""
    training.stage, training.epoch = plain["stage"], plain["epoch"]
    training.stage_maps = list(plain["stage_maps"])
    if not training.done:
        training.begin_stage()
    training.model.load_state_dict(below(tensors, "model."))
    training.method.load_state_dict(below(tensors, "method."))
    if not training.done:
        slots: dict[int, dict[str, Tensor]] = {}
        for key, value in below(tensors, "optimizer.").items():
            number, name = key.split(".", 1)
            slots.setdefault(int(number), {})[name] = value
        groups = training.optimizer.state_dict()["param_groups"]
        training.optimizer.load_state_dict({"state": slots, "param_groups": groups})
        for name, average in training.averages.items():
            average.model.load_state_dict(below(tensors, f"{name}."))
    training.best, training.before = (
        None
        if plain.get(name) is None
        else Best(
            **plain[name],
            model=below(tensors, f"{name}.model."),
            method=below(tensors, f"{name}.method."),
        )
        for name in ("best", "before")
    )


def _named(prefix: str, tensors: State) -> State:
    return {f"{prefix}.{key}": value for key, value in tensors.items()}
