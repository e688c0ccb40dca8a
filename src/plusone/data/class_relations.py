"""How similar classes are by their names: cosines of the vectors of a sentence encoder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from plusone.data.text_encoder import ENCODERS, TextEncoder, is_installed, release_of

__all__ = ["class_relations", "described", "has_words", "names_encoder", "readable"]

PREFERRED = "minilm"  # that of `plusone hints`; any other packaged encoder does, too
NUMBERED = re.compile(r"(class|label|tag|col|column|c|y)?[\W_]*\d*", re.IGNORECASE)


def readable(name: str) -> str:
    """A class name as text.

    >>> readable("tennis_court"), readable("mobile-home-park")
    ('tennis court', 'mobile home park')
    """
    return name.replace("_", " ").replace("-", " ")


def has_words(classes: Sequence[str]) -> bool:
    """Whether class names say what the classes are: they are not all numbered.

    >>> has_words(["boat", "cat"]), has_words(["class-000", "class-001"]), has_words(["0", "1"])
    (True, False, False)
    """
    return not all(NUMBERED.fullmatch(name) for name in classes)


def names_encoder() -> str | None:
    """The encoder of class names: "minilm", or another one that is installed; None without any."""
    return next(filter(is_installed, (PREFERRED, *ENCODERS)), None)


@lru_cache(maxsize=4)
def class_relations(classes: tuple[str, ...], encoder: str) -> npt.NDArray[np.float32]:
    """Cosines of the class names `[L, L]`, read-only.

    Args:
        classes: Their names.
        encoder: Name in `plusone.data.text_encoder.ENCODERS`.
    """
    vectors = TextEncoder(encoder)([readable(name) for name in classes])
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    cosines = np.asarray(vectors @ vectors.T, dtype=np.float32)
    cosines.flags.writeable = False
    return cosines


def described(encoder: str) -> str:
    """An encoder with its version, for the record.

    Args:
        encoder: Name in `plusone.data.text_encoder.ENCODERS`.
    """
    return f"{encoder} ({ENCODERS[encoder].package} {release_of(encoder)})"
