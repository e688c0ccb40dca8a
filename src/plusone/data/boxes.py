"""Boxes of objects: how large each class is in an image, and how near to its centre.

They come from the annotations that a data set was published with: a COCO instances file (or a
folder with some), or the folder `Annotations` of VOC; the folder above is searched for these, too.
Items are found by the file name of their image without its ending.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.io.readers import LARGE_FILE, parse_json, parse_xml, read_text

Floats = npt.NDArray[np.float64]
CORNERS = ("xmin", "ymin", "xmax", "ymax")  # of a box in VOC's XML
CENTRAL = 0.01  # objects nearer to the centre than this share of the half diagonal count the same


@dataclass(frozen=True)
class Boxes:
    """What is known of the objects of each label of a table.

    Args:
        area: Area of all boxes of a class, as a share of the image, `[N, L]`; 0 without one.
        distance: From the centre of the image to the nearest centre of a box, as a share of half
            the diagonal, `[N, L]`; infinite without one.
    """

    area: Floats
    distance: Floats

    def of(self, labels: npt.NDArray[np.bool_]) -> Boxes:
        """Those of some labels `[N, L]`, as if the others had none."""
        return Boxes(np.where(labels, self.area, 0.0), np.where(labels, self.distance, np.inf))

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Which items have a box, bool `[N]`."""
        return np.asarray((self.area > 0).any(axis=1))


def read_boxes(path: str | Path, table: LabelTable) -> Boxes:
    """The boxes of the items and classes of a table.

    The path is a COCO instances JSON, a folder with `instances_*.json`, a folder of VOC's XML, or
    the folder above one of these (`annotations`, `Annotations`).
    """
    from plusone.data.images import without_suffix  # loads PIL

    source = Path(path)
    files = _files(source) if source.is_dir() else [source]
    if not files or not all(file.is_file() for file in files):
        raise InputError(
            f"{source}: has no boxes; name a COCO instances JSON, or the folder Annotations of VOC"
        )
    row_of = {
        without_suffix(PurePosixPath(name).name): row for row, name in enumerate(table.ids.tolist())
    }
    column_of = {name: column for column, name in enumerate(table.classes)}
    area = np.zeros((len(table), len(table.classes)))
    distance = np.full(area.shape, np.inf)
    for file in files:
        images = _coco(file) if file.suffix.lower() == ".json" else _voc(file)
        for stem, (width, height, objects) in images.items():
            if (row := row_of.get(stem)) is None:
                continue
            for name, (left, top, wide, high) in objects:
                if (column := column_of.get(name)) is None:
                    continue
                area[row, column] += wide * high / (width * height)
                away = math.hypot(left + wide / 2 - width / 2, top + high / 2 - height / 2)
                away /= math.hypot(width, height) / 2
                distance[row, column] = min(distance[row, column], away)
    if not area.any():
        raise InputError(
            f"{source}: no item of the table has a box of one of its classes in it; items are "
            "found by the file names of their images"
        )
    return Boxes(area, distance)


def _files(folder: Path) -> list[Path]:
    """The files with boxes in a folder, or in the one that is named for them."""
    for place in (folder, folder / "annotations", folder / "Annotations"):
        files = sorted(place.glob("instances_*.json")) or sorted(place.glob("*.xml"))
        if files:
            return files
    return []


Box = tuple[float, float, float, float]  # left, top, width, height
Image = tuple[float, float, list[tuple[str, Box]]]  # width, height, objects


def _coco(file: Path) -> dict[str, Image]:
    """Images of a COCO instances file by the stem of their file name."""
    from plusone.data.images import without_suffix  # loads PIL

    try:
        content = parse_json(read_text(file, largest=LARGE_FILE, encoding="utf-8-sig"), _lean)
        names = {item["id"]: str(item["name"]) for item in content["categories"]}
        objects: dict[Any, list[tuple[str, Box]]] = defaultdict(list)
        for image, category, box in content["annotations"]:
            where = f"{file}, image_id {image!r}"
            objects[image].append((names[category], _box(box, names[category], where)))
        return {
            without_suffix(PurePosixPath(item["file_name"]).name): (
                _side(item["width"], file),
                _side(item["height"], file),
                objects[item["id"]],
            )
            for item in content["images"]
        }
    except InputError:
        raise
    except (ValueError, TypeError, KeyError) as error:
        what = f"has no {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{file}: is not a COCO instances file with boxes ({what})") from None


def _lean(item: dict[str, Any]) -> object:
    """Reduces an annotation to its image, category and box while the file is being parsed."""
    if "image_id" in item and "category_id" in item:
        return (item["image_id"], item["category_id"], item.get("bbox"))
    return item


def _voc(file: Path) -> dict[str, Image]:
    values: dict[str, str] = {}
    objects: list[tuple[str, Box]] = []
    path: list[str] = []

    def start(tag: str, attributes: dict[str, str], row: int) -> None:
        path.append(tag)
        if path[1:] == ["object"]:
            for key in [key for key in values if key.startswith("object/")]:
                del values[key]

    def text(piece: str) -> None:
        key = "/".join(path[1:])
        values[key] = values.get(key, "") + piece

    def end(tag: str) -> None:
        if path[1:] == ["object"]:
            name = values.get("object/name", "").strip()
            if not name:
                raise InputError(f"{file}: an object has no name; add it or remove the object")
            corners = [values.get(f"object/bndbox/{key}") for key in CORNERS]
            left, top, right, bottom = _numbers(corners, name, str(file))
            box = (left, top, right - left, bottom - top)
            objects.append((name, _box(box, name, str(file))))
        path.pop()

    try:
        parse_xml(file, start, end, text)
        sides = (_side(float(values[f"size/{key}"]), file) for key in ("width", "height"))
        width, height = sides
    except KeyError as error:
        raise InputError(f"{file}: is not an annotation of VOC (has no {error})") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file}: is not an annotation of VOC ({error})") from None
    return {file.name.removesuffix(".xml"): (width, height, objects)}


def _box(values: Any, name: str, where: str) -> Box:
    """Left, top, width and height, checked."""
    left, top, wide, high = _numbers(values, name, where)
    if wide < 0 or high < 0:
        raise InputError(
            f"{where}: the box of {name!r} ends before it begins; correct or remove it"
        )
    return left, top, wide, high


def _numbers(values: Any, name: str, where: str) -> Box:
    """Four finite numbers."""
    try:
        first, second, third, fourth = (float(value) for value in values)
    except (TypeError, ValueError):
        raise InputError(
            f"{where}: the object {name!r} has no box of four numbers; add it or remove the object"
        ) from None
    numbers = (first, second, third, fourth)
    if not all(map(math.isfinite, numbers)):
        raise InputError(f"{where}: the box of {name!r} is not finite; correct or remove it")
    return numbers


def _side(value: float, file: Path) -> float:
    if not float(value) > 0:
        raise InputError(f"{file}: an image has a side of {value}; sides must be positive")
    return float(value)
