"""Group consistency: the running means by a loop, and as a term of any method."""

import math

import numpy as np
import pytest
import torch

import plusone
from plusone.data import Dataset, LabelMatrix
from plusone.errors import InputError
from plusone.inputs.task import make_task
from plusone.recipe import make_recipe
from plusone.training.closed_fit import fit_for
from plusone.training.group_consistency import GroupConsistency
from plusone.training.selection import Validation
from plusone.training.stack import AloneError, train_stacked
from plusone.training.step import training_step
from plusone.types import Batch, Clock, TrainLabels

LABELS = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0], [0, 0, 1], [1, 0, 0]])
NUMBERS = torch.tensor([0, 0, 1, 2, 2])


def test_the_term_and_the_means_by_a_loop():
    groups = GroupConsistency(
        TrainLabels(LabelMatrix.from_dense(LABELS)), NUMBERS, weight=0.3, rate=0.1
    )
    means = [[1.0, 0.5, 0.5], [0.5, 1.0, 0.5], [1.0, 0.5, 1.0]]  # seen anywhere in the group
    assert groups.means.tolist() == means
    rows = [1, 3, 0]
    z = torch.randn(3, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    batch = Batch((z,), torch.zeros(3, 3), torch.tensor(rows))
    p, total = torch.sigmoid(z).tolist(), 0.0
    for row, values in zip(rows, p, strict=True):
        for r, value in zip(means[NUMBERS[row]], values, strict=True):
            total -= r * math.log(value) + (1 - r) * math.log(1 - value)
    assert groups.loss(z, batch).item() == pytest.approx(0.3 * total / 9)
    (slope,) = torch.autograd.grad(groups.loss(z, batch), z)
    expected = 0.3 * (torch.sigmoid(z) - groups.means[NUMBERS[rows]]) / 9  # r has no gradient
    torch.testing.assert_close(slope, expected)
    groups.after_step(torch.tensor(p), batch)
    for place in range(3):
        both = (p[0][place] + p[2][place]) / 2  # items 1 and 0 of group 0
        means[0][place] = 0.81 * means[0][place] + 0.19 * both
        means[2][place] = 0.9 * means[2][place] + 0.1 * p[1][place]
    torch.testing.assert_close(groups.means, torch.tensor(means))


def test_a_step_takes_the_probabilities_of_the_method(make):
    """Those of `softmax` are not the sigmoid of its logits."""
    case, numbers = make("softmax"), torch.tensor([0, 0, 1, 2, 2, 3, 3, 3])
    groups = GroupConsistency(case.method.labels, numbers, weight=0.3, rate=0.1)
    means, batch = groups.means.clone(), case.batch()
    p = torch.softmax(case.model(case.x).logits, 1).detach()
    r = means[numbers]
    cost = -0.3 * (r * p.log() + (1 - r) * (1 - p).log()).mean()
    optimizer = torch.optim.SGD(case.model.parameters(), lr=0.1)
    clock = Clock(0, 1, 5, 0, 1)
    terms = training_step(
        case.model, case.model.head, case.method, optimizer, batch, clock, groups=groups
    )
    torch.testing.assert_close(terms["groups"], cost)
    for group in range(4):
        of = p[numbers == group]
        expected = 0.9 ** len(of) * means[group] + (1 - 0.9 ** len(of)) * of.mean(0)
        torch.testing.assert_close(groups.means[group], expected)


def recordings(grouped=True):
    """Six noisy clips of each of 40 recordings, all with the labels of the recording."""
    rng = np.random.default_rng(0)
    heard = rng.normal(size=(40, 6)).repeat(6, axis=0)
    x = (heard + 1.5 * rng.normal(size=heard.shape)).astype(np.float32)
    names = np.repeat(np.arange(40), 6) if grouped else None
    truth = (heard[:, :4] > 0.3).astype(int)
    truth[truth.sum(axis=1) == 0, 0] = 1
    return Dataset.from_arrays(x, truth, complete=True, groups=names)


GIVEN = {"epochs": 8, "lr": 0.02, "batch_size": 16, "expected_positives": 1.6}
GIVEN |= {"group_weight": 2.0, "group_rate": 0.05}


@pytest.mark.parametrize("method", ["an", "role", "softmax"])
def test_items_of_a_group_become_alike_whatever_the_method(method):
    spread = []
    for weight in (0.0, 8.0):
        given = GIVEN | {"method": method, "group_weight": weight}
        training = fit_for(make_task(recordings(), make_recipe(given)), make_recipe(given))
        records = list(training.epochs())
        assert ("groups" in records[0].losses) == (weight > 0)
        train = training.task.train
        p = training.method.probabilities(training.model(train.inputs.x).logits).detach().numpy()
        spread.append(np.mean([p[train.groups == name].std(0) for name in set(train.groups)]))
    assert spread[1] < 0.9 * spread[0]


def test_stopped_and_resumed_it_ends_the_same():
    recipe = make_recipe(GIVEN | {"method": "an", "epochs": 4})

    def new():
        return fit_for(make_task(recordings(), recipe), recipe)

    whole, first, second = new(), new(), new()
    list(whole.epochs())
    for _, _record in zip(range(2), first.epochs(), strict=False):
        state = first.state()
    assert "groups.means" in state[0]
    second.load_state(*state)
    list(second.epochs())
    assert whole.groups.means.equal(second.groups.means)
    assert whole.model.head.weight.equal(second.model.head.weight)


def test_a_stage_begins_with_the_means_of_the_best_epoch():
    stages = [{"inputs": "features", "epochs": epochs} for epochs in (3, 1)]
    recipe = make_recipe(GIVEN | {"method": "an", "stages": stages})
    training, means = fit_for(make_task(recordings(), recipe), recipe), []
    scores = iter([0.5, 0.9, 0.1, 0.5])
    training.validator = lambda log_odds: Validation(0.5, next(scores))
    training.validator.selected_on = training.validator.selected_by = "truth"
    epochs = training.epochs()
    for _ in range(2):
        next(epochs)
        means.append(training.groups.means.clone())
    resumed = fit_for(make_task(recordings(), recipe), recipe)
    resumed.validator = training.validator
    resumed.load_state(*training.state())
    next(resumed.epochs())  # the third epoch is worse than the second
    assert resumed.stage == 1
    assert resumed.groups.means.equal(means[1])
    assert not means[0].equal(means[1])


def test_where_it_cannot_work_it_says_so():
    with pytest.raises(InputError, match="group_weight = 2 needs groups, and arrays has no group"):
        plusone.fit(recordings(grouped=False), "an", group_weight=2.0)
    with pytest.raises(InputError, match="gradient steps, and recovery has a closed form"):
        plusone.fit(recordings(), "recovery", group_weight=2.0)
    recipe = make_recipe(GIVEN | {"method": "an"})
    with pytest.raises(AloneError, match="a mean for each group"):
        train_stacked(make_task(recordings(), recipe), [recipe])
