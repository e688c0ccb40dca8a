"""The kernels of `nn.SyncBatchNorm` on the CPU, which torch has for GPUs only.

With them its code, its exchange between processes and its gradients run on machines without a GPU.
"""

from __future__ import annotations

from unittest.mock import patch

import torch
from torch import Tensor, nn


def _shaped(values: Tensor, x: Tensor) -> Tensor:
    return values.view(1, -1, *[1] * (x.ndim - 2))


def _others(x: Tensor) -> list[int]:
    return [dim for dim in range(x.ndim) if dim != 1]


def stats(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    variance, mean = torch.var_mean(x, _others(x), correction=0)
    return mean, (variance + eps).rsqrt()


def gather_stats(
    x: Tensor,
    means: Tensor,
    inverses: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    share, count = (counts / counts.sum())[:, None], counts.sum()
    mean = (share * means).sum(0)
    variance = (share * (inverses**-2 - eps + (means - mean) ** 2)).sum(0)
    if running_mean is not None and running_var is not None:
        running_mean.lerp_(mean, momentum)
        running_var.lerp_(variance * count / (count - 1), momentum)
    return mean, (variance + eps).rsqrt()


def elemt(
    x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, inverse: Tensor, eps: float
) -> Tensor:
    normed = (x - _shaped(mean, x)) * _shaped(inverse, x)
    return normed * _shaped(weight, x) + _shaped(bias, x)


def backward_reduce(
    grad: Tensor, x: Tensor, mean: Tensor, inverse: Tensor, weight: Tensor, *needed: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    total = grad.sum(_others(x))
    slope = (grad * (x - _shaped(mean, x))).sum(_others(x))
    return total, slope, slope * inverse, total.clone()


def backward_elemt(
    grad: Tensor,
    x: Tensor,
    mean: Tensor,
    inverse: Tensor,
    weight: Tensor,
    total: Tensor,
    slope: Tensor,
    counts: Tensor,
) -> Tensor:
    count = counts.sum()
    centred = (x - _shaped(mean, x)) * _shaped(inverse**2 * slope / count, x)
    return (grad - _shaped(total / count, x) - centred) * _shaped(inverse * weight, x)


KERNELS = {
    "batch_norm_stats": stats,
    "batch_norm_gather_stats_with_counts": gather_stats,
    "batch_norm_elemt": elemt,
    "batch_norm_backward_reduce": backward_reduce,
    "batch_norm_backward_elemt": backward_elemt,
}


def register() -> torch.library.Library:
    """Registers them for this process, and lets `nn.SyncBatchNorm` take tensors of the CPU."""
    library = torch.library.Library("aten", "IMPL")
    for name, kernel in KERNELS.items():
        library.impl(name, kernel, "CPU")
    forward = nn.SyncBatchNorm.forward

    def forward_on_cpu(self: nn.SyncBatchNorm, x: Tensor) -> Tensor:
        with patch.object(torch._C, "_get_privateuse1_backend_name", lambda: "cpu"):
            return forward(self, x)

    nn.SyncBatchNorm.forward = forward_on_cpu
    return library
