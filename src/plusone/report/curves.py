"""Learning curves: validation mAP, losses and probes per epoch, averaged over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from plusone.errors import InputError
from plusone.report.blocks import Drawing, Section
from plusone.report.material import Group, Material
from plusone.report.overview import result
from plusone.report.runs import Repeated, by_seed, mean_and_sd, read_epochs
from plusone.report.style import (
    INK,
    NAN,
    Line,
    canvas,
    draw_lines,
    grey_note,
    headline,
    plain,
    styled,
)
from plusone.results import EpochRecord, RunResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Average:
    """One quantity per epoch, averaged over seeds.

    Args:
        mean: Mean over the seeds that reached the epoch and have a value there; None without any.
        sd: Standard deviation over them; None for fewer than two.
    """

    mean: tuple[float | None, ...]
    sd: tuple[float | None, ...]


@dataclass(frozen=True)
class LearningCurve(Repeated):
    """Runs that differ by their seed alone, epoch by epoch.

    Args:
        stage: Stage of each epoch, from 0; epochs are numbered through all stages.
        reached: How many of the runs reached each epoch.
        losses: Each loss term, and their sum as "total" where there are several.
        distance: Wasserstein distance between hidden positives and true negatives.
    """

    stage: tuple[int, ...]
    reached: tuple[int, ...]
    val_map: Average
    losses: dict[str, Average]
    distance: Average

    @property
    def epochs(self) -> tuple[int, ...]:
        """1, 2, ... up to the last epoch."""
        return tuple(range(1, len(self.stage) + 1))


def learning_curves(results: Iterable[RunResult]) -> list[LearningCurve]:
    """One curve per method and setting, over all its seeds."""
    return [_curve(group) for group in by_seed(results)]


def _curve(group: list[RunResult]) -> LearningCurve:
    runs = [read_epochs(result) for result in group]
    longest = max(runs, key=len)
    terms = dict.fromkeys(name for run in runs for epoch in run for name in epoch.losses)
    losses = {
        name: _average([[epoch.losses.get(name) for epoch in run] for run in runs])
        for name in terms
    }
    if len(terms) > 1:
        losses["total"] = _average([[_total(epoch) for epoch in run] for run in runs])
    return LearningCurve(
        **Repeated.fields(group),
        stage=tuple(epoch.stage for epoch in longest),
        reached=tuple(sum(len(run) > place for run in runs) for place in range(len(longest))),
        val_map=_average([[epoch.val_map for epoch in run] for run in runs]),
        losses=losses,
        distance=_average(
            [[epoch.probe.distance if epoch.probe else None for epoch in run] for run in runs]
        ),
    )


def _average(runs: Sequence[Sequence[float | None]]) -> Average:
    """Mean and standard deviation per epoch; runs may end early and lack values."""
    mean: list[float | None] = []
    sd: list[float | None] = []
    for place in range(max(map(len, runs))):
        values = [run[place] for run in runs if len(run) > place]
        known = [value for value in values if value is not None]
        mean_here, sd_here = mean_and_sd(known) if known else (None, None)
        mean.append(mean_here)
        sd.append(sd_here)
    return Average(tuple(mean), tuple(sd))


def _total(epoch: EpochRecord) -> float | None:
    """The sum of the loss terms; None if one of them was not finite."""
    known = [value for value in epoch.losses.values() if value is not None]
    return sum(known) if len(known) == len(epoch.losses) else None


def learning(material: Material) -> Section:
    """Validation mAP and loss per epoch."""
    groups = [
        group
        for group in material.groups
        if any(len(curve.epochs) > 1 for curve in averaged(group))  # a closed form has no course
    ]
    return Section(
        "learning",
        "Learning curves",
        "Validation mAP and training loss after every epoch: mean over seeds, up to the epoch that "
        "all of them reached; the band is one standard deviation. A loss is the sum of its terms; "
        "each is scaled to its own range, because losses of different methods have different "
        "units. Results are those of the best epoch on validation, dashed if there is one "
        "training.",
        tuple(Drawing(f"learning-{group.slug}", partial(_draw, group)) for group in groups),
    )


def averaged(group: Group) -> list[LearningCurve]:
    """The learning curve of every method whose epochs are known, averaged over seeds."""
    found = []
    for entry in group.entries:
        try:
            curves = learning_curves(entry.runs)
        except InputError:  # the run folder is gone
            continue
        found += [curve for curve in curves[:1] if curve.epochs]
    return found


def line_of(curve: LearningCurve, values: Average, scale: float = 1.0) -> Line:
    """Values of a curve as a line to draw, up to the epoch that all seeds reached."""
    end = sum(reached == curve.seeds for reached in curve.reached)
    sd = [0.0 if value is None else scale * value for value in values.sd[:end]]
    return Line(
        curve.method,
        curve.epochs[:end],
        [NAN if mean is None else scale * mean for mean in values.mean[:end]],
        sd if any(sd) else None,
    )


def _draw(group: Group) -> Figure:
    val, loss = [], []
    for curve in averaged(group):
        val.append(line_of(curve, curve.val_map, 100.0))
        total = curve.losses.get("total") or next(iter(curve.losses.values()), None)
        if total is not None:
            loss.append(_scaled(line_of(curve, total)))
    return map_and_loss(val, loss, group.ink, group.name, group.only)


def _scaled(line: Line) -> Line:
    known = [value for value in line.mean if value == value]
    low, high = min(known, default=0.0), max(known, default=0.0)
    return Line(line.name, line.x, [(value - low) / (high - low or 1.0) for value in line.mean])


@styled
def map_and_loss(
    val: Sequence[Line],
    loss: Sequence[Line],
    ink: Mapping[str, str],
    data: str,
    only: RunResult | None = None,
) -> Figure:
    """Validation mAP in per cent and training loss, scaled to 0 to 1, per epoch.

    If there is only one run, the headline is about its epoch that was kept.
    """
    figure, axes = canvas(3.1, 1, 2)
    draw_lines(axes[0], val, ink)
    grey_note(axes[0], val, ink)
    draw_lines(axes[1], loss, ink)
    axes[0].set_title("Validation mAP in %")
    axes[1].set_title("Training loss, each in its own range")
    for axis in axes:
        axis.set_xlabel("epoch")
    if only is not None and len(only.stage_val_map) < 2:
        for axis in axes:
            axis.axvline(only.best_epoch, color=INK, linewidth=0.9, linestyle="--")
    headline(figure, _finding(val, data) if only is None else f"{plain(data)}: {result(only)}")
    return figure


def _finding(val: Sequence[Line], data: str) -> str:
    """Which method loses most between its best and its last epoch."""
    losses = []
    longest = 0
    for line in val:
        known = [(value, x) for value, x in zip(line.mean, line.x, strict=True) if value == value]
        longest = max(longest, len(known))
        if known:
            best, epoch = max(known, key=lambda pair: pair[0])
            losses.append((best - known[-1][0], line.name, epoch))
    if longest < 2:
        return f"{plain(data)}: validation mAP and training loss of a single epoch"
    loss, name, epoch = max(losses)
    if loss >= 0.5:
        return (
            f"{plain(data)}: {plain(name)} peaks in epoch {epoch:g} and loses {loss:.1f} points "
            "of validation mAP by the last"
        )
    return f"{plain(data)}: no method loses more than half a point after its best epoch"
