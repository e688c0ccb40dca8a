"""Which differences between methods are more than noise.

Methods of one table are trained with the same seeds, so the scores form a table method x seed. Its
two-way residuals `r[m, s] = y[m, s] - mean[m] - mean[s] + mean` remove the effects of the
method and of the seed; their variance, pooled over the M methods,

    v = sum r^2 / ((M - 1) (S - 1)),

is the noise. Two means over S seeds differ significantly at 5 % if they are further apart than
the least significant difference

    LSD = t(0.975; (M - 1) (S - 1)) sqrt(2 v / S).

All methods within LSD of the best are within noise of it. With one seed there is no such variance,
and with fewer than four degrees of freedom its estimate is too uncertain; then the test over
classes decides. The noise is assumed to be the same for all methods, and there is no correction for
multiple comparisons. Methods that do not depend on the seed (closed forms) have no such variance
and do not count towards it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

LEVEL = 0.05
ENOUGH = 4  # degrees of freedom from which a variance is used


@dataclass(frozen=True)
class Noise:
    """The noise of a table method x seed.

    Args:
        residual_sd: Square root of the pooled variance.
        lsd: The least significant difference of two means.
    """

    methods: int
    seeds: int
    residual_sd: float
    freedom: int
    lsd: float
    level: float = LEVEL


def pooled_noise(scores: Mapping[str, Mapping[int, float]]) -> Noise | None:
    """The noise of scores by method and seed; None for one method or one seed.

    Methods with the same score for all seeds do not count, nor seeds that not all methods have.
    """
    from scipy.stats import t  # type: ignore[import-untyped, unused-ignore]

    tables = [set(by_seed) for by_seed in scores.values()]
    seeds = sorted(set.intersection(*tables)) if tables else []
    rows = [[by_seed[seed] for seed in seeds] for by_seed in scores.values()]
    rows = [row for row in rows if len(set(row)) > 1]
    if len(rows) < 2:
        return None
    of_method = [fmean(row) for row in rows]
    of_seed = [fmean(column) for column in zip(*rows, strict=True)]
    overall = fmean(of_method)
    square = sum(
        (value - of_method[m] - of_seed[s] + overall) ** 2
        for m, row in enumerate(rows)
        for s, value in enumerate(row)
    )
    freedom = (len(rows) - 1) * (len(seeds) - 1)
    variance = square / freedom
    quantile = float(t.ppf(1 - LEVEL / 2, freedom))
    lsd = quantile * math.sqrt(2 * variance / len(seeds))
    return Noise(len(rows), len(seeds), math.sqrt(variance), freedom, lsd)


def is_near(gap: float, noise: Noise | None, p_classes: float | None) -> bool:
    """Whether a method is within noise of the best."""
    if noise is not None and (noise.freedom >= ENOUGH or p_classes is None):
        return gap <= noise.lsd
    return p_classes is not None and p_classes > LEVEL


def p_over_seeds(ours: Mapping[int, float], other: Mapping[int, float]) -> float | None:
    """Paired t-test over common seeds, two-sided; None with fewer than two.

    None, too, if neither method depends on the seed: seeds say nothing of them.
    """
    from scipy.stats import ttest_1samp

    seeds = sorted(ours.keys() & other.keys())
    gaps = [ours[seed] - other[seed] for seed in seeds]
    if all(len({scores[seed] for seed in seeds}) < 2 for scores in (ours, other)):
        return None
    gap = fmean(gaps)
    if stdev(gaps) <= 1e-12 * max(1.0, abs(gap)):  # a constant gap
        return 1.0 if abs(gap) <= 1e-12 else 0.0
    return float(ttest_1samp(gaps, 0.0).pvalue)


def p_over_classes(ours: Sequence[float | None], other: Sequence[float | None]) -> float | None:
    """Wilcoxon's signed-rank test over classes, two-sided; None without common classes."""
    from scipy.stats import wilcoxon

    pairs = zip(ours, other, strict=True)
    gaps = [a - b for a, b in pairs if a is not None and b is not None]
    gaps = [gap for gap in gaps if not math.isnan(gap)]
    if not gaps:
        return None
    nonzero = [gap for gap in gaps if gap]
    if not nonzero:
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about few classes and ties
        return float(wilcoxon(nonzero).pvalue)
