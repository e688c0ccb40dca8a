"""Fine-tuning divided among processes: processor time of each process against that of one.

    python benchmarks/processes.py [--backbone timm/resnet18] [--size 64] [--batch 32]

Images are made up. Each number of processes is started twice by torchrun, in turn, with one thread
each; the figure is the least processor time of an epoch. Waiting for other processes costs none, so
1 / ratio is the gain where there is a core for each.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from plusone.data.dataset import Dataset
from plusone.inputs.task import make_task
from plusone.parallel.processes import is_main_process, start, wait_for_main_process
from plusone.recipe import Recipe
from plusone.training.closed_fit import fit_for

CLASSES, STEPS, EPOCHS, ROUNDS = 20, 4, 3, 2


def least_seconds(backbone: str, size: int, batch: int) -> float:
    """Processor time of this process for an epoch."""
    n = (STEPS + 1) * batch
    pixels = np.random.default_rng(0).integers(0, 256, (n, 3, size, size), dtype=np.uint8)
    labels = np.eye(CLASSES, dtype=int)[np.arange(n) % CLASSES]
    split = ["train"] * (n - batch) + ["val"] * batch
    recipe = Recipe(
        method="an",
        mode="finetune",
        backbone=backbone,
        weights="random",
        batch_size=batch,
        epochs=EPOCHS,
    )
    training = fit_for(make_task(Dataset.from_arrays(pixels, labels, split=split), recipe), recipe)
    seconds = []
    for epoch in range(EPOCHS):
        started = time.process_time()
        training.epoch = epoch
        training.train_epoch()
        seconds.append(time.process_time() - started)
    return min(seconds)


def started(processes: int, arguments: list[str]) -> float:
    """What process 0 of several measures."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "seconds"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", str(processes), __file__, *arguments, "--into", str(file)]
        subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        return float(file.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backbone", default="cnn")
    parser.add_argument("--size", type=int, default=64, help="side of the images")
    parser.add_argument("--batch", type=int, default=32, help="items of all processes together")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.into:
        start()
        seconds = least_seconds(args.backbone, args.size, args.batch)
        if is_main_process():
            args.into.write_text(str(seconds))
        wait_for_main_process()
        return
    rounds = [
        [started(processes, sys.argv[1:]) for processes in (1, args.processes)]
        for _ in range(ROUNDS)
    ]
    one, each = (min(times) for times in zip(*rounds, strict=True))
    print(
        f"{args.backbone}, {args.size} px, batch {args.batch}: {one:.2f} s in one process, "
        f"{each:.2f} s in each of {args.processes}: ratio {each / one:.2f}"
    )


if __name__ == "__main__":
    main()
