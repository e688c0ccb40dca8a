"""Fixtures shared by all tests."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from plusone.io.files import in_turn

torch.set_num_threads(1)
# Examples may take any time: the machine may be busy with other work.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
NUMBERS = itertools.count()
os.environ.setdefault("PLUSONE_DEVICE", "cpu")  # tests/accelerator uses other devices
# Bytecode is kept even where the environment says otherwise: every worker and every program that
# tests start would compile all of it.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


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


@pytest.fixture(scope="session", autouse=True)
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`once(name, make)`: a folder that `make(folder)` fills, once for all workers of pytest.

    The cache folder is one for all of them, too, and not the user's.
    """
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    os.environ["PLUSONE_CACHE"] = str(root / "cache")

    def made(name: str, make: Callable[[Path], None]) -> Path:
        folder = root / name
        with in_turn(root / f"{name}.lock"):
            if not (root / f"{name}.done").exists():
                folder.mkdir()  # fails where another worker failed to fill it
                make(folder)
                (root / f"{name}.done").touch()
        return folder

    return made


@pytest.fixture(autouse=True)
def stored(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], list[tuple[int, str]]]:
    """The entries of the store of features, of which every test has its own."""
    folder = tmp_path_factory.getbasetemp() / f"features-{next(NUMBERS)}"
    monkeypatch.setattr("plusone.data.feature_store.features_folder", lambda: folder)

    def entries() -> list[tuple[int, str]]:
        with closing(sqlite3.connect(folder / "features.sqlite")) as db:
            return db.execute("SELECT rowid, photo FROM features ORDER BY rowid").fetchall()

    return entries


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


FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e-\d+)?")
IGNORED = re.compile(  # progress, which only slow machines print, too
    r"(?m)^[a-z ]+(?:: [\d,]+ of [\d,]+(?:, about .* left)?| \.\.\.)\n|"
    r"\x1b\[[\d;]*m|\d+(?:\.\d+)? (?:s|seconds)\b|seconds +[\d.]+|\b(?:best|within noise)\b"
)


def kinds_of_lines(text: str) -> dict[str, list[list[float]]]:
    """The figures of each kind of line: a line without its figures, classes and methods.

    Which rows a table has, and in which order, depends on the figures, so rows are one kind.
    """
    from plusone import METHODS
    from plusone.data import digits, scenes, tickets

    names = "|".join([*METHODS, *digits.CLASSES, *scenes.CLASSES, *tickets.TOPICS])
    name = re.compile(rf"\b(?:{names})\b(?:\|\w+)*")
    kinds = defaultdict(list)
    for line in IGNORED.sub("", text).splitlines():
        figures = [float(one.replace(",", "")) for one in FIGURE.findall(line)]
        kinds[" ".join(name.sub("NAME", FIGURE.sub("#", line)).split())].append(figures)
    return kinds


@pytest.fixture(scope="session")
def agree() -> Callable[..., None]:
    """Whether two texts have the same structure, and figures within a spread.

    Processors round differently and training amplifies it: figures may differ by 5 %, small ones
    by 0.05, or by a spread that was measured. Times are ignored.
    """

    def check(now: str, then: str, spread: float = 0.05) -> None:
        one, other = kinds_of_lines(now), kinds_of_lines(then)
        assert [*one] == [*other], f"now:\n{now}\nstored:\n{then}\nmake pictures stores it anew"
        for kind, rows in one.items():
            means = [np.mean(figures, axis=0) for figures in (rows, other[kind])]
            np.testing.assert_allclose(*means, rtol=spread, atol=spread, err_msg=now)

    return check
