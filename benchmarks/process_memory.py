"""Training on a feature file in several processes: memory of each process against that of one.

    python benchmarks/process_memory.py [--items 90000] [--dim 1024] [--processes 4]

Features are made up. The figure is the anonymous memory of a process in its second epoch, less what
it had before it read anything; pages of the mapped file, which the processes share, are not in it.
Linux only.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from plusone.data.dataset import Dataset
from plusone.data.features import read_features
from plusone.parallel.processes import start, wait_for_main_process, world
from plusone.recipe import Recipe
from plusone.training.task import make_task
from plusone.training.trainer import Training

CLASSES = 8


def anonymous() -> float:
    """Anonymous memory of this process, in MB."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("Anonymous:"))
    return int(line.split()[1]) / 1000


def measured(file: Path) -> float:
    """Memory that reading the features and an epoch of training on them take."""
    before = anonymous()
    features = read_features([file])
    labels = np.eye(CLASSES, dtype=int)[np.arange(len(features.ids)) % CLASSES]
    dataset = Dataset.from_arrays(features.x, labels)
    recipe = Recipe(method="an", epochs=2, batch_size=256, probe="off")
    training = Training(make_task(dataset, recipe), recipe)
    next(training.epochs())
    return anonymous() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=90_000)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--of", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.of:
        start()
        (args.of / f"{world()[0]}.txt").write_text(str(measured(args.of / "x.npz")))
        wait_for_main_process()
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        x = np.random.default_rng(0).standard_normal((args.items, args.dim), dtype=np.float32)
        np.savez(folder / "x.npz", ids=np.arange(args.items).astype(str), x=x)
        memory = {}
        for count in (1, args.processes):
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
            command += ["--nproc-per-node", str(count), __file__, "--of", name]
            subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
            files = [folder / f"{rank}.txt" for rank in range(count)]
            memory[count] = max(float(file.read_text()) for file in files)
    print(
        f"features of {x.nbytes / 1e6:.0f} MB: {memory[1]:.0f} MB in one process, at most "
        f"{memory[count]:.0f} MB in each of {count}: ratio {memory[count] / memory[1]:.2f}"
    )


if __name__ == "__main__":
    main()
