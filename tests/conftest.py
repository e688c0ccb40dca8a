"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the papers' reference values; tests that need it are skipped without it."""
    root = Path(__file__).resolve().parents[1]
    folder = Path(os.environ.get("PLUSONE_SHARED") or root.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"reference folder {folder} is absent; set PLUSONE_SHARED to its place")
    return folder
