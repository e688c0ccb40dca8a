"""Group consistency: items of a group should have similar labels; a term beside any method's loss.

Sun, Maji and Van Horn 2025, Merlin L48, NeurIPS Datasets and Benchmarks. For items that
come in groups (clips of a recording, photos of an album), a running mean r_g of the probabilities
of the group's items is a target of each of them:

    a * mean over items and classes of BCE(p against r_g),   then   r_g = (1 - e) r_g + e p

No gradient goes through r_g. Classes that were seen anywhere in a group start at 1, others at 0.5,
the mean of the published start. The items of a group in one batch count together, so that their
order does not matter: r_g keeps (1 - e)^m of itself where there are m of them.

It is the recipe's `group_weight` (a, 0 is off) and `group_rate` (e).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from plusone.errors import InputError
from plusone.inputs.task import Task, numbered_groups
from plusone.losses import reduce
from plusone.losses._logits import log_probabilities
from plusone.recipe import Recipe
from plusone.types import Batch, TrainLabels

START = 0.5


def group_consistency(task: Task, recipe: Recipe, labels: TrainLabels) -> GroupConsistency:
    """The recipe's `group_weight` as a term of the loss."""
    numbers = numbered_groups([task.train])
    if numbers is None:
        raise InputError(
            f"group_weight = {recipe.group_weight:g} needs groups, and {task.name} has no group "
            "column; docs/data.md describes it"
        )
    return GroupConsistency(labels, numbers, weight=recipe.group_weight, rate=recipe.group_rate)


class GroupConsistency(nn.Module):
    """The running mean of each group.

    Args:
        labels: What is known of the training items.
        numbers: The group of each training item, int64 `[N]`, from 0.
        weight: a.
        rate: e.
    """

    def __init__(
        self, labels: TrainLabels, numbers: Tensor, *, weight: float, rate: float = 0.001
    ) -> None:
        super().__init__()
        self.weight, self.rate = weight, rate
        self.means: Tensor
        self.numbers: Tensor
        seen = torch.from_numpy(labels.observed.row_of_entry()[labels.observed.values == 1]).long()
        classes = torch.from_numpy(labels.observed.indices[labels.observed.values == 1]).long()
        means = torch.full((int(numbers.max()) + 1, labels.n_classes), START)
        means[numbers[seen], classes] = 1.0
        self.register_buffer("means", means)
        self.register_buffer("numbers", numbers, persistent=False)  # known from the data

    def loss(self, log_odds: Tensor, batch: Batch) -> Tensor:
        """The term, a scalar.

        Args:
            log_odds: Log-odds of the labels, `[B, L]`.
            batch: The items.
        """
        target = self.means[self.numbers[batch.index]]
        log_p, log_not_p = log_probabilities(log_odds)
        return self.weight * reduce(-target * log_p - (1 - target) * log_not_p)

    def after_step(self, p: Tensor, batch: Batch) -> None:
        """Moves the means of the groups in the batch towards the probabilities `[B, L]`."""
        of = self.numbers[batch.index]
        counts = torch.zeros(len(self.means), device=p.device).index_add(0, of, p.new_ones(len(of)))
        sums = torch.zeros_like(self.means).index_add(0, of, p.to(self.means.dtype))
        kept = (1 - self.rate) ** counts[:, None]
        new = torch.lerp(sums / counts[:, None].clamp(min=1), self.means, kept)
        self.means.copy_(torch.where(counts[:, None] > 0, new, self.means))
