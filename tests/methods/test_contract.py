"""What every method of the table must do; a new row is tested without further work."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch

from plusone.data.observation import parse_scheme
from plusone.errors import InputError
from plusone.methods import METHODS, get_method
from plusone.types import Clock, Stage

# Its draws go by the position of an item in the batch, so the order of a batch matters.
DRAWS_BY_POSITION = {"wan_sampled"}
# Options that are refused unless others are given too.
NOT_ALONE = {("gr_learned", "mu"), ("gr_learned", "sigma")}
# A seen negative is left out of the softmax: its logit has no influence.
NEGATIVES_LEFT_OUT = {"softmax"}


def test_the_loss_reads_only(case):
    batch = case.batch()
    before = {key: value.clone() for key, value in case.method.state_dict().items()}
    observed, index = batch.observed.clone(), batch.index.clone()
    first, second = case.terms(batch), case.terms(batch)
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert value.shape == ()
        assert torch.equal(value, second[name])
    assert torch.equal(batch.observed, observed)
    assert torch.equal(batch.index, index)
    after = case.method.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[key], value) for key, value in before.items())


def test_the_loss_does_not_touch_the_global_generator(case):
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    case.terms(case.batch())
    assert torch.equal(torch.rand(1), expected)


def test_gradients_reach_head_and_backbone(case):
    case.total(case.batch()).backward()
    for name, weight in case.model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        assert weight.grad.abs().sum() > 0, name


def test_the_order_of_a_batch_does_not_matter(case):
    if case.name in DRAWS_BY_POSITION:
        pytest.skip("its draws go by position")
    order = [5, 2, 7, 0, 1, 6, 3, 4]
    torch.testing.assert_close(case.total(case.batch()), case.total(case.batch(order)))


def test_a_step_lowers_the_loss(case):
    batch, before = case.batch(), case.total(case.batch())
    before.backward()
    with torch.no_grad():
        for weight in case.model.parameters():
            weight -= 1e-3 * weight.grad
    assert case.total(batch) < before


def test_a_seen_negative_pushes_its_logit_down(case):
    observed = case.observed.clone()
    row, column = 0, int((case.observed[0] != 1).nonzero()[0])
    observed[row, column] = -1
    logits = torch.zeros(8, 6, requires_grad=True)
    case.on_logits(logits, observed).backward()
    if case.name in NEGATIVES_LEFT_OUT:
        assert logits.grad[row, column] == 0
        observed[row, column] = 0
        other = torch.zeros(8, 6, requires_grad=True)
        case.on_logits(other, observed).backward()
        assert other.grad[row, column] > 0
    else:
        assert logits.grad[row, column] > 0


def test_a_seen_positive_pushes_its_logit_up(case):
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
        assert all(weight.grad.isfinite().all() for weight in case.model.parameters())
        assert case.total(case.batch(observed=torch.full_like(observed, state))).isfinite()


@pytest.mark.parametrize(("n", "n_classes"), [(8, 1), (1, 6), (1, 1)])
def test_one_class_and_one_item(case, make, n, n_classes):
    small = make(case.name, n, n_classes)
    total = small.total(small.batch())
    total.backward()
    assert total.isfinite()
    assert all(weight.grad.isfinite().all() for weight in small.model.parameters())


def test_a_batch_of_one(case):
    assert case.total(case.batch([3])).isfinite()


@pytest.mark.parametrize("size", [50.0, 1e4])
def test_large_logits_stay_finite(case, size):
    sign = torch.tensor([1.0, -1.0]).repeat(4, 3).repeat_interleave(2, 0)[:8]
    for factor in (size, -size):
        logits = (factor * sign).requires_grad_()
        total = case.on_logits(logits, case.observed)
        total.backward()
        assert total.isfinite()
        assert logits.grad.isfinite().all()


def test_every_epoch_of_a_stage_has_a_loss(case):
    for epochs in (1, 3):
        case.method.begin_stage(Stage("features", epochs, 1e-3))
        for epoch in range(epochs):
            assert case.total(case.batch(), Clock(0, epoch, epochs, 0, 2)).isfinite()


def test_probabilities(case):
    logits = torch.randn(8, 6, generator=torch.Generator().manual_seed(0)) * 5
    scores = case.method.probabilities(logits)
    assert scores.shape == logits.shape
    assert scores.min() >= 0
    assert scores.max() <= 1
    assert torch.equal(scores.argsort(1), logits.argsort(1))


def test_hooks_and_estimates(case):
    batch = case.batch()
    with torch.no_grad():
        case.method.after_step(case.outputs(batch), batch, Clock(0, 0, 1, 0, 1))
        case.method.after_epoch(Clock(0, 0, 1, 0, 1), lambda: case.model(case.x).logits)
    estimates = case.method.estimates()
    assert estimates is None or estimates.shape == (8, 6)


def test_unknown_options_are_refused(case):
    with pytest.raises(InputError, match="unknown method option 'no_such_option'"):
        case.info.make_options({"no_such_option": 1})


def test_options_of_another_type_are_refused(case):
    for entry in dataclasses.fields(case.info.options):
        wrong = [[1.0], {"a": 1}]
        wrong += [1.0, True] if isinstance(entry.default, str) else ["text"]
        wrong += [1, 0.5] if isinstance(entry.default, bool) else [True]
        wrong += [] if entry.default is None else [None]
        for value in wrong:
            with pytest.raises(InputError, match=f"method option {entry.name} cannot be"):
                case.info.make_options({entry.name: value})


def test_default_options_can_be_given(case):
    values = dataclasses.asdict(case.info.options())
    assert case.info.make_options(values) == case.info.make_options({})


def another_value(info, entry):
    """A number near the default of an option that the option may have."""
    for value in (entry.default + 0.125, entry.default - 0.0625):
        try:
            info.make_options({entry.name: value})
        except InputError:
            continue
        return value
    raise AssertionError(f"no other value than {entry.default} is allowed for {entry.name}")


def test_options_of_a_stage_end_with_it(case):
    before = case.total(case.batch())
    for entry in dataclasses.fields(case.info.options):
        if not isinstance(entry.default, float) or (case.name, entry.name) in NOT_ALONE:
            continue
        options = {entry.name: another_value(case.info, entry)}
        stage = Stage("features", 5, 1e-3, options=options)
        if entry.name in case.method.fixed:
            with pytest.raises(InputError, match="cannot change from stage to stage"):
                case.method.begin_stage(stage)
        else:
            case.method.begin_stage(stage)
            assert getattr(case.method.options, entry.name) == options[entry.name]
    case.method.begin_stage(Stage("features", 5, 1e-3))
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


def test_every_method_has_a_row_in_the_documentation():
    page = Path(__file__).resolve().parents[2] / "docs" / "methods.md"
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    missing = [name for name in METHODS if not any(f"`{name}`" in row for row in rows)]
    assert missing == []


def test_unknown_methods_are_refused():
    with pytest.raises(InputError, match="unknown method 'magic'; known: bce, "):
        get_method("magic")
