"""A folder of text files per class, read as one of images is, where there is nothing else."""

from __future__ import annotations

from pathlib import Path

from plusone.data.formats import folders

read = folders.read


def detects(path: Path) -> bool:
    """A folder with several folders that have nothing but text files in them."""
    return path.is_dir() and folders.only_texts(path)
