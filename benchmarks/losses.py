"""Time of each loss, forward and backward, as a multiple of PyTorch's binary cross-entropy.

    python benchmarks/losses.py [--json FILE] [--seconds 2] [--only NAME]

Every figure is a ratio measured in one run: the loss and
`binary_cross_entropy_with_logits` take turns on the same tensors, and the median of the ratios is
printed. A star marks a ratio above 2.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from plusone import losses

SIZES = [(16, 80), (64, 312), (4096, 1000)]
LIMIT = 2.0
Loss = Callable[[Tensor, Tensor], Tensor]


def table(loss: Callable[..., Tensor], **options: object) -> Loss:
    return lambda z, y: losses.reduce(loss(z, y, **options))


LOSSES: dict[str, Loss] = {
    "bce, iun, iu": table(losses.observed_bce),
    "bce_ls": table(losses.observed_bce, eps=0.1),
    "an": table(losses.assume_negative),
    "an_ls": table(losses.assume_negative_smoothed),
    "n_ls": table(losses.assume_negative_smoothed, eps_p=0.0),
    "wan": table(losses.weak_negative),
    "wan_sampled": table(losses.sampled_negative),
    "focal": table(losses.focal),
    "asl": table(losses.asymmetric),
    "asl_ps": table(losses.asymmetric, shift=0.05),
    "hill": table(losses.hill),
    "pr": table(losses.pairwise_ranking),
    "em": table(losses.entropy_maximization),
    "entmin": table(losses.entropy_minimization),
    "epr": lambda z, y: sum(losses.expected_positives(z, y, k=2.9).values(), torch.zeros(())),
    "gr": table(losses.generalized_robust, w=2.0, b=-2.0),
    "gr (CUB)": table(losses.generalized_robust, w=10.0, b=-8.0, q3=1.5),
    "gr (released)": table(losses.generalized_robust, w=2.0, b=-2.0, variant="released"),
    "softmax": table(losses.softmax_cross_entropy),
}


def run(loss: Loss, z: Tensor, y: Tensor) -> float:
    z.grad = None
    start = time.perf_counter()
    loss(z, y).backward()
    return time.perf_counter() - start


def ratio(loss: Loss, batch: int, classes: int, seconds: float) -> float:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(batch, classes, generator=generator, requires_grad=True)
    y = torch.zeros(batch, classes)
    y[torch.arange(batch), torch.randint(classes, (batch,), generator=generator)] = 1.0
    for _ in range(3):
        run(binary_cross_entropy_with_logits, z, y), run(loss, z, y)
    ratios: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(ratios) < 7:
        base = run(binary_cross_entropy_with_logits, z, y)
        ratios.append(run(loss, z, y) / base)
    return statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the table to this file")
    parser.add_argument("--seconds", type=float, default=1.0, help="per loss and size")
    parser.add_argument("--only", nargs="*", help="names of losses")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = arguments.only or list(LOSSES)
    found: dict[str, dict[str, float]] = {}
    print("loss".ljust(16) + "".join(f"{b} x {n}".rjust(14) for b, n in SIZES))
    for name in names:
        row = {f"{b}x{n}": ratio(LOSSES[name], b, n, arguments.seconds) for b, n in SIZES}
        found[name] = row
        cells = (f"{value:.2f}{'*' if value > LIMIT else ' '}".rjust(14) for value in row.values())
        print(name.ljust(16) + "".join(cells), flush=True)
    over = sum(value > LIMIT for row in found.values() for value in row.values())
    print(
        f"multiples of binary_cross_entropy_with_logits, float32, 1 thread; above {LIMIT}: {over}"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
