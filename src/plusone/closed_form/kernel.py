"""The kernel head: a linear model in the space of a kernel between items.

Features are prepared, and the kernel of two items is

    k(x, x') = exp(-gamma d(x, x') / m),

with d half the squared distance of the prepared vectors and m its mean over the items it is fitted
on, so that gamma, the narrowness of the kernel, has the same meaning for all features. The two
kinds of kernel differ in how features are prepared:

- "cosine": signed square root, centred, scaled to length one, so that d = 1 - cos(x, x'). It suits
  embeddings, where the direction of a vector says what an item is.
- "rbf": each feature brought to mean 0 and spread 1. It suits measurements, each of which has a
  meaning of its own.

`KernelMap` gives vectors whose products are the kernel: exactly, if every item is a landmark, or by
the Nystroem approximation (Williams and Seeger 2001) from a sample of them. Any method trains its
head on these vectors; afterwards a linear head and the map are folded into one `KernelHead`, with
one weight per landmark and class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import torch
from torch import Tensor, nn

from plusone.closed_form.vectors import Rows, Sums
from plusone.models.heads import Head, LinearHead
from plusone.seeds import generator
from plusone.types import Outputs

Kind = Literal["cosine", "rbf"]
GAMMA = 1.5
EXACT = 2500  # up to so many items, each is a landmark
LANDMARKS = 2000  # above: on VOC 0.02 mAP below 3,000, in less than half of the time
WORK = 15_000_000_000_000  # products of numbers that a fit takes, unless it has FEWEST landmarks
FEWEST = 256
SHIFTED = 1024  # items whose mean is taken off before products are summed
JITTER = 1e-5  # added to the diagonal, because equal items make the kernel singular


def n_landmarks(n_items: int, n_classes: int) -> int:
    """How many landmarks the map of so many items has.

    A fit takes about n m (6 m + 40 L) products of numbers for n items, m landmarks and L classes
    (`plusone.closed_form.growth`); m is as large as `LANDMARKS` and `WORK` allow.

    >>> [n_landmarks(n, 80) for n in (300, 5_000, 1_000_000)]
    [300, 2000, 1336]
    """
    if n_items <= EXACT:
        return n_items
    most = (((40 * n_classes) ** 2 + 24 * WORK / n_items) ** 0.5 - 40 * n_classes) / 12
    return min(LANDMARKS, max(FEWEST, int(most)))


def describe_kernel(n_items: int, n_classes: int) -> str:
    """A sentence on how the kernel of so many items is computed."""
    landmarks = n_landmarks(n_items, n_classes)
    if landmarks == n_items:
        return f"exact, for {n_items:,} items"
    return (
        f"approximated from {landmarks:,} of the {n_items:,} items; above {EXACT:,} an exact one "
        "takes too long and too much memory"
    )


class FeatureMap(nn.Module):
    """Maps features `[B, D]` to vectors `[B, r]` that a head is trained on.

    For closed forms their columns are uncorrelated on the items it was fitted on.
    """

    rank: int

    def learn(self, x: Rows, weights: Tensor | None = None) -> Rows:
        """Fits the map on features `[n, D]`, in a few passes; gives their vectors `[n, r]`.

        Args:
            x: The features.
            weights: How much each item counts, `[n]`.
        """
        raise NotImplementedError

    def fit(self, x: Tensor, weights: Tensor | None = None) -> Tensor:
        """The same for features in memory `[n, D]`; gives their vectors `[n, r]` in memory."""
        return self.learn(Rows.of(x), weights).at(torch.arange(len(x)))

    def folded(self, head: Head) -> Head:
        """One head for features that does the same as this map and a head after it."""
        return self.folded_linear(head) if isinstance(head, LinearHead) else MappedHead(self, head)

    def folded_linear(self, head: LinearHead) -> Head:
        """The same for a linear head, in its shortest form."""
        raise NotImplementedError


class Similarity(nn.Module):
    """The kernel between features `[B, D]` and landmarks, `[B, m]`.

    Args:
        dim: D, the length of a feature vector.
        landmarks: m, how many landmarks there are.
        gamma: How narrow the kernel is.
        kind: How features are prepared.
    """

    def __init__(
        self, dim: int, landmarks: int, gamma: float = GAMMA, kind: Kind = "cosine"
    ) -> None:
        super().__init__()
        self.gamma, self.kind = gamma, kind
        self.register_buffer("mean", torch.zeros(dim))
        if kind == "rbf":
            self.register_buffer("spread", torch.ones(dim))
        self.register_buffer("rate", torch.ones(()))  # gamma / mean distance
        self.register_buffer("landmarks", torch.zeros(landmarks, dim))
        self.mean: Tensor
        self.spread: Tensor
        self.rate: Tensor
        self.landmarks: Tensor

    def fit(self, x: Rows) -> None:
        """Fits centre and rate on features `[n, D]`, and draws the landmarks among them."""
        if self.kind == "rbf":
            mean, spread = moments(x)
            self.mean.copy_(mean)
            self.spread.copy_(spread)
        else:
            (mean,) = means(x, lambda some: signed_root(some.to(self.mean.device)))
            self.mean.copy_(mean)
        count = len(self.landmarks)
        chosen = torch.randperm(len(x), generator=generator("landmarks"))[:count].sort().values
        points = self.prepared(x.at(chosen).to(self.mean.device))
        self.landmarks.copy_(points)
        among = max(count * (count - 1), 1)
        squares = float(count)
        if self.kind == "rbf":
            squares = float(points.square().sum(0).cpu().double().sum())
        distance = (count * squares - float((points.sum(0).cpu().double() ** 2).sum())) / among
        self.rate.fill_(self.gamma / max(distance, 1e-6))

    def prepared(self, x: Tensor) -> Tensor:
        """Features `[B, D]` as vectors whose distances count."""
        if self.kind == "rbf":
            return (x.float() - self.mean) / self.spread
        return nn.functional.normalize(signed_root(x) - self.mean, dim=1, eps=1e-12)

    def among_landmarks(self) -> Tensor:
        """The kernel of the landmarks `[m, m]`."""
        return self._kernel(self.landmarks)

    def forward(self, x: Tensor) -> Tensor:
        return self._kernel(self.prepared(x))

    def _kernel(self, points: Tensor) -> Tensor:
        if self.kind == "rbf":
            halves = half_squares(points)[:, None] + half_squares(self.landmarks)
            return ((points @ self.landmarks.T - halves) * self.rate).exp()
        return ((points @ self.landmarks.T - 1) * self.rate).exp()


def kind_of(names: Iterable[str]) -> Kind:
    """The kind of the kernel whose tensors have these names in a weights file."""
    return "rbf" if any(name.endswith(".similarity.spread") for name in names) else "cosine"


def half_squares(points: Tensor) -> Tensor:
    """Half the squared lengths of points `[n, D]`, `[n]`."""
    return points.square().sum(1) / 2


def signed_root(x: Tensor) -> Tensor:
    """`sign(x) sqrt(|x|)`, which brings features of very different size closer together."""
    x = x.float()
    return x.sign() * x.abs().sqrt()


class KernelMap(FeatureMap):
    """Vectors whose products are the kernel, rotated so that their columns are uncorrelated.

    Args:
        dim: D, the length of a feature vector.
        landmarks: How many landmarks there are; also the length of the vectors.
        gamma: How narrow the kernel is.
        kind: How features are prepared.
    """

    def __init__(
        self, dim: int, landmarks: int, gamma: float = GAMMA, kind: Kind = "cosine"
    ) -> None:
        super().__init__()
        self.rank = landmarks
        self.similarity = Similarity(dim, landmarks, gamma, kind)
        self.register_buffer("rotation", torch.zeros(landmarks, landmarks))
        self.register_buffer("centre", torch.zeros(landmarks))
        self.rotation: Tensor
        self.centre: Tensor

    def learn(self, x: Rows, weights: Tensor | None = None) -> Rows:
        self.similarity.fit(x)
        if self.rank == len(x) and weights is None:
            held = Rows.of(self._fit_exact())
            return Rows(held.at, len(x), self.rank, x.ranks)
        self._fit_sample(x, weights)
        return x.mapped(self, self.rank)

    def _fit_exact(self) -> Tensor:
        """The map and the vectors of the landmarks, which are all items, by one decomposition.

        With P = I - 1 1'/n, P K P = U S U'. The vectors U S^1/2 have the products of the centred
        kernel, and `(k(x) - mean k) P U S^-1/2` is the vector of any item.
        """
        kernel = self.similarity.among_landmarks()
        mean = kernel.mean(0)
        kernel -= mean
        kernel -= kernel.mean(1, keepdim=True)
        sizes, axes = eigh(kernel)
        sizes.clamp_(min=0)
        axes /= (sizes + JITTER * len(kernel) ** 0.5).sqrt()
        axes -= axes.mean(0)
        self.rotation.copy_(axes)
        self.centre.copy_(mean @ axes)
        return axes.mul_(sizes)

    def _fit_sample(self, x: Rows, weights: Tensor | None) -> None:
        """The map of a sample of the items `[n, D]`, or of weighted items."""
        # With C C' = K the kernel of the landmarks, k(x) C'^-1 has the products of the kernel.
        kernel = self.similarity.among_landmarks().cpu().double()
        kernel.diagonal().add_(JITTER * len(kernel) ** 0.5)
        lower = torch.linalg.cholesky(kernel)
        whiten = torch.linalg.solve_triangular(
            lower, torch.eye(len(lower), dtype=lower.dtype), upper=False
        ).T
        self.rotation.copy_(whiten)
        self.centre.zero_()
        vectors = Rows(lambda rows: self(x.at(rows)), len(x), self.rank, x.ranks)
        centre, axes, _ = principal_axes(vectors, weights)
        self.rotation.copy_(self.rotation @ axes)
        self.centre.copy_(centre @ axes)

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(self.centre.device)
        vectors: Tensor = self.similarity(x) @ self.rotation - self.centre
        return vectors

    def folded_linear(self, head: LinearHead) -> KernelHead:
        """Weights of the landmarks: `rotation @ weight'`."""
        with torch.no_grad():
            kind, dim = self.similarity.kind, len(self.similarity.mean)
            folded = KernelHead(dim, len(head.bias), self.rank, kind)
            folded.to(self.centre.device)
            folded.similarity.load_state_dict(self.similarity.state_dict())
            folded.linear.weight.copy_(head.weight @ self.rotation.T)
            folded.linear.bias.copy_(head.bias - head.weight @ self.centre)
        return folded


def principal_axes(vectors: Rows, weights: Tensor | None = None) -> tuple[Tensor, Tensor, float]:
    """Mean `[r]`, principal axes `[r, r]`, the widest first, and variance of vectors `[n, r]`.

    They follow from one pass over the vectors; the variance is that of all columns together.

    Args:
        vectors: The vectors.
        weights: How much each counts, `[n]`; all the same by default.
    """
    shift = vectors.at(torch.arange(min(len(vectors), SHIFTED))).mean(0)  # near the mean
    weights = shift.new_ones(len(vectors)) if weights is None else weights
    total, size = weights.sum().cpu().double(), vectors.width

    def add_up() -> Sums:
        sums = torch.zeros(size, dtype=torch.float64)
        gram = torch.zeros(size, size, dtype=torch.float64)
        for rows, some in vectors.blocks():
            some, own = some - shift, weights[rows.to(weights.device), None]
            sums += (some * own).sum(0).cpu()
            gram += (some.T @ (some * own)).cpu()
        return sums, gram

    sums, gram = vectors.ranks.passed(add_up)
    mean = sums / total
    gram = gram - total * mean[:, None] * mean
    axes = vectors.ranks.first(eigh(gram.float().to(shift.device))[1])
    return shift + mean.float().to(shift.device), axes, float(gram.trace() / total)


def eigh(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues `[r]` and eigenvectors `[r, r]` of a symmetric matrix, the largest first."""
    # Only CUDA has it among the accelerators.
    values, axes = torch.linalg.eigh(matrix if matrix.is_cuda else matrix.cpu())
    return values.flip(0).to(matrix.device), axes.flip(1).to(matrix.device)


class LinearMap(FeatureMap):
    """Features, centred, scaled to a mean squared length of one, on their principal axes.

    Args:
        dim: D, the length of a feature vector, and of the vectors.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.rank = dim
        self.register_buffer("rotation", torch.zeros(dim, dim))
        self.register_buffer("centre", torch.zeros(dim))
        self.rotation: Tensor
        self.centre: Tensor

    def learn(self, x: Rows, weights: Tensor | None = None) -> Rows:
        device = self.centre.device
        floats = Rows(lambda rows: x.at(rows).to(device).float(), len(x), x.width, x.ranks)
        centre, axes, variance = principal_axes(floats, weights)
        self.rotation.copy_(axes / max(variance**0.5, 1e-12))
        self.centre.copy_(centre @ self.rotation)
        return x.mapped(self, self.rank)

    def forward(self, x: Tensor) -> Tensor:
        return x.to(self.centre.device).float() @ self.rotation - self.centre

    def folded_linear(self, head: LinearHead) -> LinearHead:
        with torch.no_grad():
            folded = LinearHead(self.rank, len(head.bias)).to(self.centre.device)
            folded.linear.weight.copy_(head.weight @ self.rotation.T)
            folded.linear.bias.copy_(head.bias - head.weight @ self.centre)
        return folded


def moments(x: Rows) -> tuple[Tensor, Tensor]:
    """Mean and spread of each of the features `[n, D]`, `[D]` each, float64 on the CPU.

    The spread of a feature that is the same for all items is 1, so that it becomes 0.
    """
    (mean,) = means(x, lambda some: some.cpu().double())
    (squares,) = means(x, lambda some: (some.cpu().double() - mean).square())
    return mean, torch.where(squares > 0, squares.sqrt(), 1.0)


def means(x: Rows, of: Callable[[Tensor], Tensor]) -> Sums:
    """The mean over all items of what a function makes of their features, float64 `[D]`."""

    def add_up() -> Sums:
        total = torch.zeros(x.width, dtype=torch.float64)
        for _, some in x.blocks():
            total += of(some).sum(0).cpu() / len(x)
        return (total,)

    return x.ranks.passed(add_up)


class StandardMap(FeatureMap):
    """Features with mean 0 and spread 1, each by itself, and a map after that if there is one.

    Args:
        dim: D, the length of a feature vector.
        inner: The map after it; without one the vectors are the standardized features.
    """

    def __init__(self, dim: int, inner: FeatureMap | None = None) -> None:
        super().__init__()
        self.inner = inner
        self.rank = dim if inner is None else inner.rank
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("spread", torch.ones(dim))
        self.mean: Tensor
        self.spread: Tensor

    def learn(self, x: Rows, weights: Tensor | None = None) -> Rows:
        """As `FeatureMap.learn`; mean and spread are those of all items, whatever they count."""
        mean, spread = moments(x)
        self.mean.copy_(mean)
        self.spread.copy_(spread)
        vectors = x.mapped(self._standard, x.width)
        return vectors if self.inner is None else self.inner.learn(vectors, weights)

    def forward(self, x: Tensor) -> Tensor:
        vectors = self._standard(x)
        if self.inner is not None:
            vectors = self.inner(vectors)
        return vectors

    def _standard(self, x: Tensor) -> Tensor:
        return (x.to(self.mean.device).float() - self.mean) / self.spread

    def folded(self, head: Head) -> Head:
        if self.inner is None:
            return super().folded(head)
        alone = StandardMap(len(self.mean)).to(self.mean.device)
        alone.mean.copy_(self.mean)
        alone.spread.copy_(self.spread)
        return alone.folded(self.inner.folded(head))

    def folded_linear(self, head: LinearHead) -> LinearHead:
        with torch.no_grad():
            folded = LinearHead(len(self.mean), len(head.bias)).to(self.mean.device)
            folded.linear.weight.copy_(head.weight / self.spread)
            folded.linear.bias.copy_(head.bias - head.weight @ (self.mean / self.spread))
        return folded


class KernelHead(Head):
    """Logits that are sums over landmarks of the kernel times a weight.

    Args:
        dim: D, the length of a feature vector.
        n_classes: L.
        landmarks: How many landmarks there are.
        kind: How features are prepared.
    """

    deterministic = True

    def __init__(self, dim: int, n_classes: int, landmarks: int, kind: Kind = "cosine") -> None:
        super().__init__()
        self.similarity = Similarity(dim, landmarks, kind=kind)
        self.linear = nn.Linear(landmarks, n_classes)
        self.width_inside = landmarks

    def forward(self, features: Tensor) -> Outputs:
        return Outputs(self.linear(self.similarity(features)), features)


class MappedHead(Head):
    """A map and any head after it.

    Args:
        features: The map.
        inner: The head that was trained on its vectors.
    """

    def __init__(self, features: FeatureMap, inner: Head) -> None:
        super().__init__()
        self.map = features
        self.inner = inner
        self.deterministic = inner.deterministic
        self.width_inside = max(features.rank, inner.width_inside)

    def forward(self, features: Tensor) -> Outputs:
        outputs: Outputs = self.inner(self.map(self.pool(features)))
        return outputs
