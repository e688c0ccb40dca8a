"""Schedules of GR."""

import pytest
import torch

from plusone.types import Clock

EPOCHS = 8
START = {"w": 0.0, "b": -2.0, "mu": 0.5, "sigma": 2.0}
END = {"w": 10.0, "b": -8.0, "mu": 0.8, "sigma": 0.5}
OPTIONS = {"w": 10, "b": -8}


def at(epoch, epochs=EPOCHS):
    return Clock(0, epoch, epochs, 0, 1)


def between(share):
    return {name: START[name] + share * (END[name] - START[name]) for name in START}


def test_the_papers_schedule_runs_from_start_to_end(make):
    method = make("gr", options=OPTIONS).method
    assert method.schedule(at(0)) == pytest.approx(START)
    assert method.schedule(at(EPOCHS - 1)) == pytest.approx(END)
    assert method.schedule(at(3)) == pytest.approx(between(3 / 7))
    assert method.schedule(at(0, 1)) == pytest.approx(START)


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
