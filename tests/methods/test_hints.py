"""Methods that learn from hints."""

import pytest
import torch

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.methods import METHODS
from plusone.methods.hinted import highest, lowest
from plusone.types import Clock, TrainLabels

HINTED = [name for name, info in METHODS.items() if info.needs_hints]
NAN = torch.nan


def total_without_hints(make, name, options):
    case = make(name, options=options)
    case.method.hints = None
    return [case.total(case.batch(), Clock(0, epoch, 8, 0, 1)) for epoch in range(8)]


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_gpr_without_hints_and_count_is_gr(make, variant):
    mine = total_without_hints(make, "gpr", {"reg": 0.0, "variant": variant})
    case = make("gr", options={"variant": variant})
    assert mine == [case.total(case.batch(), Clock(0, epoch, 8, 0, 1)) for epoch in range(8)]


def test_vlpl_without_hints_is_em(make):
    case = make("em", options={"alpha": 0.2})
    assert total_without_hints(make, "vlpl", {})[0] == case.total(case.batch())


@pytest.mark.parametrize("name", HINTED)
def test_hints_move_the_loss(make, name):
    case = make(name)
    with_hints = case.total(case.batch())
    case.method.hints.fill_(NAN)
    assert case.total(case.batch()) != with_hints


def test_pseudo_labels_of_gpr():
    info = METHODS["gpr"]
    labels = TrainLabels(LabelMatrix.from_dense([[1, 0, 0, 0, 0]]))
    method = info.build(labels, info.make_options({"top": 2, "negatives": 0.4}))
    hints = torch.tensor(
        [
            [0.6, 0.9, 0.7, 0.1, 0.2],  # two of three above theta
            [0.1, 0.2, 0.3, 0.0, 0.5],  # theta itself counts
            [0.9, NAN, NAN, NAN, NAN],  # what is high is not low as well
            [NAN] * 5,
        ]
    )
    assert method.pseudo_labels(hints).tolist() == [
        [0, 1, 1, -1, -1],
        [-1, 0, 0, -1, 1],
        [1, 0, 0, 0, 0],
        [0, 0, 0, 0, 0],
    ]


def test_equal_hints_give_exact_numbers():
    hints = torch.zeros(3, 10)
    assert highest(hints, 3).sum(1).tolist() == [3, 3, 3]
    assert lowest(hints, 0.29).sum(1).tolist() == [2, 2, 2]
    assert not lowest(hints, 0.0).any()


def test_options_that_cannot_work_are_refused():
    for options, match in (({"lam2": 0.8}, "lam2 must not be"), ({"negatives": 1.5}, "share")):
        with pytest.raises(InputError, match=match):
            METHODS["gpr"].make_options(options)
