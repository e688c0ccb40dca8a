"""Commands in this process, small data, and disks that take no more."""

from __future__ import annotations

import contextlib
import io
import json
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from plusone.cli.app import main

CLASSES = ("red", "green", "blue")


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value

    @property
    def sentence(self) -> str:
        """The one sentence of a failure: no traceback, nothing unforeseen."""
        assert self.code in (1, 2), self
        assert "Traceback" not in self.err
        assert "should not have happened" not in self.err
        return self.err.partition("plusone: ")[2]


Cli = Callable[..., Answer]


@pytest.fixture(scope="session")
def cli() -> Cli:
    """`cli("train", "x.csv")` runs the command line."""

    def run(*arguments: object) -> Answer:
        out, err = io.StringIO(), io.StringIO()
        code: object = None
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main([str(argument) for argument in arguments])
            except SystemExit as left:
                code = left.code
        assert isinstance(code, int)
        return Answer(code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUSONE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PLUSONE_TRACEBACK", raising=False)


@contextlib.contextmanager
def no_room_for(size: int) -> Iterator[None]:
    """Files of this process and of those it starts cannot grow beyond `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    # Python keeps bytecode that it could write only in part.
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def write_labels(path: Path, labels: np.ndarray, classes: tuple[str, ...]) -> None:
    lines = [f"image,{','.join(classes)}"]
    lines += [f"item{n:02d},{','.join(map(str, row))}" for n, row in enumerate(labels.tolist())]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`labels.csv` and `x.npz`: 60 items, 5 features, 3 classes, all labels known."""
    folder = tmp_path_factory.mktemp("data")
    x = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    labels = (x[:, :3] > 0).astype(int)
    labels[labels.sum(axis=1) == 0, 0] = 1
    write_labels(folder / "labels.csv", labels, ("ant", "bee", "cat"))
    np.savez(folder / "x.npz", x=x, ids=np.array([f"item{n:02d}" for n in range(60)]))
    return folder


@pytest.fixture
def words(data: Path) -> tuple[object, ...]:
    """The labels and features, as words of a command."""
    return (data / "labels.csv", "-x", data / "x.npz")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """24 pictures of 20 x 24 pixels, in a folder per class."""
    rng = np.random.default_rng(0)
    for channel, name in enumerate(CLASSES):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(8):
            pixels = rng.integers(0, 60, (20, 24, 3), dtype=np.uint8)
            pixels[..., channel] += 180
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


SMALL = ("--backbone", "cnn", "-s", "image_size=16", "-s", "workers=0", "--no-report", "--json")


@pytest.fixture(scope="session")
def python() -> str:
    return sys.executable
