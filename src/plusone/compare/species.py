"""Species: methods that learn from records of people, beside two baselines of that field.

Every method learns from the sites with records (`plusone.data.species_files`) in the same kernel
head and is measured on complete surveys of other sites, by the mean AUC over species. The baselines
compare the sites of a species with background sites, one species at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from plusone.compare.results_table import markdown, spread
from plusone.data.species_files import SpeciesData, read_species
from plusone.errors import InputError
from plusone.inputs.loader import ArrayInputs
from plusone.io.files import write_json, write_text
from plusone.io.keys import content_key, file_key
from plusone.io.readers import read_json
from plusone.methods import METHODS, get_method
from plusone.metrics import mean_roc_auc
from plusone.training.api import fit
from plusone.version import __version__

Floats = npt.NDArray[np.floating[Any]]
FILES = ("species.md", "species.json")
TREES = 500  # of a forest
KNOTS = 10  # of the hinge features of a variable
BACKGROUND_WEIGHT = 100.0  # of a background site beside a record
STRENGTH = 0.01  # inverse of the L2 penalty
LARGE_BATCH = 8192  # sites predicted at once


def learning_methods() -> list[str]:
    """All methods that learn from features and seen positives alone."""
    return [
        name
        for name, info in METHODS.items()
        if info.scheme == "single" and not info.needs_hints and info.inputs != "images"
    ]


@dataclass(frozen=True)
class Figure:
    """One run on one file.

    Args:
        data: Name of the file.
        method: A method or a baseline.
        seed: Of the run.
        auc: Mean AUC over species on the test sites.
        seconds: Processor time.
        key: What the figure depends on.
    """

    data: str
    method: str
    seed: int
    auc: float
    seconds: float
    key: str


def measure(
    files: Sequence[Path],
    methods: Sequence[str],
    seeds: Sequence[int],
    folder: Path,
    *,
    background: int = 0,
    settings: Mapping[str, Any] | None = None,
    on_figure: Callable[[Figure], None] = lambda figure: None,
) -> list[Figure]:
    """Trains and measures all methods on all files; finished runs are read from the folder.

    Args:
        files: Species files.
        methods: Methods and baselines.
        seeds: Of each run; a closed form has no randomness, and is run once.
        folder: Where figures are written.
        background: How many background sites are items without a label.
        settings: Recipe settings.
        on_figure: Called with each figure.
    """
    for name in methods:
        if name not in BASELINES:
            get_method(name)
    record = folder / FILES[1]
    known = _known(record)
    figures: list[Figure] = []
    for file in files:
        data = read_species(file)
        for name in methods:
            for seed in seeds[:1] if _runs_once(name) else seeds:
                given = () if name in BASELINES else (background, sorted((settings or {}).items()))
                key = content_key(file_key(file), name, seed, repr(given), __version__)
                figure = known.get(key)
                if figure is None:
                    started = time.process_time()
                    scores = _scores(data, name, seed, background, settings or {})
                    auc = mean_roc_auc(scores, data.test_y)
                    seconds = time.process_time() - started
                    figure = Figure(data.name, name, seed, auc, seconds, key)
                known[key] = figure
                figures.append(figure)
                write_json(
                    record, {"kind": "species", "figures": [asdict(f) for f in known.values()]}
                )
                on_figure(figure)
    return figures


def table_of(figures: Sequence[Figure]) -> tuple[list[str], list[list[str]]]:
    """Header and cells: a row for each method, the best mean first; AUC in per cent."""
    sets = list(dict.fromkeys(figure.data for figure in figures))
    rows = []
    for name in dict.fromkeys(figure.method for figure in figures):
        own = [[f.auc for f in figures if (f.method, f.data) == (name, data)] for data in sets]
        mean = fmean(fmean(values) for values in own)
        cells = [spread(fmean(v), stdev(v) if len(v) > 1 else None) for v in own]
        seconds = sum(figure.seconds for figure in figures if figure.method == name)
        rows.append((mean, [name, *cells, f"{100 * mean:.2f}", f"{seconds:.0f}"]))
    rows.sort(key=lambda row: -row[0])
    return ["method", *sets, "mean", "seconds"], [cells for _, cells in rows]


def write_species(folder: Path, figures: Sequence[Figure], command: str) -> dict[str, Any]:
    """Writes the table as Markdown; returns what `--json` prints."""
    header, cells = table_of(figures)
    note = f"Mean AUC over species in per cent; to repeat: {command} (plusone {__version__})\n"
    write_text(folder / FILES[0], f"{markdown(header, cells)}\n{note}")
    means = {name: figures_of(figures, name) for name in dict.fromkeys(f.method for f in figures)}
    return {
        "kind": "species",
        "command": command,
        "version": __version__,
        "figures": [asdict(figure) for figure in figures],
        "mean_auc": means,
    }


def figures_of(figures: Sequence[Figure], method: str) -> float:
    """The mean AUC of a method over the files, each of them over its seeds."""
    own = [figure for figure in figures if figure.method == method]
    sets = dict.fromkeys(figure.data for figure in own)
    return fmean(fmean(f.auc for f in own if f.data == data) for data in sets)


def _known(record: Path) -> dict[str, Figure]:
    """Figures of earlier calls, by their keys."""
    if not record.exists():
        return {}
    try:
        figures = [Figure(**values) for values in read_json(record)["figures"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{record}: is damaged ({error}); remove it, or give --out") from None
    return {figure.key: figure for figure in figures}


def _runs_once(name: str) -> bool:
    """Whether a second run gives the same."""
    return name == "maxent-like" or (name not in BASELINES and get_method(name).closed_form)


def _scores(
    data: SpeciesData, name: str, seed: int, background: int, settings: Mapping[str, Any]
) -> Floats:
    """Scores of the test sites `[T, L]`."""
    if name in BASELINES:
        columns = [
            BASELINES[name](data.x[data.seen[:, number] == 1], data.background, data.test_x, seed)
            for number in range(len(data.species))
        ]
        return np.stack(columns, axis=1)
    given = {"head": "kernel", "seed": seed, **settings}
    fitted = fit(data.dataset(background), name, **given)
    parts = torch.split(torch.from_numpy(data.test_x), LARGE_BATCH)
    predictor = fitted.predictor.raw
    scores = torch.cat([predictor.log_odds(ArrayInputs(part)) for part in parts])
    return np.asarray(scores.numpy())


def forest(present: Floats, background: Floats, test: Floats, seed: int) -> Floats:
    """A down-sampled random forest (Valavi et al. 2021).

    Each tree is grown on a bootstrap sample of the sites of a species and as many background sites.

    Args:
        present: Sites of the species `[P, D]`.
        background: Background sites `[B, D]`.
        test: Sites to predict `[T, D]`.
        seed: Of the samples and the trees.

    Returns:
        Scores `[T]`.
    """
    from sklearn.tree import DecisionTreeClassifier

    rng, count = np.random.default_rng(seed), len(present)
    scores = np.zeros(len(test))
    y = np.repeat([1, 0], count)
    for _ in range(TREES):
        own = present[rng.integers(count, size=count)]
        x = np.concatenate([own, background[rng.integers(len(background), size=count)]])
        grown = DecisionTreeClassifier(max_features="sqrt", random_state=int(rng.integers(2**31)))
        scores += grown.fit(x, y).predict_proba(test)[:, 1]
    return scores / TREES


def maxent_like(present: Floats, background: Floats, test: Floats, seed: int) -> Floats:
    """Down-weighted logistic regression on linear, quadratic and hinge features.

    Logistic regression of records against background sites of large weight is the Poisson process
    that Maxent fits (Fithian and Hastie 2013); Maxent itself has an L1 penalty, this one has L2.

    Args:
        present: Sites of the species `[P, D]`.
        background: Background sites `[B, D]`.
        test: Sites to predict `[T, D]`.
        seed: Not used.

    Returns:
        Scores `[T]`.
    """
    from sklearn.linear_model import LogisticRegression

    x = np.concatenate([present, background])
    low, high = x.min(0), x.max(0)
    knots = np.linspace(low, high, KNOTS)

    def features(sites: Floats) -> Floats:
        z = np.clip(sites, low, high)
        span = np.where(high > low, high - low, 1.0)
        rising = [np.clip((z - knot) / span, 0, 1) for knot in knots[:-1]]
        falling = [np.clip((knot - z) / span, 0, 1) for knot in knots[1:]]
        return np.concatenate([z, z**2, *rising, *falling], axis=1)

    made = features(x)
    mean, size = made.mean(0), made.std(0)
    size[size == 0] = 1.0
    y = np.repeat([1, 0], [len(present), len(background)])
    weights = np.where(y == 1, 1.0, BACKGROUND_WEIGHT)
    model = LogisticRegression(C=STRENGTH, max_iter=500, solver="newton-cholesky")
    model.fit((made - mean) / size, y, sample_weight=weights)
    return np.asarray(model.decision_function((features(test) - mean) / size))


BASELINES: dict[str, Callable[[Floats, Floats, Floats, int], Floats]] = {
    "forest": forest,
    "maxent-like": maxent_like,
}
