"""Several processes: each predicts its rows, all get the whole result in order."""

from __future__ import annotations

import pytest
import torch
from torch import distributed, multiprocessing

from plusone.data.matrix import LabelMatrix
from plusone.methods import METHODS
from plusone.models.classifier import Classifier
from plusone.parallel.processes import gather_rows, own_rows, world
from plusone.training.loader import ArrayInputs
from plusone.training.predict import predict
from plusone.types import Clock, TrainLabels

N, LABELS = 23, 4


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


def work(rank: int, size: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    assert world() == (rank, size)
    whole = gather_rows(own_rows(N)[:, None].float(), N)
    torch.save({"soft": soft_labels(), "whole": whole}, f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.slow
def test_em_apl_ranks_over_all_items_in_every_process(tmp_path):
    alone = soft_labels()
    assert (alone >= 0).sum() > LABELS  # soft labels were given at all
    assert world() == (0, 1)
    context = multiprocessing.spawn(work, (2, str(tmp_path)), nprocs=2, join=False)
    while not context.join(timeout=60):
        pass
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert torch.equal(found["whole"][:, 0], torch.arange(N).float())
        torch.testing.assert_close(found["soft"], alone)
