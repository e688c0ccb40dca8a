"""Layers that look beyond one row, where several processes share a batch.

Batch norms measure the whole batch, and dropout draws its chance for the whole batch. A process has
only some of its rows; layers made for that give these rows the values that one process would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm


@dataclass
class Rows:
    """The rows of the present step; whoever trains sets them before each.

    Args:
        stacked: Gives the tensors of all processes, equally large, as `[processes, ...]`.
        own: This process's rows among all, int64 `[m]`.
        total: How many rows there are in all.
        counted: False if the process has no rows, and a row that counts for nothing stands in.
    """

    stacked: Callable[[Tensor], Tensor]
    own: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    total: int = 0
    counted: bool = True


class WholeDropout(nn.Module):
    """Draws for the whole batch, as `nn.Dropout` would in one process, and uses its own rows.

    Args:
        layer: The layer whose place it takes.
        rows: Which rows of the batch this process has. An input may have several entries in a row,
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
        noise = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=_order(x))
        noise.bernoulli_(1 - self.p)
        mine = noise.view(self.rows.total, entries, *x.shape[1:])[self.rows.own].flatten(0, 1)
        kept: Tensor = x * (mine.div_(1 - self.p) if self.p < 1 else mine)
        return kept

    def extra_repr(self) -> str:
        """Shown by `print(model)`."""
        return f"p={self.p}"


def _order(x: Tensor) -> torch.memory_format:
    """How the numbers lie in memory, which is the order in which chance is drawn for them."""
    last = x.ndim == 4 and not x.is_contiguous()
    if last and x.is_contiguous(memory_format=torch.channels_last):
        return torch.channels_last
    return torch.contiguous_format


class SyncedNorm(_BatchNorm):
    """Takes the place of a batch norm, with its weights, its statistics and what it does after.

    Args:
        norm: The layer: any batch norm of torch, or one of timm with an activation behind it.
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
        """As `nn.BatchNorm2d`; in training with the mean and spread of all processes' rows."""
        if self.training:
            found, mean, spread, count = _Normed.apply(x, self.weight, self.bias, self)  # type: ignore[no-untyped-call]
            self._keep(mean, spread, int(count))
        else:
            kept = self.running_mean, self.running_var
            untracked = self.running_mean is None
            found = functional.batch_norm(
                x, *kept, self.weight, self.bias, untracked, 0.0, self.eps
            )
        for child in self.children():
            found = child(found)
        normed: Tensor = found
        return normed

    @torch.no_grad()
    def _keep(self, mean: Tensor, spread: Tensor, count: int) -> None:
        """Moves the running statistics, if there are any."""
        if self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        share = self.momentum
        if share is None:  # the plain average of all batches
            share = 1 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        unbiased = spread * (count / (count - 1))
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)

    def _check_input_dim(self, input: Tensor) -> None:
        """Any input `[B, C, ...]` will do."""


class _Normed(torch.autograd.Function):
    """Normalises by mean and spread of the whole batch, and knows that they depend on it."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, norm: SyncedNorm
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        values, eps = _wide(x), norm.eps
        # Torch's own kernel measures far faster than `torch.var_mean`.
        _, mean, inverse = torch.native_batch_norm(values, None, None, None, None, True, 0.0, eps)
        spread = (inverse.double() ** -2 - eps).clamp(min=0)
        own = values.numel() // values.shape[1] if norm.rows.counted else 0
        told = torch.cat([mean.double(), spread, spread.new_tensor([own])])
        told = norm.rows.stacked(told)
        counts = told[:, -1:]
        means, spreads = told[:, :-1].chunk(2, dim=1)
        count = counts.sum()
        if count < 2:
            raise ValueError(
                f"batch norm cannot measure a batch of one value per channel, {tuple(x.shape)}"
            )
        mean = (means * counts).sum(0) / count
        spread = ((spreads + (means - mean).square()) * counts).sum(0) / count
        measured = mean.to(values.dtype), spread.to(values.dtype)
        ctx.save_for_backward(x, weight, *measured)
        ctx.about = norm.rows.stacked, norm.rows.counted, float(count), eps
        ctx.mark_non_differentiable(mean, spread, count)
        found = functional.batch_norm(values, *measured, weight, bias, False, 0.0, eps)
        return found.to(x.dtype), mean, spread, count

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None, None]:
        x, weight, mean, spread = ctx.saved_tensors
        stacked, counted, count, eps = ctx.about
        values, factor = _wide(x), torch.ones_like(mean) if weight is None else weight
        # As if mean and spread were constants; they depend on all rows, which is added below.
        back, along, total = torch.ops.aten.native_batch_norm_backward(
            _wide(slopes[0]), values, factor, mean, spread, None, None, False, eps, [True] * 3
        )
        total_mean, along_mean = (stacked(torch.cat([total, along])).sum(0) / count).chunk(2)
        scale = (spread + eps).rsqrt()
        tilt = factor * scale.square() * along_mean
        shift = factor * scale * total_mean - tilt * mean
        wide = [1, -1] + [1] * (x.ndim - 2)
        back.addcmul_(values, tilt.view(wide), value=-1).sub_(shift.view(wide))
        if not counted:
            back.zero_()  # a row that stands in for none
        if weight is None:
            return back.to(x.dtype), None, None, None
        return back.to(x.dtype), along.to(weight.dtype), total.to(weight.dtype), None


def _wide(x: Tensor) -> Tensor:
    """At least float32, in which statistics are measured."""
    return x if x.dtype == torch.float64 else x.float()


def see_whole_batch(model: nn.Module, rows: Rows) -> None:
    """Replaces the batch norms and the dropout of a model; names and weights stay the same.

    Covered are batch norms of all dimensions, with those of timm that have an activation behind
    them, and `nn.Dropout`. Other layers with chance draw for each process on its own.

    Args:
        model: The model, changed in place.
        rows: Which rows of the whole batch this process has; the layers look it up at every step.
    """
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if isinstance(layer, _BatchNorm):
                setattr(parent, name, SyncedNorm(layer, rows))
            elif type(layer) is nn.Dropout:
                setattr(parent, name, WholeDropout(layer, rows))
