"""Fixtures shared by all tests."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)
os.environ.setdefault("PLUSONE_DEVICE", "cpu")  # tests/accelerator uses other devices


def load_file(path: Path, name: str) -> None:
    """Imports a file of the tests as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


if not torch.accelerator.is_available():
    # A device must be registered before the first backward pass of the process.
    load_file(Path(__file__).parent / "accelerator" / "mimic_device.py", "plusone_mimic_device")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the papers' reference values; tests that need it are skipped without it."""
    root = Path(__file__).resolve().parents[1]
    folder = Path(os.environ.get("PLUSONE_SHARED") or root.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"reference folder {folder} is absent; set PLUSONE_SHARED to its place")
    return folder
