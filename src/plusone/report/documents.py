"""The JSON files that commands leave behind, each with its kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plusone.bounded import read_json
from plusone.errors import InputError

Document = dict[str, Any]
SNIFFED = 400  # characters within which a file of ours says its kind
NAMES = {
    "bench": "results.json",
    "sweep": "sweep.json",
    "ablation": "ablation.json",
    "surface": "surface.json",
    "gradients": "gradients.json",
    "intervals": "intervals.json",
    "loop": "loop.json",
}
KEYS = {
    "bench": ("rows",),
    "sweep": ("over", "values", "rows"),
    "ablation": ("method", "data", "rows"),
    "surface": ("method", "extent", "steps", "seed", "train_items", "alphas", "betas", "loss"),
    "gradients": ("p", "curves"),
    "intervals": ("data", "k", "rows"),
    "loop": ("data", "method", "items", "hidden", "seeds", "before", "all_labels", "rows"),
}
ROWS = {  # where a list of objects is, and what each must have
    "bench": ("rows", ("data", "method", "val_map")),
    "sweep": ("rows", ("data", "method", "value")),
    "ablation": ("rows", ("name",)),
    "gradients": ("curves", ("method", "observed", "unobserved")),
    "intervals": ("rows", ("size", "low", "high")),
    "loop": ("rows", ("order", "questions", "yes", "test_map", "test_sd", "gain")),
}


def documents(folder: Path) -> Iterator[Document]:
    """Our JSON files in a folder: those that say their kind at the beginning.

    Files of other names may be somebody else's: they are passed over if they are not like ours.

    Raises:
        InputError: If a file with one of our names cannot be read as what it says it is.
    """
    for path in sorted(folder.glob("*.json")):
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                if '"kind"' not in file.read(SNIFFED):
                    continue
            document = read_json(path)
        except (OSError, ValueError) as error:
            if path.name in NAMES.values():
                raise InputError(f"{path}: is not valid JSON ({error})") from None
            continue
        kind = document.get("kind") if isinstance(document, dict) else None
        if not isinstance(kind, str) or kind not in NAMES:
            continue
        missing = _missing(kind, document)
        if not missing:
            yield document
        elif path.name == NAMES[kind]:
            raise InputError(
                f"{path}: has no {missing}, which a file of the kind {kind!r} needs; make it again "
                "or remove it"
            )


def _missing(kind: str, document: Document) -> str | None:
    """The first thing that a document should have and has not."""
    for key in KEYS[kind]:
        if document.get(key) is None:
            return repr(key)
    if kind in ROWS:
        name, keys = ROWS[kind]
        rows = document[name]
        if not isinstance(rows, list):
            return f"list {name!r}"
        for number, row in enumerate(rows, start=1):
            for key in keys:
                if not isinstance(row, dict) or key not in row:
                    return f"{key!r} in entry {number} of {name!r}"
    return None
