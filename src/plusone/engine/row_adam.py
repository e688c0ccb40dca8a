"""Adam for tables of which a step uses only a few rows.

Dense Adam reads and writes a whole `[N, r]` table at every step and keeps two more of its size.
Here a step touches the rows that occur in the batch and nothing else: its cost does not grow with
N, and the state is one table (the first moment) and two numbers per row.

How it differs from dense Adam:

- A row that is not in the batch stays as it is. Dense Adam lets it drift on with its momentum, so
  there one visit moves a row over several steps. Moments decay per visit, not per step.
- The bias correction of a row counts the visits of this row, not the steps of the training.
- The second moment is one number per row, the running mean of the mean square of its gradient. A
  row moves along its averaged gradient; dense Adam rescales every entry by itself.

For a table with one column whose rows all occur at every step it is dense Adam.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from plusone.engine.adam import LeanAdam

BETAS = (0.9, 0.999)
EPS = 1e-8


def row_state(table: Tensor) -> dict[str, Tensor]:
    """The state of a table `[N, r]` that has not moved yet.

    Returns:
        `step` `[N]`, visits of each row; `exp_avg` `[N, r]` and `exp_avg_sq` `[N]`, the moments.
    """
    return {
        "step": table.new_zeros(len(table)),
        "exp_avg": torch.zeros_like(table),
        "exp_avg_sq": table.new_zeros(len(table)),
    }


@torch.no_grad()
def update_rows(table: Tensor, grad: Tensor, state: dict[str, Tensor], lr: float) -> None:
    """Moves the rows that have a gradient, and their state, in place.

    Args:
        table: `[N, r]`.
        grad: Its sparse gradient; a row may occur more than once.
        state: What `row_state` made.
        lr: Learning rate.
    """
    grad = grad.coalesce()
    rows, slope = grad.indices()[0], grad.values()
    first, second = BETAS
    count = state["step"][rows] + 1
    mean = torch.lerp(state["exp_avg"][rows], slope, 1 - first)
    square = torch.lerp(state["exp_avg_sq"][rows], slope.square().mean(1), 1 - second)
    scale = (square / (1 - second**count)).sqrt_().add_(EPS).mul_(1 - first**count)
    state["step"].index_copy_(0, rows, count)
    state["exp_avg"].index_copy_(0, rows, mean)
    state["exp_avg_sq"].index_copy_(0, rows, square)
    table.index_add_(0, rows, mean / scale[:, None], alpha=-lr)


class RowWise(Optimizer):
    """Gives another optimizer row-wise updates for its parameter groups marked `rows`."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for table in group["params"] if group.get("rows") else ():
                if table.grad is None:
                    continue
                if not self.state[table]:
                    self.state[table] = row_state(table)
                update_rows(table, table.grad, self.state[table], group["lr"])
                table.grad = None  # so that the other optimizer leaves it alone
        super().step()

    step.hooked = True  # type: ignore[attr-defined]  # as in `LeanAdam`


class RowAdam(RowWise, LeanAdam):
    """`LeanAdam`, and row-wise updates for the groups marked `rows`."""


class RowAdamW(RowWise, torch.optim.AdamW):
    """`torch.optim.AdamW`, and row-wise updates (without decay) for the groups marked `rows`."""
