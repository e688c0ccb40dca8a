"""Where models with attention maps looked (LAC, Fig. 6)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw
from torch import Tensor
from torch.nn import functional

from plusone.errors import InputError, RunError
from plusone.io.files import replacing
from plusone.io.keys import content_key, file_state
from plusone.io.readers import read_json
from plusone.methods import METHODS
from plusone.report.blocks import Block, Note, Section, Strips, Work
from plusone.report.material import Material, Result

SIDE = 192
LINE = 16
HOT = (255, 150, 0)  # orange reads on dark and on bright pictures, and for colour-blind eyes


def strip(image: Tensor, maps: Tensor, titles: Sequence[str], name: str) -> Image.Image:
    """An image, and beside it once per class with the places that mattered shining through.

    Args:
        image: Bytes `[C, H, W]`.
        maps: `[n, h, w]`, one per class shown; each is scaled to its own highest value.
        titles: What to write below each.
        name: What to write below the image.
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
        sheet.paste(_image(picture), (left, 0))
        draw.text((left + 2, SIDE + 2), _shortened(title), fill="black")
    return sheet


def _resized(x: Tensor, mode: str) -> Tensor:
    return functional.interpolate(x[None], size=(SIDE, SIDE), mode=mode, align_corners=False)[0]


def _image(values: npt.NDArray[np.floating]) -> Image.Image:
    return Image.fromarray(values.clip(0, 255).astype(np.uint8))


def _shortened(text: str, width: int = 30) -> str:
    plain = text.encode("latin-1", "replace").decode("latin-1")  # what the built-in font can draw
    return plain if len(plain) <= width else plain[: width - 1] + "."


ITEMS = 4
CLASSES = 3
MOST_RUNS = 3
MapImage = tuple[str, str]


def _has_maps(method: str) -> bool:
    info = METHODS.get(method)  # a result may name a method of somebody's own
    return info is not None and info.has_maps


def attention(material: Material, cache: Path) -> Section | None:
    """Maps of the runs whose models have them.

    Args:
        material: What was found.
        cache: Folder where finished pictures are kept.
    """
    runs = [
        (folder, result)
        for folder, result in material.runs
        if _has_maps(result["method"]) and result.get("examples")
    ][:MOST_RUNS]
    if not runs:
        return None
    return Section(
        "maps",
        "Where the model looked",
        "Attention maps of the classes that the model finds most likely in a training image: "
        "orange is where it looked (LAC, Fig. 6). More: plusone maps RUN IMAGES --out FOLDER",
        tuple(
            Work(f"maps of {folder.name}", partial(_block, folder, result, cache))
            for folder, result in runs
        ),
    )


def _block(folder: Path, result: Result, cache: Path) -> Sequence[Block]:
    name = f"{result['method']} on {result['data']}, seed {result['seed']}"
    try:
        images = kept(folder, result, cache)
    except (InputError, RunError, OSError) as error:
        return [Note(f"{name}: without maps ({str(error).splitlines()[0]}).")]
    return [Note(name), Strips(tuple(images))]


def kept(folder: Path, result: Result, cache: Path) -> list[MapImage]:
    """The pictures from the cache if the model is the same, else made and kept there."""
    ids = [str(item["id"]) for item in result["examples"][:ITEMS]]
    state = [file_state(folder / name) for name in ("model.safetensors", "recipe.toml")]
    about = json.dumps([str(folder.resolve()), state, ids, CLASSES])
    path = cache / f"maps-{content_key(about)}.json"
    if path.exists():
        try:
            return [(str(uri), str(text)) for uri, text in read_json(path)]
        except (ValueError, TypeError):
            pass  # half a file of somebody else's making: made again
    images = draw_maps(folder, ids)
    with replacing(path) as part:
        part.write_text(json.dumps(images), encoding="utf-8")
    return images


def draw_maps(folder: Path, ids: Sequence[str]) -> list[MapImage]:
    """Each item with the maps of its most likely classes, as data URI and words."""
    import numpy as np

    from plusone.report.images import data_uri, load_images
    from plusone.training.build import load_run
    from plusone.training.maps import class_maps
    from plusone.training.run_folder import read_description
    from plusone.training.tagging import inputs_for

    predictor = load_run(folder)
    source: dict[str, Any] = read_description(folder).source
    if not predictor.images:
        raise InputError("the model was trained on features, which have no places to look at")
    dataset = load_images(source)
    rows = {str(name): row for row, name in enumerate(dataset.table.ids)}
    known = [name for name in ids if name in rows]
    if not known:
        raise InputError("its items are not in the data any more")
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
