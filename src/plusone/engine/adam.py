"""Adam with less to do per step than torch's class, and the same result bit for bit.

A linear layer trained in small batches spends more time in the optimizer's bookkeeping (grouping
tensors, profiler hooks) than in its arithmetic. This class prepares the lists once and calls the
same fused kernel. A test compares it with `torch.optim.Adam(fused=True)`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam


class LeanAdam(torch.optim.Adam):
    """`torch.optim.Adam(fused=True)` for parameters that all get a gradient at every step."""

    def __init__(self, groups: list[dict[str, Any]], lr: float) -> None:
        super().__init__(groups, lr=lr, fused=True)
        for group in self.param_groups:
            # Tables that move row by row have a state of their own, see `RowWise`.
            for parameter in () if group.get("rows") else group["params"]:
                self.state[parameter] = {
                    "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            used = [weight for weight in group["params"] if weight.grad is not None]
            if not used:
                continue
            slots = [self.state[weight] for weight in used]
            grads: list[Tensor] = [weight.grad for weight in used]
            beta1, beta2 = group["betas"]
            adam(
                used,
                grads,
                [slot["exp_avg"] for slot in slots],
                [slot["exp_avg_sq"] for slot in slots],
                [],
                [slot["step"] for slot in slots],
                foreach=False,
                fused=True,
                amsgrad=False,
                beta1=beta1,
                beta2=beta2,
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=False,
            )

    step.hooked = True  # type: ignore[attr-defined]  # torch would wrap it in a profiler scope
