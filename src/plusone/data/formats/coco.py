"""COCO instances JSON: an image is positive for a class if it has an annotation of it.

`instances_train*.json` is the split "train"; `instances_val*.json` is the papers' test set and
becomes "test". Crowd annotations count. Images are sorted by their number as text, which is the
order of the published protocol. An image may have a "group", the group that it belongs to.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from plusone.data.checks import check_groups, check_ids, id_array, name_fault
from plusone.data.dataset import Dataset
from plusone.data.formats.base import ReadOptions, images_root
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError, Problems
from plusone.io.readers import LARGE_FILE, parse_json, read_text

PATTERN = "instances_*.json"
LARGE_NUMBER = 2**60


@dataclass
class _Rows:
    ids: list[str] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    empty: int = 0


def detects(path: Path) -> bool:
    """A `.json` file, or a folder with `instances_*.json` in it or in `annotations/`."""
    if path.is_file():
        return path.suffix.lower() == ".json"
    return bool(_files(path))


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(path.glob(PATTERN)) or sorted(path.glob(f"annotations/{PATTERN}"))


def read(path: Path, options: ReadOptions) -> Dataset:
    """Reads one file, or all instance files of a folder; all labels are known."""
    files = _files(path)
    if not files:
        raise InputError(f"{path}: has no {PATTERN} in it")
    problems = Problems(path)
    loaded = [_load(file) for file in files]
    categories: dict[int, str] = {}
    for file, content in zip(files, loaded, strict=True):
        _add_categories(content["categories"], categories, problems, file)
    problems.raise_if_any()
    classes = tuple(categories[number] for number in sorted(categories))
    column_of = {number: column for column, number in enumerate(sorted(categories))}
    folders = [_image_folder(file) for file in files]
    shared = len(files) > 1 and all(folders) and len({f.parent for f in folders if f}) == 1
    out = _Rows()
    for file, content, folder in zip(files, loaded, folders, strict=True):
        prefix = f"{folder.name}/" if shared and folder else ""
        _add_images(content, file, prefix, column_of, out, problems, options.keep_empty)
    ids = id_array(out.ids, path)
    check_ids(ids, problems)
    groups = id_array(out.groups, path, "groups") if any(out.groups) else None
    if groups is not None:
        check_groups(groups, problems)
    root = folders[0] if len(files) == 1 else (folders[0].parent if shared and folders[0] else None)
    root, notes = images_root(ids, root, options, problems)
    if not len(ids) and not problems:
        problems.add("has no image with an annotation")
    problems.raise_if_any()
    if out.empty:
        notes = (*notes, f"{out.empty} images without annotation were left out")
    if "test" in out.splits:
        notes = (*notes, "the official val file is the split 'test', as in the papers")
    truth = LabelMatrix.from_entries(out.rows, out.columns, 1, (len(ids), len(classes)), default=-1)
    split = np.asarray(out.splits, dtype="<U5") if any(out.splits) else None
    if split is not None:
        split[split == ""] = "train"
    table = LabelTable.complete(
        ids, classes, truth, split=split, root=root, notes=notes, groups=groups
    )
    return Dataset(table, name=path.stem)


def _key(number: object) -> object:
    """An id as the key of a dictionary: many large numbers can have the same hash, texts cannot."""
    return str(number) if isinstance(number, int) and abs(number) >= LARGE_NUMBER else number


def _lean(item: dict[str, Any]) -> object:
    """Reduces an annotation to its image and category while the file is being parsed."""
    if "image_id" in item and "category_id" in item:
        return (_key(item["image_id"]), _key(item["category_id"]))
    return item


def _load(file: Path) -> dict[str, list[Any]]:
    try:
        text = read_text(file, largest=LARGE_FILE, encoding="utf-8-sig")
        content = parse_json(text, object_hook=_lean)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{file}, row {error.lineno}, column {error.colno}: is not JSON ({error.msg})"
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: byte {error.start} is not UTF-8") from None
    except ValueError as error:
        raise InputError(f"{file}: is not readable as JSON ({error})") from None
    for key in ("images", "annotations", "categories"):
        if not isinstance(content, dict) or not isinstance(content.get(key), list):
            raise InputError(f"{file}: is not a COCO instances file (no list {key!r} in it)")
    return {key: content[key] for key in ("images", "annotations", "categories")}


def _add_categories(
    items: list[Any], categories: dict[int, str], problems: Problems, file: Path
) -> None:
    numbers_in_file: set[int] = set()
    numbers = {name: number for number, name in categories.items()}
    for place, item in enumerate(items):
        number, name = (item.get("id"), item.get("name")) if isinstance(item, dict) else (None, "")
        if type(number) is not int or abs(number) >= LARGE_NUMBER or not isinstance(name, str):
            problems.add(f"category {place} needs a number 'id' and a 'name'", source=file)
        elif fault := name_fault(name):
            problems.add(f"category {number} has the name {name!r}, which {fault}", source=file)
        elif number in numbers_in_file:
            problems.add(f"category {number} occurs twice", source=file)
        elif categories.get(number, name) != name:
            problems.add(
                f"category {number} is {name!r}, but {categories[number]!r} elsewhere", source=file
            )
        elif numbers.get(name, number) != number:
            problems.add(f"category name {name!r} occurs twice", source=file)
        else:
            categories[number] = name
            numbers[name] = number
            numbers_in_file.add(number)


def _add_images(
    content: dict[str, list[Any]],
    file: Path,
    prefix: str,
    column_of: dict[int, int],
    out: _Rows,
    problems: Problems,
    keep_empty: bool,
) -> None:
    labels: dict[object, set[int]] = {}
    names: dict[object, str] = {}
    groups: dict[object, str] = {}
    for place, item in enumerate(content["images"]):
        number, name = (item.get("id"), item.get("file_name")) if isinstance(item, dict) else (0, 0)
        number = _key(number)
        if not isinstance(number, int | str) or not isinstance(name, str):
            problems.add(f"image {place} needs an 'id' and a 'file_name'", source=file)
        elif number in names:
            problems.add(f"image id {number!r} occurs twice", source=file)
        else:
            names[number], labels[number] = name, set()
            groups[number] = "" if item.get("group") is None else str(item["group"]).strip()
    for place, item in enumerate(content["annotations"]):
        if not isinstance(item, tuple):
            problems.add(f"annotation {place} needs 'image_id' and 'category_id'", source=file)
        elif not isinstance(item[0], int | str) or item[0] not in names:
            problems.add(f"annotation {place} has the unknown image {item[0]!r}", source=file)
        elif not isinstance(item[1], int) or item[1] not in column_of:
            problems.add(f"annotation {place} has the unknown category {item[1]!r}", source=file)
        else:
            labels[item[0]].add(column_of[item[1]])
    for number in sorted(names, key=str):
        if not labels[number] and not keep_empty:
            out.empty += 1
            continue
        out.rows.extend([len(out.ids)] * len(labels[number]))
        out.columns.extend(sorted(labels[number]))
        out.ids.append(prefix + names[number])
        out.splits.append(_split(file))
        out.groups.append(groups[number])


def _split(file: Path) -> str:
    match = re.search("train|val|test", file.stem.lower())
    return {"train": "train", "val": "test", "test": "test"}[match[0]] if match else ""


def _image_folder(file: Path) -> Path | None:
    home = file.parent.parent if file.parent.name == "annotations" else file.parent
    names = (file.stem.removeprefix("instances_"), "images")
    for folder in (home / name for name in names):
        if folder.is_dir():
            return folder
    return None
