"""The data set that a user names on the command line: which files, how they are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from plusone.data.broken import without_broken
from plusone.data.classes_file import beside, with_parents_of
from plusone.data.dataset import Dataset, Skipped
from plusone.data.features import MADE_BY, align, matched_loosely, read_features
from plusone.data.formats import read
from plusone.data.hints import with_hints
from plusone.data.matrix import LabelMatrix
from plusone.data.shards import exists
from plusone.data.table import LabelTable
from plusone.data.text_encoder import AUTO
from plusone.data.text_features import with_text_features
from plusone.errors import InputError

EMBEDDED = {
    "digits": "scenes of handwritten digits, 64 x 64 images, made on this machine",
    "digits-features": "the same scenes as fixed random convolution features",
}

# Defaults for the embedded data sets; the user's settings take precedence.
DATA_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "digits": {
        "epochs": 8,
        "lr": 5e-3,
        "batch_size": 64,
        "flip": False,
        "expected_positives": 2.58,  # labels per training scene, see docs/digits.md
    },
    "digits-features": {"batch_size": 64, "expected_positives": 2.58},
}


@dataclass(frozen=True)
class Source:
    """Which data is read, and how; see `load_source`."""

    data: str
    features: tuple[str, ...] = ()
    format: str = "auto"
    labels: str = "auto"
    hints: str | None = field(default=None, repr=False)  # keys are made of the repr
    separator: str | None = field(default=None, repr=False)
    encoder: str | None = field(default=None, repr=False)
    classes: str | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """What to call the data before it is read."""
        return short_name(self.data)

    def load(self) -> Dataset:
        """Reads the data."""
        files = [Path(path) for path in self.features]
        hints = None if self.hints is None else Path(self.hints)
        return load_source(
            self.data,
            features=files,
            hints=hints,
            format=self.format,
            labels=self.labels,
            separator=self.separator,
            encoder=self.encoder,
            classes=None if self.classes is None else Path(self.classes),
        )

    def to_json(self) -> dict[str, Any]:
        """What the description of a run keeps."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Source | None:
        """What `to_json` gave; None of a run whose data was given as arrays."""
        if "data" not in value:
            return None
        given = {name: value[name] for name in cls.__dataclass_fields__ if name in value}
        return cls(**given | {"features": tuple(given.get("features", ()))})


def make_source(
    data: str,
    features: Sequence[Path],
    form: str,
    meaning: str,
    hints: Path | None = None,
    separator: str | None = None,
    encoder: str | None = None,
    classes: Path | None = None,
) -> Source:
    """The data that a command names, with absolute paths."""
    place = data if data in EMBEDDED else str(Path(data).resolve())
    if place != data and not exists(Path(data)):
        raise InputError(f"{data}: no such file or folder")
    files = tuple(str(path.resolve()) for path in features)
    of_hints = None if hints is None else str(hints.resolve())
    classes = classes or (None if data in EMBEDDED else beside(Path(data)))
    of_classes = None if classes is None else str(classes.resolve())
    return Source(place, files, form, meaning, of_hints, separator, encoder, of_classes)


def load_source(
    data: str,
    *,
    features: Sequence[Path] = (),
    hints: Path | None = None,
    format: str = "auto",
    labels: str = "auto",
    separator: str | None = None,
    encoder: str | None = None,
    classes: Path | Literal["beside"] | None = "beside",
    check_images: bool = True,
    on_image: Callable[[int, int], None] | None = None,
    on_text: Callable[[int, int], None] | None = None,
) -> Dataset:
    """Loads a data set: an embedded one by name, or a file or folder in any known format.

    Format, meaning and separator of the labels are those of `plusone.data.formats.read`; feature
    files hold a vector for each item, a hint file scores from elsewhere (`plusone.data.hints`).
    Unless told otherwise, items whose image cannot be decoded are left out (`plusone.data.broken`);
    `on_image` is called with the number of images checked so far and the total. Texts become
    features by a sentence encoder (`plusone.data.text_encoder`), and `on_text` is called likewise.
    `classes` is the file with the parents of classes; by default the `classes.csv` beside the
    labels, if there is one, and None for no parents.
    """
    if classes == "beside":
        classes = None if data in EMBEDDED else beside(Path(data))
    if data in EMBEDDED:
        dataset = _digits(data)
    else:
        dataset = read(
            Path(data),
            format=format,
            labels=labels,
            separator=separator,
            check_images=not features,
        )
        if features:
            feature_file = read_features(features, dataset.table.ids)
            if feature_file.ids is dataset.table.ids:
                notes: tuple[str, ...] = (
                    "features were matched to the items by their order: they have no ids",
                )
            else:
                notes = matched_loosely(feature_file.ids, dataset.table.ids, "features")
            table = replace(dataset.table, notes=(*dataset.table.notes, *notes))
            dataset = _without(replace(dataset, table=table), feature_file.meta.get("broken"))
            made_by = {key: feature_file.meta[key] for key in MADE_BY if key in feature_file.meta}
            features_of_items = align(feature_file, dataset.table)
            dataset = replace(dataset, features=features_of_items, made_by=made_by)
        elif dataset.table.texts is not None:
            dataset = with_text_features(dataset, encoder or AUTO, on_text)
        elif check_images:
            dataset = without_broken(dataset, on_image)
    if classes is not None:
        dataset = replace(dataset, table=with_parents_of(dataset.table, classes))
    return dataset if hints is None else replace(dataset, table=with_hints(dataset.table, hints))


def _without(dataset: Dataset, broken: object) -> Dataset:
    """The data without items that had no readable image when the features were computed."""
    if not isinstance(broken, Mapping) or not broken:
        return dataset
    table = dataset.table
    gone = np.isin(table.ids, np.array(list(broken), dtype=np.str_))
    named = tuple(Skipped(name, str(broken[name])) for name in table.ids[gone].tolist())
    return replace(dataset, table=table.take(np.flatnonzero(~gone)), broken=named)


def _digits(name: str) -> Dataset:
    # Imported here: it needs scikit-learn, which takes a second to load.
    from plusone.data.digits import load_digits_scenes

    scenes = load_digits_scenes()
    table = LabelTable.complete(
        ids=[f"scene-{number:05d}" for number in range(len(scenes.images))],
        classes=scenes.classes,
        truth=LabelMatrix.from_dense(scenes.truth, default=-1),
        split=np.array(["train", "val", "test"])[scenes.split],
    )
    if name == "digits":
        return Dataset(table, scenes.images[:, None], name)
    return Dataset(table, _digits_features().copy(), name)


@lru_cache(maxsize=1)
def _digits_features() -> npt.NDArray[np.float32]:
    """Takes seconds to compute, so several runs in one process share it."""
    from plusone.data.digits import load_digits_scenes, random_conv_features

    return random_conv_features(load_digits_scenes().images)


def short_name(data: str) -> str:
    """The name of the data in that of a run: the file's, or its folder's if it is just "labels".

    Of a pattern, it is what comes before the first special character.

    >>> [short_name(path) for path in ("photos/labels.csv", "photos/train-{0..9}.tar", "a/*.tar")]
    ['photos', 'train', 'a']
    """
    path = Path(data)
    beginning = re.split(r"[*?\[{]", path.stem)[0].rstrip("-_. ")
    name = path.stem if path.exists() or beginning == path.stem else beginning
    if name == "labels" or (not name and path.stem):
        name = path.resolve().parent.name
    return name or "data"
