"""Two processes and one: every method, on features and on images.

They end alike where no layer of the network depends on which rows it sees together. With batch norm
on CPUs, or dropout, they follow `DistributedDataParallel`: the ranks agree with each other.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from plusone.methods import METHODS

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
spec = importlib.util.spec_from_file_location("trainings", HERE / "trainings.py")
trainings = importlib.util.module_from_spec(spec)
spec.loader.exec_module(trainings)

SIZE = 2
TOLERANCE = {"rtol": 1e-3, "atol": 1e-5}
THREE_DIGITS = {"rtol": 2e-2, "atol": 2e-2}
ROUGH = {"bf16": THREE_DIGITS, "fp16 and clip": THREE_DIGITS}


@pytest.fixture(scope="session")
def results(once, start):
    """What one process and each of two found, by case."""

    def compute(folder):
        torch.save(trainings.all_trained(), folder / "alone.pt")
        done = start(folder / "logs", SIZE, HERE / "trainings.py", folder)
        assert done.code == 0, "\n".join(done.err)

    folder = once("two-processes", compute)
    names = ["alone.pt", *(f"{rank}.pt" for rank in range(SIZE))]
    return [torch.load(folder / name, weights_only=True) for name in names]


def test_every_method_is_a_case():
    assert {case["method"] for case in trainings.EQUAL.values()} >= METHODS.keys()


@pytest.mark.parametrize("case", trainings.EQUAL)
def test_two_processes_end_where_one_does(case, results):
    alone, first, second = (found[case] for found in results)
    tolerance = ROUGH.get(case, TOLERANCE)
    for mine, theirs in zip(alone["losses"], first["losses"], strict=True):
        assert mine == pytest.approx(theirs, rel=tolerance["rtol"], abs=tolerance["atol"])
    assert alone["val_map"] == pytest.approx(first["val_map"], abs=0.02)
    for key, value in alone["tensors"].items():
        torch.testing.assert_close(first["tensors"][key], value, **tolerance)
    assert_ranks_agree(alone, first, second)
    assert alone["drawn"] == first["drawn"]


@pytest.mark.parametrize("case", trainings.OTHERS)
def test_with_batch_norm_or_dropout_the_ranks_agree_with_each_other(case, results):
    alone, first, second = (found[case] for found in results)
    assert {"BatchNorm2d"} == {*first["norms"]}
    assert first["trained"] == alone["trained"]
    assert "backbone.layers.0.weight" in first["trained"]
    for key, value in alone["tensors"].items():
        assert first["tensors"][key].shape == value.shape
        assert not value.is_floating_point() or first["tensors"][key].isfinite().all()
    statistics = "model.backbone.layers.1.running_mean"
    assert first["tensors"][statistics].abs().max() > 0
    assert not torch.equal(first["tensors"][statistics], alone["tensors"][statistics])
    assert_ranks_agree(alone, first, second)


def assert_ranks_agree(alone, first, second):
    """Two ranks have the same losses and state; each draws its own dropout."""
    assert first["losses"] == second["losses"]
    assert not set(first["drawn"]) & set(second["drawn"])
    for key, value in second["tensors"].items():
        assert torch.equal(first["tensors"][key], value), key
    # A table with a row for each item is divided, with one more row; rank 0 alone has all of it.
    for key, rows in alone["held"].items():
        divided = rows == alone["items"]
        expected = [-(-rows // 2) + 1, rows // 2 + 1] if divided else [rows] * 2
        assert [first["held"][key], second["held"][key]] == expected
        assert (f"method.{key}" in second["tensors"]) != divided


def test_on_cards_batch_norms_are_synchronised(results):
    alone, first, second = (found["synchronised norms"]["norms"] for found in results)
    assert alone == ["BatchNorm2d"] * 2
    assert first == second == ["SyncBatchNorm"] * 2


def test_the_cases_do_something(results):
    """Where queue or soft labels did nothing, they could not be wrong."""
    alone = results[0]
    assert alone["lac images"]["tensors"]["method.queue_classes"].max() >= 0
    assert (alone["em_apl"]["tensors"]["method.soft"] >= 0).any()
    losses = [alone[case]["losses"] for case in ("an", "ll_r", "ll_ct", "ll_cp")]
    assert all(losses[0] != other for other in losses[1:])
