"""Recovery against naive loops, and its special cases."""

import numpy as np
import pytest
import torch

from plusone.closed_form.folds import fold_of
from plusone.closed_form.kernel import KernelMap, principal_axes
from plusone.closed_form.recover import first_estimate, power_for, recover, step_length
from plusone.closed_form.ridge import PENALTIES, Ridge, pick_probabilities, regression
from plusone.closed_form.vectors import Rows
from plusone.data.matrix import LabelMatrix
from plusone.methods import METHODS
from plusone.methods.recovery import Recovery, RecoveryOptions
from plusone.metrics.seen_labels import seen_auc
from plusone.probabilities import labels_per_item
from plusone.types import TrainLabels

pytestmark = pytest.mark.rounding


def problem(n=40, n_classes=4, seed=0):
    """Vectors of a kernel, and labels with several seen positives, negatives, and empty rows."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5)).astype(np.float32)
    observed = np.zeros((n, n_classes), dtype=np.int8)
    observed[np.arange(n), rng.integers(n_classes, size=n)] = 1
    observed[:5, 0] = 1
    observed[5:10][observed[5:10] == 0] = -1
    observed[-3:] = 0
    return KernelMap(5, n).fit(torch.from_numpy(x)), observed


def solve(vectors, observed, k=None, picks="auto", **options):
    labels = TrainLabels(LabelMatrix.from_dense(observed), k, picks=picks)
    method = Recovery(labels, RecoveryOptions(**options))
    solution = method.solve(Ridge(vectors), LabelMatrix.from_dense(observed))
    method.after_solving(solution.recovered)
    return solution, method


def naive_ridge(x, targets, penalty):
    """Leave-one-out predictions by fitting anew without each item; and the model of all."""

    def fit(x, t):
        design = np.hstack([x, np.ones((len(x), 1))])
        ridge = penalty * np.eye(design.shape[1])
        ridge[-1, -1] = 0
        return np.linalg.solve(design.T @ design + ridge, design.T @ t)

    n = len(x)
    left_out = np.zeros_like(targets)
    for row in range(n):
        keep = np.arange(n) != row
        left_out[row] = np.append(x[row], 1) @ fit(x[keep], targets[keep])
    return left_out, fit(x, targets)


def naive_salience(p, observed, steps=20, pseudo=0.5, errors=0.07):
    """Hunter's MM iteration, one label at a time; 1 / m pick of each of m seen positives.

    The saliences as they are, and without the spread that errors of the model explain.
    """
    n, n_classes = observed.shape
    e = np.ones(n_classes)
    present = np.clip(p, 1e-3, 1)
    present[observed == 1], present[observed == -1] = 1.0, 0.0
    rows = [i for i in range(n) if (observed[i] == 1).any() and (observed[i] == 0).any()]
    for _ in range(steps):
        new = np.zeros(n_classes)
        for c in range(n_classes):
            named = sum((observed[i, c] == 1) / (observed[i] == 1).sum() for i in rows)
            at_hand = sum(present[i, c] / (present[i] @ e) for i in rows)
            new[c] = (named + pseudo) / (at_hand + pseudo)
        e = new / new.mean()
    share = (observed == 1).sum(0) / (observed == 1).sum()
    centre = sum(share[c] * np.log(e[c]) for c in range(n_classes))
    spread = sum(share[c] * (np.log(e[c]) - centre) ** 2 for c in range(n_classes))
    shrunken = np.exp(max(1 - errors**2 / spread, 0) * (np.log(e) - centre))
    return e, shrunken / shrunken.mean()


def naive_recovery(x, observed, rounds, learned):
    """The steps of the docstring of `plusone.closed_form.recover`, one label at a time."""
    n, n_classes = observed.shape
    m = [sum(observed[i] == 1) for i in range(n)]
    known = [i for i in range(n) if m[i]]
    t = np.array(
        [[(observed[i, c] == 1) / max(m[i], 1) for c in range(n_classes)] for i in range(n)]
    )
    for i in range(n):
        if not m[i]:
            t[i] = t[known].mean(0)
    errors = {}
    for penalty in PENALTIES:
        errors[penalty] = ((naive_ridge(x, t, penalty)[0] - t)[known] ** 2).sum()
    penalty = min(errors, key=errors.get)
    q = np.maximum(naive_ridge(x, t, penalty)[0], 1e-4)
    q[observed == -1] = 1e-4
    q /= q.sum(1, keepdims=True)
    mean = np.mean([m[i] for i in known])
    per_item = np.mean([m[i] for i in known if (observed[i] == 0).any()])
    estimate = labels_per_item(q, LabelMatrix.from_dense(observed)).k
    k = first = min(max(estimate, 1.05 * mean), n_classes)
    p, e, top = k * q, np.ones(n_classes), q.argmax(1)
    for _ in range(rounds):
        if learned:
            as_learned, e = naive_salience(p, observed)
        p = np.clip(p, 1e-3, 1 - 1e-3)
        low, high = 0.2, 8.0
        for _ in range(16):
            power = np.sqrt(low * high)
            r = np.zeros_like(p)
            for i in range(n):
                row = p[i] ** power
                for c in range(n_classes):
                    s = m[i] * e[c] * row[c] / (e @ row) * row.sum() / max(row.sum(), m[i], 1)
                    s = min(s, 0.97)
                    hidden = max((row[c] - s) / (1 - s), 0)
                    r[i, c] = {1: 1.0, -1: 0.0, 0: hidden}[int(observed[i, c])]
            if r[known].sum(1).mean() > k:
                low = power
            else:
                high = power
        p = p**power
        if learned:
            beside = [
                (r[i, c], as_learned[c])
                for i in known
                for c in range(n_classes)
                if observed[i, c] == 0 and c != top[i]
            ]
            of_hidden = sum(a * b for a, b in beside) / sum(a for a, _ in beside)
            ratio = np.mean([as_learned[top[i]] for i in known]) / of_hidden
            k = max(1 + (first - 1) * min(max(ratio, 0.5), 3), mean)
        target = np.zeros_like(p)
        for i in range(n):
            seen = max(m[i], 1)
            w = max(k / per_item * k / max(p[i].sum(), seen), 1)
            w = 1 if (observed[i] != 0).all() else w
            target[i] = np.where(observed[i] == -1, 0, p[i] + w * (r[i] - p[i]))
        p, model = naive_ridge(x, target, penalty)
    return p, model


@pytest.mark.parametrize("picks", ["uniform", "salience"])
def test_it_does_what_its_formulas_say(picks):
    vectors, observed = problem()
    learned = picks == "salience"
    left_out, model = naive_recovery(vectors.double().numpy(), observed, 3, learned)
    solution, _ = solve(vectors, observed, picks=picks, rounds=3)
    assert (solution.estimate.salience is not None) == learned
    assert np.allclose(solution.left_out(), left_out, atol=2e-3)
    assert np.allclose(solution.weight, model[:-1].T, atol=5e-3)
    assert np.allclose(solution.bias, model[-1], atol=2e-3)


def test_without_rounds_it_is_ridge():
    vectors, observed = problem()
    info = METHODS["ridge"]
    ridge = info.build(TrainLabels(LabelMatrix.from_dense(observed)), info.make_options({}))
    expected = ridge.solve(Ridge(vectors), LabelMatrix.from_dense(observed))
    torch.testing.assert_close(solve(vectors, observed, rounds=0)[0].weight, expected.weight)


def test_what_is_known_is_never_recovered():
    vectors, observed = problem()
    _, method = solve(vectors, observed)
    recovered, states = method.estimates(), torch.from_numpy(observed)
    assert (recovered[states == 1] == 1).all()
    assert (recovered[states == -1] == 0).all()
    unknown = recovered[states == 0]
    assert ((unknown >= 0) & (unknown < 1)).all()


def test_where_all_labels_are_known_they_are_the_targets():
    rng = np.random.default_rng(0)
    vectors, _ = problem()
    observed = np.where(rng.random((40, 4)) < 0.4, 1, -1).astype(np.int8)
    observed[:, 0] = 1
    p = torch.rand(40, 4)
    states = torch.from_numpy(observed).float()
    assert torch.equal(recover(p, states), states.clamp(min=0))
    assert (step_length(p, states, float((observed == 1).sum(1).mean())) >= 1).all()
    _, method = solve(vectors, observed)
    assert torch.equal(method.estimates(), states.clamp(min=0))


def test_recovered_labels_sum_to_k():
    vectors, observed = problem(200)
    for k in (1.3, 2.0, 3.0):
        _, method = solve(vectors, observed, k=k)
        rows = (observed == 1).any(1)
        assert method.estimates()[rows].sum(1).mean() == pytest.approx(k, rel=0.03)


def test_rows_without_a_pick_keep_their_probabilities():
    p, observed = torch.full((2, 3), 0.3), torch.zeros(2, 3)
    observed[0, 0] = 1
    recovered = recover(p, observed)
    assert torch.equal(recovered[1], p[1])
    assert (recovered[0, 1:] < 0.3).all()  # a pick elsewhere is a hint that it is absent


def test_k_is_the_estimate_of_priors_and_never_below_what_is_seen():
    q = torch.tensor([[0.6, 0.4], [0.6, 0.4], [0.1, 0.9], [0.9, 0.1]]).repeat(10, 1)
    observed = torch.tensor([[1, 0], [0, 1], [0, 1], [1, 0]]).float().repeat(10, 1)
    known = LabelMatrix.from_dense(observed.numpy().astype(np.int8))
    assert first_estimate(q, observed).k == labels_per_item(q.numpy(), known).k > 1.1
    assert first_estimate(q, torch.ones(40, 2)).k == 2
    assert first_estimate(q, torch.zeros(40, 2)).k == pytest.approx(1.05)
    assert first_estimate(q[:4], observed[:4]).k == pytest.approx(1.05)  # too few to estimate it


@pytest.mark.parametrize(("n", "n_classes"), [(3, 2), (12, 300), (50, 1)])
def test_few_items_many_classes_and_one_class(n, n_classes):
    rng = np.random.default_rng(1)
    observed = np.zeros((n, n_classes), dtype=np.int8)
    observed[np.arange(n), rng.integers(n_classes, size=n)] = 1
    vectors = KernelMap(4, n).fit(torch.from_numpy(rng.normal(size=(n, 4)).astype(np.float32)))
    solution, _ = solve(vectors, observed)
    assert solution.weight.isfinite().all()
    assert solution.left_out().isfinite().all()


def test_probabilities_are_normalised_and_seen_negatives_out():
    observed = torch.tensor([[1.0, -1.0, 0.0]])
    q = pick_probabilities(torch.tensor([[0.5, 0.5, -0.2]]), observed)
    assert float(q.sum()) == pytest.approx(1)
    assert q[0, 1] == q[0, 2] < 1e-3
    assert 0 < power_for(torch.rand(30, 5), torch.eye(5).repeat(6, 1), 1.5) < 10


def test_left_out_predictions_know_nothing_of_an_items_own_label():
    """Labels without any relation to the inputs are ranked by chance."""
    rng = np.random.default_rng(0)
    n, n_classes = 300, 5
    vectors = KernelMap(6, n).fit(torch.from_numpy(rng.normal(size=(n, 6)).astype(np.float32)))
    clean = []
    for _ in range(4):
        observed = np.zeros((n, n_classes), dtype=np.int8)
        observed[np.arange(n), rng.integers(n_classes, size=n)] = 1
        method = Recovery(
            TrainLabels(LabelMatrix.from_dense(observed), 1.5), RecoveryOptions(penalty=0.3)
        )
        states, ridge = LabelMatrix.from_dense(observed), Ridge(vectors, folds=fold_of(n, n))
        clean.append(seen_auc(method.solve(ridge, states).left_out(), torch.from_numpy(observed)))
    assert abs(np.mean(clean) - 0.5) < 0.03


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dim", [40, 3])  # groups smaller and larger than the vectors are long
def test_groups_are_left_out_as_by_fitting_anew_without_them(dim, weighted):
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(60, dim)).astype(np.float32))
    weights = torch.from_numpy(rng.uniform(0.2, 2, 60).astype(np.float32))
    weights = weights / weights.mean() if weighted else torch.ones(60)
    groups = torch.tensor([0] * 12 + [1] * 12 + [2] * 5 + [3] + list(range(4, 34)))
    groups = groups[torch.from_numpy(rng.permutation(60))]
    targets = torch.from_numpy(rng.normal(size=(60, 4)).astype(np.float32))
    centre, axes, _ = principal_axes(Rows.of(x), weights)
    vectors = (x - centre) @ axes
    made, left_out = regression(Ridge(vectors, weights, groups), targets, 0.7)
    expected = np.zeros((60, 4))
    for group in groups.unique():
        rest, own = (groups != group).numpy(), (groups == group).numpy()
        design = np.hstack([x.double().numpy(), np.ones((60, 1))])
        scaled = design[rest] * weights[rest].double().numpy()[:, None]
        penalty = 0.7 * np.diag([1.0] * dim + [0.0])
        model = np.linalg.solve(scaled.T @ design[rest] + penalty, scaled.T @ targets.numpy()[rest])
        expected[own] = design[own] @ model
    assert np.allclose(left_out, expected, atol=1e-3)
    alone = regression(Ridge(vectors, weights, torch.arange(60)), targets, 0.7)
    assert torch.equal(alone[1], regression(Ridge(vectors, weights), targets, 0.7)[1])
    torch.testing.assert_close(made.weights[0], alone[0].weights[0])


def test_folds_keep_groups_whole_and_follow_the_items_without_them():
    groups = torch.arange(90) // 3
    fold = fold_of(90, 90, groups)
    assert (fold.view(-1, 3) == fold.view(-1, 3)[:, :1]).all()
    assert fold.bincount().tolist() == [18] * 5
    assert torch.equal(fold_of(90, 90, torch.arange(90)), fold_of(90, 90))
    assert fold_of(9, 9, torch.arange(9) // 3).max() == 2
    assert fold_of(9, 9, torch.zeros(9).long()) is None
    assert fold_of(100_000, 100) is None  # an item hardly reaches itself


def naive_without_fold(x, observed, fold, rounds, steps, penalty):
    """The rounds on all items but those of a fold, with the steps of all; predictions of all."""
    rest = ~fold
    t = torch.from_numpy(observed == 1).double()
    t = t / t.sum(1, keepdim=True).clamp(min=1)
    seen = torch.from_numpy(observed)
    t[~(seen == 1).any(1)] = t[(seen == 1).any(1)].mean(0)
    left_out, model = naive_ridge(x[rest], t.numpy()[rest], penalty)
    for step in steps[:rounds]:
        target = step(torch.from_numpy(left_out).float(), seen[torch.from_numpy(rest)])
        left_out, model = naive_ridge(x[rest], target.double().numpy(), penalty)
    return np.hstack([x, np.ones((len(x), 1))]) @ model


@pytest.mark.parametrize("grouped", [False, True])
def test_models_without_a_fold_come_from_the_same_passes(grouped, monkeypatch):
    """Against the same rounds without the fold, in blocks of any size."""
    monkeypatch.setattr("plusone.closed_form.ridge.LABELS", 40)
    monkeypatch.setattr("plusone.closed_form.ridge.LEAST", 1)
    vectors, observed = problem(60)
    groups = torch.arange(60) // 2 if grouped else None
    fold = fold_of(60, 60, groups)
    method = Recovery(TrainLabels(LabelMatrix.from_dense(observed)), RecoveryOptions(rounds=2))
    solution = method.solve(Ridge(vectors, folds=fold), LabelMatrix.from_dense(observed))
    for number in range(int(fold.max()) + 1):
        own = (fold == number).numpy()
        x = vectors.double().numpy()
        expected = naive_without_fold(x, observed, own, 2, solution.steps, solution.penalty)[own]
        left_out = solution.left_out(torch.from_numpy(np.flatnonzero(own)))
        assert np.allclose(left_out, expected, atol=5e-3)


@pytest.mark.parametrize("grouped", [False, True])
def test_blocks_give_what_one_block_gives(grouped, monkeypatch):
    rng = np.random.default_rng(0)
    vectors, observed = problem(90)
    groups = torch.from_numpy(np.unique(rng.integers(30, size=90), return_inverse=True)[1])
    groups, labels = groups if grouped else None, LabelMatrix.from_dense(observed)
    weights = torch.from_numpy(rng.uniform(0.5, 1.5, 90).astype(np.float32))
    method = Recovery(TrainLabels(labels), RecoveryOptions())

    def made():
        return method.solve(Ridge(vectors, weights, groups, fold_of(90, 90, groups)), labels)

    whole = made()
    monkeypatch.setattr("plusone.closed_form.ridge.LABELS", 7 * 4)
    monkeypatch.setattr("plusone.closed_form.ridge.LEAST", 1)
    parts, rows = made(), torch.tensor([88, 3, 40])
    torch.testing.assert_close(parts.weight, whole.weight, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(parts.left_out(), whole.left_out(), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(parts.recovered(rows), whole.recovered()[rows], atol=1e-5, rtol=1e-4)
