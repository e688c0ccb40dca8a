"""The state of a run as tensors by name and plain values: what is saved, resumed and kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from plusone.build import below
from plusone.device import CPU
from plusone.parallel.processes import broadcast_tensors
from plusone.training.selection import Best, State

if TYPE_CHECKING:
    from plusone.training.trainer import Training

BESTS = ("best", "before")
FIELDS = ("score", "val_map", "epoch", "weights")  # of a `Best` that are plain


def weights_and_memory(training: Training) -> tuple[State, State]:
    """What prediction needs, and the method's tables with a row for each item.

    Of several processes the tables are those of `state`.
    """
    method, tables = training.method.state_dict(), training.method.per_item
    memory = {name: method.pop(name) for name in list(method) if name in tables}
    weights = _named("model", training.model.state_dict()) | _named("method", method)
    return weights, _named("method", _whole(training, memory))


def state(training: Training) -> tuple[State, dict[str, Any]]:
    """Everything that changes in a run: tensors by name, and plain values.

    All ranks must call it, and rank 0 alone gets the tables of the method that have a row for each
    item: they are too large to be whole in every process.
    """
    tensors = _named("model", training.model.state_dict())
    tensors |= _named("method", _whole(training, training.method.state_dict()))
    if not training.done:
        if training.groups is not None:
            tensors |= _named("groups", training.groups.state_dict())
        for number, (weight, slot) in enumerate(_trained(training)):
            moments = {key: value for key, value in slot.items() if value is not None}
            if training.ranks is not None:
                moments = training.ranks.tables.whole_moments(weight, moments)
            tensors |= _named(f"optimizer.{number}", moments)
        for name, average in training.averages.items():
            tensors |= _named(name, average.model.state_dict())
    tensors |= training.other_state()
    plain: dict[str, Any] = {"stage": training.stage, "epoch": training.epoch}
    plain["stage_maps"] = list(training.stage_maps)
    if not training.done and training.gradients.scaler is not None:
        plain["scaler"] = training.gradients.scaler.state_dict()
    # The best weights of the previous stage are kept until this one has some.
    before = training.before if training.best is None else None
    for name, best in zip(BESTS, (training.best, before), strict=True):
        plain[name] = None
        if best is not None:
            tensors |= _named(f"{name}.model", best.model)
            tensors |= _named(f"{name}.method", _whole(training, best.method))
            tensors |= _named(f"{name}.groups", best.groups)
            plain[name] = {key: getattr(best, key) for key in FIELDS}
    return tensors, plain


def load_state(training: Training, tensors: State, plain: Mapping[str, Any]) -> None:
    """Takes over what `state` gave; of several processes, what rank 0 is given."""
    training.stage, training.epoch = plain["stage"], plain["epoch"]
    training.stage_maps = list(plain["stage_maps"])
    if training.done:
        training.inputs.begin(training.stages[-1])
    else:
        training.begin_stage()
    single = {name: tensor for name, tensor in tensors.items() if "." not in name}
    training.load_other_state(_sent(training, single))
    if training.done and training.inputs.mapped:
        new_map = training.inputs.empty_map(tensors).to(training.device)
        training.model.head = new_map.folded(training.model.head)
    training.model.load_state_dict(_sent(training, below(tensors, "model.")))
    training.method.load_state_dict(_sent_method(training, below(tensors, "method.")))
    if not training.done:
        _load_unfinished(training, tensors, plain)
    training.best, training.before = (
        None
        if plain.get(name) is None
        else Best(
            **plain[name],
            model=_sent(training, below(tensors, f"{name}.model.")),
            method=_sent_method(training, below(tensors, f"{name}.method.")),
            groups=_sent(training, below(tensors, f"{name}.groups.")),
        )
        for name in BESTS
    )


def _load_unfinished(training: Training, tensors: State, plain: Mapping[str, Any]) -> None:
    """Groups, optimizer, scaler and averages of a run that goes on."""
    if training.groups is not None:
        training.groups.load_state_dict(_sent(training, below(tensors, "groups.")))
    slots: dict[int, State] = {}
    for number, (weight, _) in enumerate(_trained(training)):
        moments = below(tensors, f"optimizer.{number}.")
        if training.ranks is not None:
            moments = training.ranks.tables.receive_moments(weight, moments)
        if moments:
            slots[number] = moments
    if (optimizer := training.optimizer) is not None:
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": slots, "param_groups": groups})
        for weight, slot in optimizer.state.items():
            for name, value in slot.items():  # fused kernels take one layout for all
                if value.shape == weight.shape and value.stride() != weight.stride():
                    slot[name] = torch.empty_like(weight).copy_(value)
    if training.gradients.scaler is not None and "scaler" in plain:
        training.gradients.scaler.load_state_dict(plain["scaler"])
    for name, average in training.averages.items():
        average.model.load_state_dict(_sent(training, below(tensors, f"{name}.")))


def _trained(training: Training) -> list[tuple[Tensor, State]]:
    """The weights of the optimizer and their moments, in the order in which it numbers them."""
    if (optimizer := training.optimizer) is None:
        return []
    weights = (weight for group in optimizer.param_groups for weight in group["params"])
    return [(weight, optimizer.state.get(weight, {})) for weight in weights]


def _whole(training: Training, method: State) -> State:
    """A state of the method; of several processes rank 0 alone has its tables."""
    return method if training.ranks is None else training.ranks.tables.whole(method)


def _sent(training: Training, state: State) -> State:
    """A state; of several processes that of rank 0."""
    return state if training.ranks is None else broadcast_tensors(state)


def _sent_method(training: Training, state: State) -> State:
    """A state of the method; of several processes that of rank 0, with the rows that each holds."""
    return state if training.ranks is None else training.ranks.tables.receive(state)


def copy_of(module: nn.Module) -> State:
    """A copy of the state in the memory of the CPU."""
    return {key: value.detach().to(CPU, copy=True) for key, value in module.state_dict().items()}


def _named(prefix: str, tensors: State) -> State:
    return {f"{prefix}.{key}": value for key, value in tensors.items()}
