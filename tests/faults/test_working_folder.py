"""Nothing of the folder that a command runs in is imported, in any process that it starts."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from plusone.cli.app import ANALYSES, PANELS
from plusone.parallel.worker_pool import in_processes

NAMES = {*sys.stdlib_module_names, *packages_distributions(), "sitecustomize", "usercustomize"}
LINEAR = ("labels.csv", "-x", "x.npz", "--epochs", "1", "-s", "batch_size=16")
RUNS = (*LINEAR, "--lr", "0.01", "--seeds", "0,1")
# Every command, those that start processes with two of them; long ones that start none by name.
COMMANDS = (
    ("train", *LINEAR, "-m", "gr", "--out", "run"),
    ("train", "photos", "--backbone", "cnn", "-s", "image_size=16", "-s", "workers=2", "-m", "an",
     "--epochs", "1", "--out", "seen"),
    ("inspect", "labels.csv"),
    ("predict", "seen", "photos", "--out", "tags.csv"),
    ("batch", "photos", "--run", "seen", "--out", "tags", "--workers", "2"),
    ("evaluate", "run", "labels.csv", "-x", "x.npz", "--split", "all"),
    ("export", "run", "--out", "export"),
    ("serve", "run", "--port", "0", "--stop-after", "0.1"),
    ("suggest", "run", "--folds", "2", "--out", "suggestions"),
    ("review", "suggestions", "--no-browser", "--stop-after", "0.1"),
    ("priors", "labels.csv", "-x", "x.npz"),
    ("methods",),
    ("bench", *RUNS, "-m", "an,em", "--workers", "2", "--out", "bench"),
    ("sweep", *RUNS, "-m", "an", "--over", "train_share=0.5,1.0", "--workers", "2", "--out", "sw"),
    ("ablate", *RUNS, "-m", "epr", "--workers", "2", "--out", "ablation"),
    ("choose", *LINEAR, "-m", "an,em", "--lr", "0.01"),
    ("loop", "--help"),
    ("observe", "labels.csv", "--out", "seen.csv"),
    ("features", "photos", "--backbone", "cnn", "--size", "16", "--out", "photos.npz"),
    ("report", "run"),
    ("analyse", "gradients", "an", "--out", "g"),
    ("doctor",),
    ("example", "example"),
    ("demo", "--help"),
    ("audit", "--help"),
    ("leaderboard", "--help"),
    ("quickstart", "--help"),
    ("label-studio", "seen", "--port", "0", "--stop-after", "0.1"),
)  # fmt: skip
ELSEWHERE = {"hints", "prepare", "reproduce"}  # need weights or data sets of others
DRIVER = """
import json, os, sys
from plusone.cli.app import main
for words in json.loads(sys.argv[1]) if __name__ == "__main__" else ():
    try:
        main(words)
    except SystemExit as end:
        if end.code:
            print("FAILED", *words, end.code, file=sys.stderr)
    if os.path.exists(sys.argv[2]):
        sys.exit(f"plusone {' '.join(words)} imported " + open(sys.argv[2]).read())
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Callable[[set[str]], tuple[Path, Path]]:
    """Makes a folder of modules that write their names down when they are imported."""

    def make(names: set[str]) -> tuple[Path, Path]:
        folder, imported = tmp_path / "stranger", tmp_path / "imported"
        folder.mkdir()
        for name in filter(str.isidentifier, names):
            text = f"open({str(imported)!r}, 'a').write({name!r} + '\\n')\nraise ImportError\n"
            (folder / f"{name}.py").write_text(text)
        return folder, imported

    return make


def test_worker_processes(hostile, monkeypatch):
    folder, imported = hostile(NAMES)
    monkeypatch.chdir(folder)
    results = list(in_processes(math.factorial, deque([3]), 1, str))
    assert not imported.exists(), imported.read_text()
    assert results == [6]
    assert "PYTHONSAFEPATH" not in os.environ


def test_python_m(hostile):
    """What Python itself needs to find a package is out of reach: `python -P -m plusone` for it."""
    show = "import runpy, importlib.util, sys; print(*sys.modules)"
    first = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    folder, imported = hostile(NAMES - set(first.stdout.split()) - {"plusone"})
    command = [sys.executable, "-m", "plusone", "methods", "--json"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert not imported.exists(), imported.read_text()
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
def test_every_command(hostile, data, photos, tmp_path):
    named = {command[0] for command in COMMANDS}
    assert named | ELSEWHERE == {name for panel in PANELS.values() for name in panel}
    assert ANALYSES
    folder, imported = hostile(NAMES)
    for file in ("labels.csv", "x.npz"):
        shutil.copy(data / file, folder)
    shutil.copytree(photos, folder / "photos")
    (tmp_path / "driver.py").write_text(DRIVER)
    words = [sys.executable, tmp_path / "driver.py", json.dumps(COMMANDS), imported]
    ended = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=600, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert not imported.exists(), ended.stderr
    assert ended.returncode == 0, ended.stderr
    assert "FAILED" not in ended.stderr, ended.stderr


@pytest.mark.slow
def test_actors_of_ray(hostile, photos, tmp_path):
    pytest.importorskip("ray")
    folder, imported = hostile(NAMES)
    shutil.copytree(photos, folder / "photos")
    (tmp_path / "driver.py").write_text(DRIVER)
    job = ["batch", "photos", "--backbone", "cnn", "--size", "16", "--out", "x", "--engine", "ray"]
    words = [sys.executable, tmp_path / "driver.py", json.dumps([job]), imported]
    ended = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert not imported.exists(), imported.read_text()
    assert ended.returncode == 0, ended.stderr
    assert "FAILED" not in ended.stderr, ended.stderr
    assert len(list((folder / "x").glob("*.parquet"))) == 1
