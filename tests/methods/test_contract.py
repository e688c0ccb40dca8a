"""What every method of the table must do; a new row is tested without further work."""

import dataclasses
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from plusone.data.observation import parse_scheme
from plusone.errors import InputError
from plusone.methods import METHODS, Method, get_method
from plusone.methods._tables import divided, holder_of, slots_of
from plusone.models.heads import LinearHead
from plusone.training.step import Gradients, training_step
from plusone.types import Batch, Clock, Outputs, Stage

CLOCK = Clock(0, 2, 5, 1, 4)
RATES, SEEDS = 3, 2  # of a stack
STACKS = pytest.mark.parametrize(
    "case", [name for name in sorted(METHODS) if METHODS[name].stacks], indirect=True
)


def test_the_loss_reads_only(case):
    """It changes neither batch nor method, and draws nothing from the global generator."""
    batch = case.batch()
    before = {key: value.clone() for key, value in case.method.state_dict().items()}
    observed, index = batch.observed.clone(), batch.index.clone()
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, second = case.terms(batch), case.terms(batch)
    assert torch.equal(torch.rand(1), expected)
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert value.shape == ()
        assert torch.equal(value, second[name])
    assert torch.equal(batch.observed, observed)
    assert torch.equal(batch.index, index)
    after = case.method.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[key], value) for key, value in before.items())


def learned(module):
    """The weights that are not kept as they are."""
    return [weight for weight in module.parameters() if weight.requires_grad]


def test_gradients_reach_head_and_backbone(case):
    case.total(case.batch()).backward()
    for name, weight in case.model.named_parameters():
        if not weight.requires_grad:  # the method keeps it as it is
            continue
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        assert weight.grad.abs().sum() > 0, name


def test_the_order_of_a_batch_does_not_matter(case):
    batch = case.batch()
    if not torch.equal(case.total(batch, CLOCK), case.total(batch, replace(CLOCK, step=2))):
        pytest.skip("it draws at every step, by the position in the batch")
    order = [5, 2, 7, 0, 1, 6, 3, 4]
    torch.testing.assert_close(case.total(batch), case.total(case.batch(order)))


def test_a_step_lowers_the_loss(case):
    batch, before = case.batch(), case.total(case.batch())
    before.backward()
    with torch.no_grad():
        for weight in learned(case.model):
            weight -= 1e-3 * weight.grad
    assert case.total(batch) < before


def test_a_seen_negative_pushes_its_logit_down_and_a_positive_up(case):
    observed = case.observed.clone()
    row, column = 0, int((case.observed[0] != 1).nonzero()[0])
    observed[row, column] = -1
    logits = torch.full((8, 6), 0.1, requires_grad=True)  # squared error is flat at 0
    case.on_logits(logits, observed).backward()
    assert logits.grad[row, column] > 0
    logits = torch.zeros(8, 6, requires_grad=True)
    case.on_logits(logits, case.observed).backward()
    row, column = (case.observed == 1).nonzero()[0].tolist()
    assert logits.grad[row, column] < 0


def test_rows_without_positives_survive(case):
    for state in (0, -1):
        observed = case.observed.clone()
        observed[::2] = state
        total = case.total(case.batch(observed=observed))
        total.backward()
        assert total.isfinite()
        assert all(weight.grad.isfinite().all() for weight in learned(case.model))
        assert case.total(case.batch(observed=torch.full_like(observed, state))).isfinite()


def test_one_class_and_one_item(case, make):
    assert case.total(case.batch([3])).isfinite()
    for n, n_classes in ((8, 1), (1, 6), (1, 1)):
        small = make(case.name, n, n_classes)
        total = small.total(small.batch())
        total.backward()
        assert total.isfinite()
        assert all(weight.grad.isfinite().all() for weight in learned(small.model))


def test_large_logits_stay_finite(case):
    sign = torch.tensor([1.0, -1.0]).repeat(4, 3).repeat_interleave(2, 0)[:8]
    for factor in (50.0, -50.0, 1e4, -1e4):
        logits = (factor * sign).requires_grad_()
        total = case.on_logits(logits, case.observed)
        total.backward()
        assert total.isfinite()
        assert logits.grad.isfinite().all()


def test_every_epoch_of_a_stage_has_a_loss(case):
    for epochs in (1, 3):
        case.method.begin_stage(Stage(inputs="features", epochs=epochs, lr=1e-3))
        for epoch in range(epochs):
            assert case.total(case.batch(), Clock(0, epoch, epochs, 0, 2)).isfinite()


def test_probabilities(case):
    logits = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
    scores = case.method.probabilities(logits)
    assert scores.shape == logits.shape
    assert scores.min() >= 0
    assert scores.max() <= 1
    assert torch.equal(scores.argsort(1), logits.argsort(1))
    logits = torch.randn(RATES, SEEDS, 4, 6)
    alone = torch.stack([case.method.probabilities(z) for z in logits.flatten(0, 1)])
    torch.testing.assert_close(case.method.probabilities(logits), alone.view(logits.shape))


class NoReading(TorchDispatchMode):
    """Inside it no number of a tensor can be read on the host."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func is not torch.ops.aten._local_scalar_dense.default, "a value is read on the host"
        return func(*args, **(kwargs or {}))


def test_the_loss_reads_no_value_on_the_host(case):
    outs, batch = case.outputs(case.batch()), case.batch()
    with NoReading():
        total = sum(case.method.loss(outs, batch, CLOCK).values())
        total = total + sum(case.method.penalty(case.model.head).values())
        total.backward()


def test_what_does_not_stack_says_why():
    for name, info in METHODS.items():
        assert info.stacks or (info.alone.strip() and not info.alone.endswith(".")), name


@STACKS
def test_what_stacks_has_nothing_of_its_own(case):
    """What differs from run to run (a memory, parameters, a head) cannot be one for a stack."""
    assert not case.method.state_dict()
    assert case.method.teacher is None
    assert type(case.model.head) is LinearHead
    assert type(case.method).after_step is Method.after_step
    assert type(case.method).after_epoch is Method.after_epoch


@STACKS
@pytest.mark.parametrize("epoch", [0, 4])
def test_a_stack_of_runs_is_its_runs(case, make, epoch):
    """Terms `[R, S]` and gradients of stacked logits `[R, S, B, L]` are those of each run."""
    method = make(case.name, options=case.info.quick).method
    clock, n = Clock(0, epoch, 5, 1, 4), 5
    index = torch.stack([torch.randperm(8)[:n] for _ in range(SEEDS)])
    observed = case.observed[index].expand(RATES, SEEDS, n, 6)
    logits = (3 * torch.randn(RATES, SEEDS, n, 6)).requires_grad_()
    x = torch.zeros(SEEDS, n, 4)
    n_views = len(method.views)

    def terms(z, y, i, features):
        outs = (Outputs(z, features),) * n_views
        return method.loss(outs, Batch((features,) * n_views, y, i), clock)

    stacked = terms(logits, observed, index, x)
    (slope,) = torch.autograd.grad(sum(stacked.values()).sum(), logits)
    for rate in range(RATES):
        for seed in range(SEEDS):
            z = logits[rate, seed].detach().requires_grad_()
            single = terms(z, observed[rate, seed], index[seed], x[seed])
            assert single.keys() == stacked.keys()
            for name, value in single.items():
                assert stacked[name].shape == (RATES, SEEDS)
                torch.testing.assert_close(stacked[name][rate, seed], value)
            (own,) = torch.autograd.grad(sum(single.values()), z)
            torch.testing.assert_close(slope[rate, seed], own)


@STACKS
def test_the_penalty_of_a_stack(case):
    weight, bias = torch.randn(RATES, SEEDS, 6, 5), torch.randn(RATES, SEEDS, 6)
    terms = case.method.penalty(SimpleNamespace(weight=weight, bias=bias))
    for name, value in terms.items():
        assert value.shape == (RATES, SEEDS)
        single = case.method.penalty(SimpleNamespace(weight=weight[1, 0], bias=bias[1, 0]))
        torch.testing.assert_close(value[1, 0], single[name])


def test_maps(case):
    with torch.no_grad():
        head = case.model.head
        out = head(head.pool(torch.randn(2, 5, 3, 4)))
    assert (out.maps is not None) == case.info.has_maps
    assert out.maps is None or out.maps.shape == (2, 6, 3, 4)


def test_hooks_and_estimates(case):
    batch = case.batch()
    with torch.no_grad():
        case.method.after_step(case.outputs(batch), batch, Clock(0, 0, 1, 0, 1))
        case.method.after_epoch(Clock(0, 0, 1, 0, 1), lambda: case.model(case.x).logits)
    estimates = case.method.estimates()
    assert estimates is None or estimates.shape == (8, 6)


def test_tables_keep_their_division_when_they_move(case):
    """A buffer on another device is another tensor, which must know who holds its rows."""
    holder = object()
    tables = [found for path in case.method.per_item if (found := slots_of(case.method, path))]
    for slots, name in tables:
        slots[name] = divided(slots[name], slots[name], holder)
    case.method.move(torch.device("meta"))
    for slots, name in tables:
        assert slots[name].is_meta
        assert holder_of(slots[name]) is holder


def test_options_are_checked(case):
    """Unknown ones and those of another type are refused, and the defaults may be given."""
    with pytest.raises(InputError, match="unknown method option 'no_such_option'"):
        case.info.make_options({"no_such_option": 1})
    for entry in dataclasses.fields(case.info.options):
        wrong = [[1.0], {"a": 1}]
        wrong += [1.0, True] if isinstance(entry.default, str) else ["text"]
        wrong += [1, 0.5] if isinstance(entry.default, bool) else [True]
        wrong += [] if entry.default is None else [None]
        for value in wrong:
            with pytest.raises(InputError, match=f"method option {entry.name} cannot be"):
                case.info.make_options({entry.name: value})
    values = dataclasses.asdict(case.info.options())
    assert case.info.make_options(values) == case.info.make_options({})


def another_value(info, entry):
    """A number near the default of an option that it may have; None if it cannot change alone."""
    for value in (entry.default + 0.125, entry.default - 0.0625):
        try:
            info.make_options({entry.name: value})
        except InputError:
            continue
        return value
    return None


def test_options_of_a_stage_end_with_it(case):
    before = case.total(case.batch())
    for entry in dataclasses.fields(case.info.options):
        value = another_value(case.info, entry) if isinstance(entry.default, float) else None
        if value is None:
            continue
        options = {entry.name: value}
        stage = Stage(inputs="features", epochs=5, lr=1e-3, options=options)
        if entry.name in case.method.fixed:
            with pytest.raises(InputError, match="cannot change from stage to stage"):
                case.method.begin_stage(stage)
        else:
            case.method.begin_stage(stage)
            assert getattr(case.method.options, entry.name) == options[entry.name]
    case.method.begin_stage(Stage(inputs="features", epochs=5, lr=1e-3))
    assert torch.equal(case.total(case.batch()), before)


def test_facts_of_the_table(case):
    info = case.info
    assert info.paper.strip()
    assert info.summary.strip()
    assert "\n" not in info.summary
    assert 2000 < info.year < 2100
    parse_scheme(info.scheme)
    assert dataclasses.is_dataclass(info.options)
    assert not any(math.isnan(v) for v in vars(info.options()).values() if isinstance(v, float))
    assert METHODS[info.name] is info
    info.make_options(info.quick)


def test_every_method_has_a_row_in_the_documentation():
    pages = (Path(__file__).resolve().parents[2] / "docs" / "methods").glob("*.md")
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    rows = [line for line in lines if line.startswith("|")]
    missing = [name for name in METHODS if not any(f"`{name}`" in row for row in rows)]
    assert missing == []


def test_unknown_methods_are_refused():
    with pytest.raises(InputError, match="unknown method 'magic'; known: bce, "):
        get_method("magic")


def step(case, gradients):
    """A step that moves nothing: gradients by name, the terms, and what the method remembers."""
    weights = [*learned(case.model), *case.method.parameters()]
    observed = case.observed.clone()
    observed[1, observed[1] == 0] = -1  # their weights depend on the whole batch
    optimizer, batch = torch.optim.SGD(weights, lr=0.0), case.batch(observed=observed)
    terms = training_step(
        case.model, case.model.head, case.method, optimizer, batch, CLOCK, weigh=True,
        gradients=gradients,
    )  # fmt: skip
    modules = {"model": case.model, "method": case.method}
    found = {
        f"{of}.{name}": weight.grad
        for of, module in modules.items()
        for name, weight in module.named_parameters()
    }
    return found, terms, case.method.state_dict()


def test_a_step_in_pieces_is_that_of_the_whole_batch(case, make):
    """Also where the loss is no sum over items, and for seen negatives that are weighted."""
    whole, terms, state = step(case, Gradients())
    for pieces in (2, 3):
        other, other_terms, other_state = step(make(case.name), Gradients(pieces=pieces))
        assert whole.keys() == other.keys()
        for name, value in whole.items():
            assert (value is None) == (other[name] is None), name
            if value is not None:
                torch.testing.assert_close(other[name], value, rtol=1e-4, atol=1e-6, msg=name)
        for mine, theirs in ((other_terms, terms), (other_state, state)):
            for name, value in theirs.items():
                torch.testing.assert_close(mine[name], value, rtol=1e-4, atol=1e-6, msg=name)


def test_half_precision_in_the_backbone_is_close_to_full(case):
    """With logits of up to 30: the head and the loss stay in float32."""
    head = case.model.head
    with torch.no_grad():
        factor = 30 / case.model(case.x).logits.abs().max()
        for weight in (head.weight, head.bias) if hasattr(head, "weight") else head.parameters():
            weight.mul_(factor)
    full = case.total(case.batch()).detach()
    for precision in ("bf16", "fp16"):
        case.model.zero_grad()
        case.model.precision = precision
        total = case.total(case.batch())
        total.backward()
        assert total.dtype == torch.float32
        assert all(weight.grad.isfinite().all() for weight in learned(case.model))
        torch.testing.assert_close(total, full, rtol=0.05, atol=0.05)
