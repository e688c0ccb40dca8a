"""Gradient regimes: loss and gradient of one label as functions of its predicted probability.

Chen et al. 2024 (GR), Fig. 1 and Eq. 18; Zhou et al. 2022 (EM), the gradient regime of AN and of
EM. No training is needed: the method is built for one item with `classes` labels, of which the
first is the seen positive. One label is moved through p in (0, 1) while all others stay at the
probability `rest`, and the loss and its derivative with respect to that label's logit are recorded:
once for the seen positive, once for an unobserved label.

How to read the curves:

- They are per label: a mean over items and classes is undone (times `B x L`), a sum over classes
  (`las`, `lasd`, `epr` as in the paper) is kept (times `B`).
- Most losses treat each label independently; then the curves do not depend on `rest`, and the loss
  is the label's own. Where labels interact (`epr`, `ll_r`, `ll_ct`, `ll_cp`, and whatever else
  changes with `rest`), `independent` is False: the derivative is taken while the other labels stay
  at `rest`, and the loss is the integral of that derivative, 0 at p = `rest`. A loss that looks at
  other items of the batch too is found by a second item, whose labels are moved (`of_batch`).
- A method's memory and parameters are those at the start of training: `em_apl` has no soft labels
  yet (its curve is that of `em`), `en` has ranked nothing yet (`an`), `gr_learned` has its initial
  parameters, `en_scl` has no maps yet (its curve is that of `en`). The teacher of `en_cl` and the
  other views of `lasd` agree with the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.methods import METHODS, Method, get_method
from plusone.report.blocks import Drawing, Section
from plusone.report.runs import read_epochs
from plusone.report.style import INK, MUTED, canvas, colours, headline, plain, styled
from plusone.results import Document, Record, RunResult
from plusone.types import Batch, Clock, Outputs, TrainLabels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from plusone.report.material import Group, Material


SHOWN = (0.05, 0.25, 0.5, 0.75, 0.95)  # probabilities for short tables

DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))  # one per epoch shown
METHODS_SHOWN = 6  # in a figure that is made for the report
CURVES_SHOWN = 12
UNKNOWN_EPOCHS = 10  # of a run whose records are gone
CONFIDENT = 0.9  # the probability in the headline
FLAT = 0.005  # a gradient that is rounded to zero


class Side(Record):
    """Loss and d loss / d logit of one label, at each p."""

    loss: tuple[float, ...]
    grad: tuple[float, ...]


class Curve(Record):
    """One method in one epoch.

    Args:
        label: Name of the curve: the method, and the epoch where the curve changes with it.
        epoch: The epoch, from 1.
        options: Options that differ from the defaults.
        independent: Whether the curve is the same whatever the other labels are.
        of_batch: Whether it depends on the other items of the batch; here there are none.
    """

    method: str
    label: str
    epoch: int
    epochs: int
    options: dict[str, Any]
    independent: bool
    of_batch: bool = False
    observed: Side
    unobserved: Side

    @property
    def marked(self) -> str:
        """Its label, with what it leaves out."""
        return self.label + " (alone in its batch)" * self.of_batch


class Gradients(Document):
    """Curves of several methods over the same probabilities; the content of `gradients.json`."""

    kind: ClassVar[str] = "gradients"

    p: tuple[float, ...]
    curves: tuple[Curve, ...]
    classes: int
    k: float
    rest: float


def gradient_curves(
    methods: Sequence[str],
    *,
    at: Sequence[int] = (1,),
    epochs: int = 10,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    classes: int = 20,
    k: float = 1.5,
    rest: float = 0.5,
    points: int = 99,
) -> Gradients:
    """Loss and d loss / d logit against p, for a seen positive and for an unobserved label.

    Args:
        methods: Names in the method table.
        at: Epochs to show, from 1. A curve that is the same in all of them is given once.
        epochs: Epochs of the training, for losses with a schedule.
        options: Method -> options that differ from its defaults.
        classes: Labels of the item; some weights depend on their number.
        k: Expected positives, for methods that ask for them.
        rest: Probability of the other labels, for methods whose labels depend on each other.
        points: Probabilities, evenly spaced inside (0, 1).
    """
    options = options or {}
    for name in (*methods, *options):
        if reason := get_method(name).no_curve:
            able = ", ".join(other for other, info in METHODS.items() if not info.no_curve)
            raise InputError(f"{name} has no such curve: {reason}; these have: {able}")
    if extra := [name for name in options if name not in methods]:
        raise InputError(f"options are given for {', '.join(extra)}, which is not shown")
    for epoch in at:
        if not 1 <= epoch <= epochs:
            raise InputError(f"epoch {epoch} is not one of the epochs 1 to {epochs}")
    if classes < 3 or points < 3 or not 0 < rest < 1:
        raise InputError(
            f"classes = {classes}, points = {points}, rest = {rest:g}: need at least 3 classes and "
            "3 points, and rest between 0 and 1"
        )
    p = torch.arange(1, points + 1, dtype=torch.float64) / (points + 1)
    curves: list[Curve] = []
    for name in dict.fromkeys(methods):
        given = dict(options.get(name, {}))
        method = _build(name, given, classes, k)
        clocks = [Clock(0, epoch - 1, epochs, 0, 1) for epoch in dict.fromkeys(at)]
        try:
            per_epoch = [_curve(method, given, clock, p, rest) for clock in clocks]
        except ValueError as error:  # a loss checks its options when it is first called
            raise InputError(f"the options of {name}: {error}") from error
        curves += _distinct(per_epoch)
    return Gradients(p=tuple(p.tolist()), curves=tuple(curves), classes=classes, k=k, rest=rest)


def at_probabilities(gradients: Gradients, values: Sequence[float]) -> list[float]:
    """The values of a curve at the probabilities `SHOWN`, each at the nearest point of the grid."""
    p = torch.tensor(gradients.p)
    return [values[int((p - value).abs().argmin())] for value in SHOWN]


def _build(name: str, options: Mapping[str, Any], classes: int, k: float) -> Method:
    """The method for one item whose first label is the seen positive."""
    info = get_method(name)
    seen = torch.zeros(1, classes, dtype=torch.int8)
    seen[0, 0] = 1
    labels = TrainLabels(LabelMatrix.from_dense(seen.numpy()), k)
    method = info.build(labels, info.make_options(options)).double()
    method.name = name
    return method


def _curve(method: Method, options: dict[str, Any], clock: Clock, p: Tensor, rest: float) -> Curve:
    seen, unobserved = (_side(method, clock, p, place, rest) for place in (0, 1))
    of_batch = _depends_on_items(method, clock, p[::8], rest)
    return Curve(
        method=method.name,
        label=method.name,
        epoch=clock.epoch + 1,
        epochs=clock.epochs,
        options=options,
        independent=seen[1] and unobserved[1],
        of_batch=of_batch,
        observed=seen[0],
        unobserved=unobserved[0],
    )


def _side(method: Method, clock: Clock, p: Tensor, place: int, rest: float) -> tuple[Side, bool]:
    """The curves of the label at a place, and whether they are independent of the others."""
    scale, few = _scale(method), slice(None, None, 8)
    total, grad = _sweep(method, clock, p, place, rest)
    _, moved = _sweep(method, clock, p[few], place, rest / 2)
    alone = torch.allclose(grad[few], moved, rtol=1e-9, atol=1e-12)
    if alone:
        others = _alike(method, clock, rest)[0] - _own_loss(method, clock, rest, place)
        loss = scale * total - others
    else:
        loss = _integral(scale * grad, p, rest)
    side = Side(loss=tuple(loss.tolist()), grad=tuple((scale * grad).tolist()))
    return side, alone


def _depends_on_items(method: Method, clock: Clock, p: Tensor, rest: float) -> bool:
    """Whether the curves of a label change with another item of its batch."""
    for place in (0, 1):
        low, high = (
            _sweep(method, clock, p, place, rest, other)[1] for other in (rest / 2, (1 + rest) / 2)
        )
        if not torch.allclose(low, high, rtol=1e-9, atol=1e-12):
            return True
    return False


def _sweep(
    method: Method, clock: Clock, p: Tensor, place: int, rest: float, other: float | None = None
) -> tuple[Tensor, Tensor]:
    """The method's loss, and its derivative at one label, for each probability of that label.

    Args:
        method: Built for one item.
        clock: Where training is.
        p: The probabilities.
        place: Which label.
        rest: Probability of the other labels.
        other: Probability of the labels of a second item in the batch; None: there is none.
    """
    observed = torch.from_numpy(method.labels.observed.dense()).double()
    if other is not None:
        observed = observed.repeat(2, 1)
    total, grad = torch.empty_like(p), torch.empty_like(p)
    for number, value in enumerate(torch.logit(p)):
        z = torch.full_like(observed, rest).logit()
        z[0, place] = value
        if other is not None:
            z[1] = torch.full_like(z[1], other).logit()
        loss = _loss(method, z.requires_grad_(), observed, clock)
        total[number] = loss.detach()
        grad[number] = torch.autograd.grad(loss, z)[0][0, place]
    return total, grad


def _alike(method: Method, clock: Clock, p: float) -> tuple[float, float]:
    """The loss of an item whose labels all have probability p: as observed, and all positive."""
    observed = torch.from_numpy(method.labels.observed.dense()).double()
    z = torch.full_like(observed, p).logit()
    with torch.no_grad():
        losses = [_loss(method, z, y, clock) for y in (observed, torch.ones_like(observed))]
    return _scale(method) * losses[0].item(), _scale(method) * losses[1].item()


def _own_loss(method: Method, clock: Clock, p: float, place: int) -> float:
    n_classes = method.labels.n_classes
    together, all_seen = _alike(method, clock, p)
    seen = all_seen / n_classes
    return seen if place == 0 else (together - seen) / (n_classes - 1)


def _integral(grad: Tensor, p: Tensor, start: float) -> Tensor:
    """The integral over the logit of a derivative, from the probability `start`."""
    sums = torch.cumulative_trapezoid(grad, torch.logit(p))
    sums = torch.cat([sums.new_zeros(1), sums])
    return sums - sums[(p - start).abs().argmin()]


def _loss(method: Method, z: Tensor, observed: Tensor, clock: Clock) -> Tensor:
    """The method's loss for one item, with the same logits for all views."""
    outs = tuple(Outputs(z, z.new_zeros(len(z), 1)) for _ in method.views)
    taught = tuple(Outputs(z.detach(), out.features) for out in outs)
    batch = Batch(
        tuple(out.features for out in outs),
        observed,
        torch.zeros(len(z), dtype=torch.int64),
        () if method.teacher is None else taught,
    )
    return torch.stack(list(method.loss(outs, batch, clock).values())).sum()


def _scale(method: Method) -> float:
    """The factor that turns the loss of one item into a sum over its labels."""
    summed = (
        get_method(method.name).summed and getattr(method.options, "variant", "paper") == "paper"
    )
    return 1.0 if summed else float(method.labels.n_classes)


def _distinct(curves: Sequence[Curve]) -> list[Curve]:
    """One curve if all epochs agree, else those that differ, with the epoch in their names."""
    distinct: list[Curve] = []
    for curve in curves:
        if not distinct or curve.unobserved != distinct[-1].unobserved:
            distinct.append(curve)
    if len(distinct) == 1:
        return distinct
    return [
        curve.model_copy(update={"label": f"{curve.method}, epoch {curve.epoch}"})
        for curve in distinct
    ]


def regimes(material: Material) -> Section:
    """Loss and gradient against the probability (GR, Fig. 1; EM)."""
    draws = [partial(gradient_regimes, gradients) for gradients in material.of(Gradients)]
    if not draws and material.groups and (names := _with_curves(material.groups[0])):
        draws = [partial(_of_group, material.groups[0], names)]
    return Section(
        "regimes",
        "Gradient regimes",
        "Loss and gradient d loss / d logit of one label against its predicted probability, for a "
        "seen positive and for an unobserved label (GR, Fig. 1; EM). They follow from the formulas "
        "alone: nothing is trained. A positive gradient pushes the probability down. Losses with a "
        "schedule are shown in the first and in the last epoch. "
        "More: plusone analyse gradients METHOD...",
        tuple(Drawing(f"regimes-{place}", draw) for place, draw in enumerate(draws, start=1)),
    )


def _with_curves(group: Group) -> list[str]:
    """Methods in focus whose loss has such a curve."""
    names = [entry.method for entry in group.focus if not entry.reference]
    able = [name for name in names if name in METHODS and not METHODS[name].no_curve]
    return able[:METHODS_SHOWN]


def _of_group(group: Group, names: list[str]) -> Figure:
    """The figure for the options, classes and epochs of a group's runs."""
    options: dict[str, dict[str, Any]] = {}
    classes, k = 20, 1.5
    epochs = 0
    for name in names:
        entry = group.find(name)
        assert entry is not None
        options[name] = entry.row.options
        for run in entry.runs[:1]:
            epochs = max(epochs, last_stage_epochs(run))
            classes = max(len(run.labels.classes), 3) if run.labels is not None else classes
            k = run.k or k
    epochs = epochs or UNKNOWN_EPOCHS
    return gradient_regimes(
        gradient_curves(
            names,
            at=sorted({1, epochs}),
            epochs=epochs,
            options=options,
            classes=classes,
            k=k,
            points=59,
        )
    )


def last_stage_epochs(run: RunResult) -> int:
    """Epochs of the last stage of a run; 0 if its records are gone."""
    try:
        stages = [epoch.stage for epoch in read_epochs(run)]
    except InputError:
        return 0
    return stages.count(stages[-1]) if stages else 0


@styled
def gradient_regimes(gradients: Gradients) -> Figure:
    """Loss and gradient against the probability, for seen positives and unobserved labels."""
    curves = gradients.curves[:CURVES_SHOWN]
    figure, axes = canvas(5.4, 2, 2, sharex=True)
    ink = colours([curve.method for curve in curves])
    drawn: dict[str, int] = {}
    for curve in curves:
        number = drawn.get(curve.method, 0)
        drawn[curve.method] = number + 1
        look: dict[str, Any] = {
            "color": ink[curve.method],
            "linestyle": DASHES[number % len(DASHES)],
        }
        for column, side in enumerate((curve.observed, curve.unobserved)):
            axes[column].plot(gradients.p, side.loss, label=plain(curve.marked), **look)
            axes[2 + column].plot(gradients.p, side.grad, **look)
    for column, title in enumerate(("Seen positive", "Unobserved label")):
        axes[column].set_title(title)
        axes[column].set_xlim(0, 1)
        axes[2 + column].set_xlabel("predicted probability p")
        axes[2 + column].axhline(0, color=INK, linewidth=0.7)
    _limit(axes[0], [curve.observed.loss for curve in curves])
    _limit(axes[1], [curve.unobserved.loss for curve in curves])
    axes[0].set_ylabel("loss")
    axes[2].set_ylabel("gradient d loss / d logit")
    for word, height, side_ in (("pushes p down", 1.0, "top"), ("pushes p up", 0.0, "bottom")):
        axes[3].text(1.015, height, word, transform=axes[3].transAxes, va=side_, color=MUTED,
                     fontsize=8, rotation=270)  # fmt: skip
    names = axes[0].get_legend_handles_labels()
    figure.legend(*names, loc="outside lower center", ncols=min(4, max(1, len(curves))))
    headline(figure, _finding(gradients))
    return figure


def _limit(axes: Axes, losses: Sequence[Sequence[float]]) -> None:
    """Limits the axis to where most values are: losses are unbounded at p = 0 and 1."""
    values = sorted(value for loss in losses for value in loss)
    if values:
        low, high = values[0], values[min(len(values) - 1, int(0.97 * len(values)))]
        room = 0.06 * (high - low or 1.0)
        axes.set_ylim(low - room, high + room)


def _finding(gradients: Gradients) -> str:
    """Which loss pushes a confident unobserved label down most, and which least."""
    nearest = min(range(len(gradients.p)), key=lambda place: abs(gradients.p[place] - CONFIDENT))
    slopes = sorted(
        (curve.unobserved.grad[nearest], plain(curve.label))
        for curve in gradients.curves[:CURVES_SHOWN]
    )
    if not slopes:
        return "Loss and gradient of a label against its predicted probability"
    (low, least), (high, most) = slopes[0], slopes[-1]
    text = f"An unobserved label at p = {CONFIDENT:g}: {most} {_push(high)}"
    return text if len(slopes) == 1 else f"{text}, {least} {_push(low)}"


def _push(slope: float) -> str:
    if abs(slope) < FLAT:
        return "leaves it alone"
    return f"pushes it {'down' if slope > 0 else 'up'} (gradient {slope:.2f})"
