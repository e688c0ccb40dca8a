"""Species files: records of people for training, complete surveys of other sites for testing.

An npz file has the arrays `x` `[records, D]` (the environment at a record), `species` (the number
of the recorded species), `site` (the number of its site), `background` `[B, D]` (other sites of the
region, of which nothing is known), `test_x`, `test_y` (0 or 1, complete) and `names`; others are
not read. NaN is a missing value. Records of a site become one item: its features are their mean,
and all species recorded there are seen positives.

Features are standardized by the sites: mean 0, spread 1. A missing value is 0 then, the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.checks import check_names
from plusone.data.dataset import Dataset
from plusone.data.formats.npz import load_arrays
from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError, Problems

Floats = npt.NDArray[np.float32]
NEEDED = ("x", "species", "site", "background", "test_x", "test_y", "names")
UNUSED = ("xy", "test_xy", "env")


@dataclass(frozen=True)
class SpeciesData:
    """One species file.

    Args:
        x: Features of the sites with records, standardized, `[N, D]`.
        seen: Which species was recorded at a site, int8 `[N, L]`.
        background: Features of the background sites, `[B, D]`.
        test_x: Features of the surveyed sites, `[T, D]`.
        test_y: Which species is there, int8 `[T, L]` in {0, 1}.
    """

    name: str
    x: Floats
    seen: npt.NDArray[np.int8]
    background: Floats
    test_x: Floats
    test_y: npt.NDArray[np.int8]
    species: tuple[str, ...]

    def dataset(self, background: int = 0) -> Dataset:
        """The sites as items to learn from; some background sites are items without a label."""
        more = self.background[:background]
        unlabelled = np.zeros((len(more), len(self.species)), dtype=np.int8)
        labels = LabelMatrix.from_dense(np.concatenate([self.seen, unlabelled]))
        x = np.concatenate([self.x, more])
        return Dataset.from_arrays(x, labels, classes=self.species, name=self.name)


def species_files(folder: Path) -> list[Path]:
    """The species files of a folder, by name."""
    files = sorted(folder.glob("*.npz"))
    if not files:
        raise InputError(f"{folder}: has no npz file; give the folder of the species files")
    return files


def read_species(path: Path) -> SpeciesData:
    """Reads a species file."""
    arrays = load_arrays(path, skip=UNUSED)
    missing = [name for name in NEEDED if name not in arrays]
    if missing:
        raise InputError(f"{path}: is no species file; it lacks the arrays {', '.join(missing)}")
    names = arrays["names"]
    if names.ndim != 1 or names.dtype.kind != "U" or not len(names):
        raise InputError(f"{path}: names has shape {names.shape} and type {names.dtype}, not text")
    species = tuple(names.tolist())
    check_names(species, problems := Problems(path))
    problems.raise_if_any()
    x, background, test_x = (_features(path, key, arrays) for key in ("x", "background", "test_x"))
    if len({x.shape[1], background.shape[1], test_x.shape[1]}) > 1:
        raise InputError(f"{path}: x, background and test_x have different numbers of columns")
    named = _numbers(path, "species", arrays, len(x))
    sites = _numbers(path, "site", arrays, len(x))
    if named.min() < 0 or named.max() >= len(species):
        raise InputError(f"{path}: species has numbers outside 0 to {len(species) - 1}")
    test_y = arrays["test_y"]
    if test_y.shape != (len(test_x), len(species)) or not np.isin(test_y, (0, 1)).all():
        raise InputError(f"{path}: test_y must hold 0 and 1 for each row of test_x and species")
    _, item, counts = np.unique(sites, return_inverse=True, return_counts=True)
    seen = np.zeros((len(counts), len(species)), dtype=np.int8)
    seen[item, named] = 1
    at_sites = _means(x, item, len(counts))
    known = ~np.isnan(at_sites)
    if not known.any(0).all():
        raise InputError(f"{path}: x has a column without any value")
    mean, spread = np.nanmean(at_sites, axis=0), np.nanstd(at_sites, axis=0)
    spread[spread == 0] = 1.0

    def standard(values: npt.NDArray[np.float64]) -> Floats:
        scaled: Floats = np.nan_to_num((values - mean) / spread, nan=0.0).astype(np.float32)
        return scaled

    return SpeciesData(
        path.stem,
        standard(at_sites),
        seen,
        standard(background),
        standard(test_x),
        test_y.astype(np.int8),
        species,
    )


def _features(path: Path, name: str, arrays: dict[str, Any]) -> npt.NDArray[np.float64]:
    """Features `[n, D]`; NaN is allowed, infinite values are not."""
    x = arrays[name]
    if x.ndim != 2 or x.dtype.kind not in "biuf" or not x.size:
        raise InputError(f"{path}: {name} has shape {x.shape} and type {x.dtype}, not numbers")
    if np.isinf(x).any():
        raise InputError(f"{path}: {name} has an infinite value; a missing one is NaN")
    values: npt.NDArray[np.float64] = x.astype(np.float64)
    return values


def _numbers(path: Path, name: str, arrays: dict[str, Any], count: int) -> npt.NDArray[np.int64]:
    """Whole numbers, one for each record."""
    given = arrays[name]
    if given.shape != (count,) or not np.issubdtype(given.dtype, np.integer):
        raise InputError(f"{path}: {name} must have one whole number for each of {count} records")
    numbers: npt.NDArray[np.int64] = given.astype(np.int64)
    return numbers


def _means(
    x: npt.NDArray[np.float64], item: npt.NDArray[np.int64], n_items: int
) -> npt.NDArray[np.float64]:
    """The mean of the known values of each item, `[n, D]`; NaN where there is none."""
    known = ~np.isnan(x)
    totals, counts = np.zeros((n_items, x.shape[1])), np.zeros((n_items, x.shape[1]))
    np.add.at(totals, item, np.where(known, x, 0.0))
    np.add.at(counts, item, known)
    return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)
