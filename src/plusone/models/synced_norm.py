"""Batch norm with the statistics of the whole batch, where several processes share it.

Torch's `SyncBatchNorm` needs a GPU. Here each process measures count, mean and squared deviation of
its own rows; these are exchanged and combined (Chan et al. 1979), which loses no digits where a
mean is far from zero. Going back, two sums per channel are exchanged.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from plusone.models.rows import Rows


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
