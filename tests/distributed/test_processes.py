"""Several processes: each computes its rows, all get the whole result in order."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, multiprocessing, nn

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.inputs.forward import predict
from plusone.inputs.loader import ArrayInputs, SomeInputs
from plusone.inputs.placement import OwnedInputs, own_part
from plusone.methods import METHODS
from plusone.models.classifier import Classifier
from plusone.parallel import processes
from plusone.parallel.ddp import Ranks
from plusone.parallel.division import Division, even_owners
from plusone.parallel.processes import world
from plusone.training.pieces import forward_views
from plusone.types import Clock, Outputs, TrainLabels

N, LABELS = 23, 4
CPU = torch.device("cpu")


class Net(nn.Module):
    """The second step does not use all its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.extra = nn.Linear(3, LABELS), nn.Linear(3, LABELS)

    def forward(self, x: Tensor, step: int) -> Outputs:
        return Outputs(self.linear(x) + (0 if step == 1 else self.extra(x)), x)


def gradients() -> list[list[Tensor | None]]:
    """Of three steps: the last batch has one row, so one of two processes has none."""
    make = torch.Generator().manual_seed(0)
    x = torch.randn(9, 3, generator=make)
    with torch.random.fork_rng():
        torch.manual_seed(2)
        net = Net()
    info = METHODS["an"]
    labels = TrainLabels(LabelMatrix.from_dense(torch.eye(LABELS).numpy()))
    method = info.build(labels, info.make_options({}))
    ranks = Ranks(net, method) if world()[1] > 1 else None
    order, found = torch.randperm(9, generator=make), []
    inputs = ArrayInputs(x)
    batches = (
        ranks.batches(inputs, order, 4, ("plain",), 0, None)
        if ranks
        else inputs.batches(order, 4, ("plain",), 0)
    )
    for step, (view,) in enumerate(batches):
        net.zero_grad()
        (out,) = forward_views(partial(net, step=step), (view,), ranks=ranks)
        z = out.logits
        losses = [(z @ z.T).square().mean(), net.linear.weight.abs().sum()]  # over pairs of rows
        (ranks.backward if ranks else torch.autograd.backward)(losses)
        found.append([None if w.grad is None else w.grad.clone() for w in net.parameters()])
    return found


def soft_labels() -> torch.Tensor:
    """What EM + APL makes of two epochs of a small fixed model."""
    make = torch.Generator().manual_seed(0)
    seen = torch.randint(0, LABELS, (N,), generator=make)
    observed = torch.nn.functional.one_hot(seen, LABELS)
    info = METHODS["em_apl"]
    labels = TrainLabels(LabelMatrix.from_dense(observed.numpy()))
    method = info.build(labels, info.make_options({"warmup": 1}))
    x = torch.randn(N, 3, generator=make)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = Classifier(torch.nn.Identity(), method.make_head(3))
    inputs = ArrayInputs(x)
    with torch.no_grad():
        for epoch in range(2):
            clock = Clock(0, epoch, 4, 0, 1)
            method.after_epoch(
                clock, lambda: predict(model, model.head, inputs, kind="features").clone()
            )
    return method.soft


def owned() -> dict[str, Any]:
    """What is predicted from features of which each process holds a part."""
    x = torch.arange(2.0 * N).view(N, 2)
    inputs = own_part(ArrayInputs(x), CPU)
    some = torch.tensor([20, 3, 22, 3])
    first = SomeInputs(inputs, torch.tensor([1, 0]))  # all held by rank 0
    double = nn.Module()
    return {
        "held": len(inputs.x) if isinstance(inputs, OwnedInputs) else N,
        "all": predict(double, same, inputs, kind="features"),
        "some": predict(double, same, SomeInputs(inputs, some), kind="features"),
        "first": predict(double, same, first, kind="features"),
    }


def same(x: Tensor) -> Tensor:
    return x.clone()


def work(rank: int, size: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    assert world() == (rank, size)
    halves = Division(even_owners(N))
    found = {
        "soft": soft_labels(),
        "whole": halves.gather(halves.own[:, None].float()),
        "gradients": gradients(),
        "owned": owned(),
    }
    with pytest.raises(InputError, match="cannot exchange tensors on mps"):
        processes.check_device(torch.device("mps"))
    with pytest.raises(InputError, match="ranks 0 and 1 both have cuda:0 of"):
        processes.check_device(torch.device("cuda:0"))
    processes.check_device(torch.device("cuda", rank))
    torch.save(found, f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What each of two processes found."""
    assert world() == (0, 1)
    folder = tmp_path_factory.mktemp("both")
    context = multiprocessing.spawn(work, (2, str(folder)), nprocs=2, join=False)
    while not context.join(timeout=60):
        pass
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.slow
def test_em_apl_ranks_over_all_items_in_every_process(both):
    alone = soft_labels()
    assert (alone >= 0).sum() > LABELS  # soft labels were given at all
    for found in both:
        assert torch.equal(found["whole"][:, 0], torch.arange(N).float())
        torch.testing.assert_close(found["soft"], alone)


@pytest.mark.slow
def test_gradients_are_those_of_one_process_whichever_weights_a_step_uses(both):
    alone = gradients()
    assert [weight is None for weight in alone[0]] == [False] * 4
    assert [weight is None for weight in alone[1]] == [False, False, True, True]
    for found in both:
        for mine, theirs in zip(found["gradients"], alone, strict=True):
            for grad, expected in zip(mine, theirs, strict=True):
                assert (grad is None) == (expected is None)
                if expected is not None:
                    torch.testing.assert_close(grad, expected)


@pytest.mark.slow
def test_each_process_holds_a_part_of_the_features(both):
    x = torch.arange(2.0 * N).view(N, 2)
    assert [found["owned"]["held"] for found in both] == [12, 11]
    for found in both:
        assert torch.equal(found["owned"]["all"], x)
        assert torch.equal(found["owned"]["some"], x[[20, 3, 22, 3]])
        assert torch.equal(found["owned"]["first"], x[[1, 0]])
