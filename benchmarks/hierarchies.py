"""What a hierarchy of classes is worth: projections, thresholds, labels per item, siblings.

    python benchmarks/hierarchies.py DATA --out hierarchies.json

DATA is the folder with VOCdevkit, voc2012_features and mulan/yeast.npz. VOC (800 training and 2,000
test items, Lite0 features) gets a hierarchy by sense, of three levels; the classes of yeast are
grouped by how they occur together in the training items (Ward), into six groups and three. One of
the most specific labels of each item is seen. Every method learns the closed labels, by a step size
that is given; its calibrated probabilities are then compared before and after projections, and so
are tags. `leaves` learns the classes of the data alone: a class above is there unless all below it
are absent. Siblings: 150 training items of VOC, log-odds of a class plus n0 / (n0 + n) times those
of its parent, n its seen positives. What is in the file already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from plusone.closed_form.estimates import k_from_features
from plusone.data.classes_file import with_parents
from plusone.data.dataset import Dataset
from plusone.data.hierarchy import Hierarchy
from plusone.data.observation import observe_table
from plusone.data.source import load_source
from plusone.io.files import write_json
from plusone.metrics import average_precision, mean_by_level
from plusone.probabilities.consistent import as_predicted, consistent_array
from plusone.probabilities.log_odds import log_odds
from plusone.probabilities.thresholds import find_thresholds
from plusone.training.api import Fitted, fit

METHODS = ("recovery", "an", "em", "gr")
SETTINGS: dict[str, Any] = {"epochs": 15, "lr": 1e-3}
VOC = {
    "animal": "bird mammal",
    "mammal": "cat cow dog horse sheep",
    "vehicle": "aeroplane boat on land",
    "on land": "bicycle bus car motorbike train",
    "indoor": "bottle furniture pottedplant tvmonitor",
    "furniture": "chair diningtable sofa",
}
NEAR = (1.0, 3.0, 10.0)  # n0
DRAWS = 4
BINS = ((1, 2), (3, 5), (6, 10), (11, None))

Floats = npt.NDArray[np.float64]


def voc(data: Path, items: int) -> Dataset:
    """Some items of VOC with a hierarchy."""
    whole = load_source(str(data / "VOCdevkit"), features=[data / "voc2012_features"])
    splits = np.asarray(whole.table.split)
    draw = np.random.default_rng(0).permutation
    train = np.sort(draw(np.flatnonzero(splits == "train"))[:items])
    test = np.sort(draw(np.flatnonzero(splits != "train"))[:2000])
    rows = np.concatenate([train, test])
    split = np.repeat(["train", "test"], [len(train), len(test)])
    assert isinstance(whole.features, np.ndarray)
    x = whole.features[rows].astype(np.float32)
    names = [*whole.table.classes, *VOC]
    parents = {child: up for up, text in VOC.items() for child in _names(text, names)}
    table = replace(whole.table.take(rows), split=split)
    return Dataset(with_parents(table, dict.fromkeys(VOC, "") | parents), x, "voc")


def _names(text: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if f" {name} " in f" {text} "]


def yeast(data: Path) -> Dataset:
    """Yeast with groups of classes."""
    from scipy.cluster.hierarchy import fcluster, linkage

    whole = load_source(str(data / "mulan" / "yeast.npz"))
    table = whole.table
    assert table.truth is not None
    together = np.corrcoef(table.truth.dense(table.rows_of("train")).T)
    tree = linkage(together, "ward")
    parents: dict[str, str] = {}
    groups = (fcluster(tree, count, "maxclust").tolist() for count in (6, 3))
    for name, small, large in zip(table.classes, *groups, strict=True):
        parents |= {
            name: f"group {small}",
            f"group {small}": f"large {large}",
            f"large {large}": "",
        }
    return replace(whole, table=with_parents(table, parents))


def downwards(p: Floats, tree: Hierarchy) -> Floats:
    """The smallest of a class and those above it."""
    out = p.copy()
    for label in np.argsort(tree.level, kind="stable").tolist():
        if (up := tree.parent[label]) is not None:
            out[:, label] = np.minimum(out[:, label], out[:, up])
    return out


def middle(p: Floats, tree: Hierarchy) -> Floats:
    """The mean of both: the smallest largest change (isotonic regression in the maximum norm)."""
    return (consistent_array(p, tree) + downwards(p, tree)) / 2


def any_below(p: Floats, tree: Hierarchy) -> Floats:
    """A class with classes below it is there unless all of them are absent."""
    out = p.copy()
    for label in np.argsort(-tree.level, kind="stable").tolist():
        below = [one for one, up in enumerate(tree.parent) if up == label]
        if below:
            out[:, label] = 1 - np.prod(1 - out[:, below], axis=1)
    return out


def figures(p: Floats, truth: npt.NDArray[np.bool_], tree: Hierarchy) -> dict[str, Any]:
    """MAP of the classes of the data and of those above, by level, and Brier score."""
    states = torch.from_numpy(truth.astype(np.int8) * 2 - 1)
    ap = average_precision(torch.from_numpy(p), states).numpy()
    above = np.isin(np.arange(len(ap)), [up for up in tree.parent if up is not None])
    wrong = [p[:, one] > p[:, up] + 1e-9 for one, up in enumerate(tree.parent) if up is not None]
    return {
        "leaves": float(np.nanmean(ap[~above])),
        "above": float(np.nanmean(ap[above])),
        "levels": mean_by_level(ap, tree.level),
        "brier": float(np.square(p - truth).mean()),
        "violations": float(np.mean(wrong)),
    }


def f1(tags: npt.NDArray[np.bool_], truth: npt.NDArray[np.bool_]) -> float:
    """Mean F1 over classes."""
    right = (tags & truth).sum(axis=0)
    return float(np.mean(2 * right / np.maximum(tags.sum(axis=0) + truth.sum(axis=0), 1)))


def tags_of(fitted: Fitted, p: Floats, truth: npt.NDArray[np.bool_]) -> dict[str, float]:
    """F1 of tags by thresholds of each class alone, and of those that agree with the hierarchy."""
    tree, held_out = fitted.training.task.hierarchy, fitted.training.held_out()
    assert tree is not None
    scores = as_predicted(held_out.log_odds, fitted.calibration, tree)
    alone = find_thresholds(replace(held_out, log_odds=scores), fitted.calibration).array
    raised = alone.copy()
    for label in np.argsort(tree.level, kind="stable").tolist():
        if (up := tree.parent[label]) is not None:
            raised[label] = max(raised[label], raised[up])
    tags = p > alone
    pairs = [(one, up) for one, up in enumerate(tree.parent) if up is not None]
    return {
        "alone": f1(tags, truth),
        "parents lowered": f1(p > fitted.thresholds.array, truth),
        "children raised": f1(p > raised, truth),
        "tags closed": f1(consistent_array(tags.astype(np.float64), tree) > 0, truth),
        "items with a tag without its parent": float(
            np.any([tags[:, one] & ~tags[:, up] for one, up in pairs], axis=0).mean()
        ),
    }


def compared(data: Dataset, method: str) -> dict[str, Any]:
    """One method on one data set."""
    table, tree = data.table, data.table.hierarchy
    assert tree is not None
    assert table.truth is not None
    assert data.features is not None
    test = table.rows_of("test")
    truth, settings = table.truth.dense(test) == 1, {} if method == "recovery" else SETTINGS
    seen = replace(observe_table(table, "single"), truth=None)
    fitted = fit(replace(data, table=seen), method, **settings)
    alone = replace(fitted.predictor, hierarchy=None)
    p = fitted._predict(alone, data.features[test]).astype(np.float64)
    found: dict[str, Any] = {
        name: figures(change(p, tree), truth, tree)
        for name, change in {
            "none": lambda p, tree: p,
            "upwards": consistent_array,
            "downwards": downwards,
            "middle": middle,
        }.items()
    }
    found["tags"] = tags_of(fitted, consistent_array(p, tree), truth)
    bottom = np.isin(np.arange(len(tree.parent)), tree.parent, invert=True)
    names = [name for name, kept in zip(table.classes, bottom, strict=True) if kept]
    named = tree.most_specific(seen.labels)
    few = replace(seen, labels=named, hierarchy=None).with_classes(names)
    p = np.zeros(truth.shape)
    p[:, bottom] = fit(replace(data, table=few), method, **settings).predict(data.features[test])
    found["leaves"] = figures(any_below(p, tree), truth, tree)
    return found


def labels_per_item(data: Dataset) -> dict[str, float]:
    """Labels per item: estimated from closed labels, from what was named, and true."""
    table, tree = data.table, data.table.hierarchy
    assert table.truth is not None
    rows = table.rows_of("train")
    seen = observe_table(table, "single").labels.take(rows)
    x = torch.from_numpy(np.asarray(data.features)[rows].astype(np.float32))
    return {
        "all seen labels as picks": k_from_features(x, seen).k,
        "named": k_from_features(x, seen, hierarchy=tree).k,
        "true": float(table.truth.take(rows).per_item(1).mean()),
    }


def siblings(data: Dataset) -> dict[str, Any]:
    """AP of classes by their seen positives, with some of the log-odds of their parents."""
    table, tree = data.table, data.table.hierarchy
    assert tree is not None
    assert table.truth is not None
    assert data.features is not None
    test = table.rows_of("test")
    truth = torch.from_numpy(table.truth.dense(test))
    rows: dict[str, list[list[float]]] = {}
    for draw in range(DRAWS):
        few = observe_table(table, "single", draw)
        fitted = fit(replace(data, table=replace(few, truth=None)), "recovery")
        p = fitted._predict(replace(fitted.predictor, hierarchy=None), data.features[test])
        z = log_odds(p.astype(np.float64))
        n = few.labels.take(table.rows_of("train")).per_class(1)
        for near in (0.0, *NEAR):
            weight = near / np.maximum(near + n, 1)
            parent = [label if up is None else up for label, up in enumerate(tree.parent)]
            own = torch.from_numpy(
                z + weight * np.where(parent == np.arange(len(n)), 0, z[:, parent])
            )
            ap = average_precision(own, truth).numpy()
            for low, high in BINS:
                chosen = (n >= low) & (n <= (high or n.max())) & (tree.level > 1)
                key = f"n0 = {near:g}, {low} to {high or 'more'} seen"
                rows.setdefault(key, []).append([float(ap[chosen].sum()), int(chosen.sum())])
    total = {key: np.sum(each, axis=0) for key, each in rows.items()}
    return {key: {"ap": float(a / max(n, 1)), "classes": int(n)} for key, (a, n) in total.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, and writes after every step what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    known: dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {}
    sets = {"yeast": yeast(given.data), "voc": voc(given.data, 800)}
    steps: dict[str, Callable[[], dict[str, Any]]] = {
        f"k {name}": partial(labels_per_item, data) for name, data in sets.items()
    }
    steps |= {
        f"{name} {method}": partial(compared, data, method)
        for name, data in sets.items()
        for method in METHODS
    }
    steps["siblings voc"] = lambda: siblings(voc(given.data, 150))
    for name, step in steps.items():
        if name not in known:
            known[name] = step()
            write_json(given.out, known)
        print(name, json.dumps(known[name], indent=1), flush=True)


if __name__ == "__main__":
    main()
