"""Runs commands in this process, on small data made here."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from plusone.cli import printing
from plusone.cli.app import main


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Standard output as exactly one JSON object on one line, and nothing else."""
        assert self.out.endswith("\n")
        assert self.out.count("\n") == 1, self.out
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


Cli = Callable[..., Answer]


def run(*arguments: object) -> Answer:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as left:
            code = left.code
    assert isinstance(code, int)
    return Answer(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session", autouse=True)
def _eighty_columns() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        patch.setattr(printing.out, "width", 80)
        patch.setattr(printing.err, "width", 80)
        patch.delenv("PLUSONE_TRACEBACK", raising=False)
        yield


@pytest.fixture(scope="session")
def cli() -> Cli:
    """`cli("train", "x.csv")` runs the command line; errors must never be tracebacks."""
    return run


@pytest.fixture
def bad(cli: Cli) -> Cli:
    """Like `cli`, for what must be refused: exit code 2, one sentence, no traceback."""

    def refused(*arguments: object) -> Answer:
        answer = cli(*arguments)
        assert answer.code == 2, answer
        assert answer.out == ""
        assert "Traceback" not in answer.err
        assert "this should not have happened" not in answer.err
        return answer

    return refused


@pytest.fixture(scope="session")
def command() -> list[str]:
    """How to start the command line in a process of its own."""
    return [sys.executable, "-m", "plusone"]


def _listen_to_ctrl_c() -> None:
    """A test run in the background ignores Ctrl-C, and so would the processes it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def start(command: list[str]) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts commands in process groups of their own, as a shell does, and ends what is left."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: object) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [*command, *map(str, arguments)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
                preexec_fn=_listen_to_ctrl_c,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
        )
        return started[-1]

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 items with 5 features and 3 classes, all labels known; and 24 images in class folders.

    | file | content |
    | --- | --- |
    | `labels.csv` | labels, train and test |
    | `x.npz` | features |
    | `wide.npz` | features of another dimension |
    | `nan.npz` | features, one of them NaN |
    | `photos/{blue,green,red}/N.png` | plain images with a little noise |
    """
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 5)).astype(np.float32)
    labels = (x[:, :3] > 0).astype(int)
    labels[labels.sum(axis=1) == 0, 0] = 1
    ids = [f"item{number:02d}" for number in range(60)]
    lines = ["image,ant,bee,cat,split"]
    for number, (name, row) in enumerate(zip(ids, labels, strict=True)):
        split = "test" if number >= 40 else "train"
        lines.append(f"{name},{row[0]},{row[1]},{row[2]},{split}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    np.savez(folder / "x.npz", x=x, ids=np.array(ids))
    np.savez(folder / "wide.npz", x=np.tile(x, 2), ids=np.array(ids))
    x[7, 2] = np.nan
    np.savez(folder / "nan.npz", x=x, ids=np.array(ids))
    for channel, name in enumerate(("red", "green", "blue")):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(8):
            pixels = rng.integers(0, 60, (20, 24, 3), dtype=np.uint8)
            pixels[..., channel] += 180
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number}.png")
    return folder


@pytest.fixture(scope="session")
def run_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on the features."""
    to = tmp_path_factory.mktemp("runs") / "small"
    data = (folder / "labels.csv", "-x", folder / "x.npz")
    answer = run("train", *data, "--epochs", 2, "--out", to, "--no-report")
    assert answer.code == 0, answer.err
    return to


@pytest.fixture(scope="session")
def photo_run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on the images."""
    to = tmp_path_factory.mktemp("runs") / "photos"
    settings = ("--backbone", "cnn", "-s", "image_size=16", "-s", "workers=0", "--no-report")
    answer = run("train", folder / "photos", "--epochs", 2, "--out", to, *settings)
    assert answer.code == 0, answer.err
    return to
