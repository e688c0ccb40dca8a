"""What Optuna may try for each method: the learning rate, and ranges of the method's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Settings = dict[str, Any]


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, evenly or evenly in their logarithm."""

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True)
class Choice:
    """One of some values."""

    values: tuple[Any, ...]


Space = Mapping[str, Range | Choice]

RATE = Range(1e-5, 1e-2, log=True)
VARIANTS = Choice(("paper", "released"))

# The methods that `plusone.bench.tuning` has a grid for, and only those.
SPACES: dict[str, Space] = {
    "bce_ls": {"eps": Range(0.01, 0.4)},
    "an_ls": {"eps": Range(0.01, 0.5)},
    "an_als": {"eps_p": Range(0.0, 0.3), "eps_n": Range(0.0, 0.5)},
    "n_ls": {"eps_n": Range(0.01, 0.5)},
    "wan": {"gamma": Range(0.01, 0.5, log=True)},
    "l1r": {"lam": Range(1e-7, 1e-3, log=True)},
    "l2r": {"lam": Range(1e-6, 1e-2, log=True)},
    "focal": {"gamma": Range(0.5, 5.0)},
    "asl": {"gamma_neg": Range(1.0, 8.0)},
    "asl_ps": {"gamma_neg": Range(1.0, 8.0), "shift": Range(0.0, 0.3)},
    "hill": {"margin": Range(0.0, 2.0), "gamma": Range(0.0, 4.0), "lam": Range(1.0, 2.0)},
    "epr": {"variant": VARIANTS, "lam": Range(0.01, 100.0, log=True)},
    "role": {"variant": VARIANTS, "lam": Range(0.01, 100.0, log=True)},
    "ll_r": {"delta_rel": Range(0.02, 2.0, log=True)},
    "ll_ct": {"delta_rel": Range(0.02, 2.0, log=True)},
    "ll_cp": {"delta_rel": Range(0.02, 2.0, log=True)},
    "splc": {"tau": Range(0.3, 0.95), "margin": Range(0.0, 2.0), "gamma": Range(0.0, 4.0)},
    "en": {"decay": Range(0.0, 0.95)},
    "en_cl": {"decay": Range(0.0, 0.95), "weight": Range(0.01, 100.0, log=True)},
    "en_scl": {"decay": Range(0.0, 0.95), "weight": Range(0.01, 100.0, log=True)},
    "las": {"gamma_neg": Range(0.5, 6.0)},
    "lasd": {
        "lam_plus": Range(0.003, 0.3, log=True),
        "tau": Range(0.5, 0.98),
        "gamma_neg": Range(0.5, 6.0),
    },
    "em": {"alpha": Range(0.005, 0.5, log=True)},
    "em_apl": {
        "alpha": Range(0.005, 0.5, log=True),
        "beta": Range(0.01, 1.0, log=True),
        "theta": Range(0.5, 0.99),
    },
    "entmin": {"alpha": Range(0.001, 0.5, log=True), "negatives": Choice((False, True))},
    "gr": {"w": Range(1.0, 12.0), "b": Range(-10.0, 0.0), "q3": Range(0.2, 2.0)},
    "gr_learned": {"learn_v": Choice((True, False)), "q3": Range(0.2, 2.0)},
    "lac": {"variant": VARIANTS, "delta": Range(0.6, 0.98), "lam_lac": Range(0.1, 3.0, log=True)},
}


def space_of(method: str, pinned: Settings) -> Space:
    """The options to search: all of the method's space that the user has not given.

    Args:
        method: Its name.
        pinned: Options the user gave.
    """
    return {name: area for name, area in SPACES.get(method, {}).items() if name not in pinned}
