"""One optimizer step: forward, `Method.loss`, backward, optimizer, `Method.after_step`.

Every path of training goes through `training_step`: images, features, tokens, several processes,
and stacks of linear heads (`plusone.training.linear`). It reads no value on the host; loss terms
stay on the device until `LossMeter` looks at many of them at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.optim import Optimizer

from plusone.errors import DivergedError, InputError
from plusone.losses import weigh_negatives
from plusone.methods.base import Method
from plusone.models.heads import Head
from plusone.parallel.processes import is_main_process
from plusone.types import Batch, Clock, Outputs

if TYPE_CHECKING:
    from plusone.parallel.sharing import Sharing

Forward = Callable[[Tensor], Outputs]
Loss = Callable[[tuple[Outputs, ...], Batch, Clock], dict[str, Tensor]]
Terms = Mapping[str, Tensor]

STEPS_BETWEEN_CHECKS = 64
SMALL_STEP = 1 << 24  # multiplications


def training_step(
    forward: Forward,
    head: Head,
    method: Method,
    optimizer: Optimizer,
    batch: Batch,
    clock: Clock,
    *,
    loss: Loss | None = None,
    sharing: Sharing | None = None,
    weigh: bool = False,
) -> Terms:
    """Minimises the sum of the method's loss terms by one step.

    Args:
        forward: The model; or `head` itself, if only the head is trained.
        head: The model's head, or a stack of heads.
        method: Gives the loss.
        optimizer: Holds the parameters that are trained.
        batch: The data. Where several processes train, its views hold this process's rows.
        clock: Where training is.
        loss: A compiled `method.loss`.
        sharing: How several processes divide a batch.
        weigh: Whether seen negatives are weighted, see `plusone.losses.weighting`.

    Returns:
        The loss terms, detached: scalars, or `[R, S]` for a stack of runs.
    """
    views = batch.views
    if forward is head and head.deterministic and all(view is views[0] for view in views):
        views = views[:1]  # views of a feature vector are one and the same
    division = sharing.begin_step(len(batch.index), len(views)) if sharing else None
    outputs = forward(torch.cat(views) if len(views) > 1 else views[0])
    outs = split_views(division.whole(outputs) if division else outputs, len(views))
    outs *= len(batch.views) // len(views)
    charged = batch
    if weigh:
        p = method.probabilities(outs[0].logits.detach())
        charged = replace(batch, observed=weigh_negatives(p, batch.observed))
    terms = (loss or method.loss)(outs, charged, clock)
    penalties = method.penalty(head)
    # Every process computes the same loss; what depends on the weights alone counts once.
    minimised = terms | penalties if is_main_process() else terms
    optimizer.zero_grad()
    torch.autograd.backward([term.sum() for term in minimised.values() if term.requires_grad])
    if sharing:
        sharing.add_gradients(optimizer, method)
    optimizer.step()
    with torch.no_grad():
        method.after_step(outs, batch, clock)
    return {name: term.detach() for name, term in (terms | penalties).items()}


def split_views(outputs: Outputs, n_views: int) -> tuple[Outputs, ...]:
    """One `Outputs` per view from the outputs of all views, concatenated."""
    if n_views == 1:
        return (outputs,)
    parts = (outputs.logits, outputs.features, outputs.embeddings, outputs.maps)
    chunks = [[None] * n_views if x is None else torch.chunk(x, n_views) for x in parts]
    return tuple(Outputs(*view) for view in zip(*chunks, strict=True))


class LossMeter:
    """Means of the loss terms over an epoch; refuses values that are not finite.

    Args:
        runs: The name of each run, for messages; one, or as many as a stack has.
        epoch: The epoch, from 1, for messages.
    """

    def __init__(self, runs: Sequence[str], epoch: int) -> None:
        self.runs, self.epoch = runs, epoch
        self.steps = 0
        self._sums: dict[str, Tensor] = {}
        self._recent: list[Terms] = []

    def add(self, terms: Terms) -> None:
        """Takes the terms of the next step; looks at their values once in a while.

        Raises:
            DivergedError: A term of this or an earlier step is not finite.
        """
        self._recent.append(terms)
        if len(self._recent) == STEPS_BETWEEN_CHECKS:
            self._check()

    def means(self) -> list[dict[str, float]]:
        """The mean of each term over the steps, for each run.

        Raises:
            DivergedError: A term is not finite.
        """
        self._check()
        return [
            {name: float(total[run]) / self.steps for name, total in self._sums.items()}
            for run in range(len(self.runs))
        ]

    def _check(self) -> None:
        by_name: dict[str, list[Tensor]] = defaultdict(list)
        for terms in self._recent:
            for name, term in terms.items():
                by_name[name].append(term.reshape(-1))
        for name, values in by_name.items():
            table = torch.stack(values).cpu().double()  # [steps, runs]
            if not table.isfinite().all():
                self._refuse()
            self._sums[name] = self._sums.get(name, 0.0) + table.sum(0)
        self.steps += len(self._recent)
        self._recent.clear()

    def _refuse(self) -> None:
        """Names the first step, and the run in it, with a term that is not finite."""
        for number, terms in enumerate(self._recent):
            values = {name: term.reshape(-1).cpu() for name, term in terms.items()}
            finite = torch.stack([value.isfinite() for value in values.values()]).all(0)
            if not finite.all():
                run = int(finite.int().argmin())
                shown = {name: float(value[run]) for name, value in values.items()}
                raise DivergedError(
                    f"a loss term of {self.runs[run]} is not finite in epoch {self.epoch}, batch "
                    f"{self.steps + number + 1}: {shown}"
                )


@contextmanager
def refusing_options(method: str, clock: Clock) -> Iterator[None]:
    """Turns a `ValueError` of the first step, the first to see the options, into a message."""
    try:
        yield
    except ValueError as error:
        if clock.epoch or clock.step or isinstance(error, InputError):
            raise
        raise InputError(f"the options of {method}: {error}") from error


@contextmanager
def suitable_threads(work: int | None, requested: int | None) -> Iterator[None]:
    """Sets torch's number of threads inside the block.

    Small steps (a linear layer on a small batch) run on one thread: dividing them costs more than
    it saves, and far more when other processes use the cores.

    Args:
        work: Multiplications of one step, roughly; None where they are many.
        requested: The number in the recipe; it takes precedence.
    """
    before = torch.get_num_threads()
    threads = requested or (1 if work is not None and work < SMALL_STEP else before)
    try:
        if threads != before:
            torch.set_num_threads(threads)
        yield
    finally:
        if threads != before:
            torch.set_num_threads(before)
