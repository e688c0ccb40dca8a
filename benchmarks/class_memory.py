"""Memory of a closed form per class: bytes for each number of landmarks and classes.

python benchmarks/class_memory.py

Each case is a process of its own. Items are few and blocks small, so that what grows is what a
class needs: weights of each round, sums of each pass, and a model for each penalty.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from plusone.closed_form import recover, ridge
from plusone.closed_form.kernel import LinearMap
from plusone.closed_form.vectors import Passes, Ranks, Rows
from plusone.data.matrix import LabelMatrix

ITEMS, WIDTH = 600, 256
CASES = [(3000, 0), (3000, 2)]  # classes and folds


def peak() -> int:
    """Largest resident memory so far, in bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status)[1])  # type: ignore[index]


def fitted(n_classes: int, folds: int) -> int:
    """Bytes that a fit adds, with the sums that a stopped run resumes from."""
    torch.set_num_threads(1)
    recover.LEARNED = recover.SEARCHED = ridge.COMPARED = 100 * n_classes
    ridge.LEAST, ridge.LABELS = 32, 32 * n_classes
    draw = np.random.default_rng(0)
    seen = LabelMatrix.from_lists(draw.integers(n_classes, size=(ITEMS, 1)).tolist(), n_classes)
    x = torch.from_numpy(draw.normal(size=(ITEMS, WIDTH)).astype(np.float32))
    ranks = Ranks(kept=Passes(lambda: None))
    vectors = LinearMap(WIDTH).learn(Rows(lambda rows: x[rows], ITEMS, WIDTH, ranks))
    fold = torch.arange(ITEMS) * folds // ITEMS if folds else None
    before = peak()
    recover.recover_labels(ridge.Ridge(vectors, folds=fold), seen)
    return peak() - before


def main() -> None:
    """Prints a line for each case."""
    freed_at_once = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    for n_classes, folds in CASES:
        command = [sys.executable, __file__, str(n_classes), str(folds)]
        added = int(subprocess.check_output(command, env=freed_at_once))
        numbers = n_classes * (WIDTH + 1)
        print(f"{n_classes:,} classes, {folds} folds: {added / numbers:.0f} bytes per number")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(fitted(int(sys.argv[1]), int(sys.argv[2])))
    else:
        main()
