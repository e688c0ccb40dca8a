"""The kernel head and ridge regression, against naive computations."""

import numpy as np
import pytest
import torch

from plusone.closed_form import kernel
from plusone.closed_form.gamma import GAMMAS, KINDS, best_kernel, kernels_tried
from plusone.closed_form.kernel import GAMMA, KernelHead, KernelMap, LinearMap, n_landmarks
from plusone.closed_form.ridge import Ridge, regression
from plusone.data.matrix import LabelMatrix
from plusone.models.heads import LabelwiseHead, LinearHead


def features(n=60, dim=7, seed=0):
    return torch.randn(n, dim, generator=torch.Generator().manual_seed(seed))


def naive_kernel(x, y, kind="cosine"):
    """The formula of the module, in float64."""
    x, y = x.double().numpy(), y.double().numpy()
    if kind == "rbf":
        x, y = ((z - x.mean(0)) / x.std(0) for z in (x, y))
        among, across = (((x[:, None] - z) ** 2).sum(2) for z in (x, y))
        distance = among.sum() / (len(x) * (len(x) - 1))
        return np.exp(-GAMMA * across.T / distance)

    def root(z):
        return np.sign(z) * np.sqrt(np.abs(z))

    mean = root(x).mean(0)

    def unit(z):
        z = root(z) - mean
        return z / np.linalg.norm(z, axis=1, keepdims=True)

    among = 1 - unit(x) @ unit(x).T
    distance = among.sum() / (len(x) * (len(x) - 1))
    return np.exp(-GAMMA * (1 - unit(y) @ unit(x).T) / distance)


@pytest.mark.parametrize("kind", ["cosine", "rbf"])
def test_products_of_the_vectors_are_the_kernel_up_to_a_shift(kind):
    x, other = features() * torch.arange(1, 8), features(20, seed=1) * torch.arange(1, 8)
    made = KernelMap(7, 60, kind=kind)
    vectors = made.fit(x)
    torch.testing.assert_close(made(x), vectors, atol=1e-4, rtol=0)
    own, across = naive_kernel(x, x, kind), naive_kernel(x, other, kind)
    expected = across - across.mean(1, keepdims=True) - own.mean(0) + own.mean()
    assert np.allclose(made(other) @ vectors.T, expected, atol=2e-3)
    gram = vectors.T @ vectors
    assert (gram - gram.diag().diag()).abs().max() < 1e-3 * gram.diag().max()
    assert vectors.mean(0).abs().max() < 1e-5


def test_few_landmarks_come_close(monkeypatch):
    monkeypatch.setattr(kernel, "EXACT", 100)
    monkeypatch.setattr(kernel, "LANDMARKS", 150)
    assert (n_landmarks(100, 2), n_landmarks(200, 2)) == (100, 150)
    x, targets = features(200), (features(200)[:, :2] > 0).float()
    exact, few = KernelMap(7, 200), KernelMap(7, 150)
    predictions = [
        made(features(50, seed=2)) @ regression(Ridge(made.fit(x)), targets, 0.5)[0].weights[0][:-1]
        for made in (exact, few)
    ]
    assert (predictions[0] - predictions[1]).abs().max() < 0.1


@pytest.mark.parametrize("kind", ["cosine", "rbf", "linear"])
def test_map_and_head_fold_into_one(kind):
    x = features()
    made = LinearMap(7) if kind == "linear" else KernelMap(7, 60, kind=kind)
    made.fit(x)
    head = LinearHead(made.rank, 3)
    folded = made.folded(head)
    assert isinstance(folded, LinearHead if kind == "linear" else KernelHead)
    torch.testing.assert_close(folded(x).logits, head(made(x)).logits, atol=1e-4, rtol=1e-4)
    other = LabelwiseHead(made.rank, 3, width=8, heads=2, feedforward=8).eval()
    torch.testing.assert_close(made.folded(other)(x).logits, other(made(x)).logits)


@pytest.mark.parametrize("kind", ["cosine", "rbf"])
@pytest.mark.parametrize("x", [features().repeat(3, 1), torch.ones(30, 7), torch.zeros(30, 7)])
def test_equal_items_are_no_problem(x, kind):
    made = KernelMap(7, len(x), kind=kind)
    vectors = made.fit(x)
    left_out = regression(Ridge(vectors), (torch.arange(len(x)) % 2).float()[:, None], 0.1)[1]
    assert vectors.isfinite().all()
    assert left_out.isfinite().all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["kernel", "linear"])
def test_leaving_out_equals_fitting_without(kind, weighted):
    """Against a regression that is solved anew without each item, in the same vectors."""
    x, targets = features(40), torch.rand(40, 2)
    weights = torch.rand(40) + 0.2 if weighted else torch.ones(40)
    weights = weights / weights.mean()
    made = KernelMap(7, 40) if kind == "kernel" else LinearMap(7)
    vectors = made.fit(x, weights)
    left_out = regression(Ridge(vectors, weights), targets, 0.7)[1]
    for left in (0, 13, 39):
        keep = torch.arange(40) != left
        own, w = vectors[keep].double(), weights[keep].double()
        design = torch.cat([own, torch.ones(39, 1).double()], 1)
        penalty = 0.7 * torch.eye(design.shape[1]).double()
        penalty[-1, -1] = 0  # of the intercept
        beta = torch.linalg.solve(
            design.T @ (w[:, None] * design) + penalty, design.T @ (w[:, None] * targets[keep])
        )
        expected = torch.cat([vectors[left], torch.ones(1)]).double() @ beta
        torch.testing.assert_close(left_out[left].double(), expected, atol=1e-3, rtol=0)


def test_the_kernel_is_chosen_by_the_seen_labels():
    """Classes that are directions suit cosines; classes that are places suit distances."""
    x = features(300, dim=3) * features(300, dim=1, seed=1).exp()
    directions = LabelMatrix.from_lists([[row] for row in x.abs().argmax(1).tolist()], 3)
    assert best_kernel(x, directions).kind == "cosine"
    lengths = torch.bucketize(x.norm(dim=1), x.norm(dim=1).quantile(torch.tensor([0.33, 0.67])))
    places = LabelMatrix.from_lists([[row] for row in lengths.tolist()], 3)
    assert best_kernel(x, places).kind == "rbf"
    assert best_kernel(x, places, kind="cosine", gamma=2.0) == ("cosine", 2.0)
    assert best_kernel(x[:10], places.take(range(10))) == ("cosine", GAMMA)


@pytest.mark.parametrize("kind", ["auto", "rbf"])
@pytest.mark.parametrize("gamma", [None, 2.0])
def test_the_number_of_kernels_is_known(kind, gamma, monkeypatch):
    fitted = []
    fit = KernelMap.fit
    monkeypatch.setattr(KernelMap, "fit", lambda *given: fitted.append(1) or fit(*given))
    labels = LabelMatrix.from_dense((features()[:, :2] > 0).numpy().astype(int))
    best_kernel(features(), labels, kind=kind, gamma=gamma)
    assert len(fitted) == kernels_tried(kind, gamma) <= len(KINDS) + len(GAMMAS) - 1
