"""Derivatives without automatic differentiation are those of automatic differentiation."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plusone.data.matrix import LabelMatrix
from plusone.losses.closed_form import elementwise, formula_of, same_formula
from plusone.methods import METHODS
from plusone.methods.base import Options
from plusone.methods.itemwise import Itemwise
from plusone.methods.slopes import LOOKS, TableSlopes, is_itemwise, slopes_of
from plusone.training.linear_epoch import Ledger
from plusone.types import Batch, Clock, Outputs, Stage, TrainLabels

OTHERWISE = {"pr", "softmax", "gr_learned"}  # their rows are connected, or more than z is learned
OWN = {"role", "gr_learned", "lac", "en_cl", "en_scl"}  # more than a linear head is trained
ITEMS, CLASSES = 30, 5


def method_of(name, seed):
    """A method that has seen something, and the labels it knows of in three states."""
    rng = np.random.default_rng(seed)
    observed = rng.choice([-1, 0, 0, 0, 1], size=(ITEMS, CLASSES)).astype(np.int8)
    info = METHODS[name]
    labels = TrainLabels(LabelMatrix.from_dense(observed), 1.7, seed, places=False)
    method = info.build(labels, info.make_options({"delta_rel": 9.0} if "ll_" in name else {}))
    method.begin_stage(Stage("features", 4, 0.1))
    for buffer in method.buffers():
        if buffer.shape == (ITEMS, CLASSES):
            buffer.copy_(torch.from_numpy(rng.random(buffer.shape)).round(decimals=1))
    return method, torch.from_numpy(observed).float()


@pytest.mark.parametrize("name", sorted(METHODS.keys() - OWN))
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 99), epoch=st.integers(0, 3), size=st.sampled_from([0.1, 3.0, 60.0]))
def test_slopes_and_values_are_those_of_the_loss(name, seed, epoch, size):
    method, observed = method_of(name, seed)
    draw = torch.Generator().manual_seed(seed)
    slopes = slopes_of(method)
    for step in range(LOOKS + 1):  # the last one uses what the others looked up
        index = torch.randperm(ITEMS, generator=draw)[:6]
        clock, x = Clock(0, epoch, 4, step, 9), torch.randn(6, 8, generator=draw)
        batch = Batch((x,) * len(method.views), observed[index], index)
        logits = size * torch.randn(6, CLASSES, generator=draw)
        with torch.no_grad():
            said = slopes(logits, batch, clock)
        leaf = logits.clone().requires_grad_()
        terms = method.loss(tuple(Outputs(leaf, view) for view in batch.views), batch, clock)
        torch.autograd.backward([term for term in terms.values() if term.requires_grad])
        torch.testing.assert_close(said.slope * said.scale, leaf.grad, rtol=1e-4, atol=1e-6)
        ledger = Ledger([name], 1)
        ledger.add(said.terms, said.factors)
        expected = {term: value.item() for term, value in terms.items()}
        assert ledger.means() == [pytest.approx(expected, rel=1e-4, abs=1e-6)]


@pytest.mark.parametrize("name", sorted(METHODS))
def test_which_methods_need_no_automatic_differentiation(name):
    method, observed = method_of(name, 0)
    if not is_itemwise(method):
        assert name in {"epr", "role", "lac", "ll_r", "ll_ct", "ll_cp", "en_cl", "en_scl"}
        return
    slopes, index, clock = TableSlopes(method), torch.arange(6), Clock(0, 1, 4, 0, 9)
    batch = Batch((torch.zeros(6, 8),) * len(method.views), observed[index], index)
    for _ in range(LOOKS):
        assert not slopes.closed
        with torch.no_grad():
            slopes(torch.zeros(6, CLASSES), method.known(batch, clock), clock)
    assert slopes.closed == (name not in OTHERWISE)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_tables_do_not_depend_on_the_step(name):
    method, observed = method_of(name, 0)
    if not is_itemwise(method):
        return
    logits = torch.linspace(-4, 4, 6 * CLASSES).view(6, CLASSES)
    batch = Batch((logits,) * len(method.views), observed[:6], torch.arange(6))
    known = method.known(batch, Clock(0, 1, 4, 0, 9))
    first, second = (
        method.tables((logits,) * len(method.views), known, Clock(0, 1, 4, step, 9))
        for step in (0, 5)
    )
    assert first.keys() == second.keys()
    assert all(torch.equal(first[term], second[term]) for term in first)


def times(z, y, factor):
    return z * factor, torch.full_like(z, factor)


class OfTheStep(Itemwise):
    """Breaks the rule: its table depends on the step."""

    def table(self, logits, known, clock):
        return elementwise(logits, *known, partial(times, factor=float(clock.step)))


class OfTheBatch(Itemwise):
    """Breaks the rule: its table depends on all of the batch."""

    def table(self, logits, known, clock):
        return elementwise(logits, *known, partial(times, factor=logits.max().item()))


@pytest.mark.parametrize("kind", [OfTheStep, OfTheBatch])
def test_numbers_of_a_step_or_a_batch_are_never_taken_for_those_of_the_epoch(kind):
    labels = TrainLabels(LabelMatrix.from_dense(np.eye(4, 3, dtype=np.int8)), 1.0)
    slopes = slopes_of(kind(labels, Options()))
    for step in range(4):
        z = torch.full((4, 3), step + 0.5)
        batch = Batch((z,), torch.zeros(4, 3), torch.arange(4))
        said = slopes(z, batch, Clock(0, 0, 1, step, 4))
        wanted = step if kind is OfTheStep else step + 0.5
        torch.testing.assert_close(said.slope, torch.full((4, 3), float(wanted)))


def square(z, y):
    return z * z, 2 * z


def test_formulas_are_only_found_where_they_say_everything():
    z, y = torch.ones(2, 2, requires_grad=True), torch.zeros(2, 2)
    assert formula_of(elementwise(z, y, square), z, y) is square
    own = y + 1

    def with_own(z, y):
        return z * own, own

    assert formula_of(elementwise(z, y, square) * 2, z, y) is None
    assert formula_of(elementwise(z * 1, y, square), z, y) is None
    assert formula_of(elementwise(z, y.clone(), square), z, y) is None
    assert formula_of(elementwise(z, y, with_own), z, y) is None
    assert formula_of(z.square(), z, y) is None

    def with_default(z, y, own=own):
        return z * own, own

    class Holder:
        def formula(self, z, y):
            return z * own, own

    for formula in (with_default, Holder().formula, partial(times, factor=torch.ones(()))):
        assert formula_of(elementwise(z, y, formula), z, y) is None


def test_formulas_are_the_same_if_function_and_settings_are():
    assert same_formula(partial(times, factor=1.0), partial(times, factor=1.0))
    assert not same_formula(partial(times, factor=1.0), partial(times, factor=2.0))
    assert not same_formula(partial(times, factor=1.0), partial(square))
    assert same_formula(square, square)
