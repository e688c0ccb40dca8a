"""How well k and class priors are known: from single positives alone, and from an audit.

    python benchmarks/priors.py DATA --ucmerced-features FILE --keep FOLDER [--out FILE]

DATA holds VOCdevkit, voc2012_features, ucmerced and mulan. Three Markdown tables are printed:

1. estimates from single positives (protocol cole2021, linear models on features): k and the mean
   absolute error of the class priors, for each estimator;
2. audits of 20, 50 and 100 items: how often the 95 % interval holds the truth, and its width;
3. what the estimated k costs EPR, ROLE and LASD in test mAP against the true one.

Finished parts stay in FOLDER as JSON, and a stopped run goes on with the others.

The estimators to compare with take out-of-sample scores. As in positive-unlabelled learning, `best
bin` and `mixture` look at each class by itself: items it was seen on are positives, all others are
unlabelled. If a share e of the items the class applies to was seen, its prior is seen share / e.

- `best bin`: the items with the highest scores are all taken as positive, so that e is the share of
  them that was seen (Elkan and Noto 2008); too high where they are not;
- `mixture`: scores of all items are a mixture of those of the seen positives and of the rest; the
  prior is the largest share of the first that fits below the whole; too high where scores do not
  separate;
- `perplexity`: exp of the entropy of the pick model: with certain labels, q is 1 / |Y| on each of
  them; too high, because doubt counts as labels;
- `largest`: 1 / max q of the pick model; the same, less so.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from plusone.closed_form import seen_label_scores, usable_rows
from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.data.source import load_source
from plusone.inputs.task import make_task, split_and_observe
from plusone.io.files import write_json, write_text
from plusone.probabilities import from_audit, from_single_positives
from plusone.probabilities.picks import pick
from plusone.recipe import Recipe
from plusone.training.closed_fit import fit_for
from plusone.training.summary import summarise

NAMES = ("voc", "ucmerced", "yeast", "emotions", "corel5k", "bibtex", "digits-features")
AUDITS, DRAWS = (20, 50, 100), 500
TRAINED = {"voc": 1e-4, "ucmerced": 1e-3}
METHODS = ("epr", "role", "lasd")

Floats = npt.NDArray[np.float64]
POOLED = 20.0  # weight of the estimate over all classes together, in items
BINS = 20


def best_bin(scores: Floats, label: npt.NDArray[np.int64]) -> Floats:
    """Priors by the highest scores of each class, shrunk to the estimate over all classes.

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
    """Priors by matching score distributions: the largest share of positives that fits.

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
    """Class priors and k by an estimator in `ESTIMATORS`, clipped to the possible range."""
    seen = np.bincount(label, minlength=picks.shape[1]) / len(label)
    priors = np.clip(ESTIMATORS[name](picks, label), seen, 1.0)
    return priors, float(priors.sum())


def load(name: str, data: Path, features: Path | None) -> Dataset:
    """One of the data sets."""
    if name == "digits-features":
        return load_source(name)
    if name == "voc":
        return load_source(str(data / "VOCdevkit"), features=[data / "voc2012_features"])
    if name == "ucmerced":
        if features is None:
            raise SystemExit("--ucmerced-features FILE: see plusone features")
        return load_source(str(data / "ucmerced" / "labels.csv"), features=[features])
    return load_source(str(data / "mulan" / f"{name}.npz"))


def training_items(dataset: Dataset) -> tuple[torch.Tensor, LabelMatrix, LabelMatrix]:
    """Features, single positives and truth of all items but the test items."""
    table = split_and_observe(dataset.table, Recipe())
    rows = np.sort(np.concatenate([table.rows_of("train"), table.rows_of("val")]))
    taken = table.take(rows)
    assert dataset.features is not None
    assert taken.truth is not None
    usable = usable_rows(taken.labels)
    x = torch.from_numpy(np.asarray(dataset.features[rows[usable]], dtype=np.float32))
    return x, taken.labels.take(usable), taken.truth.take(usable)


def estimates(dataset: Dataset) -> dict[str, Any]:
    """The k and the error of the priors by each estimator."""
    x, seen, truth = training_items(dataset)
    label = pick(seen.dense()).label
    picks = seen_label_scores(x, seen)
    true = truth.per_class(1) / len(truth)
    found = from_single_positives(picks, seen)
    rows = {"default": (found.priors, found.k)}
    rows |= {name: estimate(name, picks, label.numpy()) for name in ESTIMATORS}
    return {
        "items": len(truth), "classes": truth.n_classes, "k": float(true.sum()),
        "low": found.low, "high": found.high,
        "found": {
            name: {"k": k, "error": float(np.abs(priors - true).mean())}
            for name, (priors, k) in rows.items()
        },
    }  # fmt: skip


def audits(dataset: Dataset) -> dict[str, Any]:
    """Coverage and width of the intervals of audits of random items."""
    truth = dataset.table.truth
    assert truth is not None
    truth = truth.take(np.flatnonzero(truth.per_item(1) > 0))
    k, priors = truth.per_item(1).mean(), truth.per_class(1) / len(truth)
    rng, found = np.random.default_rng(0), {}
    for size in AUDITS:
        drawn = [from_audit(truth.take(rng.permutation(len(truth))[:size])) for _ in range(DRAWS)]
        inside = [entry.low <= k <= entry.high for entry in drawn]
        classes = [
            np.mean((entry.prior_low <= priors) & (priors <= entry.prior_high)) for entry in drawn
        ]
        found[str(size)] = {
            "coverage": float(np.mean(inside)),
            "width": float(np.mean([entry.high - entry.low for entry in drawn])),
            "class_coverage": float(np.mean(classes)),
            "class_width": float(np.mean([e.prior_high - e.prior_low for e in drawn])),
        }
    return {"k": float(k), "audits": found}


def cost(dataset: Dataset, lr: float) -> dict[str, Any]:
    """Test mAP with the true and with the estimated k."""
    rows: dict[str, Any] = {}
    for method in METHODS:
        for given in ("truth", "estimate"):
            recipe = Recipe(method=method, lr=lr, expected_positives=given, probe="off")
            training = fit_for(make_task(dataset, recipe), recipe)
            for _ in training.epochs():
                pass
            found = summarise(training, None, 0.0).to_json()
            rows.setdefault(method, {})[given] = {"k": found["k"], "test": found["test_map"]}
    return rows


def kept(folder: Path | None, name: str, make: Callable[[], Any]) -> Any:
    """A part, computed once."""
    if folder is None:
        return make()
    path = folder / f"{name}.json"
    if not path.exists():
        write_json(path, make())
    return json.loads(path.read_text(encoding="utf-8"))


def estimates_table(found: dict[str, Any]) -> Iterator[str]:
    names = ["default", *ESTIMATORS]
    yield "| data | true k | " + " | ".join(names) + " | range |"
    yield "| --- |" + " ---: |" * (len(names) + 2)
    for data, row in found.items():
        cells = [f"{row['found'][n]['k']:.2f} ({row['found'][n]['error']:.3f})" for n in names]
        ends = f"{row['low']:.2f} to {row['high']:.2f}"
        yield f"| {data} | {row['k']:.2f} | " + " | ".join(cells) + f" | {ends} |"
    means = []
    for name in names:
        off = [abs(row["found"][name]["k"] / row["k"] - 1) for row in found.values()]
        wrong = np.mean([row["found"][name]["error"] for row in found.values()])
        means.append(f"{100 * np.mean(off):.0f} % ({wrong:.3f})")
    yield "| mean error | | " + " | ".join(means) + " | |"


def audits_table(found: dict[str, Any]) -> Iterator[str]:
    yield "| data | k | " + " | ".join(f"{size} items" for size in AUDITS) + " |"
    yield "| --- |" + " ---: |" * (len(AUDITS) + 1)
    for data, row in found.items():
        cells = []
        for size in AUDITS:
            entry = row["audits"][str(size)]
            cells.append(
                f"{100 * entry['coverage']:.0f} %, {entry['width']:.2f}; classes "
                f"{100 * entry['class_coverage']:.0f} %, {entry['class_width']:.2f}"
            )
        yield f"| {data} | {row['k']:.2f} | " + " | ".join(cells) + " |"


def cost_table(found: dict[str, Any]) -> Iterator[str]:
    yield "| data | method | true k | mAP | estimated k | mAP | difference |"
    yield "| --- | --- |" + " ---: |" * 5
    for data, methods in found.items():
        for method, row in methods.items():
            one, other = row["truth"], row["estimate"]
            yield (
                f"| {data} | {method} | {one['k']:.2f} | {100 * one['test']:.2f} | "
                f"{other['k']:.2f} | {100 * other['test']:.2f} | "
                f"{100 * (other['test'] - one['test']):+.2f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--names", nargs="+", default=list(NAMES), choices=NAMES)
    parser.add_argument("--keep", type=Path, help="folder for finished parts")
    parser.add_argument("--out", type=Path, help="Markdown file; standard output by default")
    args = parser.parse_args()
    torch.set_num_threads(1)
    parts: dict[str, dict[str, Any]] = {"estimates": {}, "audits": {}, "cost": {}}
    for name in args.names:
        dataset = load(name, args.data, args.ucmerced_features)
        work: dict[str, Callable[[], Any]] = {
            "estimates": lambda data=dataset: estimates(data),
            "audits": lambda data=dataset: audits(data),
        }
        if name in TRAINED:
            work["cost"] = lambda data=dataset, lr=TRAINED[name]: cost(data, lr)
        for part, make in work.items():
            parts[part][name] = kept(args.keep, f"{part}-{name}", make)
    text = "\n\n".join(
        "\n".join(lines)
        for lines in (
            estimates_table(parts["estimates"]),
            audits_table(parts["audits"]),
            cost_table(parts["cost"]),
        )
    )
    if args.out:
        write_text(args.out, text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
