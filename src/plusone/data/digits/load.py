"""All splits at once, made or read from the cache."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plusone.data.digits.look import LOOK, Look
from plusone.data.digits.scenes import CHUNK, compose
from plusone.data.digits.sources import CLASSES, SHARES, SIZE, SPLIT_SEED, SPLITS
from plusone.errors import InputError
from plusone.files import cache_folder

N_TRAIN, N_VAL, N_TEST = 4000, 600, 1500
FORMAT = 1  # raise it whenever the code makes other pixels from the same look


@dataclass(frozen=True)
class Digits:
    """The scenes of all three splits, in the order train, val, test.

    Attributes:
        images: uint8 [N, 64, 64] grey values.
        truth: uint8 [N, 10], 1 where the digit is on the scene.
        split: int8 [N]: 0 train, 1 val, 2 test.
        classes: The 10 class names, "zero" to "nine".
    """

    images: npt.NDArray[np.uint8]
    truth: npt.NDArray[np.uint8]
    split: npt.NDArray[np.int8]
    classes: tuple[str, ...] = CLASSES


def _cache_file(folder: Path | None, sizes: tuple[int, ...], seed: int, look: Look) -> Path | None:
    """Where the scenes are kept, or None when PLUSONE_CACHE is set and empty."""
    if folder is None and (folder := cache_folder()) is None:
        return None
    made_from = {
        "format": FORMAT,
        "numpy": np.__version__,
        "sizes": sizes,
        "seed": seed,
        "look": asdict(look),
        "source split": (SPLIT_SEED, SHARES),
        "chunk": CHUNK,
    }
    digest = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:16]
    return folder / f"digits-v{FORMAT}-{digest}.npz"


def _read_cache(file: Path, split: npt.NDArray[np.int8]) -> Digits | None:
    """The cached scenes, or None if there are none that can be used."""
    n = len(split)
    try:
        with np.load(file, allow_pickle=False) as stored:
            images, truth, kept = stored["images"], stored["truth"], stored["split"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error):
        return None
    good = (
        (images.dtype == np.uint8 and images.shape == (n, SIZE, SIZE))
        and (truth.dtype == np.uint8 and truth.shape == (n, len(CLASSES)))
        and (kept.dtype == np.int8 and np.array_equal(kept, split))
    )
    return Digits(images, truth, kept) if good else None


def _write_cache(file: Path, scenes: Digits) -> None:
    """Writes the cache in one step; a folder that cannot be written is no error."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f"{file.stem}.", suffix=".tmp")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as stream:
            np.savez(stream, images=scenes.images, truth=scenes.truth, split=scenes.split)
        os.replace(name, file)
    except OSError:
        Path(name).unlink(missing_ok=True)


def load_digits_scenes(
    n_train: int = N_TRAIN,
    n_val: int = N_VAL,
    n_test: int = N_TEST,
    seed: int = 0,
    cache: Path | None = None,
    look: Look = LOOK,
) -> Digits:
    """Makes the scenes of the three splits, or reads them from the cache.

    Each split has its own generator, seeded by (seed, split): changing the size of one split
    leaves the others as they are, and a larger split begins with the scenes of a smaller one.

    Args:
        n_train: Number of training scenes.
        n_val: Number of validation scenes.
        n_test: Number of test scenes.
        seed: Seed of the scenes; the split of the source digits does not depend on it.
        cache: Folder of the cache file. None means the folder named by the environment variable
            PLUSONE_CACHE, else `~/.cache/plusone`; an empty PLUSONE_CACHE means no cache. A
            cache that is damaged or cannot be written is never an error.
        look: How the scenes look; the calibrated one unless told.

    Returns:
        All scenes in the order train, val, test.

    Raises:
        InputError: If a size or the seed is negative.
    """
    sizes = (n_train, n_val, n_test)
    if min(*sizes, seed) < 0:
        raise InputError(f"The sizes {sizes} and the seed {seed} must not be negative.")
    split = np.repeat(np.arange(len(SPLITS), dtype=np.int8), sizes)
    file = _cache_file(cache, sizes, seed, look)
    if file is not None and (kept := _read_cache(file, split)) is not None:
        return kept
    parts = [compose(i, n, seed, look) for i, n in enumerate(sizes)]
    made = Digits(
        np.concatenate([p.images for p in parts]),
        np.concatenate([p.truth for p in parts]),
        split,
    )
    if file is not None:
        _write_cache(file, made)
    return made
