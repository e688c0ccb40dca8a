"""What a method is: the class `Method`, its `Options`, and `MethodInfo`, its row in the table.

A method is one file: a docstring (paper, equations, deviations), its options, its class, and at the
end its `MethodInfo`, which holds everything that other packages ask about it: what to tune, what to
switch off, what was published, whether runs of it can be stacked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, ClassVar, Generic, Literal

import torch
from torch import Tensor, nn
from typing_extensions import TypeVar

from plusone.closed_form.ridge import Ridge, Solution
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.methods._tables import DividedTable, divided, slots_of
from plusone.models.heads import Head, LinearHead
from plusone.probabilities.k import LabelsPerItem
from plusone.types import Batch, Clock, Outputs, Stage, TrainLabels


@dataclass(frozen=True)
class Options:
    """Settings of a method. Subclasses add fields; defaults come from the paper.

    Values that cannot work are best refused in `__post_init__` by a `ValueError`: it is raised
    before anything is trained or written.
    """

    @property
    def gives_maps(self) -> bool:
        """Whether these settings ask for class maps, where `MethodInfo.has_maps` does not."""
        return False

    @property
    def one_phase(self) -> bool:
        """Whether these settings leave out all but the last of `MethodInfo.phases`."""
        return False

    def remarks(self, epochs: Sequence[int]) -> tuple[str, ...]:
        """What a user should know of these settings in stages of so many epochs, as sentences."""
        return ()


O_co = TypeVar("O_co", bound=Options, covariant=True, default=Options)


class Method(nn.Module, Generic[O_co]):
    """One way to learn from incomplete labels. Only `loss` must be written.

    Rules that the contract tests hold every method to:

    - `loss` reads only: called twice it gives the same terms and changes nothing. It reads no value
      on the host (no `.item()`, no `bool(tensor)`).
    - What a method remembers lives in registered buffers or parameters and is written in
      `after_step` or `after_epoch`, so it is saved and resumed without further code.
    - Observed labels never change. Corrections and estimates are the method's own, indexed by
      `batch.index`. Tables with a row for each training item are named in `per_item`, and read and
      written by the functions of `plusone.methods._tables`.

    Runs that differ in their learning rate and seed only can be trained as one stack, if the
    method's `MethodInfo.alone` is None: its `loss` and `penalty` then accept leading dimensions. It
    may have buffers that stay as they were built, the same for all seeds, named in `constants`.

    Args:
        labels: What is known of the training items.
        options: The method's settings.
    """

    views: tuple[str, ...] = ("weak",)
    looks_again: ClassVar[bool] = False  # whether a step looks again, see `look_again`
    teacher: float | None = None  # decay of a moving average of the model, in `batch.teacher`
    lr_mult: ClassVar[float] = 1.0
    name: str = ""  # in the method table; for messages
    fixed: ClassVar[tuple[str, ...]] = ()  # options that cannot change from stage to stage
    per_item: ClassVar[tuple[str, ...]] = ()  # tables with a row for each training item
    constants: ClassVar[tuple[str, ...]] = ()  # buffers that are never written, whatever the seed

    def __init__(self, labels: TrainLabels, options: O_co) -> None:
        super().__init__()
        self.labels = labels
        self.options = options
        self._first_options = options

    def move(self, device: torch.device, *, memory: Literal["device", "host"] = "device") -> None:
        """Moves parameters and buffers to a device.

        Args:
            device: The device.
            memory: "host" leaves the tables `per_item` in the memory of the CPU, where tables
                larger than the memory of the device have room.
        """
        found = filter(None, (slots_of(self, path) for path in self.per_item))
        tables = [(slots, name, slots[name]) for slots, name in found]
        for slots, name, _ in tables if memory == "host" else ():
            slots[name] = None
        self.to(device)
        for slots, name, table in tables:
            if memory == "host":
                slots[name] = table
            elif isinstance(table, DividedTable) and not isinstance(slots[name], DividedTable):
                slots[name] = divided(slots[name], table, table.holder)  # a buffer that moved

    def make_head(self, dim: int) -> Head:
        """The part of the model above the backbone; a linear layer unless overridden.

        Called once, right after the method is built. It is the only place where the feature width
        is known: whatever else needs it (a network of the method's own) is built here too.

        Args:
            dim: Feature width `D`.
        """
        return LinearHead(dim, self.labels.n_classes)

    def log_odds(self, logits: Tensor) -> Tensor:
        """Log-odds of the scores `[..., L]`, what labels are ranked by; the logits by default."""
        return logits

    def probabilities(self, logits: Tensor) -> Tensor:
        """Scores in [0, 1] from logits `[..., L]`, not calibrated."""
        return torch.sigmoid(self.log_odds(logits))

    @property
    def side_information(self) -> str:
        """What the method knows besides inputs and labels, for the record; empty if nothing."""
        return ""

    def remarks(self) -> tuple[str, ...]:
        """What a user should know of the run so far, as sentences; asked after each epoch."""
        return ()

    def begin_training(self, vectors: Callable[[], Tensor]) -> None:
        """Called once before the first epoch that a process trains, also when it resumes.

        What is kept of the vectors is a buffer with `persistent=False`, which no checkpoint needs.

        Args:
            vectors: Gives what the head gets for each training item, float `[N, D]` in the memory
                of the CPU, where `MethodInfo.inputs` is "vectors".
        """

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
        """Named terms; their sum is minimised.

        Args:
            outs: The model's outputs for each view, with logits `[B, L]`. In a stack of R learning
                rates and S seeds they are `[R, S, B, L]`.
            batch: Labels `[B, L]` and index `[B]`; in a stack `[R, S, B, L]` and `[S, B]`.
            clock: Where training is.

        Returns:
            Scalars; in a stack `[R, S]` each.
        """
        raise NotImplementedError(f"{type(self).__name__} must define loss()")

    def look_again(
        self, inputs: Tensor, out: Outputs, observed: Tensor, rows: Tensor | slice
    ) -> Tensor:
        """Inputs of another forward pass without gradients, for methods with `looks_again`.

        So that batch norm does not tell it from the first pass, each view of such a method has a
        forward pass of its own.

        Args:
            inputs: The first view of some items, `[n, ...]`; of several processes, of those that
                this one computes.
            out: Outputs for the first view of the whole batch of B items.
            observed: Labels of the whole batch, `[B, L]`.
            rows: Which items of the batch the inputs are, `[n]`.

        Returns:
            Inputs of the same shape and type. What is made of them is in `batch.again`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define look_again()")

    def solve(
        self, ridge: Ridge, observed: LabelMatrix, estimate: LabelsPerItem | None = None
    ) -> Solution:
        """The linear model that minimises the loss on fixed features, for closed-form methods.

        It changes nothing; it is also called for parts of the items.

        Args:
            ridge: Ridge regression on the vectors of all n items that are learned from.
            observed: Their labels, `[n, L]`, with positives that are answers marked.
            estimate: k with its range, where answers tell it.
        """
        raise NotImplementedError(f"{type(self).__name__} must define solve()")

    def after_solving(self, recovered: Callable[[Tensor], Tensor]) -> None:
        """Called after the head was solved.

        Args:
            recovered: Gives the recovered labels `[b, L]` of training items, int64 `[b]`.
        """

    def penalty(self, head: nn.Module) -> dict[str, Tensor]:
        """Named terms that depend on the head's weights alone.

        Args:
            head: What `make_head` built, or a stack of linear heads: its `weight` is `[..., L, D]`
                and its `bias` `[..., L]`.

        Returns:
            Terms `[...]`, scalars for a single head.
        """
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
class Range:
    """Numbers from `low` to `high` to search, evenly or evenly in their logarithm."""

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True)
class Choice:
    """One of some values to search."""

    values: tuple[Any, ...]


VARIANTS = Choice(("paper", "released"))


@dataclass(frozen=True)
class Part:
    """A row of an ablation: the method with some of its parts switched off.

    Args:
        name: What is left of the method.
        options: Options that switch the rest off.
        method: Another method, where no option does it.
        paper: The row of a published table that it stands for.
        leaves: Options the user gave that have no meaning in this row.
        published: Test mAP in per cent of that row, by data set.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    method: str | None = None
    paper: str = ""
    leaves: tuple[str, ...] = ()
    published: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Whether it is the method itself."""
        return self.method is None and not self.options


@dataclass(frozen=True)
class PublishedFigure:
    """Published mAP in per cent, of ResNet-50.

    Args:
        mode: "linear", "finetune", "linear_init", or "labelwise": fine-tuned with that head.
        source: The paper and its table.
        voc: On VOC 2012; None where the table has no figure.
        coco: On COCO 2014.
        nuswide: On NUS-WIDE.
        cub: On CUB-200-2011.
        options: Options of the method that its usual figures do not have.
        scores: On which labels: those of the test items, or all labels of the training items.
    """

    mode: str
    source: str
    voc: float | None = None
    coco: float | None = None
    nuswide: float | None = None
    cub: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    scores: Literal["test", "training labels"] = "test"


@dataclass(frozen=True)
class MethodInfo(Generic[O_co]):
    """A row of the method table: all facts about a method outside its class.

    Args:
        name: Its short name.
        build: The method class, or a function of (labels, options).
        options: Its options class; field defaults are the method's defaults.
        paper: Where it was published.
        year: When.
        summary: One line for `plusone methods`.
        scheme: Which labels it is meant to see, an observation scheme.
        needs_k: Whether it needs the expected number of positives.
        needs_hints: Whether it needs scores from elsewhere (`TrainLabels.hints`). Without them a
            training is refused; the method itself can be built, for predictions.
        uses_priors: Whether it uses the recipe's `class_priors`.
        inputs: "vectors" if it needs one fixed vector for each item in all stages, "images" if it
            needs images in all of them; others are refused.
        phases: Options that change from one phase of training to the next. A method with two
            phases is trained twice the recipe's epochs, the second time from the best weights of
            the first; in the mode linear_init the linear stage is of the first phase.
        defaults: Recipe settings that differ from the general defaults.
        has_maps: Whether its head gives class maps: where in an image a class is.
        small_rate: Whether on features it is best at a tenth of the learning rate of others.
        closed_form: Whether `Method.solve` replaces gradient steps on fixed features.
        leave_one_out: Whether the predictions `Solution.left_out` are free of an item's own labels,
            so that no folds are needed.
        alone: Why runs of it cannot be trained as one stack; None if they can.
        no_curve: Why its loss is not a function of one label's probability, so that its gradient
            regime cannot be drawn; None if it can.
        summed: Whether its loss is summed over classes, not averaged.
        grid: Alternatives to the default options, each tried beside the defaults by `--tune`.
        search_space: What a search draws options from.
        ablation: The method with its parts switched off, one row each; exactly one row is the
            method itself.
        on_features: What its ablation cannot show on feature vectors, a sentence.
        published: Published figures, one for each mode and table; where one figure is shown, it is
            the first of the mode.
        quick: Options with which a small training of a few epochs shows what it does, for tests.
        title: Its name as papers write it, where that is not the short name in capitals.
    """

    name: str
    build: Callable[[TrainLabels, O_co], Method]
    options: type[O_co]
    paper: str
    year: int
    summary: str
    scheme: str = "single"
    needs_k: bool = False
    needs_hints: bool = False
    uses_priors: bool = False
    inputs: Literal["any", "vectors", "images"] = "any"
    phases: tuple[Mapping[str, Any], ...] = ({},)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    has_maps: bool = False
    small_rate: bool = False
    closed_form: bool = False
    leave_one_out: bool = False
    alone: str | None = None
    no_curve: str | None = None
    summed: bool = False
    grid: Sequence[Mapping[str, Any]] = ()
    search_space: Mapping[str, Range | Choice] = field(default_factory=dict)
    ablation: Sequence[Part] = ()
    on_features: str = ""
    published: Sequence[PublishedFigure] = ()
    quick: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""

    @property
    def written(self) -> str:
        """Its name in tables for people.

        >>> MethodInfo("an_ls", Method, Options, "a paper", 2021, "a method").written
        'AN-LS'
        """
        return self.title or self.name.upper().replace("_", "-")

    @property
    def stacks(self) -> bool:
        """Whether runs of it that differ in rate and seed only can be trained as one stack."""
        return self.alone is None

    def gives_maps(self, options: Mapping[str, Any]) -> bool:
        """Whether its head gives class maps with these options."""
        return self.has_maps or self.make_options(options).gives_maps

    def phases_of(self, options: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
        """Its phases with these options."""
        return self.phases[-1:] if self.make_options(options).one_phase else self.phases

    def trains_on(self, inputs: Iterable[str]) -> bool:
        """Whether it can be trained in stages with these inputs, "features" or "images"."""
        needed = {"vectors": {"features"}, "images": {"images"}}
        return self.inputs == "any" or set(inputs) == needed[self.inputs]

    def make_options(self, values: Mapping[str, Any]) -> O_co:
        """Builds the options, refusing unknown names and values of another type."""
        return make_options(self.options, values, self.name)


def make_options(
    kind: type[O_co], values: Mapping[str, Any], owner: str, what: str = "method"
) -> O_co:
    """Builds the options of a method or a head, refusing unknown names and wrong types."""
    known = {entry.name: entry for entry in dataclasses.fields(kind)}
    for name, value in values.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            meant = f" (did you mean {near[0]}?)" if near else ""
            listed = f"options of {owner}: {', '.join(known)}"
            raise InputError(
                f"unknown {what} option {name!r}{meant}; "
                f"{listed if known else f'{owner} has no options'}"
            )
        default = known[name].default
        if not _fits(value, default):
            raise InputError(f"{what} option {name} cannot be {value!r} (default {default!r})")
    try:
        return kind(**values)
    except ValueError as error:
        raise InputError(f"{what} options: {error}") from None


def _fits(value: object, default: object) -> bool:
    """Whether an option may have this value: whole numbers count as numbers, booleans do not."""
    if default is None or isinstance(default, float):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number or value is default
    return type(value) is type(default)
