"""The training loss around the weights of a run, along two random directions.

Zhou et al. 2022 (EM) compare methods by it: a flat surface suggests weights that generalise. The
directions are those of Li et al. 2018, Visualizing the Loss Landscape of Neural Nets: every filter
of a direction has the norm of the filter it belongs to, so that surfaces of different networks can
be compared. Biases and the weights of norms stay where they are.

The loss is the method's own: its terms in the last epoch of its last stage, on training items with
the labels that training saw, in batches of the recipe's size. The model is in evaluation mode:
dropout is off, batch norms keep their statistics. A method's memory and parameters are those of the
run and stay fixed; a teacher (`en_cl`) is the solution itself. Where only the head was
trained, only the head is moved.
"""

from __future__ import annotations

import copy
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import torch
from pydantic import model_validator
from torch import Tensor, nn
from torch.linalg import vector_norm

from plusone.data.dataset import Dataset
from plusone.device import device_of
from plusone.errors import InputError
from plusone.inputs.forward import predict
from plusone.inputs.loader import Inputs, label_batches
from plusone.inputs.placement import place
from plusone.inputs.task import Part, Task, make_task
from plusone.io.files import write_json
from plusone.io.keys import file_key
from plusone.io.readers import read_json
from plusone.methods import get_method
from plusone.models.backbones import freeze_weights
from plusone.models.classifier import Classifier
from plusone.models.heads import LinearHead
from plusone.prediction.load import Predictor, load_run
from plusone.prediction.run_folder import read_description, read_recipe
from plusone.report.blocks import Drawing, Note, Section
from plusone.report.style import PAPER, canvas, headline, plain, plain_ticks, styled
from plusone.results import Document, Number, Record
from plusone.training.pieces import forward_views
from plusone.training.run import fingerprint
from plusone.training.step import look_again
from plusone.types import Batch, Clock, Outputs, Stage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from plusone.report.material import Material


Direction = Mapping[str, Tensor]

FILE = "surface.json"
ITEMS = {"features": 2000, "images": 200}  # training items used by default
ANGLES = 64  # points on the circle of `mean_rise`

SHOWN = 6  # surfaces in a figure
LEVELS = 12


class Surface(Record):
    """The loss on a square around the solution.

    Args:
        extent: Half the side of the square; 1 moves a filter by its own norm.
        seed: Seed of the directions and of the choice of items.
        train_items: Number of training items that the loss is computed on.
        loss: `[steps][steps]`, rows follow `alphas`; None where it is not finite.
    """

    method: str
    extent: float
    steps: int
    seed: int
    train_items: int
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    loss: tuple[tuple[Number, ...], ...]

    @property
    def centre(self) -> float | None:
        """The loss of the solution."""
        return self.loss[self.steps // 2][self.steps // 2]

    @model_validator(mode="after")
    def _check_shape(self) -> Self:
        shape = (len(self.alphas), len(self.betas), len(self.loss), *map(len, self.loss))
        if self.steps < 1 or set(shape) != {self.steps}:
            raise ValueError("not a square of steps x steps values")
        return self


class RunSurface(Surface, Document):
    """The surface of a run; the content of `surface.json` in its folder.

    Args:
        radius: Half the extent.
        rise: `mean_rise` at that radius; None if it is not finite.
        items: The number of training items that was asked for; None for the default.
        model: Key of the weights' content.
    """

    kind: ClassVar[str] = "surface"

    data: str = ""
    run: str = ""
    radius: Number = None
    rise: Number = None
    items: int | None = None
    model: str = ""


def loss_surface(
    predictor: Predictor,
    part: Part,
    *,
    extent: float = 1.0,
    steps: int = 21,
    seed: int = 0,
    items: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Surface:
    """The loss on a square grid around the weights of a finished run.

    The predictor is loaded with its memory, and `part` has the labels that training saw. There are
    `steps` points per side, odd, so that the solution is one of them. The items are chosen at
    random: 2,000 on features and 200 on images by default, or all if there are fewer.
    `on_progress` is called with the number of points just done.
    """
    if steps < 3 or steps % 2 == 0 or not extent > 0:
        raise InputError(
            f"steps = {steps}, extent = {extent:g}: need an odd number of steps from 3 and an "
            "extent above 0"
        )
    loss = LossOf(predictor, part, seed=seed, items=items)
    draw = torch.Generator().manual_seed(seed)
    directions = [filter_direction(loss.weights(), draw) for _ in range(2)]
    loss = _in_one_batch(loss, predictor, part, directions, extent)
    grid = np.linspace(-extent, extent, steps).tolist()
    grid[steps // 2] = 0.0
    rows = []
    for alpha in grid:
        row = []
        for beta in grid:
            with moved(predictor.model, directions, (alpha, beta)):
                row.append(loss())
            if on_progress is not None:
                on_progress(1)
        rows.append(tuple(row))
    return Surface(
        method=predictor.recipe.method,
        extent=extent,
        steps=steps,
        seed=seed,
        train_items=loss.n_items,
        alphas=tuple(grid),
        betas=tuple(grid),
        loss=tuple(rows),
    )


def _in_one_batch(
    loss: LossOf,
    predictor: Predictor,
    part: Part,
    directions: Sequence[Direction],
    extent: float,
) -> LossOf:
    """The loss over one large batch, which is faster, where it does not depend on the batches."""
    if type(predictor.model.head) is not LinearHead or not loss.head_only:
        return loss
    whole = LossOf(predictor, part, seed=loss.seed, items=loss.n_items, batch_size=loss.n_items)
    for steps in ((0.0, 0.0), (extent, extent), (-extent, extent)):
        with moved(predictor.model, directions, steps):
            if not math.isclose(loss(), whole(), rel_tol=1e-5, abs_tol=1e-7):
                return loss
    return whole


def filter_direction(
    weights: Mapping[str, Tensor], generator: torch.Generator
) -> dict[str, Tensor]:
    """A random direction with the norms of the weights' filters, for weights of two dimensions on.

    A filter is a row of the first dimension: the weights of one class in a linear head, one output
    channel of a convolution.

    >>> one = filter_direction({"w": torch.tensor([[3.0, 4.0]])}, torch.Generator().manual_seed(0))
    >>> round(one["w"].norm().item(), 4)
    5.0
    """
    direction = {}
    for name, weight in weights.items():
        if weight.ndim < 2:
            continue
        noise = torch.randn(weight.shape, generator=generator, dtype=weight.dtype).to(weight.device)
        dims = tuple(range(1, weight.ndim))
        norm = vector_norm(weight.detach(), dim=dims, keepdim=True)
        noise_norm = vector_norm(noise, dim=dims, keepdim=True).clamp(min=1e-12)
        direction[name] = noise * (norm / noise_norm)
    return direction


@contextmanager
def moved(
    model: nn.Module, directions: Sequence[Direction], steps: Sequence[float]
) -> Iterator[None]:
    """The model with its weights moved along some directions; afterwards they are as before."""
    weights = dict(model.named_parameters())
    names = dict.fromkeys(name for direction in directions for name in direction)
    before = {name: weights[name].detach().clone() for name in names}
    try:
        with torch.no_grad():
            for direction, step in zip(directions, steps, strict=True):
                for name, part in direction.items():
                    weights[name].add_(part, alpha=step)
        yield
    finally:
        with torch.no_grad():
            for name, value in before.items():
                weights[name].copy_(value)


class LossOf:
    """The training loss on some of a run's training items, as a function of the weights."""

    def __init__(
        self,
        predictor: Predictor,
        part: Part,
        *,
        seed: int = 0,
        items: int | None = None,
        batch_size: int | None = None,
    ) -> None:
        self.model, self.method, self.seed = predictor.model.eval(), predictor.method, seed
        recipe, self._device = predictor.recipe, device_of(self.model)
        kind = "images" if predictor.images else "features"
        self.method.begin_training(
            lambda: predict(self.model, lambda x: self.model(x).features, part.inputs, kind=kind)
        )
        self.method.move(self._device, memory=recipe.memory)
        stages = recipe.resolved_stages(
            images=predictor.images, phases=get_method(recipe.method).phases_of(recipe.options)
        )
        self.stage: Stage = stages[-1]
        self.method.begin_stage(self.stage)
        self._clock = Clock(len(stages) - 1, self.stage.epochs - 1, self.stage.epochs, 0, 1)
        self.head_only = self.stage.inputs == "features" or self.stage.freeze_backbone
        if predictor.images:
            freeze_weights(self.model.backbone, recipe.freeze, norm=recipe.freeze_norm)
        order = torch.randperm(len(part), generator=torch.Generator().manual_seed(seed))
        if items is None:
            items = ITEMS["images" if predictor.images else "features"]
        self._order = order[: max(items, 1)].sort().values
        self._size = batch_size or recipe.batch_size
        self._labels = list(label_batches(part.observed, self._order, self._size, self._device))
        self._views = list(self._prepared(part.inputs, seed))
        self._boxes = part.inputs.boxes(self.method.views, len(self._order), seed)
        self._teacher = None if self.method.teacher is None else copy.deepcopy(self.model)

    @property
    def n_items(self) -> int:
        """How many items are used."""
        return len(self._order)

    def weights(self) -> dict[str, Tensor]:
        """The weights that the last stage trained, by their names in the model."""
        prefix = "head." if self.head_only else ""
        return {
            name: weight
            for name, weight in self.model.named_parameters()
            if name.startswith(prefix) and weight.requires_grad
        }

    @torch.no_grad()
    def __call__(self) -> float:
        """The loss at the model's current weights: mean over items of the batches' losses."""
        total = 0.0
        index = torch.split(self._order.to(self._device), self._size)
        batches = zip(self._views, self._labels, index, strict=True)
        for step, (views, observed, rows) in enumerate(batches):
            outs = self._forward(self.model, views)
            taught = () if self._teacher is None else self._forward(self._teacher, views)
            clock = Clock(
                self._clock.stage, self._clock.epoch, self._clock.epochs, step, len(index)
            )
            places = slice(step * self._size, (step + 1) * self._size)
            boxes = None if self._boxes is None else self._boxes[places].to(self._device)
            batch = Batch(views, observed, rows, taught, boxes)
            if self.method.looks_again:
                again = look_again(self.model, self.method, batch, outs[0])
                batch = replace(batch, again=again)
            terms = self.method.loss(outs, batch, clock)
            total += len(rows) * math.fsum(term.item() for term in terms.values())
        penalty = math.fsum(term.item() for term in self.method.penalty(self.model.head).values())
        return total / self.n_items + penalty

    def _prepared(self, inputs: Inputs, seed: int) -> Iterator[tuple[Tensor, ...]]:
        """The views of each batch, as features where only the head is moved."""
        placed = place(inputs, self._device)
        for views in placed.batches(self._order, self._size, self.method.views, seed):
            if self._on_features:
                with torch.no_grad():
                    yield tuple(self.model.features(view) for view in views)
            else:
                yield views

    def _forward(self, model: Classifier, views: Sequence[Tensor]) -> tuple[Outputs, ...]:
        return forward_views(model.head if self._on_features else model, views)

    @property
    def _on_features(self) -> bool:
        """Whether the views are features; what looks again needs the inputs of the backbone."""
        return self.head_only and not self.method.looks_again


def mean_rise(surface: Surface, radius: float) -> float:
    """Mean rise of the loss on a circle around the solution: a measure of flatness.

    Values between grid points are interpolated. Points where the loss is not finite are left out;
    NaN if it is not finite at the solution, or nowhere on the circle.
    """
    if not 0 <= radius <= surface.extent:
        raise InputError(f"radius = {radius:g} must lie between 0 and {surface.extent:g}")
    grid = np.array(surface.loss, dtype=np.float64)
    grid[~np.isfinite(grid)] = np.nan
    step = 2 * surface.extent / (surface.steps - 1)
    angles = np.linspace(0, 2 * np.pi, ANGLES, endpoint=False)
    x = (radius * np.cos(angles) + surface.extent) / step
    y = (radius * np.sin(angles) + surface.extent) / step
    last = surface.steps - 2
    i, j = (np.clip(np.floor(at).astype(int), 0, last) for at in (x, y))
    u, v = x - i, y - j
    lower = grid[i, j] * (1 - v) + grid[i, j + 1] * v
    upper = grid[i + 1, j] * (1 - v) + grid[i + 1, j + 1] * v
    circle = lower * (1 - u) + upper * u
    known = circle[~np.isnan(circle)]
    centre = grid[surface.steps // 2, surface.steps // 2]
    return float(known.mean() - centre) if len(known) else math.nan


def surface_of_run(
    folder: Path,
    load: Callable[[], Dataset],
    *,
    extent: float = 1.0,
    steps: int = 21,
    seed: int = 0,
    items: int | None = None,
    device: str = "auto",
    on_progress: Callable[[int], None] | None = None,
) -> RunSurface:
    """The `loss_surface` of a run, kept in its folder; computed if settings or weights changed.

    `load` returns the data of the run, and is called only if there is something to compute.
    """
    predictor = load_run(folder, device, memory=True)
    settings = {
        "extent": extent,
        "steps": steps,
        "seed": seed,
        "items": items,
        "model": file_key(folder / "model.safetensors"),
    }
    previous = read_surface(folder)
    if previous is not None and settings == previous.model_dump(include=set(settings)):
        return previous
    task = make_task(load(), read_recipe(folder))
    _check_same_data(folder, task)
    computed = loss_surface(
        predictor,
        task.train,
        extent=extent,
        steps=steps,
        seed=seed,
        items=items,
        on_progress=on_progress,
    )
    radius = extent / 2
    surface = RunSurface(
        **computed.model_dump() | settings,
        data=task.name,
        run=os.fspath(folder),
        radius=radius,
        rise=mean_rise(computed, radius),
    )
    write_json(folder / FILE, surface.to_json())
    return surface


def read_surface(folder: Path) -> RunSurface | None:
    """The surface kept in a run folder; None if there is none that can be read."""
    path = folder / FILE
    try:
        content = read_json(path)
        if not isinstance(content, dict) or content.get("kind") != RunSurface.kind:
            return None
        return RunSurface.from_json(content, str(path))
    except (OSError, ValueError, InputError):
        return None


def _check_same_data(folder: Path, task: Task) -> None:
    """Refuses other items or seen labels than those of the run."""
    description = read_description(folder)
    now = {"observation": dict(task.observation), "fingerprint": fingerprint(task)}
    for name, what in (("observation", "the seen labels are"), ("fingerprint", "the items are")):
        if getattr(description, name) != json.loads(json.dumps(now[name])):
            raise InputError(
                f"{task.name}: {what} not those that {folder} was trained on; name the same data"
            )


def surfaces(material: Material) -> Section | None:
    """The loss around solutions, up to six per figure."""
    by_data: dict[str, list[RunSurface]] = {}
    notes = []
    for surface in material.of(RunSurface):
        if surface.centre is None:
            notes.append(Note(f"{surface.method}: its loss is not finite at the solution."))
        else:
            by_data.setdefault(surface.data, []).append(surface)
    if not by_data:
        return None
    figures = [group[place : place + SHOWN] for group in by_data.values()
               for place in range(0, len(group), SHOWN)]  # fmt: skip
    return Section(
        "surfaces",
        "Loss surfaces",
        "Each method's own training loss while the weights are moved away from the solution along "
        "two random directions, scaled so that 1 moves every filter by its own norm (EM, after "
        "Li et al. 2018). Losses have different units, so each panel goes from 0 at the solution "
        "to its own highest rise: compare shapes, not heights.",
        (
            *(Drawing(f"surface-{number}", partial(loss_surfaces, group))
              for number, group in enumerate(figures, start=1)),
            *notes,
        ),
    )  # fmt: skip


@styled
def loss_surfaces(surfaces: Sequence[RunSurface]) -> Figure:
    """Contours of the rise of the loss; each panel goes from 0 to its own highest rise.

    Losses of different methods have different units, so only shapes can be compared.
    """
    shown = list(surfaces[:SHOWN])
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    side = 5.4 / columns if columns > 1 else 3.4
    figure, axes = canvas(0.9 + rows * (side + 0.15), rows, columns, sharex=True, sharey=True)
    levels = np.linspace(0, 1, LEVELS + 1) ** 2  # close together where it is flat
    contours = None
    for axis, surface, name in zip(axes, shown, names(shown), strict=False):
        rise = np.array(surface.loss, dtype=np.float64) - (surface.centre or 0.0)
        highest = max(float(np.nanmax(rise)), 0.0)
        share = np.ma.masked_invalid(rise.T / (highest or 1.0))
        contours = axis.contourf(
            surface.alphas, surface.betas, share, levels=levels, cmap="cividis", extend="both"
        )
        axis.plot(0, 0, "+", color=PAPER, markersize=8)
        axis.set_title(f"{plain(name, 24)}\nrises by up to {highest:.2g}")
        axis.set_aspect("equal")
        axis.grid(visible=False)
    for axis in axes[len(shown) :]:
        axis.set_visible(False)
    if contours is not None:
        bar = figure.colorbar(contours, ax=axes, shrink=0.8, pad=0.02)
        bar.set_label("share of the highest rise")
        bar.set_ticks([float(f"{level:.2g}") for level in levels[::3]])
        plain_ticks(bar.ax.yaxis)
        bar.ax.grid(visible=False)
    headline(figure, _finding(shown))
    return figure


def names(surfaces: Sequence[RunSurface]) -> list[str]:
    """A name for each surface: its method, with the run folder where methods repeat."""
    methods = [surface.method for surface in surfaces]
    return [
        surface.method
        if methods.count(surface.method) == 1
        else f"{surface.method} ({PurePath(surface.run).name or f'seed {surface.seed}'})"
        for surface in surfaces
    ]


def _finding(surfaces: Sequence[RunSurface]) -> str:
    """The rise of each loss; units differ, so nothing is ranked."""
    rises = [mean_rise(surface, surface.extent / 2) for surface in surfaces]
    parts = [
        f"{plain(name)} {'not finite' if rise != rise else f'{rise:.2g}'}"
        for name, rise in zip(names(surfaces), rises, strict=True)
    ]
    units = " (each in its own units)" if len(parts) > 1 else ""
    data = plain(surfaces[0].data)
    start = f"{data}: mean rise" if data else "Mean rise"
    return f"{start} of the loss halfway to the border: {', '.join(parts)}{units}"
