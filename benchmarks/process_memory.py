"""Training on a feature file in several processes: memory of each process against that of one.

    python benchmarks/process_memory.py [--items 90000] [--dim 1024] [--processes 4]
    python benchmarks/process_memory.py --items 40000 --dim 32 --classes 1000 --method role

Features are made up. The figures are the anonymous memory of a process in its second epoch, and the
highest until then, less what it had before it read anything; pages of the mapped file, which the
processes share, are not in them. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Event, Thread

import numpy as np

from plusone.data.dataset import Dataset
from plusone.data.features import read_features
from plusone.data.matrix import LabelMatrix
from plusone.inputs.task import make_task
from plusone.parallel.processes import start, wait_for_main_process, world
from plusone.recipe import make_recipe
from plusone.training.closed_fit import fit_for

SECONDS = 0.05  # between looks at the memory


def anonymous() -> float:
    """Anonymous memory of this process, in MB."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("Anonymous:"))
    return int(line.split()[1]) / 1000


def measured(file: Path, method: str, classes: int) -> tuple[float, float]:
    """Memory that reading the features and an epoch of training on them take: now, and at most."""
    before, highest, ended = anonymous(), [0.0], Event()

    def watch() -> None:
        while not ended.wait(SECONDS):
            highest.append(max(highest.pop(), anonymous()))

    watcher = Thread(target=watch)
    watcher.start()
    features = read_features([file])
    n = len(features.ids)
    labels = LabelMatrix.from_lists([[row % classes] for row in range(n)], classes)
    dataset = Dataset.from_arrays(features.x, labels)
    settings = {"epochs": 2, "batch_size": 256, "probe": "off", "expected_positives": 2.0}
    recipe = make_recipe({"method": method}, settings)
    training = fit_for(make_task(dataset, recipe), recipe)
    next(training.epochs())
    ended.set()
    watcher.join()
    return anonymous() - before, highest[0] - before


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=90_000)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--method", default="an")
    parser.add_argument("--classes", type=int, default=8)
    parser.add_argument("--of", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.of:
        start()
        figures = measured(args.of / "x.npz", args.method, args.classes)
        (args.of / f"{world()[0]}.txt").write_text(json.dumps(figures))
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
            command += ["--method", args.method, "--classes", str(args.classes)]
            subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
            files = [folder / f"{rank}.txt" for rank in range(count)]
            memory[count] = [json.loads(file.read_text()) for file in files]
    print(f"{args.method} on features of {x.nbytes / 1e6:.0f} MB, {args.classes} classes")
    for number, what in enumerate(("after an epoch", "at most")):
        one = memory[1][0][number]
        several = [figures[number] for figures in memory[args.processes]]
        print(
            f"{what}: {one:.0f} MB in one process; in each of {args.processes} up to "
            f"{max(several):.0f} MB, ratio {max(several) / one:.2f}; in all {sum(several):.0f} MB"
        )


if __name__ == "__main__":
    main()
