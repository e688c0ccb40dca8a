"""npz files made elsewhere: loading their arrays, and making a data set of them."""

from __future__ import annotations

import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.dataset import Dataset
from plusone.data.formats.base import ReadOptions
from plusone.data.formats.checks import check_ids, images_root, name_fault, split_name
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable, Strings
from plusone.errors import InputError, Problems
from plusone.io.readers import UNPACKED_RATIO, unpacked_limit

MOST_ARRAYS = 10_000
SHOWN = 200
LAST_CHARACTER = 0x10FFFF

Arrays = dict[str, npt.NDArray[Any]]


def load_npz(path: Path, skip: Collection[str] = ()) -> Arrays:
    """All arrays of an npz file, none of them pickled.

    Args:
        path: The file.
        skip: Names of arrays that are checked but not loaded.

    Raises:
        OSError: The file cannot be opened.
        ValueError: It is no npz file, is damaged, holds pickled objects, or would become too large.
    """
    try:
        _check_members(path)
        with np.load(path, allow_pickle=False) as file:
            return {key: _sound_text(file[key]) for key in file.files if key not in skip}
    except OSError as error:
        if error.filename is not None:
            raise
        raise ValueError(_first(error)) from None
    except Exception as error:  # zip files and array headers can be damaged in many ways
        why = "it holds pickled objects" if "pickle" in str(error) else _first(error)
        raise ValueError(why) from None


def _check_members(path: Path) -> None:
    size = path.stat().st_size
    with path.open("rb") as raw:
        if raw.read(6) == b"\x93NUMPY":
            raise ValueError("it is a single array")
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) > MOST_ARRAYS:
            raise ValueError(f"it has more than {MOST_ARRAYS:,} arrays")
        if len({member.filename for member in members}) < len(members):
            raise ValueError("two of its arrays have the same name")
        stored = sum(m.file_size for m in members if m.compress_type == zipfile.ZIP_STORED)
        packed = sum(m.file_size for m in members) - stored
        if stored > size:
            raise ValueError(f"its arrays claim {stored:,} bytes, the file has {size:,}")
        if packed > unpacked_limit(size):
            raise ValueError(
                f"its compressed arrays claim {packed:,} bytes, more than {UNPACKED_RATIO} times "
                f"the file; if you trust it, write it without compression"
            )
        for member in members:
            _check_claim(archive, member)


def _check_claim(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """The header of an array must claim the bytes that follow it, no more and no less."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read is None:
            raise ValueError(f"{member.filename} is an array of another version")
        shape, _, dtype = read(file)
        claimed = dtype.itemsize
        for side in shape:
            if type(side) is not int or side < 0:
                raise ValueError(f"{member.filename} has the shape {str(shape)[:SHOWN]}")
            claimed *= side
        if dtype.hasobject:
            raise ValueError("it holds pickled objects")
        if claimed != member.file_size - file.tell():
            raise ValueError(
                f"{member.filename} claims {claimed:,} bytes and has "
                f"{member.file_size - file.tell():,}"
            )


def _sound_text(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array, if no text in it has characters that do not exist, which Python cannot bear."""
    if array.dtype.kind == "U" and array.size:
        codes = np.ascontiguousarray(array).view(array.dtype.byteorder.replace("|", "=") + "u4")
        if codes.max() > LAST_CHARACTER:
            raise ValueError("it has text in it that is no text")
    return array


def _first(error: Exception) -> str:
    """The first line of what an error says, or its kind."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:SHOWN]


ID_KEYS = ("ids", "names", "image_ids")


def load_arrays(path: Path, skip: Collection[str] = ()) -> Arrays:
    """All arrays of an npz file; `InputError` if it is damaged or holds pickled objects.

    Args:
        path: The file.
        skip: Names of arrays to leave where they are.
    """
    try:
        return load_npz(path, skip)
    except ValueError as error:
        raise InputError(f"{path}: is not a readable npz file ({error})") from None


def join_parts(path: Path, arrays: Arrays) -> Arrays:
    """The MULAN arrays as one table."""
    for one, other in (("xtr", "xte"), ("ytr", "yte")):
        for name in (one, other):
            if arrays[name].dtype.kind not in "biuf":
                raise InputError(f"{path}: {name} has type {arrays[name].dtype}, not numbers")
        if arrays[one].ndim != 2 or arrays[one].shape[1:] != arrays[other].shape[1:]:
            shapes = f"{arrays[one].shape} and {arrays[other].shape}"
            raise InputError(f"{path}: {one} and {other} have shapes {shapes}")
    kinds = (("train", len(arrays["ytr"])), ("test", len(arrays["yte"])))
    out: Arrays = {
        "x": np.concatenate([arrays["xtr"], arrays["xte"]]),
        "y": np.concatenate([arrays["ytr"], arrays["yte"]]),
        "ids": np.array([f"{kind}-{row:05d}" for kind, n in kinds for row in range(1, n + 1)]),
        "split": np.repeat([kind for kind, _ in kinds], [n for _, n in kinds]),
    }
    for key in ("labels", "classes"):
        if key in arrays:
            out["classes"] = arrays[key]
    return out


def from_arrays(path: Path, arrays: Arrays, options: ReadOptions) -> Dataset:
    """A data set from `y` or `labels` `[N, L]` and what goes with it."""
    problems = Problems(path)
    key = "y" if "y" in arrays else "labels"
    y = arrays[key]
    if y.ndim != 2 or y.dtype.kind not in "biuf":
        raise InputError(
            f"{path}: {key} has shape {y.shape} and type {y.dtype}, not numbers [N, L]"
        )
    class_key = "labels" if key == "y" and "labels" in arrays else "classes"
    named = arrays.get(class_key, np.array([f"class-{c:03d}" for c in range(y.shape[1])]))
    id_key = next((name for name in ID_KEYS if name in arrays), "")
    ids = arrays.get(id_key, np.array([f"item-{row:05d}" for row in range(1, len(y) + 1)]))
    used = {key, class_key, id_key, "x", "split"}
    shapes = {class_key: (named, y.shape[1]), id_key or "ids": (ids, len(y))}
    for name in ("split", "x"):
        if name in arrays:
            shapes[name] = (arrays[name], len(y))
    for name, (array, count) in shapes.items():
        if array.shape[:1] != (count,) or array.ndim != (2 if name == "x" else 1):
            problems.add(f"{name} has shape {array.shape}, but {key} has shape {y.shape}")
    for row, column in np.argwhere(~np.isin(y, (1, 0, -1)))[:1000]:
        problems.add(f"{y[row, column]} in {key}[{row}, {column}] is not 1, 0 or -1")
    problems.raise_if_any()
    classes = tuple(str(name) for name in named)
    check_names(classes, problems)
    texts = as_texts(path, id_key or "ids", ids)
    check_ids(texts, problems)
    split = None
    if "split" in arrays:
        split = check_splits(as_texts(path, "split", arrays["split"]), problems)
    features = check_features(path, arrays.get("x"))
    root = options.images
    if root is not None:
        root, _ = images_root(texts, root, problems, check=options.check_images, required=True)
    problems.raise_if_any()
    extra = sorted(arrays.keys() - used)
    notes: tuple[str, ...] = ()
    if extra:
        notes += (f"arrays that were not read: {', '.join(extra)}",)
    negative, several = bool((y == -1).any()), bool(((y == 1).sum(axis=1) > 1).any())
    if not negative:
        how = "rows with several positives: the labels were taken as complete"
        alone = "at most one positive a row: the labels were taken as seen, 0 as unobserved"
        notes += (f"only 0 and 1, {how if several else alone}",)
    states = LabelMatrix.from_dense(y, default=0 if negative or not several else -1)
    if negative and not (y == 0).any():
        states = states.with_default(-1)
    truth = states if states.default == -1 else None
    return Dataset(
        LabelTable(texts, classes, states, truth, split, root, notes=notes), features, path.stem
    )


def as_texts(path: Path, name: str, array: npt.NDArray[Any]) -> Strings:
    """An array of names or numbers as text; `InputError` for anything else."""
    try:
        if array.dtype.kind not in "USbiuf":
            raise ValueError(f"type {array.dtype}")
        return array.astype(np.str_)
    except ValueError as error:  # also bytes that are not ASCII
        raise InputError(f"{path}: {name} does not hold names ({error})") from None


def check_names(classes: tuple[str, ...], problems: Problems) -> None:
    """Records class names that are empty or occur twice."""
    seen: set[str] = set()
    for place, name in enumerate(classes):
        if fault := name_fault(name):
            problems.add(f"class name {name!r} at place {place} {fault}")
        elif name in seen:
            problems.add(f"class {name!r} occurs twice")
        seen.add(name)


def check_splits(given: npt.NDArray[Any], problems: Problems) -> Strings:
    """The splits under their usual names; other words are problems."""
    words = given.astype(np.str_)
    names = {word: split_name(word) for word in np.unique(words).tolist()}
    for word, name in names.items():
        if name is None:
            row = int(np.flatnonzero(words == word)[0])
            problems.add(f"split[{row}] {word!r} is not train, val or test")
    out = np.full(len(words), "", dtype="<U5")
    for word, name in names.items():
        out[words == word] = name or ""
    return out


def check_features(path: Path, x: npt.NDArray[Any] | None) -> npt.NDArray[np.floating[Any]] | None:
    """The features as float16 or float32; `InputError` for what is not finite."""
    if x is None:
        return None
    if x.dtype.kind not in "biuf" or x.ndim < 2:
        raise InputError(
            f"{path}: x has shape {x.shape} and type {x.dtype}, not numbers [N, D] or more"
        )
    x = x if x.dtype in (np.float16, np.float32) else x.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if len(bad):
        raise InputError(f"{path}: x has a NaN or infinite value in row {bad[0]}")
    return x
