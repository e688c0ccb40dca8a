"""Parts of a backbone that training leaves as they are.

A frozen part keeps its weights and, as it stays in evaluation mode, its batch statistics; dropout
in it is off. LAC, for one, freezes the stem, the first block and all batch norms of its ResNet-50.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from plusone.errors import InputError
from plusone.models.backbones import core


def freeze_weights(backbone: nn.Module, names: Sequence[str], *, norm: bool) -> None:
    """Excludes the weights of the frozen parts from training.

    Args:
        backbone: The backbone.
        names: Parts of its network by name, with all below them (`layer1`, `blocks.0`), or single
            weights (`pos_embed`).
        norm: Whether all its batch norms are frozen as well.
    """
    modules, weights = _frozen(backbone, names, norm)
    for module in modules:
        module.requires_grad_(False)
    for weight in weights:
        weight.requires_grad_(False)


def freeze_statistics(backbone: nn.Module, names: Sequence[str], *, norm: bool) -> None:
    """Puts the frozen parts into evaluation mode; to be called after every `train()`."""
    for module in _frozen(backbone, names, norm)[0]:
        module.eval()


def _frozen(
    backbone: nn.Module, names: Sequence[str], norm: bool
) -> tuple[list[nn.Module], list[nn.Parameter]]:
    net = core(backbone)
    modules, weights = dict(net.named_modules()), dict(net.named_parameters())
    modules.pop("")
    for name in names:
        if name not in modules and name not in weights:
            listed = [entry for entry, _ in net.named_children()]
            listed += [entry for entry in weights if "." not in entry]
            raise InputError(
                f"freeze: the backbone has no part {name!r}; its parts: {', '.join(listed)}"
            )
    chosen = [modules[name] for name in names if name in modules]
    if norm:
        chosen += [module for module in modules.values() if isinstance(module, _BatchNorm)]
    return chosen, [weights[name] for name in names if name in weights]
