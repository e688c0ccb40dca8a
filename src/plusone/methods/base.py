"""`Method`: what a training procedure adds to a model. The engine knows nothing else of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from plusone.errors import InputError
from plusone.models.heads import Head, LinearHead
from plusone.types import Batch, Clock, Outputs, Stage, TrainLabels


@dataclass(frozen=True)
class Options:
    """Settings of a method. Subclasses add fields; defaults come from the paper.

    Values that cannot work are best refused in `__post_init__` by a `ValueError`: it is raised
    before anything is trained or written.
    """


class Method(nn.Module):
    """One way to learn from incomplete labels. Only `loss` must be written.

    Rules that the contract tests hold every method to:

    - `loss` reads only: called twice it gives the same terms and changes nothing.
    - What a method remembers lives in registered buffers or parameters and is written in
      `after_step` or `after_epoch`, so it is saved and resumed without further code.
    - Observed labels never change. Corrections and estimates are the method's own, found by
      `batch.index`.

    Args:
        labels: What is known of the training items.
        options: The method's settings.
    """

    views: tuple[str, ...] = ("weak",)
    teacher: float | None = None  # decay of a moving average of the model, in `batch.teacher`
    lr_mult: ClassVar[float] = 1.0
    name: str = ""  # in the method table; for messages
    fixed: ClassVar[tuple[str, ...]] = ()  # options that cannot change from stage to stage

    def __init__(self, labels: TrainLabels, options: Options) -> None:
        super().__init__()
        self.labels = labels
        self.options: Any = options
        self._first_options: Any = options

    def make_head(self, dim: int) -> Head:
        """The part of the model above the backbone; a linear layer unless overridden."""
        return LinearHead(dim, self.labels.n_classes)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Scores in [0, 1] from logits `[B, L]`, used for ranking and thresholds."""
        return torch.sigmoid(logits)

    def begin_stage(self, stage: Stage) -> None:
        """Called before a stage starts; lays the stage's options over the recipe's."""
        for name in self.fixed:
            first = getattr(self._first_options, name)
            if stage.options.get(name, first) != first:
                raise InputError(
                    f"the option {name} of {self.name} cannot change from stage to stage; set it "
                    "for the whole recipe"
                )
        self.options = dataclasses.replace(self._first_options, **stage.options)

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        """Named scalar terms, one `Outputs` per view. The engine minimises their sum."""
        raise NotImplementedError(f"{type(self).__name__} must define loss()")

    def penalty(self, head: nn.Module) -> dict[str, Tensor]:
        """Named scalar terms that depend on the head's weights alone."""
        return {}

    def after_step(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> None:
        """Called after each optimizer step, without gradients."""

    def after_epoch(self, clock: Clock, predict: Callable[[], Tensor]) -> None:
        """Called after each epoch; `predict()` gives the training logits `[N, L]` on demand."""

    def estimates(self, rows: Tensor | None = None) -> Tensor | None:
        """The method's own estimate of the training labels `[N, L]`, if it keeps one.

        Args:
            rows: Which training items, int64 `[N]`; None for all.
        """
        return None


@dataclass(frozen=True)
class MethodInfo:
    """A row of the method table.

    Args:
        build: The method class, or a function of (labels, options).
        options: Its options class; field defaults are the method's defaults.
        paper: Where it was published.
        year: When.
        summary: One line for `plusone methods`.
        scheme: Which labels it is meant to see, an observation scheme.
        needs_k: Whether it needs the expected number of positives.
        phases: Options that change from one phase of training to the next. A method with two
            phases is trained twice the recipe's epochs, the second time from the best weights of
            the first; in the mode linear_init the linear stage is of the first phase.
        defaults: Recipe settings that differ from the general defaults.
    """

    build: Callable[[TrainLabels, Any], Method]
    options: type[Options]
    paper: str
    year: int
    summary: str
    scheme: str = "single"
    needs_k: bool = False
    phases: tuple[Mapping[str, Any], ...] = ({},)
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def make_options(self, values: Mapping[str, Any]) -> Options:
        """Builds the options, refusing unknown names and values of another type."""
        known = {entry.name: entry for entry in dataclasses.fields(self.options)}
        for name, value in values.items():
            if name not in known:
                listed = ", ".join(known) or "it has none"
                raise InputError(f"unknown method option {name!r}; options: {listed}")
            default = known[name].default
            if not _fits(value, default):
                raise InputError(f"method option {name} cannot be {value!r} (default {default!r})")
        try:
            return self.options(**values)
        except ValueError as error:
            raise InputError(f"method options: {error}") from None


def _fits(value: object, default: object) -> bool:
    """Whether an option may have this value: whole numbers count as numbers, booleans do not."""
    if default is None or isinstance(default, float):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number or value is default
    return type(value) is type(default)
