"""Settings a comparison tries for each method, and the rule that picks one.

The rule of `plusone bench --tune`, by validation score with the first seed: the learning rate is
chosen with the method's default options, then the options below at that rate; the choice is trained
with the other seeds too, and only it is reported. `plusone.bench.search` has the rule of Optuna.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from plusone.bench.choice import choice_score

if TYPE_CHECKING:
    from plusone.bench.entries import Entry
    from plusone.bench.jobs import Job

Settings = dict[str, Any]
Runner = Callable[[Sequence["Job"]], list[dict[str, Any]]]

# Alternatives to a method's default options, each tried beside the defaults.
OPTIONS: dict[str, list[Settings]] = {
    "bce_ls": [{"eps": 0.05}, {"eps": 0.2}],
    "an_ls": [{"eps": 0.2}, {"eps": 0.4}],
    "an_als": [{"eps_p": 0.0, "eps_n": 0.2}, {"eps_p": 0.1, "eps_n": 0.3}],
    "n_ls": [{"eps_n": 0.2}, {"eps_n": 0.4}],
    "wan": [{"gamma": 0.1}, {"gamma": 0.3}],
    "l1r": [{"lam": 1e-6}, {"lam": 1e-4}],
    "l2r": [{"lam": 1e-5}, {"lam": 1e-3}],
    "focal": [{"gamma": 1.0}, {"gamma": 4.0}],
    "asl": [{"gamma_neg": 2.0}, {"gamma_neg": 6.0}],
    "asl_ps": [{"gamma_neg": 2.0}, {"shift": 0.2}],
    "hill": [{"margin": 0.0, "gamma": 0.0}, {"lam": 1.2}],
    "epr": [{"variant": "released"}, {"lam": 100.0}],
    "role": [{"variant": "paper"}, {"lam": 10.0}],
    "ll_r": [{"delta_rel": 0.5}, {"delta_rel": 1.0}],
    "ll_ct": [{"delta_rel": 0.05}, {"delta_rel": 0.5}],
    "ll_cp": [{"delta_rel": 0.05}, {"delta_rel": 0.5}],
    "splc": [{"tau": 0.5}, {"tau": 0.8}],
    "en": [{"decay": 0.0}, {"decay": 0.9}],
    "en_cl": [{"weight": 0.1}, {"weight": 10.0}],
    "en_scl": [{"weight": 0.1}, {"weight": 10.0}],
    "las": [{"gamma_neg": 2.0}, {"gamma_neg": 1.0}],
    "lasd": [{"lam_plus": 0.03}, {"tau": 0.7}, {"gamma_neg": 2.0}],
    "em": [{"alpha": 0.05}, {"alpha": 0.2}],
    "em_apl": [{"alpha": 0.1, "beta": 0.4}, {"alpha": 0.1, "beta": 0.9}],
    "entmin": [{"alpha": 0.01}, {"negatives": True}],
    "gr": [{"w": 10.0, "b": -8.0}, {"w": 4.0, "b": -2.0}],
    "gr_learned": [{"learn_v": False}],
    "lac": [{"variant": "released"}, {"delta": 0.7}],
}


def option_grid(method: str, chosen: Settings, given: Settings) -> list[Settings]:
    """The chosen settings, and the same with each of the method's alternative options.

    Args:
        method: Its name.
        chosen: Settings so far.
        given: Options the user gave; alternatives to these are not tried.
    """
    others = [options for options in OPTIONS.get(method, []) if not options.keys() & given.keys()]
    return [chosen, *(chosen | {"options": options} for options in others)]


def best_settings(tried: Sequence[Settings], results: Sequence[dict[str, Any]]) -> Settings:
    """The settings with the best validation score; of equals the first."""
    scores = [choice_score(result) for result in results]
    return tried[scores.index(max(scores))]


def tune_by_grid(
    entries: Sequence[Entry], rates: Sequence[float | None], seed: int, run: Runner
) -> list[Settings]:
    """The chosen settings of each entry.

    Args:
        entries: What to tune.
        rates: Learning rates to choose from; None is the method's default.
        seed: The seed to choose with.
        run: Trains jobs and returns their results in order.
    """

    def choose(grids: Sequence[Sequence[Settings]]) -> list[Settings]:
        pairs = list(zip(entries, grids, strict=True))
        found = iter(run([job for entry, grid in pairs for job in entry.jobs(grid, [seed])]))
        return [best_settings(grid, list(islice(found, len(grid)))) for grid in grids]

    chosen = choose([entry.rates(rates) for entry in entries])
    return choose(
        [
            option_grid(entry.method, rate, entry.options)
            for entry, rate in zip(entries, chosen, strict=True)
        ]
    )
