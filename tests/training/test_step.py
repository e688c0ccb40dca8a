"""One step, and what a loop must not ignore of a method: the same training on every path."""

import dataclasses
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import plusone
from plusone.cli.app import main
from plusone.data import Dataset
from plusone.errors import DivergedError, InputError
from plusone.inputs.forward import predict
from plusone.inputs.loader import label_batches, visiting_order
from plusone.inputs.task import make_task
from plusone.losses import assume_negative, observed_bce, reduce
from plusone.methods import METHODS
from plusone.methods._base import Method, MethodInfo, Options
from plusone.models.heads import Head
from plusone.recipe import make_recipe
from plusone.seeds import generator
from plusone.training import step as step_module
from plusone.training.closed_fit import fit_for
from plusone.training.guards import SMALL_STEP, suitable_threads
from plusone.training.stack import AloneError, train_stacked
from plusone.training.stage_inputs import batches_of
from plusone.training.step import LossMeter, training_step
from plusone.training.trainer import Training
from plusone.types import Batch, Clock, Outputs


@dataclass(frozen=True)
class NoOptions(Options):
    pass


class Plain(Method[NoOptions]):
    def loss(self, outs, batch, clock):
        return {"loss": reduce(assume_negative(outs[0].logits, batch.observed))}


class FromStepFour(Plain):
    """Charges negatives from the fifth step of an epoch on."""

    def loss(self, outs, batch, clock):
        function = assume_negative if clock.step >= 4 else observed_bce
        return {"loss": reduce(function(outs[0].logits, batch.observed))}


class WithMemory(Plain):
    """Counts an item less after each visit."""

    def __init__(self, labels, options):
        super().__init__(labels, options)
        self.register_buffer("visits", torch.zeros(labels.n_items))

    def loss(self, outs, batch, clock):
        weight = 1 / (1 + self.visits[batch.index])
        return {"loss": (weight[:, None] * assume_negative(outs[0].logits, batch.observed)).mean()}

    def after_step(self, outs, batch, clock):
        self.visits[batch.index] += 1


class WithParameter(Plain):
    def __init__(self, labels, options):
        super().__init__(labels, options)
        self.scale = nn.Parameter(torch.ones(labels.n_classes))

    def loss(self, outs, batch, clock):
        return {"loss": reduce(assume_negative(self.scale * outs[0].logits, batch.observed))}


class TanhHead(Head):
    def __init__(self, dim, n_classes):
        super().__init__()
        self.linear = nn.Linear(dim, n_classes)

    def forward(self, features):
        return Outputs(torch.tanh(self.linear(features)), features)


class WithHead(Plain):
    def make_head(self, dim):
        return TanhHead(dim, self.labels.n_classes)


class TwoViews(Plain):
    views = ("weak", "strong")

    def loss(self, outs, batch, clock):
        first, second = (torch.sigmoid(out.logits) for out in outs)
        return super().loss(outs, batch, clock) | {"distance": reduce((first - 2 * second) ** 2)}


class WithConstant(Plain):
    """Weighs classes by a buffer that is never written."""

    constants = ("weights",)

    def __init__(self, labels, options):
        super().__init__(labels, options)
        self.register_buffer("weights", torch.linspace(0.5, 2, labels.n_classes))

    def loss(self, outs, batch, clock):
        return {"loss": reduce(self.weights * assume_negative(outs[0].logits, batch.observed))}


class WithPenalty(Plain):
    def penalty(self, head):
        return {"norm": 0.1 * head.weight.square().sum((-2, -1))}


CASES = {
    "step": (FromStepFour, None),
    "memory": (WithMemory, "it remembers visits"),
    "parameter": (WithParameter, "it learns a scale"),
    "head": (WithHead, "its head is not linear"),
    "views": (TwoViews, None),
    "constant": (WithConstant, None),
    "penalty": (WithPenalty, None),
}


@pytest.fixture(params=CASES)
def recipe(request, monkeypatch):
    """A recipe of a method that uses one of the hooks."""
    kind, alone = CASES[request.param]
    info = MethodInfo(
        name="own", build=kind, options=NoOptions, paper="none", year=2026, summary="a test",
        alone=alone,
    )  # fmt: skip
    monkeypatch.setitem(METHODS, "own", info)
    return make_recipe({"method": "own", "epochs": 2, "lr": 0.05, "batch_size": 16})


def reference(task, recipe):
    """Weights after a loop that has nothing but torch, the method and the order of the items."""
    made = fit_for(task, recipe)  # for the initial weights
    head, method, train = made.model.head, made.method, task.train
    parameters = [*head.parameters(), *method.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=recipe.lr)
    for epoch in range(recipe.epochs):
        order = visiting_order(len(train), None, generator(recipe.seed, "order", 0, epoch))
        indices = torch.split(order, recipe.batch_size)
        labels = label_batches(train.observed, order, recipe.batch_size)
        for step, (index, observed) in enumerate(zip(indices, labels, strict=True)):
            clock = Clock(0, epoch, recipe.epochs, step, len(indices))
            x = train.inputs.x[index]
            batch = Batch((x,) * len(method.views), observed, index)
            outs = tuple(head(x) for _ in method.views)
            terms = method.loss(outs, batch, clock) | method.penalty(head)
            optimizer.zero_grad()
            sum(terms.values()).backward()
            optimizer.step()
            with torch.no_grad():
                method.after_step(outs, batch, clock)
    return head.state_dict() | method.state_dict()


def trained(task, recipe):
    """The last weights of a training; `epochs()` itself ends with the best ones."""
    made = fit_for(task, recipe)
    for _ in range(recipe.epochs):
        made.train_epoch()
        made.epoch += 1
    return made.model.head.state_dict() | made.method.state_dict()


def test_what_a_method_reads_counts_in_every_path(recipe, feature_data):
    task = make_task(feature_data(120), recipe)
    expected = reference(task, recipe)
    for name, value in trained(task, recipe).items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-6)
    recipes = [recipe, recipe.model_copy(update={"lr": 0.01, "seed": 3})]
    if (reason := METHODS["own"].alone) is not None:
        with pytest.raises(AloneError, match=reason):
            train_stacked(task, recipes)
        return
    for training, records in train_stacked(task, recipes):
        alone = fit_for(task, training.recipe)
        for mine, theirs in zip(records, alone.epochs(), strict=True):
            assert mine.losses == pytest.approx(theirs.losses, rel=1e-4)
        for name, value in training.model.state_dict().items():
            torch.testing.assert_close(value, alone.model.state_dict()[name], rtol=1e-4, atol=1e-6)


def test_a_loss_that_mixes_the_runs_of_a_stack_is_refused(monkeypatch, feature_data):
    class Mixing(Plain):
        def loss(self, outs, batch, clock):
            return {"loss": assume_negative(outs[0].logits, batch.observed).mean()}

    info = dataclasses.replace(METHODS["an"], name="own", build=Mixing, options=NoOptions)
    monkeypatch.setitem(METHODS, "own", info)
    recipe = make_recipe({"method": "own", "epochs": 1})
    with pytest.raises(ValueError, match="each run must have its own"):
        train_stacked(make_task(feature_data(), recipe), [recipe])


class HostReads(TorchDispatchMode):
    """Notes operations that would wait for an accelerator: values and sizes read on the host."""

    NAMES = ("_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select")

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        masks = args[1] if name.startswith("index") and isinstance(args[1], (list, tuple)) else ()
        if name in self.NAMES or any(x is not None and x.dtype == torch.bool for x in masks):
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["an", "lac"])
def test_a_step_reads_no_value_on_the_host(name, feature_data):
    given = {"method": name, "epochs": 2, "batch_size": 16, "expected_positives": 1.7}
    recipe = make_recipe(METHODS[name].defaults, given, {"head": "linear"})
    task = make_task(feature_data(120), recipe)
    made = Training(task, recipe)
    made.begin_training()
    for stage in range(len(made.stages)):
        made.stage, made.epoch = stage, 0
        made.begin_stage()
        made.train_epoch()
        made.epoch = 1
        batches = list(batches_of(made))[:3]
        _, _, forward = made.inputs.forward(made.task.train, made.model)
        with HostReads() as reads:
            for step, batch in enumerate(batches):
                clock = made.clock(step)
                training_step(forward, made.model.head, made.method, made.optimizer, batch, clock)
        assert not reads.seen


@pytest.mark.parametrize(
    ("method", "settings", "weighted"),
    [("em", {}, True), ("em", {"seen_negatives": "full"}, False), ("iun", {}, False)],
)
def test_what_a_seen_negative_weighs(method, settings, weighted, feature_data):
    given = {"method": method, "observe": "positives_and_negatives(1, 1)", "epochs": 1}
    recipe = make_recipe(given, {"batch_size": 30}, settings)
    made = fit_for(make_task(feature_data(), recipe), recipe)
    charged, loss = [], made.method.loss

    def listening(outs, batch, clock):
        charged.append((outs[0].logits.detach(), batch.observed))
        return loss(outs, batch, clock)

    made.loss = listening
    batches = list(batches_of(made))
    made.train_epoch()
    for (logits, got), batch in zip(charged, batches, strict=True):
        expected, p = batch.observed.clone(), logits.sigmoid()
        for row, c in (batch.observed < 0).nonzero().tolist() if weighted else ():
            level = p[batch.observed[:, c] == 0, c].mean()
            expected[row, c] = -max((p[row, c] - level).item(), 1e-3)
        torch.testing.assert_close(got, expected)
    assert (charged[0][1] < 0).any()


def test_without_seen_negatives_nothing_is_weighted(feature_data, monkeypatch):
    monkeypatch.setattr(step_module, "weigh_negatives", None)  # calling it would fail
    recipe = make_recipe({"method": "em", "epochs": 1})
    list(fit_for(make_task(feature_data(), recipe), recipe).epochs())


@pytest.mark.parametrize("check", [1, 3, 64])
def test_the_meter_names_what_is_not_finite(check, monkeypatch):
    monkeypatch.setattr(step_module, "STEPS_BETWEEN_CHECKS", check)
    meter = LossMeter(["one", "other"], 7)
    steps = [{"a": torch.ones(1, 2), "b": torch.full((1, 2), 2.0)} for _ in range(9)]
    for bad in steps[4:]:
        bad["b"][0, 1] = torch.nan

    def add_all():
        for terms in steps:
            meter.add(terms)
        return meter.means()

    named = r"of other is not finite in epoch 7, batch 5: {'a': 1.0, 'b': nan}"
    with pytest.raises(DivergedError, match=named):
        add_all()


def test_the_meter_gives_means():
    meter = LossMeter(["run"], 1)
    for step in range(100):
        meter.add({"a": torch.tensor(float(step)), "b": torch.tensor(1.0)})
    assert meter.means() == [{"a": 49.5, "b": 1.0}]


def test_a_training_that_diverges_keeps_its_best_weights(feature_data):
    recipe = make_recipe({"method": "an", "epochs": 3, "batch_size": 16})
    made = fit_for(make_task(feature_data(120), recipe), recipe)
    epochs = made.epochs()
    next(epochs)
    good = {name: value.clone() for name, value in made.best.model.items()}
    made.task.train.inputs.x[3] = torch.nan
    with pytest.raises(DivergedError, match="of an is not finite in epoch 2, batch"):
        next(epochs)
    assert all(torch.equal(value, good[name]) for name, value in made.model.state_dict().items())


@pytest.mark.parametrize(
    ("work", "wanted", "inside"),
    [(10, None, 1), (SMALL_STEP, None, 3), (None, None, 3), (10, 2, 2), (None, 2, 2)],
)
def test_threads_suit_the_work_and_are_put_back(work, wanted, inside):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with suitable_threads(work, wanted):
            assert torch.get_num_threads() == inside
        assert torch.get_num_threads() == 3
        with pytest.raises(KeyError), suitable_threads(work, wanted):
            raise KeyError
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


COMPILE = torch.compile


@pytest.mark.slow
def test_compiled_and_plain_agree(feature_data, image_data, monkeypatch, capsys):
    """A linear head with generated C++; a network traced and differentiated, which is quicker."""
    if instructions := os.environ.get("ATEN_CPU_CAPABILITY"):
        # torch keeps what it compiled, headers too, for all instruction sets alike.
        kept = Path(tempfile.gettempdir()) / f"plusone-compiled-{instructions}"
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(kept))
    for data, backend in ((feature_data(60), "inductor"), (image_data(), "aot_eager")):
        monkeypatch.setattr(torch, "compile", partial(COMPILE, backend=backend))
        ends = []
        for compiled in (False, True):
            given = {"method": "gr", "epochs": 1, "compile": compiled, "batch_size": 16}
            recipe = make_recipe(given)
            made = fit_for(make_task(data, recipe), recipe)
            (record,) = made.epochs()
            ends.append(record.losses["loss"])
        assert ends[0] == pytest.approx(ends[1], rel=1e-3)
    # Whether the compiler works is tried once in a process; doctor says the same.
    with pytest.raises(SystemExit):
        main(["doctor", "--compile", "--json"])
    sentence = json.loads(capsys.readouterr().out)["compiler"]
    assert sentence == "torch.compile works" or "does not work on cpu" in sentence


def test_without_a_compiler_it_says_so_and_trains_the_plain_way(feature_data, monkeypatch):
    for module in ("trainer", "api"):
        name = f"plusone.training.{module}.compiler_problem"
        monkeypatch.setattr(name, lambda device: "there is no compiler")
    with pytest.warns(UserWarning, match="there is no compiler"):
        fitted = plusone.fit(feature_data(60), "an", epochs=1, compile=True)
    assert fitted.training.loss == fitted.training.method.loss


@pytest.mark.parametrize("options", [{"gamma": 5.0}, {"gamma": -1.0}])
def test_option_values_that_a_loss_refuses_are_bad_input(options):
    x = np.zeros((20, 3), dtype=np.float32)
    data = Dataset.from_arrays(x, np.eye(2, dtype=int)[np.arange(20) % 2])
    with pytest.raises(InputError, match=r"options of wan: gamma must lie in \[0, 1\]"):
        plusone.fit(data, "wan", epochs=1, options=options)


def functions_called(action):
    """Names of the functions of the package that an action calls, by file."""
    called = set()

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        own = event == "call" and "plusone" in path.parts
        if own and not frame.f_code.co_name.startswith("<"):
            called.add((path.parent.name, path.stem, frame.f_code.co_name))

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return called


def test_one_view_in_one_process_goes_straight_through_the_model(feature_data):
    recipe = make_recipe({"method": "an", "batch_size": 16})
    made = fit_for(make_task(feature_data(120), recipe), recipe)
    batch, model = next(batches_of(made)), made.model
    inputs, kind, forward = made.inputs.forward(made.task.val, model)
    step = functions_called(
        lambda: training_step(forward, model.head, made.method, made.optimizer, batch, made.clock())
    )
    assert {name for _, file, name in step if file == "pieces"} == {"forward_views"}
    predicted = functions_called(lambda: predict(model, forward, inputs, kind=kind))
    assert ("inputs", "forward", "predict") in predicted
    entered = {name for folder, _, name in step | predicted if folder == "parallel"}
    assert entered <= {"world"}
