"""Scores made into probabilities by the labels that were seen, under uniform picking.

A label's probability is p_l = sigmoid(slope * s_l + tilt * m + offset_l): s_l is the logit of an
out-of-sample score less its mean over the items, m the item's largest s, standardised. Slope and
tilt are shared by all classes; each class has an offset, drawn towards what its share among the
seen labels would give. They maximise the likelihood of the seen labels (`plusone.priors.picks`).
No label but the seen ones is used.

The tilt is for scores that compete within an item, such as those of a softmax: there a score of 1/3
may mean doubt among three labels, or three sure ones. It can be left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from plusone.priors.picks import Picked, label_means, log_likelihood

SPREAD = 2.0  # standard deviation of an offset around what the seen share gives
STARTS = (1.2, 2.0, 4.0)  # values of k to start from; the likelihood is flat in places
STEPS = 60
FIRST_STEPS = 15  # from each start; then on from the best of them
STIFF = 20.0  # how hard k is held where it is fixed
ALLOWED = 1.92  # loss of log-likelihood at the ends of a 95 % interval: half of chi2(1)
REACHED = 0.05  # how far from where it is held k may stay
BELOW = (0.8, 0.5, 0.2, 0.0)
ABOVE = (1.25, 1.7, 2.5, 5.0)


@dataclass(frozen=True)
class Scores:
    """Out-of-sample scores made ready.

    Args:
        s: Their logits, centred by class, float64 `[N, L]`.
        most: The largest score of each item, standardised, `[N]`.
        tilted: Whether `most` may count.
    """

    s: Tensor
    most: Tensor
    tilted: bool

    def __getitem__(self, rows: Tensor) -> Scores:
        return replace(self, s=self.s[rows], most=self.most[rows])


@dataclass(frozen=True)
class Calibration:
    """The map from scores to probabilities, and how well it explains the seen labels.

    Args:
        slope: Of the scores.
        tilt: Of the item's largest score.
        offsets: `[L]`.
        log_likelihood: Of all seen labels, without the pull on the offsets.
        k: Mean number of labels of an item.
    """

    slope: Tensor
    tilt: Tensor
    offsets: Tensor
    log_likelihood: float
    k: float

    def logits(self, scores: Scores) -> Tensor:
        """Calibrated logits, `[N, L]`."""
        return scores.s * self.slope + self.offsets + self.tilt * scores.most[:, None]


def calibrate(s: Scores, picked: Picked, k: float | None = None) -> Calibration:
    """The most likely slope, tilt and offsets.

    Args:
        s: Out-of-sample scores.
        picked: What was seen.
        k: Hold the mean number of labels here, if given.
    """
    n_classes = s.s.shape[1]
    starts = [min(start, n_classes / 2) for start in STARTS] if k is None else [k]
    found = [_climb(s, picked, _start(s, picked, start), k, FIRST_STEPS) for start in starts]
    return _climb(s, picked, max(found, key=lambda entry: entry.log_likelihood), k)


def k_interval(s: Scores, picked: Picked, best: Calibration) -> tuple[float, float]:
    """Values of k that explain the seen labels almost as well as the best (95 %, by likelihood).

    The other parameters are fitted anew for each k. The interval knows of chance in the seen labels
    only, not of a wrong model.
    """
    low = _walk(s, picked, best, BELOW)
    high = _walk(s, picked, best, ABOVE)
    return low, high


def _walk(s: Scores, picked: Picked, best: Calibration, factors: Sequence[float]) -> float:
    """Where the likelihood has fallen by `ALLOWED`, between the steps by a straight line."""
    n_classes, before, fallen = s.s.shape[1], best.k, 0.0
    at = best
    for factor in factors:
        target = min(1 + max(best.k - 1, 0.01) * factor, n_classes)
        at = _held(s, picked, at, max(target, 1.0005))
        drop = best.log_likelihood - at.log_likelihood
        if drop > ALLOWED:
            share = (ALLOWED - fallen) / (drop - fallen)
            return before + share * (at.k - before)
        before, fallen = at.k, max(drop, fallen)
        if target == n_classes:
            break
    return before


def _held(s: Scores, picked: Picked, start: Calibration, k: float) -> Calibration:
    """The best with this k, from another place if the way from the given one is too flat."""
    found = _climb(s, picked, start, k)
    if abs(found.k / k - 1) <= REACHED:
        return found
    other = _climb(s, picked, _start(s, picked, k), k)
    near = [entry for entry in (found, other) if math.isfinite(entry.k)]
    return min(near, key=lambda entry: abs(entry.k / k - 1), default=start)


def _start(s: Scores, picked: Picked, k: float) -> Calibration:
    share = (_counts(s, picked) / len(picked) * k).clamp(1e-6, 0.9)
    spread = s.s.std().clamp(min=1e-6)
    return Calibration(1 / spread, torch.zeros((), dtype=s.s.dtype), torch.logit(share), 0.0, k)


def _climb(
    s: Scores, picked: Picked, start: Calibration, k: float | None, steps: int = STEPS
) -> Calibration:
    log_slope = start.slope.log().clone().requires_grad_()
    tilt = start.tilt.clone().requires_grad_(s.tilted)
    offsets = start.offsets.clone().requires_grad_()
    usual = torch.log(_counts(s, picked) / len(picked))
    usual = usual - usual.mean()
    about = -s.s.std().clamp(min=1e-6).log()
    optimizer = torch.optim.LBFGS(
        [log_slope, offsets, *([tilt] if s.tilted else [])],
        max_iter=steps, history_size=20, line_search_fn="strong_wolfe",
        tolerance_change=1e-10,
    )  # fmt: skip

    def closure() -> Tensor:
        optimizer.zero_grad()
        z = replace(start, slope=log_slope.exp(), tilt=tilt, offsets=offsets).logits(s)
        away = offsets - offsets.mean() - usual
        cost = -log_likelihood(z, picked).sum() + (away**2).sum() / (2 * SPREAD**2)
        cost = cost + ((log_slope - about) ** 2 + tilt**2) / (2 * SPREAD**2)
        if k is not None:
            count = label_means(z, picked).sum(dim=1).mean()
            cost = cost + STIFF * len(picked) * (count / k - 1) ** 2
        cost = cost / len(picked)
        cost.backward()  # type: ignore[no-untyped-call]
        return cost

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    found = replace(
        start, slope=log_slope.detach().exp(), tilt=tilt.detach(), offsets=offsets.detach()
    )
    with torch.no_grad():
        z = found.logits(s)
        value = float(log_likelihood(z, picked).sum())
        count = float(label_means(z, picked).sum(dim=1).mean())
    return replace(found, log_likelihood=value, k=count)


def _counts(s: Scores, picked: Picked) -> Tensor:
    """How often each class was seen, half an item more."""
    return torch.bincount(picked.label, minlength=s.s.shape[1]).to(s.s.dtype) + 0.5
