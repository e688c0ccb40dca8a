"""Time of each loss, forward and backward, as a multiple of PyTorch's binary cross-entropy.

    python benchmarks/losses.py [--json FILE] [--seconds 1] [--threads 1] [--only NAME ...]

Every loss is called as its method calls it. It and `binary_cross_entropy_with_logits` take turns
on the same tensors, and the ratio of their shortest times is printed: of processor time with one
thread, of elapsed time with several. A loss that trains several tables of logits (the two of ROLE,
the views of a consistency) is compared with that many cross-entropies. A star marks a ratio above
the goal: 1.5 for the largest size, 2 for the others, where calls cost more than arithmetic.
Blocks of a table are worked on in the processor's cache: other work on the machine spoils that.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from plusone import losses

SIZES = [(16, 80), (64, 312), (4096, 1000)]
LARGE = SIZES[-1]
GOALS = {size: 1.5 if size == LARGE else 2.0 for size in SIZES}


@dataclass(frozen=True)
class Inputs:
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
    return lambda x: losses.reduced(loss, x.z[0], x.y)


def sampled(x: Inputs) -> Tensor:
    return losses.reduced(losses.observed_bce, x.z[0], losses.sample_negative(x.y))


def large_loss(rule: str) -> Loss:
    def loss(x: Inputs) -> Tensor:
        level = losses.large_loss_level(x.z[0], x.y, share=0.01)
        return losses.reduced(partial(losses.large_loss_from, level=level, rule=rule), x.z[0], x.y)

    return loss


def pseudo_labelled(x: Inputs) -> Tensor:
    return losses.reduced(losses.entropy_with_pseudo_labels, x.z[0], x.y, x.soft)


def learned(x: Inputs) -> Tensor:
    w, b, mu, sigma = x.weights
    loss = partial(losses.generalized_robust, w=w, b=b, mu=mu, sigma=sigma)
    return losses.reduced_terms(
        lambda z, y: {"loss": loss(z[0], y[0])}, x.z[:1], (x.y,), learned=x.weights
    )["loss"]


def consistency(n_views: int) -> Loss:
    def loss(x: Inputs) -> Tensor:
        terms = losses.reduced_terms(
            lambda views, known: {"loss": losses.consistency(*views)}, x.z[:n_views], ()
        )
        return terms["loss"]

    return loss


def pseudo_consistency(variant: losses.Variant) -> Loss:
    return lambda x: losses.pseudo_label_consistency(x.z[0], x.z[1], x.y, variant=variant)


def total(terms: dict[str, Tensor]) -> Tensor:
    return sum(terms.values(), torch.zeros(()))


LOSSES: dict[str, Loss] = {
    "bce, iun, iu, en": of(losses.observed_bce),
    "bce_ls": of(losses.observed_bce, eps=0.1),
    "an, l1r, l2r": of(losses.assume_negative),
    "an_ls": of(losses.assume_negative_smoothed),
    "n_ls": of(losses.assume_negative_smoothed, eps_p=0.0),
    "wan": of(losses.weak_negative),
    "wan_sampled": sampled,
    "focal": of(losses.focal),
    "asl": of(losses.asymmetric),
    "asl_ps": of(losses.asymmetric, shift=0.05),
    "hill": of(losses.hill),
    "pr": of(losses.pairwise_ranking),
    "softmax": of(losses.softmax_cross_entropy),
    "epr": lambda x: total(losses.expected_positives(x.z[0], x.y, k=2.9)),
    "role": lambda x: total(losses.online_estimation(x.z[0], x.z[1], x.y, k=2.9)),
    "ll_r": large_loss("reject"),
    "ll_ct, ll_cp": large_loss("correct"),
    "splc": of(losses.self_corrected),
    "las": of(losses.leveraged_asymmetric, lam_plus=0.0, lam_minus=0.001, tau=1.0),
    "lasd": of(losses.leveraged_asymmetric, lam_plus=0.1, lam_minus=0.001),
    "consistency, 2 views": consistency(2),
    "consistency, 3 views": consistency(3),
    "em": of(losses.entropy_maximization),
    "em_apl": pseudo_labelled,
    "entmin": of(losses.entropy_minimization),
    "gr": of(losses.generalized_robust, w=2.0, b=-2.0),
    "gr (CUB)": of(losses.generalized_robust, w=10.0, b=-8.0, q3=1.5),
    "gr (released)": of(losses.generalized_robust, w=2.0, b=-2.0, variant="released"),
    "gr_learned": learned,
    "lac, plc": pseudo_consistency("paper"),
    "lac, plc (released)": pseudo_consistency("released"),
}
TABLES = {"role": 2, "consistency, 2 views": 2, "consistency, 3 views": 3}  # others train one


def run(loss: Loss, x: Inputs, clock: Callable[[], float]) -> float:
    for tensor in (*x.z, *x.weights):
        tensor.grad = None
    start = clock()
    loss(x).backward()
    return clock() - start


def ratio(name: str, x: Inputs, seconds: float, clock: Callable[[], float]) -> float:
    n_tables = TABLES.get(name, 1)

    def base(x: Inputs) -> Tensor:
        each = [binary_cross_entropy_with_logits(z, x.y) for z in x.z[:n_tables]]
        return each[0] if n_tables == 1 else torch.stack(each).sum()

    for _ in range(2):
        run(base, x, clock), run(LOSSES[name], x, clock)
    costs: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(costs) < 9:
        costs.append((run(base, x, clock), run(LOSSES[name], x, clock)))
    ours, theirs = min(own for _, own in costs), min(other for other, _ in costs)
    return ours / theirs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the table to this file")
    parser.add_argument("--seconds", type=float, default=1.0, help="per loss at the largest size")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    parser.add_argument("--only", nargs="*", help="names of losses")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    clock = time.process_time if arguments.threads == 1 else time.perf_counter
    names = arguments.only or list(LOSSES)
    inputs = {size: Inputs.random(*size) for size in SIZES}
    found: dict[str, dict[tuple[int, int], float]] = {}
    print("loss".ljust(22) + "".join(f"{b} x {n}".rjust(14) for b, n in SIZES))
    for name in names:
        found[name] = {
            size: ratio(name, x, arguments.seconds / (1 if size == LARGE else 4), clock)
            for size, x in inputs.items()
        }
        cells = (
            f"{value:.2f}{'*' if value > GOALS[size] else ' '}".rjust(14)
            for size, value in found[name].items()
        )
        print(name.ljust(22) + "".join(cells), flush=True)
    over = sum(value > GOALS[size] for row in found.values() for size, value in row.items())
    print(
        "multiples of binary_cross_entropy_with_logits, float32, "
        f"{arguments.threads} thread(s); above the goal: {over}"
    )
    if arguments.json:
        ratios = [
            {
                "name": f"loss {name} / BCE-with-logits",
                "value": row[LARGE],
                "goal": GOALS[LARGE],
                "kind": "at most",
                "detail": f"4096 x 1000, forward and backward, {arguments.threads} thread(s)",
            }
            for name, row in found.items()
        ]
        table = {
            name: {f"{b}x{n}": value for (b, n), value in row.items()}
            for name, row in found.items()
        }
        arguments.json.write_text(json.dumps({"ratios": ratios, "table": table}, indent=2) + "\n")


if __name__ == "__main__":
    main()
