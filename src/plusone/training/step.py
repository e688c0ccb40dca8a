"""One optimizer step: forward, `Method.loss`, backward, optimizer, `Method.after_step`.

Every path of training goes through `training_step`: images, features, tokens, several processes,
and stacks of linear heads (`plusone.training.stack`). It reads no value on the host; loss terms
stay on the device until `LossMeter` looks at many of them at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from plusone.errors import DivergedError, InputError
from plusone.losses import weigh_negatives, weigh_unobserved
from plusone.losses._logits import known_labels
from plusone.methods._base import Method
from plusone.models.heads import Head
from plusone.recipe import Recipe
from plusone.seeds import drawn_again
from plusone.training.group_consistency import GroupConsistency
from plusone.training.pieces import Pieces, forward_views, keeping_buffers
from plusone.types import Batch, Clock, Outputs, Stage

if TYPE_CHECKING:
    from plusone.parallel.ddp import Ranks

Loss = Callable[[tuple[Outputs, ...], Batch, Clock], dict[str, Tensor]]
Terms = Mapping[str, Tensor]

STEPS_BETWEEN_CHECKS = 64


@dataclass(frozen=True)
class Gradients:
    """How the gradients of a step are computed and applied.

    Args:
        pieces: How many pieces a batch is forwarded and differentiated in.
        clip: Highest norm of the gradient of the model; None leaves it as it is.
        scaler: Scales the loss, so that gradients in float16 do not become 0, and leaves out steps
            whose gradient is not finite.
        recomputes: Whether the backward pass computes activations of the model again.
    """

    pieces: int = 1
    clip: float | None = None
    scaler: GradScaler | None = None
    recomputes: bool = False

    @classmethod
    def of(
        cls, recipe: Recipe, stage: Stage, device: torch.device, *, of_backbone: bool
    ) -> Gradients:
        """Those of a stage.

        Args:
            recipe: The settings.
            stage: The stage.
            device: Where it trains.
            of_backbone: Whether it trains a backbone.
        """
        scales = recipe.precision == "fp16" and of_backbone
        return cls(
            pieces=recipe.accumulate if stage.inputs == "images" else 1,
            clip=recipe.clip,
            scaler=GradScaler(device.type) if scales else None,
            recomputes=recipe.checkpoint_activations and of_backbone,
        )

    def compute(
        self,
        losses: list[Tensor],
        model: nn.Module,
        pieces: Pieces | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        """Differentiates the sum of the losses.

        Args:
            losses: Scalars.
            model: What was forwarded.
            pieces: The first pass, if the batch was forwarded in pieces.
            ranks: The ranks that train together.
        """
        scaled = losses if self.scaler is None else self.scaler.scale(losses)
        if pieces is not None:
            torch.autograd.backward(scaled)
            pieces.backward(recomputes=self.recomputes)
            return
        backward = ranks.backward if ranks else torch.autograd.backward
        if not self.recomputes:
            backward(scaled)
            return
        with keeping_buffers(model):
            backward(scaled)

    def apply(self, optimizer: Optimizer, model: nn.Module) -> None:
        """One step of the optimizer."""
        if self.clip is not None:
            if self.scaler is not None:
                self.scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), self.clip)
        if self.scaler is None:
            optimizer.step()
        else:
            self.scaler.step(optimizer)
            self.scaler.update()


WHOLE_BATCH = Gradients()


def training_step(
    forward: nn.Module,
    head: Head,
    method: Method,
    optimizer: Optimizer,
    batch: Batch,
    clock: Clock,
    *,
    loss: Loss | None = None,
    ranks: Ranks | None = None,
    weigh: bool = False,
    missed: Tensor | None = None,
    groups: GroupConsistency | None = None,
    gradients: Gradients = WHOLE_BATCH,
) -> Terms:
    """Minimises the sum of the method's loss terms by one step.

    Args:
        forward: The model; or `head` itself, if only the head is trained.
        head: The model's head, or a stack of heads.
        method: Gives the loss.
        optimizer: Holds the parameters that are trained.
        batch: The data. Where several ranks train together, its views hold the rows of this one.
        clock: Where training is.
        loss: A compiled `method.loss`.
        ranks: The ranks that train together.
        weigh: Whether seen negatives are weighted, see `plusone.losses.weighting`.
        missed: Probability that each label of the training items is there although it was not
            named, `[N, L]`; unobserved labels weigh less where it is given.
        groups: A term beside the method's loss for items that belong together.
        gradients: How gradients are computed and applied.

    Returns:
        The loss terms, detached: scalars, or `[R, S]` for a stack of runs.
    """
    views = batch.views
    if forward is head and head.deterministic and all(view is views[0] for view in views):
        views = views[:1]  # views of a feature vector are one and the same
    number, apart = gradients.pieces, method.looks_again  # views as the second pass is: alone
    pieces = Pieces(forward, views, number, ranks, apart=apart) if number > 1 else None
    outs = (
        pieces.outs
        if pieces is not None
        else forward_views(forward, views, ranks=ranks, apart=apart)
    )
    if missed is not None:
        rows = missed[batch.index]
        outs = tuple(
            replace(out, logits=weigh_unobserved(out.logits, batch.observed, rows)) for out in outs
        )
    outs *= len(batch.views) // len(views)
    if method.looks_again:
        again = look_again(forward, method, batch, outs[0], number, ranks)
        batch = replace(batch, again=again)
    charged = batch
    if weigh:
        p = method.probabilities(outs[0].logits.detach())
        charged = replace(batch, observed=weigh_negatives(p, batch.observed))
    with known_labels():
        terms = (loss or method.loss)(outs, charged, clock) | method.penalty(head)
    if groups is not None:
        terms["groups"] = groups.loss(method.log_odds(outs[0].logits), batch)
    optimizer.zero_grad()
    losses = [term.sum() for term in terms.values() if term.requires_grad]
    gradients.compute(losses, forward, pieces, ranks)
    gradients.apply(optimizer, forward)
    with torch.no_grad():
        method.after_step(outs, batch, clock)
        if groups is not None:
            groups.after_step(method.probabilities(outs[0].logits), batch)
    return {name: term.detach() for name, term in terms.items()}


@torch.no_grad()
def look_again(
    forward: nn.Module,
    method: Method,
    batch: Batch,
    out: Outputs,
    pieces: int = 1,
    ranks: Ranks | None = None,
) -> Outputs:
    """Outputs for the inputs that a method derives from the first view and its outputs.

    They leave no trace in the model: its statistics of batches are those of the views alone.

    Args:
        forward: The model.
        method: Its `look_again` gives the inputs.
        batch: The data.
        out: The outputs of the first view.
        pieces: How many pieces the batch is forwarded in.
        ranks: The ranks that train together.
    """
    view, rows = batch.views[0], slice(None) if ranks is None else ranks.own_rows()
    with drawn_again(view.device), keeping_buffers(forward):
        inputs = method.look_again(view, out, batch.observed, rows)
        return forward_views(forward, (inputs,), pieces, ranks)[0]


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
