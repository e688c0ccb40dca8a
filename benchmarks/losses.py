"""Time of each loss, forward and backward, as a multiple of PyTorch's binary cross-entropy.

    python benchmarks/losses.py [--json FILE] [--seconds 1] [--threads 1] [--only NAME ...]

Each loss is measured twice, as it stands ("plain") and through `torch.compile` ("compiled"). Both
and `binary_cross_entropy_with_logits` take turns on the same tensors, and the ratios of their
shortest times are printed: of processor time with one thread, of elapsed time with several. A loss
that trains several tables of logits (the two of ROLE, the views of a consistency) is compared with
that many cross-entropies. A star marks a compiled ratio above 1.5 at the large size, which is the
goal; plain ratios are recorded as they are. Without a C++ compiler only these are measured.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from plusone import losses

SIZES = [(16, 80), (4096, 1000)]
LARGE = SIZES[-1]
GOAL = 1.5  # compiled, at the large size
WAYS = ("plain", "compiled")


class Inputs(NamedTuple):
    """Tensors of one size: logits of up to three tables, labels, soft labels of some entries."""

    z: tuple[Tensor, Tensor, Tensor]
    y: Tensor
    soft: Tensor
    weights: tuple[Tensor, ...]  # w, b, mu and sigma of each class

    @classmethod
    def random(cls, batch: int, classes: int) -> Inputs:
        generator = torch.Generator().manual_seed(0)
        z = [torch.randn(batch, classes, generator=generator) for _ in range(3)]
        y = torch.zeros(batch, classes)
        y[torch.arange(batch), torch.randint(classes, (batch,), generator=generator)] = 1.0
        soft = torch.rand(batch, classes, generator=generator)
        weights = [torch.full((classes,), value) for value in (2.0, -2.0, 0.8, 0.5)]
        return cls(
            tuple(x.requires_grad_() for x in z),
            y,
            torch.where(soft < 0.3, soft, -1.0),
            tuple(weight.requires_grad_() for weight in weights),
        )


Loss = Callable[[Inputs], Tensor]


def of(function: Callable[..., Tensor], **options: object) -> Loss:
    """The mean of a function of logits and labels."""
    loss = partial(function, **options)
    return lambda x: losses.reduce(loss(x.z[0], x.y))


def learned(x: Inputs) -> Tensor:
    w, b, mu, sigma = x.weights
    return losses.reduce(losses.generalized_robust(x.z[0], x.y, w=w, b=b, mu=mu, sigma=sigma))


def total(terms: dict[str, Tensor]) -> Tensor:
    return torch.stack(list(terms.values())).sum()


LOSSES: dict[str, Loss] = {
    "bce, iun, iu, en": of(losses.observed_bce),
    "bce_ls": of(losses.observed_bce, eps=0.1),
    "an, l1r, l2r": of(losses.assume_negative),
    "an_ls": of(losses.assume_negative_smoothed),
    "n_ls": of(losses.assume_negative_smoothed, eps_p=0.0),
    "wan": of(losses.weak_negative),
    "wan_sampled": of(losses.sampled_negative),
    "focal": of(losses.focal),
    "asl": of(losses.asymmetric),
    "asl_ps": of(losses.asymmetric, shift=0.05),
    "hill": of(losses.hill),
    "pr": of(losses.pairwise_ranking),
    "softmax": of(losses.softmax_cross_entropy),
    "epr": lambda x: total(losses.expected_positives(x.z[0], x.y, k=2.9)),
    "role": lambda x: total(losses.online_estimation(x.z[0], x.z[1], x.y, k=2.9)),
    "ll_r": of(losses.large_loss, share=0.01),
    "ll_ct, ll_cp": of(losses.large_loss, share=0.01, rule="correct"),
    "splc": of(losses.self_corrected),
    "las": of(losses.leveraged_asymmetric, lam_plus=0.0, lam_minus=0.001, tau=1.0),
    "lasd": of(losses.leveraged_asymmetric, lam_plus=0.1, lam_minus=0.001),
    "consistency, 2 views": lambda x: losses.reduce(losses.consistency(*x.z[:2])),
    "consistency, 3 views": lambda x: losses.reduce(losses.consistency(*x.z)),
    "em": of(losses.entropy_maximization),
    "em_apl": lambda x: losses.reduce(losses.entropy_with_pseudo_labels(x.z[0], x.y, x.soft)),
    "entmin": of(losses.entropy_minimization),
    "gr": of(losses.generalized_robust, w=2.0, b=-2.0),
    "gr (CUB)": of(losses.generalized_robust, w=10.0, b=-8.0, q3=1.5),
    "gr (released)": of(losses.generalized_robust, w=2.0, b=-2.0, variant="released"),
    "gr_learned": learned,
    "lac, plc": lambda x: losses.pseudo_label_consistency(x.z[0], x.z[1], x.y),
    "lac, plc (released)": lambda x: losses.pseudo_label_consistency(
        x.z[0], x.z[1], x.y, variant="released"
    ),
}
TABLES = {"role": 2, "consistency, 2 views": 2, "consistency, 3 views": 3}  # others train one


def run(loss: Loss, x: Inputs, clock: Callable[[], float]) -> float:
    for tensor in (*x.z, *x.weights):
        tensor.grad = None
    start = clock()
    loss(x).backward()
    return clock() - start


def ratios(
    name: str, x: Inputs, seconds: float, clock: Callable[[], float], ways: tuple[str, ...]
) -> dict[str, float]:
    """Shortest times of a loss over those of the cross-entropy, for each way."""

    def base(x: Inputs) -> Tensor:
        each = [binary_cross_entropy_with_logits(z, x.y) for z in x.z[: TABLES.get(name, 1)]]
        return torch.stack(each).sum() if len(each) > 1 else each[0]

    torch._dynamo.reset()
    timed = {"base": base, "plain": LOSSES[name]}
    if "compiled" in ways:
        timed["compiled"] = torch.compile(LOSSES[name], dynamic=False)
    for loss in timed.values():
        run(loss, x, clock), run(loss, x, clock)
    shortest = dict.fromkeys(timed, float("inf"))
    rounds, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end or rounds < 5:
        for way, loss in timed.items():
            shortest[way] = min(shortest[way], run(loss, x, clock))
        rounds += 1
    return {way: shortest[way] / shortest["base"] for way in ways}


def no_compiler() -> str:
    """Why nothing can be compiled here; empty if it can."""
    try:
        torch.compile(lambda x: x.exp() + 1)(torch.ones(3))
    except Exception as error:  # whatever is missing, the plain losses can still be measured
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the table to this file")
    parser.add_argument("--seconds", type=float, default=1.0, help="per loss at the large size")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    parser.add_argument("--only", nargs="*", help="names of losses")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    clock = time.process_time if arguments.threads == 1 else time.perf_counter
    ways = WAYS
    if why := no_compiler():
        print(f"Losses cannot be compiled here, so only the plain ones are measured ({why}).")
        ways = ("plain",)
    columns = [(size, way) for size in SIZES for way in ways]
    print("loss".ljust(22) + "".join(f"{b} x {n} {way}".rjust(22) for (b, n), way in columns))
    table: dict[str, dict[tuple[tuple[int, int], str], float]] = {}
    inputs = {size: Inputs.random(*size) for size in SIZES}
    for name in arguments.only or list(LOSSES):
        table[name] = {}
        for size, x in inputs.items():
            seconds = arguments.seconds / (1 if size == LARGE else 4)
            for way, value in ratios(name, x, seconds, clock, ways).items():
                table[name][size, way] = value
        cells = (
            f"{table[name][column]:.2f}{'*' if over(column, table[name][column]) else ' '}"
            for column in columns
        )
        print(name.ljust(22) + "".join(cell.rjust(22) for cell in cells), flush=True)
    missed = sum(over(column, value) for row in table.values() for column, value in row.items())
    print(
        "multiples of binary_cross_entropy_with_logits, float32, "
        f"{arguments.threads} thread(s); above the goal: {missed}"
    )
    if arguments.json:
        listed = [
            {
                "name": f"loss {name}, {way} / BCE-with-logits",
                "value": row[LARGE, way],
                "goal": GOAL if way == "compiled" else None,
                "kind": "at most",
                "detail": f"4096 x 1000, forward and backward, {arguments.threads} thread(s)",
            }
            for name, row in table.items()
            for way in ways
        ]
        cells_by_name = {
            name: {f"{b}x{n} {way}": value for ((b, n), way), value in row.items()}
            for name, row in table.items()
        }
        text = json.dumps({"ratios": listed, "table": cells_by_name}, indent=2)
        arguments.json.write_text(text + "\n")


def over(column: tuple[tuple[int, int], str], value: float) -> bool:
    """Whether a ratio misses its goal."""
    return column == (LARGE, "compiled") and value > GOAL


if __name__ == "__main__":
    main()
