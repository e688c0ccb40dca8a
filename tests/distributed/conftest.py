"""Starts processes together, by torchrun on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.patience import HOUR


@dataclass(frozen=True)
class Started:
    """What processes said: exit code of torchrun, and output by the number of the process."""

    code: int
    out: list[str]
    err: list[str]


Together = Callable[..., Started]


def torchrun(folder: Path, size: int, *arguments: object) -> Started:
    """Runs a script of this folder, or `-m plusone`, in several processes.

    Args:
        folder: For what they say.
        size: How many processes.
        arguments: As for torchrun.
    """
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(size), "--redirects", "3", "--log-dir", str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *map(str, arguments)],
        env=environment,
        timeout=HOUR,
        check=False,
        capture_output=True,
        text=True,
    )
    logs = sorted(folder.glob("*/attempt_0"))
    assert logs, done.stderr
    said = [
        [(logs[-1] / str(rank) / name).read_text() for rank in range(size)]
        for name in ("stdout.log", "stderr.log")
    ]
    return Started(done.returncode, *said)


@pytest.fixture(scope="session")
def start() -> Together:
    """Runs processes together and keeps what they say in a folder: `start(folder, 2, ...)`."""
    return torchrun


@pytest.fixture
def together(tmp_path: Path) -> Together:
    """Runs `-m plusone` or a script in several processes: `together(2, "-m", "plusone", ...)`."""
    count = iter(range(100))
    return lambda size, *arguments: torchrun(tmp_path / f"logs{next(count)}", size, *arguments)
