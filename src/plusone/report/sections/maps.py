"""Where models with attention maps looked (LAC, Fig. 6)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from plusone.bounded import read_json
from plusone.errors import InputError, RunError
from plusone.files import file_state, replacing
from plusone.report.blocks import Block, Note, Section, Strips, Work
from plusone.report.material import Material
from plusone.report.places import Result

MAPPED = ("lac", "en_scl")
ITEMS = 4
CLASSES = 3
MOST_RUNS = 3
Image = tuple[str, str]


def attention(material: Material, cache: Path) -> Section | None:
    """Maps of the runs whose models have them.

    Args:
        material: What was found.
        cache: Folder where finished pictures are kept.
    """
    runs = [
        (folder, result)
        for folder, result in material.runs
        if result["method"] in MAPPED and result.get("examples")
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


def kept(folder: Path, result: Result, cache: Path) -> list[Image]:
    """The pictures from the cache if the model is the same, else made and kept there."""
    ids = [str(item["id"]) for item in result["examples"][:ITEMS]]
    state = [file_state(folder / name) for name in ("model.safetensors", "recipe.toml")]
    about = json.dumps([str(folder.resolve()), state, ids, CLASSES])
    path = cache / f"maps-{hashlib.sha256(about.encode()).hexdigest()[:16]}.json"
    if path.exists():
        try:
            return [(str(uri), str(text)) for uri, text in read_json(path)]
        except (ValueError, TypeError):
            pass  # half a file of somebody else's making: made again
    images = draw_maps(folder, ids)
    with replacing(path) as part:
        part.write_text(json.dumps(images), encoding="utf-8")
    return images


def draw_maps(folder: Path, ids: Sequence[str]) -> list[Image]:
    """Each item with the maps of its most likely classes, as data URI and words."""
    import numpy as np

    from plusone.engine.build import load_run
    from plusone.engine.items import inputs_for
    from plusone.engine.maps import class_maps
    from plusone.engine.run_files import read_description
    from plusone.report.images import data_uri, load_images
    from plusone.report.overlay import strip

    predictor = load_run(folder)
    source: dict[str, Any] = read_description(folder)["source"]
    if not predictor.images:
        raise InputError("the model was trained on features, which have no places to look at")
    dataset = load_images(source)
    rows = {str(name): row for row, name in enumerate(dataset.table.ids)}
    known = [name for name in ids if name in rows]
    if not known:
        raise InputError("its items are not in the data any more")
    inputs = inputs_for(predictor, dataset, np.array([rows[name] for name in known]))
    images: list[Image] = []
    for views, likely, places in class_maps(predictor, inputs):
        for row in range(len(views)):
            name = known[len(images)]
            best = likely[row].argsort(descending=True)[:CLASSES]
            titles = [f"{predictor.classes[c]} {100 * likely[row, c]:.0f} %" for c in best]
            sheet = strip(views[row], places[row, best], titles, Path(name).name)
            images.append((data_uri(sheet), f"{name}: {', '.join(titles)}"))
    return images
