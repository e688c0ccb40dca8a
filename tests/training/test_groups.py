"""Groups of near duplicates: what is held out is honest with groups, and not without."""

import numpy as np
import pytest
import torch

from plusone.closed_form import k_from_features
from plusone.data.dataset import Dataset
from plusone.errors import InputError
from plusone.estimator import PlusOneClassifier, cross_val_probabilities
from plusone.inputs.task import make_task
from plusone.metrics import mean_average_precision
from plusone.metrics.seen_labels import seen_auc
from plusone.recipe import make_recipe
from plusone.training.api import fit
from plusone.training.crossfit import cross_fit
from plusone.training.run import fingerprint, observed_table

COPIES = 3


def random_labels(groups=True, n_groups=100, n_classes=4):
    """Three near duplicates in each group, with one label that has nothing to do with them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_groups, 8)).repeat(COPIES, axis=0)
    x += 0.1 * rng.normal(size=x.shape)
    seen = np.eye(n_classes, dtype=int)[rng.integers(n_classes, size=n_groups)].repeat(COPIES, 0)
    order = rng.permutation(len(x))
    names = np.repeat(np.arange(n_groups), COPIES)[order]
    return Dataset.from_arrays(x[order], seen[order], groups=names if groups else None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"method": "recovery"},
        {"method": "ridge"},
        {"method": "ridge", "head": "linear"},
        {"method": "an", "epochs": 20, "lr": 0.1, "batch_size": 64, "head": "kernel"},
    ],
    ids=str,
)
def test_cross_fitting_learns_nothing_of_a_group_from_its_own_labels(settings):
    recipe = make_recipe(settings)
    with_groups, without = (random_labels(groups) for groups in (True, False))
    states = torch.from_numpy(with_groups.table.labels.dense()).float()
    fitted = cross_fit(with_groups, recipe, 4)
    assert abs(seen_auc(torch.from_numpy(fitted.scores.table()), states) - 0.5) < 0.1
    if settings.get("head") != "linear":  # which cannot tell duplicates from others
        leaked = cross_fit(without, recipe, 4).scores.table()
        assert seen_auc(torch.from_numpy(leaked), states) > 0.85
    if settings["method"] == "an":
        groups, fold = with_groups.table.groups, fitted.fold
        assert all(len(set(fold[groups == name])) == 1 for name in set(groups))


def test_no_part_of_a_task_shares_a_group_with_another():
    recipe = make_recipe({"method": "an", "train_share": 0.6})
    task = make_task(random_labels(), recipe)
    assert not set(task.train.groups) & set(task.val.groups)
    assert len(task.train) % COPIES == len(task.val) % COPIES == 0
    assert 0.55 < len(task.train) / (0.8 * 300) < 0.65
    assert set(observed_table(task).groups) == {*task.train.groups, *task.val.groups}
    plain = make_task(random_labels(groups=False), recipe)
    assert plain.train.groups is None
    assert fingerprint(task) != fingerprint(plain)


def test_folds_are_at_most_as_many_as_groups():
    with pytest.raises(InputError, match="2 to 100 folds, as many as there are groups, not 101"):
        cross_fit(random_labels(), make_recipe({"method": "an"}), 101)


def test_k_of_duplicates_with_the_same_seen_label():
    """Without groups the seen label of a duplicate is predicted, as if items had one label."""
    data = random_labels()
    x, labels = torch.from_numpy(data.features), data.table.labels
    assert k_from_features(x, labels).k < 1.2
    assert k_from_features(x, labels, data.table.groups).k > 1.5


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ridge", "recovery"])
def test_figures_on_held_out_groups_are_those_of_new_items(method):
    """Three noisy copies of each of 150 items, with the same seen label (docs/recovery.md)."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(16, 6)) / 4

    def draw(n):
        z = rng.normal(size=(n, 16))
        scores = z @ weights + 0.8 * rng.normal(size=(n, 6))
        truth = scores > 0.55
        truth[np.arange(n), scores.argmax(1)] = True
        return z, truth

    (z, truth), (new, new_truth) = draw(150), draw(1000)
    x = z.repeat(COPIES, axis=0)
    x += 0.3 * rng.normal(size=x.shape)
    new = new + 0.3 * rng.normal(size=new.shape)
    seen = np.array([np.eye(6)[rng.choice(np.flatnonzero(row))] for row in truth])
    true_k, measured = truth.sum(1).mean(), {}
    for name, groups in (("items", None), ("groups", np.repeat(np.arange(150), COPIES))):
        data = Dataset.from_arrays(x, seen.repeat(COPIES, axis=0), groups=groups)
        fitted = fit(data, method)
        training = fitted.training
        rows = np.concatenate([part.ids for part in training.learned.parts]).astype(int)
        told = mean_average_precision(training.left_out, truth.repeat(COPIES, axis=0)[rows])
        p = fitted.predict(new.astype(np.float32))
        measured[name] = (told, mean_average_precision(p, new_truth), p.sum(1).mean())
    told, reached, k = measured["items"]
    assert told > reached + 0.2  # far too good
    assert k < 0.7 * true_k
    told, reached, k = measured["groups"]
    assert abs(told - reached) < 0.1
    assert 0.8 * true_k < k < 1.5 * true_k
    assert reached > measured["items"][1] + 0.03  # the penalty, too, is chosen on what is new


@pytest.mark.slow
def test_the_classifier_holds_out_whole_groups():
    data = random_labels()
    groups, labels = data.table.groups, data.table.labels
    model = PlusOneClassifier("an", epochs=2, random_state=0)
    model.fit(data.features, labels, groups=groups)
    p = cross_val_probabilities(model, data.features, labels, groups=groups, folds=4)
    assert p.shape == (300, 4)
    closed = PlusOneClassifier("recovery", random_state=0)
    # Labels that cannot be predicted: probabilities are near the share of each class.
    spread = [
        closed.fit(data.features, labels, groups=given).predict_proba(data.features).std(0).max()
        for given in (None, groups)
    ]
    assert spread[1] < 0.5 * spread[0]
    with pytest.raises(InputError, match=r"groups has shape \(2,\), but X has 300 rows"):
        model.fit(data.features, labels, groups=["a", "b"])
    with pytest.raises(InputError, match="groups, row 1: None is not a group"):
        model.fit(data.features, labels, groups=["a", None] * 150)
    with pytest.raises(InputError, match="all items are in one group"):
        model.fit(data.features, labels, groups=["a"] * 300)
