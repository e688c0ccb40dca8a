"""The items that a prediction is asked for: image files, feature files, lists and data sets."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from plusone.data._arrow import LANCE
from plusone.data.broken import NO_TEXT
from plusone.data.checks import id_fault
from plusone.data.dataset import Dataset
from plusone.data.dataset import Skipped as Skipped
from plusone.data.features import NPY, SUFFIXES, holds_features, read_features
from plusone.data.formats import FORMATS
from plusone.data.formats._sharded import Sharded
from plusone.data.formats.csv_text import header_of, id_column, open_table, sidecar_root
from plusone.data.images import IMAGE_SUFFIXES, SOMETIMES, image_files, not_readable
from plusone.data.lazy import rows_of
from plusone.data.matrix import LabelMatrix
from plusone.data.shards import named_files, shards_of
from plusone.data.source import EMBEDDED, load_source
from plusone.data.table import LabelTable
from plusone.data.text_encoder import TextEncoder
from plusone.data.text_features import MADE_BY, stored_vectors
from plusone.data.texts import read_texts
from plusone.device import device_of
from plusone.errors import InputError, Problems
from plusone.inputs.loader import ArrayInputs, FileInputs, Inputs, MappedInputs
from plusone.inputs.task import dataset_inputs, input_shape, same_kind
from plusone.inputs.workers import ImageWorkers
from plusone.prediction.load import Predictor

UNDECODED = re.compile("[\ud800-\udfff]")  # what undecodable bytes of a file name become


@dataclass(frozen=True)
class Items:
    """The items of one argument.

    Args:
        paths: Their image files, or () if there are `inputs`.
        inputs: Their inputs, if they are not image files.
        skipped: Entries that are not usable items.
    """

    ids: tuple[str, ...]
    paths: tuple[Path, ...] = ()
    inputs: Inputs | None = None
    skipped: tuple[Skipped, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def only(self, rows: Sequence[int], skipped: Sequence[Skipped] = ()) -> Items:
        """Some of its image files, and further entries that are not usable items."""
        ids, paths = tuple(self.ids[row] for row in rows), tuple(self.paths[row] for row in rows)
        return Items(ids, paths, None, (*self.skipped, *skipped))


def find_items(
    predictor: Predictor,
    arguments: Sequence[str],
    features: Sequence[Path] = (),
    form: str = "auto",
    meaning: str = "auto",
    hints: Path | None = None,
    on_text: Callable[[int, int], None] | None = None,
) -> list[Items]:
    """Resolves command-line arguments to items, one `Items` per argument.

    A model for images takes image files, folders (searched recursively), patterns such as
    `photos/**/*.jpg`, a CSV with a column `image` (paths relative to the folder of its images, as
    `data.formats` resolves it), shards (`plusone.data.shards`), or a data set with images. A model
    for features takes feature files or data sets with features, and one for texts what
    `plusone.data.texts` reads, too.

    Names of items are relative to the argument if there is only one, and include it otherwise. An
    image file that several arguments name is predicted once.

    Feature files, format, meaning of labels and hints are those of the data sets. An argument
    without items that the model can take is an `InputError`.
    """
    plain = form == "auto" and not features
    encoder = predictor.made_by.get(MADE_BY)
    resolved: list[Items] = []
    paths: set[str] = set()
    for argument in arguments:
        items, alone = None, len(arguments) == 1
        if plain and predictor.images:
            items = _images(argument, alone=alone)
        elif plain and encoder is not None:
            items = _texts(argument, encoder, on_text, alone=alone)
        if items is None:
            items = _features_or_dataset(predictor, argument, features, form, meaning, hints)
        elif items.paths and predictor.shape[0] != 3:
            raise InputError(
                f"{argument}: has {_kind((3,) * 3)}, the model takes {_kind(predictor.shape)}"
            )
        resolved.append(_without(_with_names(items), paths))
        if not items.ids and not items.skipped:
            raise InputError(f"{argument}: has no items")
    return resolved


def photos_of(argument: str) -> Dataset | None:
    """The photos of a folder, pattern or list that has no labels; None if it is something else.

    A folder of class folders counts as one: the names of the photos are the same with and without
    labels.
    """
    path = Path(argument)
    if path.is_dir():
        kinds = (name for name, entry in FORMATS.items() if entry.module.detects(path))
        if (path / "labels.csv").is_file() or next(kinds, "folders") not in ("folders", "xmp"):
            return None
    elif path.suffix.lower() == ".csv":
        if not path.is_file() or len(header_of(path)) > 1:
            return None
    elif not image_files(path) and (shards_of(path) or not glob.has_magic(argument)):
        return None
    items = _images(argument, alone=True)
    if items is None or not items.ids:
        return None
    items = _with_names(items)
    ids = np.array(items.ids, dtype=np.str_)
    labels = LabelMatrix.from_entries([], [], 1, (len(ids), 0))
    root = str(items.paths[0]).removesuffix(items.ids[0])
    table = LabelTable(ids, (), labels, root=Path(root))
    return Dataset(table, name=path.resolve().name, broken=items.skipped)


def items_of(
    predictor: Predictor, data: str, features: Sequence[Path], form: str, meaning: str
) -> tuple[tuple[str, ...], Inputs]:
    """Names and inputs of the items of one argument, see `find_items`."""
    (items,) = find_items(predictor, [data], features, form, meaning)
    if items.inputs is not None:
        return items.ids, items.inputs
    recipe, size = predictor.recipe, predictor.shape[-1]
    workers = ImageWorkers(recipe.workers, device_of(predictor.model))
    return items.ids, FileInputs(items.paths, size, workers=workers, aspect=recipe.aspect)


def _with_names(items: Items) -> Items:
    """The items whose file names are text; the others cannot be written, and are skipped."""
    bad = [row for row, name in enumerate(items.ids) if UNDECODED.search(name)]
    if not bad or not items.paths:
        return items
    names = [os.fsencode(items.ids[row]).decode("utf-8", "backslashreplace") for row in bad]
    skipped = [Skipped(name, "its name is not UTF-8") for name in names]
    return items.only(sorted({*range(len(items))} - {*bad}), skipped)


def _without(items: Items, paths: set[str]) -> Items:
    """The items whose image files are not in `paths`; their files are added to it."""
    if not items.paths:
        return items
    new = []
    for row, path in enumerate(map(os.path.abspath, items.paths)):
        if path not in paths:
            paths.add(path)
            new.append(row)
    return items.only(new)


def _images(argument: str, *, alone: bool) -> Items | None:
    """The images of an argument; None if it is neither images nor a list of them."""
    if argument in EMBEDDED:
        return None
    path = Path(argument)
    files = image_files(path, also=SOMETIMES)  # those of kinds that are not read are named
    sharded = None if files else Sharded.find(path)
    if sharded is not None and (ids := sharded.ids()):
        files = tuple(sharded.root / name for name in ids)
        return Items(tuple(ids) if alone else _names(files, None), files)
    if not os.path.exists(argument):
        return _matching(argument) if glob.has_magic(argument) else None
    if path.is_dir():
        if not any(file.suffix.lower() in IMAGE_SUFFIXES for file in files):
            unread = not_readable(file.name for file in files)
            raise InputError(f"{argument}: {unread or 'has no images in it'}")
        return Items(_names(files, path if alone else None), files)
    if files:
        return Items(_names(files, path.parent if alone else None), files)
    return _listed(path, alone=alone) if path.suffix.lower() == ".csv" else None


def _texts(
    argument: str, encoder: str, on_text: Callable[[int, int], None] | None, *, alone: bool
) -> Items | None:
    """The texts of an argument; None if it has none."""
    known = read_texts(argument)
    if known is None:
        return None
    ids, texts = known
    names = ids if alone else [f"{argument}/{name}" for name in ids]
    rows = [row for row, text in enumerate(texts) if text]
    skipped = tuple(
        Skipped(name, NO_TEXT) for name, text in zip(names, texts, strict=True) if not text
    )
    if not rows:
        return Items((), skipped=skipped)
    x = stored_vectors(TextEncoder(encoder), [texts[row] for row in rows], on_text)
    return Items(tuple(names[row] for row in rows), (), ArrayInputs(torch.from_numpy(x)), skipped)


def _matching(pattern: str) -> Items:
    """The images that match a pattern, and those in matching folders."""
    matches = sorted(glob.glob(pattern, recursive=True))
    if not matches:
        raise InputError(f"{pattern}: no file matches")
    files: list[Path] = []
    other: list[Skipped] = []
    for path in map(Path, matches):
        inside = image_files(path)
        files += inside
        if not inside and path.is_file():
            other.append(Skipped(path.as_posix(), "is not an image file by its name"))
    return Items(_names(files, None), tuple(files), None, tuple(other))


def _listed(path: Path, *, alone: bool) -> Items:
    problems = Problems(path)
    ids: list[str] = []
    bad: list[Skipped] = []
    _, header, rows = open_table(path, problems)
    place = id_column(header, path)
    for name in (cells[place].strip() for _, cells in rows):
        if fault := id_fault(name):
            bad.append(Skipped(name, fault))
        else:
            ids.append(name)
    problems.raise_if_any()
    root = sidecar_root(np.array(ids, dtype=np.str_), path)
    files = tuple(root / name for name in ids)
    return Items(tuple(ids) if alone else _names(files, None), files, None, tuple(bad))


def _features_or_dataset(
    predictor: Predictor,
    argument: str,
    features: Sequence[Path],
    form: str,
    meaning: str,
    hints: Path | None,
) -> Items:
    path = Path(argument)
    if not predictor.images and not features and image_files(path):
        raise InputError(
            f"{argument}: has {_kind((3,) * 3)}, the model takes {_kind(predictor.shape)}; "
            "plusone features extracts them, with the backbone of the training data"
        )
    bare = not features and _has_features_only(path)
    if bare and predictor.images:
        raise InputError(f"{argument}: holds features, the model takes images")
    if bare:
        file = read_features([path])
        if not same_kind(shape := file.x.shape[1:], predictor.shape):
            raise InputError(
                f"{path}: has {_kind(shape)}, the model takes {_kind(predictor.shape)}"
            )
        _check_made_by(predictor, file.meta, argument)
        rows = np.arange(len(file.ids))
        return Items(tuple(file.ids.tolist()), (), MappedInputs(rows_of(file.x, rows)))
    # Image files are not checked here: prediction skips those that cannot be decoded.
    dataset = load_source(
        argument,
        features=features,
        hints=hints,
        format=form,
        labels=meaning,
        check_images=False,
        encoder=predictor.made_by.get(MADE_BY),
        classes=None,
    )
    table = dataset.table
    ids, count = tuple(table.ids.tolist()), len(table)
    if dataset.features is None and table.root is not None:
        _check_kind(predictor, dataset)
        return Items(ids, tuple(table.path(row) for row in range(count)))
    return Items(ids, (), inputs_for(predictor, dataset, np.arange(count)), dataset.broken)


def inputs_for(predictor: Predictor, dataset: Dataset, rows: npt.NDArray[np.int64]) -> Inputs:
    """Inputs of some rows of a data set; `InputError` if the model does not take such inputs."""
    _check_kind(predictor, dataset)
    workers = ImageWorkers(predictor.recipe.workers, device_of(predictor.model))
    return dataset_inputs(dataset, predictor.shown, predictor.shape, workers=workers)(rows)


def _check_kind(predictor: Predictor, dataset: Dataset) -> None:
    if MADE_BY in dataset.made_by and MADE_BY not in predictor.made_by:
        raise InputError(f"{dataset.name}: has texts, the model takes {_kind(predictor.shape)}")
    given = input_shape(dataset, predictor.recipe)
    if not same_kind(given, predictor.shape):
        raise InputError(
            f"{dataset.name}: has {_kind(given)}, the model takes {_kind(predictor.shape)}"
            f"{'' if predictor.images else '; give them with --features FILE'}"
        )
    _check_made_by(predictor, dataset.made_by, dataset.name)


def _check_made_by(predictor: Predictor, made_by: Mapping[str, object], name: str) -> None:
    """Refuses features that another backbone made than those of the training, or another size."""
    for key, trained in predictor.made_by.items():
        if key in made_by and made_by[key] != trained:
            raise InputError(
                f"{name}: its features were made with {key} {made_by[key]}, the model was trained "
                f"with {key} {trained}; plusone features makes others"
            )


def _kind(shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return f"{shape[0]} features per item"
    if len(shape) == 2:
        return f"tokens of {shape[1]} features"
    return f"images with {shape[0]} channel{'' if shape[0] == 1 else 's'}"


def _names(files: Iterable[Path], root: Path | None) -> tuple[str, ...]:
    """Names of files, relative to a folder if one is given."""
    return tuple((file if root is None else file.relative_to(root)).as_posix() for file in files)


def _has_features_only(path: Path) -> bool:
    kind = path.suffix.lower()
    if path.is_dir() and kind != LANCE:
        labelled = (path / "labels.csv").is_file()
        return not labelled and any(file.suffix.lower() == NPY for file in path.iterdir())
    if kind != ".npz":
        return kind == NPY or (kind in SUFFIXES and holds_features(named_files(path)[0]))
    try:
        with np.load(path, allow_pickle=False) as file:
            return "x" in file.files and not {"y", "labels"} & set(file.files)
    except Exception:  # damaged files fail in many ways; reading it later says how
        return False
