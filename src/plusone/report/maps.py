"""Class maps: where models with maps find each class in an image (LAC, Fig. 6)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor
from torch.nn import functional

from plusone.compare.jobs import JobResult
from plusone.data.source import Source
from plusone.device import CPU, device_of
from plusone.errors import InputError, RunError, first_line
from plusone.inputs.loader import Inputs
from plusone.io.files import replacing
from plusone.io.keys import content_key, file_state
from plusone.io.readers import read_json
from plusone.methods import METHODS
from plusone.prediction.items import inputs_for
from plusone.prediction.load import Predictor, load_run
from plusone.prediction.run_folder import read_description
from plusone.report.blocks import Block, Note, Section, Strips, Work
from plusone.report.material import Material
from plusone.report.thumbnails import data_uri, load_items

MapImage = tuple[str, str]  # data URI and description

BATCH = 64
RUNS = 3  # runs, images of each and classes of each image that are shown
ITEMS = 4
CLASSES = 3
SIDE = 192
LINE = 16
LETTERS = 30  # below an image
HOT = (255, 150, 0)  # orange is visible on dark and bright images, and to colour-blind readers


@torch.no_grad()
def class_maps(
    predictor: Predictor, inputs: Inputs, tick: Callable[[int], None] | None = None
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Batches of inputs `[B, ...]`, their probabilities `[B, L]` and class maps `[B, L, h, w]`."""
    predictor.model.eval()
    device = device_of(predictor.model)
    for (view,) in inputs.batches(torch.arange(len(inputs)), BATCH, ("plain",), 0):
        out = predictor.model(view.to(device))
        if out.maps is None or out.maps.shape[2:] == (1, 1):
            *names, last = (name for name, info in METHODS.items() if info.has_maps)
            able = f"{', '.join(names)} and {last}"
            raise InputError(
                f"this model of {predictor.recipe.method} has no maps; those of {able} have, and "
                "all with head = labelwise, if trained on images or tokens"
            )
        scores = torch.sigmoid(predictor.from_logits(out.logits.to(CPU)))
        yield view, scores, out.maps.to(CPU)
        if tick is not None:
            tick(len(view))


def attention(material: Material, cache: Path) -> Section:
    """Maps of the runs whose models have them."""
    able = {name for name, info in METHODS.items() if info.has_maps}
    runs = [
        run
        for run in material.runs
        if (run.method in able or run.recipe.get("head") == "labelwise") and run.examples
    ][:RUNS]
    return Section(
        "maps",
        "Attention maps",
        "Attention maps of the most likely classes in training images: attention is high where "
        "the image is orange (LAC, Fig. 6). More: plusone analyse maps RUN IMAGES --out FOLDER",
        tuple(
            Work(f"maps of {Path(str(run.run)).name}", partial(_strips, run, cache)) for run in runs
        ),
    )


def _strips(run: JobResult, cache: Path) -> Sequence[Block]:
    name = f"{run.method} on {run.data}, seed {run.seed}"
    try:
        images = cached_maps(Path(str(run.run)), [item.id for item in run.examples[:ITEMS]], cache)
    except (InputError, RunError, OSError) as error:
        return [Note(f"{name}: without maps ({first_line(error)}).")]
    return [Note(name), Strips(tuple(images))]


def cached_maps(folder: Path, ids: Sequence[str], cache: Path) -> list[MapImage]:
    """The maps of some items, from the cache if the model is the same."""
    state = [file_state(folder / name) for name in ("model.safetensors", "recipe.toml")]
    key = content_key(json.dumps([str(folder.resolve()), state, list(ids), CLASSES]))
    path = cache / f"maps-{key}.json"
    if path.exists():
        try:
            return [(str(uri), str(text)) for uri, text in read_json(path)]
        except (ValueError, TypeError):
            pass  # damaged: computed again
    images = draw_maps(folder, ids)
    with replacing(path) as part:
        part.write_text(json.dumps(images), encoding="utf-8")
    return images


def draw_maps(folder: Path, ids: Sequence[str]) -> list[MapImage]:
    """Each item with the maps of its most likely classes."""
    predictor = load_run(folder)
    if not predictor.images:
        raise InputError("the model was trained on features, which have no maps")
    dataset = load_items(Source.from_json(read_description(folder).source))
    rows = {str(name): row for row, name in enumerate(dataset.table.ids)}
    known = [name for name in ids if name in rows]
    if not known:
        raise InputError("its items are no longer in the data")
    inputs = inputs_for(predictor, dataset, np.array([rows[name] for name in known]))
    images: list[MapImage] = []
    for views, likely, places in class_maps(predictor, inputs):
        for row in range(len(views)):
            name = known[len(images)]
            best = likely[row].argsort(descending=True)[:CLASSES]
            titles = [f"{predictor.classes[c]} {100 * likely[row, c]:.0f} %" for c in best]
            sheet = strip(views[row], places[row, best], titles, Path(name).name)
            images.append((data_uri(sheet), f"{name}: {', '.join(titles)}"))
    return images


def strip(image: Tensor, maps: Tensor, titles: Sequence[str], name: str) -> Image.Image:
    """An image, bytes `[C, H, W]`, and beside it the map of each class `[n, h, w]` laid over it.

    Each map is scaled to its own highest value.
    """
    channels = image if image.shape[0] == 3 else image[:1].expand(3, -1, -1)
    base = _resized(channels.float(), "bilinear").permute(1, 2, 0).numpy()
    pictures = [base]
    for place in maps.float():
        low, high = place.min(), place.max()
        heat = _resized(((place - low) / (high - low).clamp_min(1e-12))[None], "bicubic")
        share = heat.clamp(0, 1).numpy()[0][..., None]
        pictures.append(base * (0.35 + 0.25 * share) + np.array(HOT) * (0.4 * share))
    sheet = Image.new("RGB", (len(pictures) * (SIDE + 4), SIDE + LINE), "white")
    draw = ImageDraw.Draw(sheet)
    for number, (picture, title) in enumerate(zip(pictures, (name, *titles), strict=True)):
        left = number * (SIDE + 4)
        sheet.paste(Image.fromarray(picture.clip(0, 255).astype(np.uint8)), (left, 0))
        draw.text((left + 2, SIDE + 2), _shortened(title), fill="black")
    return sheet


def _resized(x: Tensor, mode: str) -> Tensor:
    return functional.interpolate(x[None], size=(SIDE, SIDE), mode=mode, align_corners=False)[0]


def _shortened(text: str) -> str:
    plain = text.encode("latin-1", "replace").decode("latin-1")  # what the built-in font can draw
    return plain if len(plain) <= LETTERS else plain[: LETTERS - 1] + "."
