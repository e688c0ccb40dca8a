"""A network for prediction only: batch norms folded into the convolutions before them.

With fixed statistics, a batch norm multiplies and shifts each channel, which the convolution before
it can do by itself. The result is the same up to rounding, for a tenth to a fifth less work.
"""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

TOLERANCE = 1e-3  # of the largest output; rounding stays far below it


class _Tracer(fx.Tracer):
    """Takes convolutions and norms as wholes, also those of other packages."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        whole = isinstance(m, (nn.Conv2d, nn.BatchNorm2d))
        return whole or super().is_leaf_module(m, module_qualified_name)


@torch.no_grad()
def fused(net: nn.Module, example: Tensor) -> nn.Module:
    """A copy of a network in evaluation mode; the network itself where that cannot be made.

    Args:
        net: The network; it stays as it is.
        example: A batch of inputs, on which both must agree.

    >>> net = nn.Sequential(nn.Conv2d(3, 4, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU())
    >>> fused(net, torch.ones(1, 3, 2, 2))[1]
    Identity()
    """
    made = copy.deepcopy(net).eval()
    wanted = made(example)
    names = Counter(id(part) for _, part in made.named_modules(remove_duplicate=False))
    shared = {part for part in made.modules() if names[id(part)] > 1}
    _fold_all(made, shared)
    scale = wanted.abs().max().item()
    same = torch.allclose(wanted, made(example), rtol=0, atol=TOLERANCE * scale)
    return made if same else net


def _fold_all(net: nn.Module, shared: set[nn.Module]) -> None:
    """Folds what can be folded, part by part where the whole cannot be looked into."""
    if not any(isinstance(part, nn.BatchNorm2d) for part in net.modules()):
        return
    try:
        graph = _Tracer().trace(net)
    except Exception:  # a trace can fail in any way, most often where shapes decide what is done
        for part in net.children():
            _fold_all(part, shared)
        return
    for conv, norm in _pairs(graph, dict(net.named_modules())):
        before, after = net.get_submodule(conv), net.get_submodule(norm)
        if not {before, after} & shared:
            _fold(before, after)
            net.set_submodule(norm, nn.Identity())


def _pairs(graph: fx.Graph, modules: dict[str, nn.Module]) -> list[tuple[str, str]]:
    """Names of convolutions whose output goes into a norm and nowhere else."""
    calls = [node for node in graph.nodes if node.op == "call_module"]
    often = Counter(node.target for node in calls)
    found = []
    for node in calls:
        norm, before = modules[node.target], node.args[0] if node.args else None
        # A norm of another kind may do more, such as an activation.
        if type(norm) is not nn.BatchNorm2d or norm.running_mean is None:
            continue
        if not isinstance(before, fx.Node) or before.op != "call_module" or len(before.users) > 1:
            continue
        conv = str(before.target)
        if isinstance(modules[conv], nn.Conv2d) and often[conv] == often[node.target] == 1:
            found.append((conv, str(node.target)))
    return found


def _fold(conv: Any, norm: Any) -> None:
    """Gives a convolution the factor and the shift of the norm after it."""
    conv.weight, conv.bias = fuse_conv_bn_weights(
        conv.weight,
        conv.bias,
        norm.running_mean,
        norm.running_var,
        norm.eps,
        norm.weight,
        norm.bias,
    )
