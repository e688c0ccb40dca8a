"""Batch norm and dropout over the whole batch, where several processes share it.

Each process forwards some rows of a batch. The layers here compute the statistics, and draw the
dropout masks, of the whole batch, so that every row gets the values it would get in one process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from plusone.device import device_of

WITH_SYNCED_NORMS = ("cuda", "xpu")  # devices for which torch has `nn.SyncBatchNorm`


@dataclass
class Rows:
    """The rows of the current step; the training loop sets them before each.

    Args:
        all_gather: Stacks the equally shaped tensors of all processes: `[world, ...]`.
        own: This process's rows of the batch, int64 `[m]`.
        total: Rows of the whole batch.
        counted: False if the process has no rows and forwards a placeholder instead.
    """

    all_gather: Callable[[Tensor], Tensor]
    own: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    total: int = 0
    counted: bool = True


def see_whole_batch(model: nn.Module, rows: Rows) -> None:
    """Replaces the batch norms and the dropout of a model; names and weights stay the same.

    Batch norms of all dimensions are replaced, including those of timm with an activation, and
    `nn.Dropout`. Other random layers draw separately in each process.

    Args:
        model: The model, changed in place.
        rows: Which rows of the whole batch this process has; the layers read it at every step.
    """
    norms = DeviceNorm if device_of(model).type in WITH_SYNCED_NORMS else SyncedNorm
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if isinstance(layer, _BatchNorm):
                setattr(parent, name, norms(layer, rows))
            elif type(layer) is nn.Dropout:
                setattr(parent, name, WholeDropout(layer, rows))


class WholeDropout(nn.Module):
    """Draws the mask of the whole batch, as one process would, and uses its own rows.

    Args:
        layer: The layer it replaces.
        rows: Which rows of the batch this process has. An input may have several entries per row,
            such as windows of an image, one item after the other.
    """

    def __init__(self, layer: nn.Dropout, rows: Rows) -> None:
        super().__init__()
        self.p, self.rows = layer.p, rows
        self.train(layer.training)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        entries = len(x) // len(self.rows.own)
        shape = (self.rows.total * entries, *x.shape[1:])
        mask = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=_layout(x))
        mask.bernoulli_(1 - self.p)
        own = mask.view(self.rows.total, entries, *x.shape[1:])[self.rows.own].flatten(0, 1)
        dropped: Tensor = x * (own.div_(1 - self.p) if self.p < 1 else own)
        return dropped

    def extra_repr(self) -> str:
        """Shown by `print(model)`."""
        return f"p={self.p}"


def _layout(x: Tensor) -> torch.memory_format:
    """The memory layout, which is the order in which random numbers are drawn."""
    last = x.ndim == 4 and not x.is_contiguous()
    if last and x.is_contiguous(memory_format=torch.channels_last):
        return torch.channels_last
    return torch.contiguous_format


class _WholeNorm(_BatchNorm):
    """Replaces a batch norm, with its weights, statistics and activation.

    Args:
        norm: Any batch norm of torch, or one of timm with an activation.
        rows: Which rows of the batch this process has.
    """

    def __init__(self, norm: _BatchNorm, rows: Rows) -> None:
        super().__init__(
            norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats
        )
        for name, value in (*norm._parameters.items(), *norm._buffers.items()):
            setattr(self, name, value)
        for name, child in norm.named_children():
            self.add_module(name, child)
        self.rows = rows
        self.train(norm.training)

    def forward(self, x: Tensor) -> Tensor:
        """As `nn.BatchNorm2d`; in training with the mean and variance of all processes' rows."""
        output = self._trained(x) if self.training else self._fixed(x)
        for child in self.children():
            output = child(output)
        return output

    def _trained(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must define _trained()")

    def _fixed(self, x: Tensor) -> Tensor:
        statistics = self.running_mean, self.running_var
        untracked = self.running_mean is None
        return functional.batch_norm(
            x, *statistics, self.weight, self.bias, untracked, 0.0, self.eps
        )

    def _check_input_dim(self, input: Tensor) -> None:
        """Accepts any input `[B, C, ...]`."""


class DeviceNorm(_WholeNorm, nn.SyncBatchNorm):
    """`nn.SyncBatchNorm` of torch, which also knows placeholder rows; it needs a GPU."""

    def _trained(self, x: Tensor) -> Tensor:
        if self.rows.counted:
            return nn.SyncBatchNorm.forward(self, x)
        # No rows take part in the exchange; wide, as the statistics of the other processes are.
        none = nn.SyncBatchNorm.forward(self, _wide(x[:0])).to(x.dtype)
        return torch.cat([none, x])


class SyncedNorm(_WholeNorm):
    """The same on CPUs, for which torch has no `SyncBatchNorm`."""

    def _trained(self, x: Tensor) -> Tensor:
        normed, mean, variance, count = _Normed.apply(x, self.weight, self.bias, self)  # type: ignore[no-untyped-call]
        self._update_statistics(mean, variance, int(count))
        output: Tensor = normed
        return output

    @torch.no_grad()
    def _update_statistics(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """Updates the running statistics, if there are any."""
        if self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        momentum = self.momentum
        if momentum is None:  # the average over all batches
            momentum = 1 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
        unbiased = variance * (count / (count - 1))
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), momentum)


class _Normed(torch.autograd.Function):
    """Normalises by the mean and variance of the whole batch, and differentiates through them."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, norm: SyncedNorm
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        values, eps = _wide(x), norm.eps
        # Much faster than `torch.var_mean`.
        _, mean, inverse = torch.native_batch_norm(values, None, None, None, None, True, 0.0, eps)
        variance = (inverse.double() ** -2 - eps).clamp(min=0)
        own = values.numel() // values.shape[1] if norm.rows.counted else 0
        own_moments = torch.cat([mean.double(), variance, variance.new_tensor([own])])
        moments = norm.rows.all_gather(own_moments)
        counts = moments[:, -1:]
        means, variances = moments[:, :-1].chunk(2, dim=1)
        count = counts.sum()
        if count < 2:
            raise ValueError(
                f"batch norm needs more than one value per channel to train, got {tuple(x.shape)}"
            )
        mean = (means * counts).sum(0) / count
        variance = ((variances + (means - mean).square()) * counts).sum(0) / count
        statistics = mean.to(values.dtype), variance.to(values.dtype)
        ctx.save_for_backward(x, weight, *statistics)
        ctx.settings = norm.rows.all_gather, norm.rows.counted, float(count), eps
        ctx.mark_non_differentiable(mean, variance, count)
        normed = functional.batch_norm(values, *statistics, weight, bias, False, 0.0, eps)
        return normed.to(x.dtype), mean, variance, count

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None, None]:
        x, weight, mean, variance = ctx.saved_tensors
        all_gather, counted, count, eps = ctx.settings
        values, factor = _wide(x), torch.ones_like(mean) if weight is None else weight
        # With mean and variance as constants; their dependence on all rows is added below.
        grad_x, grad_weight, grad_bias = torch.ops.aten.native_batch_norm_backward(
            _wide(grads[0]), values, factor, mean, variance, None, None, False, eps, [True] * 3
        )
        gathered = all_gather(torch.cat([grad_bias, grad_weight]))
        mean_bias, mean_weight = (gathered.sum(0) / count).chunk(2)
        scale = (variance + eps).rsqrt()
        slope = factor * scale.square() * mean_weight
        shift = factor * scale * mean_bias - slope * mean
        shape = [1, -1] + [1] * (x.ndim - 2)
        grad_x.addcmul_(values, slope.view(shape), value=-1).sub_(shift.view(shape))
        if not counted:
            grad_x.zero_()  # of a placeholder row
        if weight is None:
            return grad_x.to(x.dtype), None, None, None
        return grad_x.to(x.dtype), grad_weight.to(weight.dtype), grad_bias.to(weight.dtype), None


def _wide(x: Tensor) -> Tensor:
    """At least float32, for the statistics."""
    return x if x.dtype == torch.float64 else x.float()
