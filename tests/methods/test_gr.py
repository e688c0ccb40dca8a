"""Schedules of GR."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plusone.data.matrix import LabelMatrix
from plusone.methods import METHODS
from plusone.types import Clock, TrainLabels

EPOCHS = 8
START = {"w": 0.0, "b": -2.0, "mu": 0.5, "sigma": 2.0}
END = {"w": 10.0, "b": -8.0, "mu": 0.8, "sigma": 0.5}
OPTIONS = {"w": 10, "b": -8}


def at(epoch, epochs=EPOCHS):
    return Clock(0, epoch, epochs, 0, 1)


def build(options):
    info = METHODS["gr"]
    labels = TrainLabels(LabelMatrix.from_dense([[1, 0]]))
    return info.build(labels, info.make_options(options))


def between(share):
    return {name: START[name] + share * (END[name] - START[name]) for name in START}


def test_the_papers_schedule_runs_from_start_to_end(make):
    method = make("gr", options=OPTIONS).method
    assert method.schedule(at(0)) == pytest.approx(START)
    assert method.schedule(at(EPOCHS - 1)) == pytest.approx(END)
    assert method.schedule(at(3)) == pytest.approx(between(3 / 7))
    assert method.schedule(at(0, 1)) == pytest.approx(START)


def test_the_schedule_as_written_stops_short_of_its_end(make):
    method = make("gr", options=OPTIONS | {"reach_end": False}).method
    for epoch in range(EPOCHS):
        assert method.schedule(at(epoch)) == pytest.approx(between(epoch / EPOCHS))


def test_the_released_schedule_lags_for_w_and_b(make):
    method = make("gr", options=OPTIONS | {"variant": "released"}).method
    for epoch in range(EPOCHS):
        early, late = between(epoch / EPOCHS), between((epoch + 1) / EPOCHS)
        expected = {"w": early["w"], "b": early["b"], "mu": late["mu"], "sigma": late["sigma"]}
        assert method.schedule(at(epoch)) == pytest.approx(expected)


def test_the_schedule_moves_the_loss(make):
    case = make("gr")
    losses = [case.total(case.batch(), at(epoch)).item() for epoch in (0, 4, 7)]
    assert len(set(losses)) == 3


def test_variants_differ(make):
    paper, released = make("gr"), make("gr", options={"variant": "released"})
    batch = paper.batch()
    assert not torch.equal(paper.total(batch, at(0)), released.total(batch, at(0)))


@given(
    q=st.floats(0, 3),
    end=st.none() | st.floats(0, 3),
    epochs=st.integers(1, 30),
    variant=st.sampled_from(["paper", "released"]),
)
def test_robustness_runs_from_start_to_end(q, end, epochs, variant):
    for name in ("q2", "q3"):
        method = build({name: q, f"{name}_end": end, "variant": variant})
        values = [method.robustness(at(epoch, epochs))[name] for epoch in range(epochs)]
        assert values[0] == q
        if end is None:
            assert values == [q] * epochs
        elif epochs > 1:
            assert values[-1] == pytest.approx(end)
            steps = [b - a for a, b in itertools.pairwise(values)]
            assert steps == pytest.approx([(end - q) / (epochs - 1)] * (epochs - 1), abs=1e-9)
        other = {"q1": 0.01, "q2": 0.01, "q3": 1.0}
        for epoch in range(epochs):
            found = method.robustness(at(epoch, epochs))
            assert {key: found[key] for key in other if key != name} == {
                key: value for key, value in other.items() if key != name
            }


def test_moving_robustness_moves_the_loss_and_only_then(make):
    logits = torch.linspace(-3, 3, 48).view(8, 6)
    constant, moving = make("gr"), make("gr", options={"q2_end": 0.5, "q3_end": 0.2})
    observed = constant.observed
    for epoch, same in ((0, True), (EPOCHS - 1, False)):
        a, b = (case.on_logits(logits, observed, at(epoch)) for case in (constant, moving))
        assert torch.equal(a, b) == same


def test_a_negative_end_is_refused_in_the_first_epoch(make):
    for name in ("q2_end", "q3_end"):
        case = make("gr", options={name: -0.5})
        with pytest.raises(ValueError, match="q2_end and q3_end must not be negative"):
            case.total(case.batch(), at(0))
