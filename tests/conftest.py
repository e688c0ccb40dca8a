"""Fixtures shared by all tests."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable
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


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings of a comparison run in this process, where starting others is not the point."""

    def here(work, waiting, workers, name):  # type: ignore[no-untyped-def]
        while waiting:
            yield work(waiting.popleft())

    monkeypatch.setattr("plusone.compare.jobs.in_processes", here)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the papers' reference values; tests that need it are skipped without it."""
    root = Path(__file__).resolve().parents[1]
    folder = Path(os.environ.get("PLUSONE_SHARED") or root.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"reference folder {folder} is absent; set PLUSONE_SHARED to its place")
    return folder


@pytest.fixture(scope="session")
def rewrite() -> bool:
    """Whether notebooks and pictures of the documents are written anew: `make pictures`."""
    return bool(os.environ.get("PLUSONE_REWRITE"))


@pytest.fixture(scope="session")
def agree() -> Callable[[str, str], None]:
    """Whether two texts have the same words, and figures that differ by rounding at most.

    Processors round differently, so figures may differ by 5 % (small ones by 0.05); times are
    ignored.
    """
    figure = re.compile(r"\d[\d,]*(?:\.\d+)?")
    ignored = re.compile(r"\x1b\[[\d;]*m|\d+(?:\.\d+)? (?:s|seconds)\b|seconds +[\d.]+")

    def check(now: str, then: str) -> None:
        now, then = (ignored.sub("", text) for text in (now, then))
        words = [figure.sub("#", text).split() for text in (now, then)]
        assert words[0] == words[1], f"now:\n{now}\nstored:\n{then}\nmake pictures stores it anew"
        figures = ([float(one.replace(",", "")) for one in figure.findall(t)] for t in (now, then))
        assert list(next(figures)) == pytest.approx(list(next(figures)), rel=0.05, abs=0.05), now

    return check
