"""The loss around a solution, on two random filter-normalised directions.

Zhou et al. 2022 (EM) compare methods by it: a flat surface speaks for weights that generalise. The
directions are those of Li et al. 2018, see `plusone.analysis.surface`.

The loss is the method's own: its terms in the last epoch of its last stage, over training items and
the labels that training saw, in batches of the recipe's size. The model is in evaluation mode:
dropout is off, batch norms keep their statistics. A method's memory and parameters are those of the
run and stay fixed; a teacher (`en_cl`, `en_scl`) is the solution itself. Where only the head was
trained, only the head is moved.
"""

from __future__ import annotations

import copy
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.linalg import vector_norm

from plusone.data.dataset import Dataset
from plusone.errors import InputError
from plusone.io.files import write_json
from plusone.io.keys import file_key
from plusone.io.readers import read_json
from plusone.methods import get_method
from plusone.models.backbones import freeze_weights
from plusone.models.classifier import Classifier
from plusone.models.heads import LinearHead
from plusone.results import finite
from plusone.training.build import Predictor, load_run
from plusone.training.loader import Inputs, label_batches
from plusone.training.run import fingerprint
from plusone.training.run_folder import read_description, read_recipe
from plusone.training.step import split_views
from plusone.training.task import Part, Task, make_task
from plusone.types import Batch, Clock, Outputs, Stage

Direction = Mapping[str, Tensor]


def filter_direction(
    weights: Mapping[str, Tensor], generator: torch.Generator
) -> dict[str, Tensor]:
    """A random direction with the norms of the weights' filters.

    Args:
        weights: Weights by name. A filter is a row of the first dimension: the weights of one class
            in a linear head, one output channel of a convolution.
        generator: Source of randomness.

    Returns:
        One tensor per weight with two or more dimensions.

    >>> one = filter_direction({"w": torch.tensor([[3.0, 4.0]])}, torch.Generator().manual_seed(0))
    >>> round(one["w"].norm().item(), 4)
    5.0
    """
    found = {}
    for name, weight in weights.items():
        if weight.ndim < 2:
            continue
        drawn = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
        dims = tuple(range(1, weight.ndim))
        size = vector_norm(weight.detach(), dim=dims, keepdim=True)
        found[name] = drawn * (size / vector_norm(drawn, dim=dims, keepdim=True).clamp(min=1e-12))
    return found


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


ITEMS = {"features": 2000, "images": 200}  # items looked at, unless the caller says
ANGLES = 64


@dataclass(frozen=True)
class Surface:
    """The loss on a square around the solution.

    Args:
        method: The method.
        extent: Half the side of the square; 1 moves a filter by its own norm.
        steps: Points per side.
        seed: Seed of the directions and of the choice of items.
        train_items: Training items the loss was computed on.
        alphas: Steps along the first direction, `[steps]`.
        betas: Steps along the second, `[steps]`.
        loss: `[steps][steps]`, rows follow `alphas`.
    """

    method: str
    extent: float
    steps: int
    seed: int
    train_items: int
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    loss: tuple[tuple[float, ...], ...]

    @property
    def centre(self) -> float:
        """The loss of the solution."""
        return self.loss[self.steps // 2][self.steps // 2]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; `rise` is that at half the extent."""
        radius = self.extent / 2
        return asdict(self) | {"radius": radius, "rise": mean_rise(self, radius)}


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

    Args:
        predictor: The run, see `plusone.training.build.load_run`.
        part: Its training items, with the labels that training saw.
        extent: Half the side of the square.
        steps: Points per side, odd, so that the solution is one of them.
        seed: Seed of the directions and of the choice of items.
        items: Training items to look at, chosen at random; all if there are no more. 2,000 on
            features and 200 on images by default.
        on_progress: Called with the number of points just done.
    """
    if steps < 3 or steps % 2 == 0 or not extent > 0:
        raise InputError(
            f"steps = {steps}, extent = {extent:g}: need an odd number of steps from 3 and an "
            "extent above 0"
        )
    loss = LossOf(predictor, part, seed=seed, items=items)
    draw = torch.Generator().manual_seed(seed)
    directions = [filter_direction(loss.weights(), draw) for _ in range(2)]
    loss = _quickest(loss, predictor, part, directions, extent)
    places = np.linspace(-extent, extent, steps).tolist()
    places[steps // 2] = 0.0
    rows = []
    for alpha in places:
        row = []
        for beta in places:
            with moved(predictor.model, directions, (alpha, beta)):
                row.append(loss())
            if on_progress is not None:
                on_progress(1)
        rows.append(tuple(row))
    method, line = predictor.recipe.method, tuple(places)
    return Surface(method, extent, steps, seed, loss.n_items, line, line, tuple(rows))


def _quickest(
    loss: LossOf,
    predictor: Predictor,
    part: Part,
    directions: Sequence[Direction],
    extent: float,
) -> LossOf:
    """The loss over one large batch, if it is the same: not where a batch's labels are compared."""
    if type(predictor.model.head) is not LinearHead or not loss.head_only:
        return loss
    whole = LossOf(predictor, part, seed=loss.seed, items=loss.n_items, batch_size=loss.n_items)
    for place in ((0.0, 0.0), (extent, extent), (-extent, extent)):
        with moved(predictor.model, directions, place):
            if not math.isclose(loss(), whole(), rel_tol=1e-5, abs_tol=1e-7):
                return loss
    return whole


class LossOf:
    """The training loss of a run's model on some of its training items, as a function of weights.

    Args:
        predictor: The run.
        part: Its training items.
        seed: Seed of the choice of items, and of augmentations.
        items: How many to look at.
        batch_size: Items per batch; the recipe's by default.
    """

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
        recipe = predictor.recipe
        stages = recipe.resolved_stages(
            images=predictor.images, phases=get_method(recipe.method).phases
        )
        self.stage: Stage = stages[-1]
        self.method.begin_stage(self.stage)
        self._clock = Clock(len(stages) - 1, self.stage.epochs - 1, self.stage.epochs, 0, 1)
        self.head_only = self.stage.inputs == "features" or self.stage.freeze_backbone
        if predictor.images:
            freeze_weights(self.model.backbone, recipe.freeze, norm=recipe.freeze_norm)
        order = torch.randperm(len(part), generator=torch.Generator().manual_seed(seed))
        wanted = ITEMS["images" if predictor.images else "features"] if items is None else items
        self._order = order[: max(wanted, 1)].sort().values
        self._size = batch_size or recipe.batch_size
        self._labels = list(label_batches(part.observed, self._order, self._size))
        self._views = list(self._prepared(part.inputs, seed))
        self._teacher = None if self.method.teacher is None else copy.deepcopy(self.model)

    @property
    def n_items(self) -> int:
        """How many items it looks at."""
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
        """The loss under the model's present weights: mean over items of its batches' losses."""
        total = 0.0
        index = torch.split(self._order, self._size)
        batches = zip(self._views, self._labels, index, strict=True)
        for step, (views, observed, rows) in enumerate(batches):
            outs = self._forward(self.model, views)
            taught = () if self._teacher is None else self._forward(self._teacher, views)
            clock = Clock(
                self._clock.stage, self._clock.epoch, self._clock.epochs, step, len(index)
            )
            terms = self.method.loss(outs, Batch(views, observed, rows, taught), clock)
            total += len(rows) * math.fsum(term.item() for term in terms.values())
        penalty = math.fsum(term.item() for term in self.method.penalty(self.model.head).values())
        return total / self.n_items + penalty

    def _prepared(self, inputs: Inputs, seed: int) -> Iterator[tuple[Tensor, ...]]:
        """The views of each batch; what the head gets of them, where only the head moves."""
        for views in inputs.batches(self._order, self._size, self.method.views, seed):
            if self.head_only:
                with torch.no_grad():
                    yield tuple(self.model.features(view) for view in views)
            else:
                yield views

    def _forward(self, model: Classifier, views: Sequence[Tensor]) -> tuple[Outputs, ...]:
        forward = model.head if self.head_only else model
        return split_views(forward(torch.cat(tuple(views))), len(views))


def mean_rise(surface: Surface, radius: float) -> float:
    """How much the loss rises at a distance from the solution: the mean over a circle.

    A number for flatness; values between grid points are interpolated. Points where the loss is
    not finite are left out; NaN if that is so at the solution or everywhere on the circle.

    Args:
        surface: The surface.
        radius: Radius of the circle, at most the surface's extent.
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
    middle = grid[surface.steps // 2, surface.steps // 2]
    return float(known.mean() - middle) if len(known) else math.nan


NAME = "surface.json"


def surface_of_run(
    folder: Path,
    load: Callable[[], Dataset],
    *,
    extent: float = 1.0,
    steps: int = 21,
    seed: int = 0,
    items: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """What `surface.json` of a run holds; computed only if settings or model are other ones.

    Args:
        folder: A complete run.
        load: Gives the data it was trained on; called only if there is something to compute.
        extent: As for `loss_surface`.
        steps: As for `loss_surface`.
        seed: As for `loss_surface`.
        items: As for `loss_surface`.
        on_progress: Called with the number of points just done.
    """
    predictor = load_run(folder)
    settings = {
        "extent": extent,
        "steps": steps,
        "seed": seed,
        "items": items,
        "model": file_key(folder / "model.safetensors"),
    }
    kept = read_surface(folder)
    if kept is not None and settings == {name: kept.get(name) for name in settings}:
        return kept
    task = make_task(load(), read_recipe(folder))
    _check_same_data(folder, task)
    surface = loss_surface(
        predictor,
        task.train,
        extent=extent,
        steps=steps,
        seed=seed,
        items=items,
        on_progress=on_progress,
    )
    found: dict[str, Any] = {"kind": "surface", "data": task.name, "run": os.fspath(folder)}
    found |= finite(json.loads(json.dumps(surface.to_dict()))) | settings
    write_json(folder / NAME, found)
    return found


def read_surface(folder: Path) -> dict[str, Any] | None:
    """The surface kept in a run folder; None if there is none that can be read."""
    try:
        kept = read_json(folder / NAME)
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, dict) and kept.get("kind") == "surface" else None


def _check_same_data(folder: Path, task: Task) -> None:
    """The surface is that of the training loss, so items and seen labels must be the run's."""
    about = read_description(folder)
    now = {"observation": dict(task.observation), "fingerprint": fingerprint(task)}
    for name, what in (("observation", "the seen labels are"), ("fingerprint", "the items are")):
        if getattr(about, name) != json.loads(json.dumps(now[name])):
            raise InputError(
                f"{task.name}: {what} not those that {folder} was trained on; name the same data"
            )
