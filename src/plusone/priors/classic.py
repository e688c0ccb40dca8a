"""Other estimators of k and class priors from out-of-sample scores, to compare with.

Positive-unlabelled learning sees each class apart: the items it was seen on are positives, all
others are unlabelled. Of the items the class applies to, a share e was seen, and the prior is the
seen share / e.

- `best bin`: the items the model is surest of are all taken as positive, so that e is the share of
  them that was seen (Elkan and Noto 2008); too many labels where they are not;
- `mixture`: scores of all items are a mixture of those of seen positives and of the rest; the
  prior is the largest share of the first that fits below the whole; too many where scores do not
  separate;
- `perplexity`: exp of the entropy of the pick model: with sure labels, q is 1 / |Y| on each of
  them; too many, for doubt counts as labels;
- `largest`: 1 / max q of the pick model; the same, less so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from plusone.priors.estimate import guarded

Floats = npt.NDArray[np.float64]
POOLED = 20.0  # seen positives that what all classes say together is worth
BINS = 20


def best_bin(scores: Floats, label: npt.NDArray[np.int64]) -> Floats:
    """Priors by the surest items of each class, drawn towards what all classes say together.

    Args:
        scores: Out-of-sample scores `[N, L]`.
        label: Seen label of each item, `[N]`.
    """
    n, n_classes = scores.shape
    seen = np.bincount(label, minlength=n_classes)
    hits, tried = np.zeros(n_classes), np.zeros(n_classes)
    for place in range(n_classes):
        top = np.argsort(-scores[:, place], kind="stable")[: max(5, int(seen[place]) // 2)]
        hits[place], tried[place] = (label[top] == place).sum(), len(top)
    together = hits.sum() / tried.sum()
    share = (hits + POOLED * together) / (tried + POOLED)
    return np.asarray(seen / n / np.maximum(share, 1 / n_classes))


def mixture(scores: Floats, label: npt.NDArray[np.int64]) -> Floats:
    """Priors by matching score distributions: the most positives that fit under all items.

    Scores are cut into bins at quantiles of the seen positives. In no bin can there be more
    positives than items, which bounds the prior; a bin's noise is allowed for.
    """
    n, n_classes = scores.shape
    found = np.bincount(label, minlength=n_classes) / n
    for place in range(n_classes):
        own = scores[label == place, place]
        bins = min(BINS, len(own) // 5)
        if bins < 2:
            continue
        edges = np.quantile(own, np.linspace(0, 1, bins + 1))[1:-1]
        every = np.bincount(np.searchsorted(edges, scores[:, place]), minlength=bins)
        positive = np.bincount(np.searchsorted(edges, own), minlength=bins) / len(own)
        # Shares of all items over shares of positives: the least of them bounds the prior.
        ratio = every / n / np.maximum(positive, 1e-12)
        noise = 1 / np.sqrt(np.maximum(positive * len(own), 1.0))
        found[place] = max(found[place], float((ratio * (1 + noise)).min()))
    return np.asarray(found)


def perplexity(picks: Floats, label: npt.NDArray[np.int64]) -> Floats:
    """Priors by the entropy of the pick model."""
    entropy = -(picks * np.log(np.maximum(picks, 1e-30))).sum(axis=1)
    return np.asarray((picks * np.exp(entropy)[:, None]).mean(axis=0))


def largest(picks: Floats, label: npt.NDArray[np.int64]) -> Floats:
    """Priors by the largest chance of the pick model."""
    return np.asarray((picks / picks.max(axis=1, keepdims=True)).mean(axis=0))


ESTIMATORS: Mapping[str, Callable[[Floats, npt.NDArray[np.int64]], Floats]] = {
    "best bin": best_bin,
    "mixture": mixture,
    "perplexity": perplexity,
    "largest": largest,
}


def estimate(name: str, picks: Floats, label: npt.NDArray[np.int64]) -> tuple[Floats, float]:
    """Class priors and k by an estimator in `ESTIMATORS`, within what must hold."""
    seen = np.bincount(label, minlength=picks.shape[1]) / len(label)
    return guarded(ESTIMATORS[name](picks, label), seen)
