"""Counts how far a reader walks through the sources to follow what a command does.

python tools/walks.py

Five commands run on 300 items with 16 features. For each: the functions of the
package that were called, the files they are in, and the changes of file in the order of their first
calls. Nothing is measured in seconds, so a busy machine gives the same figures.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import numpy.typing as npt

import plusone

SOURCE = str(Path(plusone.__file__).parent)
ITEMS, FEATURES, CLASSES = 300, 16, 5


def walk(action: Callable[[], Any]) -> tuple[int, int, int]:
    """Functions of the package that an action calls, their files, and the changes of file.

    Bodies of modules and classes, lambdas and comprehensions do not count.
    """
    seen: dict[CodeType, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE) and code not in seen:
            seen[code] = None

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    functions = [
        code for code in seen if not code.co_name.startswith("<") and code.co_flags & 0x1
    ]  # CO_OPTIMIZED: a function, no body of a class
    files = [code.co_filename for code in functions]
    changes = sum(left != right for left, right in pairwise(files))
    return len(functions), len(set(files)), changes


def command(*words: str) -> Callable[[], None]:
    """A command of the program, silent; an error is raised."""

    def run() -> None:
        from plusone.cli.app import app

        silent = io.StringIO()
        with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
            try:
                app(list(words), standalone_mode=False)
            except SystemExit as end:
                if end.code:
                    raise RuntimeError(f"plusone {' '.join(words)}: {silent.getvalue()}") from end

    return run


def prepare() -> None:
    """Writes the data, and a run of the default method, into the current folder."""
    x, tags = data()
    ids = [f"item{row}" for row in range(ITEMS)]
    rows = "".join(f"{name},{tag}\n" for name, tag in zip(ids, tags, strict=True))
    Path("labels.csv").write_text("id,labels\n" + rows, encoding="utf-8")
    np.savez("x.npz", x=x, ids=np.array(ids))
    command(*TRAIN, "--out", "run")()


def data() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.str_]]:
    """Features and one tag for each item."""
    x = np.random.default_rng(0).normal(size=(ITEMS, FEATURES)).astype(np.float32)
    names = np.array([f"class{place}" for place in range(CLASSES)])
    return x, names[x[:, :CLASSES].argmax(axis=1)]


def fit() -> None:
    """The classifier on the data."""
    from plusone import PlusOneClassifier

    PlusOneClassifier().fit(*data())


TRAIN = ("train", "labels.csv", "--features", "x.npz", "--no-report")
WALKS: dict[str, tuple[Callable[[], Any], tuple[int, int, int]]] = {
    # the figures are those of version 0.2.0
    "train": (command(*TRAIN, "--out", "other"), (448, 85, 262)),
    "train -m gr": (command(*TRAIN, "-m", "gr", "--out", "gr"), (479, 87, 277)),
    "predict": (command("predict", "run", "x.npz", "--out", "tags.csv"), (218, 54, 132)),
    "suggest": (command("suggest", "run", "--out", "suggestions"), (388, 81, 240)),
    "PlusOneClassifier().fit": (fit, (271, 58, 155)),
}


def main() -> None:
    """Prints the table; with the name of a walk, its figures alone."""
    if len(sys.argv) > 1:
        print(*walk(WALKS[sys.argv[1]][0]))
        return
    print(f"{'functions / files / changes of file':36s}{'now':>18s}{'0.2.0':>18s}")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        prepare()
        for name, (_, before) in WALKS.items():  # each in a process of its own: caches are empty
            words = (sys.executable, Path(__file__).resolve(), name)
            now = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
            cells = (" / ".join(map(str, figures)) for figures in (now, before))
            print(f"{name:36s}" + "".join(f"{cell:>18s}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
