"""What is promised and what is true, over draws of items, and of labels as people may pick them.

    python benchmarks/promises.py DATA --ucmerced-features FILE --keep FOLDER [--out FILE]

DATA holds VOCdevkit, voc2012_features and mulan. A draw takes some items of a data set, and one
label of each as seen, picked by a scheme of benchmarks/picks.py. Scores, k and saliences are those
of `recovery` as `plusone suggest` has them. Four Markdown tables are printed, each over all draws
of a data set and size, and over all draws of a scheme:

1. labels that are accepted at 90 %, without an audit, with 100 items audited at random, and with
   60, 100 and 200 items drawn where they tell most: in how many draws some are accepted, how many,
   their true precision, in how many of these draws it reaches 90 %, the mean lower bound, and in
   how many of the draws with a bound it holds. Rows with MAPIE, if it is installed: a threshold of
   the probabilities without an audit, chosen on the same random audit by its
   BinaryClassificationController with 90 % confidence, with its default thresholds and correction
   ("default"), and with the list of thresholds of `predict --precision`, one after the other
   ("sequence");
2. k: the truth, the estimate, its range, and how often the range holds the truth;
3. the calibration error of the probabilities of unobserved labels, and their mean over the truth,
   without an audit and with 100 items;
4. precision of the first suggestions (a tenth, a quarter and half as many as labels are missing),
   by raw scores and by probabilities.

Finished draws stay in FOLDER as JSON lines, and a stopped run goes on with the others.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from picks import SCHEMES, picked
from priors import load

from plusone.closed_form.folds import fold_of
from plusone.closed_form.gamma import SAMPLED, best_kernel
from plusone.closed_form.kernel import KernelMap, n_landmarks
from plusone.closed_form.recover import with_test
from plusone.closed_form.ridge import Ridge
from plusone.data.matrix import LabelMatrix
from plusone.io.files import write_text
from plusone.methods import get_method
from plusone.metrics.calibration_error import expected_calibration_error
from plusone.probabilities import LabelsPerItem
from plusone.probabilities.accept import accept
from plusone.probabilities.answers import Answers
from plusone.probabilities.drawing import draw_audit
from plusone.probabilities.guarantees import Labels, fixed_list
from plusone.probabilities.unseen_labels import Calibrated, calibrate
from plusone.types import TrainLabels

NAMES = ("voc", "ucmerced", "yeast", "emotions", "digits-features")
SIZES = (300, 500, 1500, 5000)
AUDITS = ("none", "random 100", "drawn 60", "drawn 100", "drawn 200")
MAPIE = ("random 100, MAPIE default", "random 100, MAPIE sequence")
TARGET = 0.9
FIRST = (0.1, 0.25, 0.5)  # suggestions, as a share of the missing labels


@dataclass(frozen=True)
class Scored:
    """One draw: all labels, seen labels, out-of-sample scores `[n, L]` each, and the estimate."""

    truth: np.ndarray
    states: np.ndarray
    scores: np.ndarray
    estimate: LabelsPerItem


def scored(
    x: torch.Tensor, truth: np.ndarray, states: np.ndarray, groups: np.ndarray | None = None
) -> Scored:
    """Scores of `recovery`, each by a model that has not seen the item, nor its group."""
    info, labels = get_method("recovery"), LabelMatrix.from_dense(states)
    method = info.build(TrainLabels(labels), info.options())
    with torch.no_grad():
        kernel = best_kernel(x[:SAMPLED], labels.take(np.arange(min(len(x), SAMPLED))))
        space = KernelMap(
            x.shape[1], n_landmarks(len(x), truth.shape[1]), kernel.gamma, kernel.kind
        )
        number = None if groups is None else torch.from_numpy(groups)
        ridge = Ridge(space.fit(x), groups=number, folds=fold_of(len(x), space.rank, number))
        solution = with_test(method.solve(ridge, labels))
        scores = method.probabilities(solution.left_out().double()).numpy()
    assert solution.estimate is not None
    return Scored(truth, states, scores, solution.estimate)


def answers_of(draw: Scored, rows: np.ndarray, weight: np.ndarray | None = None) -> Answers:
    """All labels of these items, but the seen ones."""
    at, label = np.nonzero(draw.states[rows] == 0)
    own = None if weight is None else weight[at]
    return Answers(rows[at], label, draw.truth[rows[at], label], rows, weight=own)


def precision(order: np.ndarray, draw: Scored, share: float) -> float:
    """Share of right ones among the first unobserved labels, by decreasing values."""
    unknown = draw.states == 0
    number = max(int(share * (draw.truth & unknown).sum()), 1)
    values = np.where(unknown, order, -np.inf).ravel()
    return float(draw.truth.ravel()[np.argsort(-values, kind="stable")[:number]].mean())


def mapie_threshold(p: np.ndarray, yes: np.ndarray, thresholds: np.ndarray | None) -> float | None:
    """The probability from which MAPIE would accept labels; None if there is none.

    Args:
        p: Probabilities of audited labels, `[m]`; the answers are not used for them.
        yes: The answers, `[m]`.
        thresholds: What to test, one after the other; None for MAPIE's defaults.
    """
    from mapie.risk_control import BinaryClassificationController

    how = {}
    if thresholds is not None:
        if not len(thresholds):
            return None
        how = {"list_predict_params": thresholds, "fwer_method": "fixed_sequence"}
    controller = BinaryClassificationController(
        lambda x: np.column_stack([1 - x[:, 0], x[:, 0]]), "precision", TARGET, 0.9, **how
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        controller.calibrate(p[:, None], yes.astype(int))
    best = controller.best_predict_param
    return None if best is None else float(best)


def by_mapie(draw: Scored, p: np.ndarray, answers: Answers) -> dict[str, Any]:
    """What MAPIE accepts after an audit, and how much of it is right."""
    unit, label = np.nonzero(draw.states == 0)
    share = len(answers.complete) / len(p)
    listed = fixed_list(Labels(p[unit, label], unit), share, TARGET)
    result = {}
    for name, thresholds in zip(MAPIE, (None, listed), strict=True):
        least = mapie_threshold(p[answers.row, answers.label], answers.yes, thresholds)
        mask = (draw.states == 0) & (p >= (np.inf if least is None else least))
        mask[answers.row, answers.label] = False
        right = int(draw.truth[mask].sum())
        result[name] = {"accepted": int(mask.sum()), "right": right, "low": None}
    return result


def one_draw(draw: Scored, seed: int) -> dict[str, Any]:
    """What is promised and true."""
    labels, k = LabelMatrix.from_dense(draw.states), draw.estimate
    truth, unknown = draw.truth, draw.states == 0
    assert k.salience is not None
    result: dict[str, Any] = {
        "items": len(truth),
        "hidden": int((truth & unknown).sum()),
        "k": [float(truth.sum(1).mean()), k.k, k.low, k.high],
        "found": k.salience.found,
    }
    blind = calibrate(draw.scores, labels, k=k)
    for name, order in (("raw", draw.scores), ("ours", blind.probabilities)):
        result[name] = [precision(order, draw, share) for share in FIRST]
    rng = np.random.default_rng([seed, len(truth)])
    for audit in AUDITS:
        found: Calibrated = blind
        if audit != "none":
            how, number = audit.split()
            if int(number) > 0.6 * len(truth):
                continue
            if how == "random":
                answers = answers_of(draw, np.sort(rng.permutation(len(truth))[: int(number)]))
            else:
                chosen = draw_audit(blind, int(number), seed)
                answers = answers_of(draw, *chosen)
            found = calibrate(draw.scores, labels, k=k, answers=answers)
            if how == "random" and find_spec("mapie") is not None:
                result |= by_mapie(draw, blind.probabilities, answers)
        made = accept(found, TARGET)
        left = unknown.copy()
        if found.checked is not None:
            left[found.checked.answers.row, found.checked.answers.label] = False
        p, right = found.probabilities[left][:, None], truth[left].astype(int)[:, None]
        result[audit] = {
            "accepted": made.count,
            "right": int(truth[made.row, made.label].sum()),
            "low": made.low,
            "ece": float(expected_calibration_error(p, right)),
            "mean": float(p.mean() / max(right.mean(), 1e-9)),
        }
    return result


def draws(name: str, size: int, scheme: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """All draws, from the file or measured."""
    path = args.keep / f"{name}-{size}-{scheme}.jsonl"
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if len(done) >= args.draws:
        return done[: args.draws]
    dataset = load(name, args.data, args.ucmerced_features)
    every = dataset.table.truth.dense() == 1
    usable = np.flatnonzero(every.any(axis=1))
    for seed in range(len(done), args.draws):
        rows = np.random.default_rng([seed, size]).permutation(usable)[:size]
        x = torch.from_numpy(np.asarray(dataset.features[rows], dtype=np.float32))
        states = picked(scheme, every[rows], seed)
        done.append(one_draw(scored(x.reshape(len(x), -1), every[rows], states), seed))
        with path.open("a") as file:
            file.write(json.dumps(done[-1]) + "\n")
    print(name, size, scheme, flush=True)
    return done


def percent(values: Iterable[float]) -> str:
    values = list(values)
    return f"{100 * float(np.mean(values)):.1f}" if values else "-"


def promised(head: str, found: list[dict[str, Any]]) -> list[str]:
    """Rows of the first table."""
    lines = []
    for audit in (*AUDITS, *MAPIE):
        runs = [(draw[audit], draw["hidden"]) for draw in found if audit in draw]
        if not runs:
            continue
        some = [run for run, _ in runs if run["accepted"]]
        shares = [run["right"] / run["accepted"] for run in some]
        bounds = [
            (run["low"], share)
            for run, share in zip(some, shares, strict=True)
            if run["low"] is not None
        ]
        kept = sum(share >= low - 1e-12 for low, share in bounds)
        lines.append(
            f"| {head} | {audit} | {len(some)} of {len(runs)} | "
            f"{np.mean([run['accepted'] for run, _ in runs]):.0f} | "
            f"{percent(run['right'] / max(hidden, 1) for run, hidden in runs)} | "
            f"{percent(shares)} | "
            f"{f'{sum(share >= TARGET for share in shares)} of {len(some)}' if some else '-'} | "
            f"{percent(low for low, _ in bounds)} | "
            f"{f'{kept} of {len(bounds)}' if bounds else '-'} |"
        )
    return lines


def estimated(head: str, found: list[dict[str, Any]]) -> list[str]:
    """A row of the second table."""
    true, k, low, high = np.array([draw["k"] for draw in found]).T
    held = int(((low <= true + 1e-9) & (true <= high + 1e-9)).sum())
    return [
        f"| {head} | {true.mean():.2f} | {k.mean():.2f} | "
        f"{100 * np.abs(k / true - 1).mean():.0f} % | {low.mean():.2f} to {high.mean():.2f} | "
        f"{held} of {len(found)} | "
        f"{sum(draw['found'] for draw in found)} of {len(found)} |"
    ]


def calibrated(head: str, found: list[dict[str, Any]]) -> list[str]:
    """A row of the third table."""
    cells = []
    for audit in ("none", "random 100", "drawn 100"):
        runs = [draw[audit] for draw in found if audit in draw]
        if not runs:
            cells.append("- | -")
            continue
        errors, means = ([run[name] for run in runs] for name in ("ece", "mean"))
        near = sum(0.8 <= mean <= 1.2 for mean in means)
        cells.append(f"{np.mean(errors):.3f} ({max(errors):.3f}) | {near} of {len(runs)}")
    return [f"| {head} | {' | '.join(cells)} |"]


def ranked(head: str, found: list[dict[str, Any]]) -> list[str]:
    """A row of the fourth table."""
    means = [np.mean([draw[name] for draw in found], axis=0) for name in ("raw", "ours")]
    cells = [" / ".join(f"{100 * value:.1f}" for value in mean) for mean in means]
    return [f"| {head} | {' | '.join(cells)} |"]


Rows = Callable[[str, list[dict[str, Any]]], list[str]]
TABLES: tuple[tuple[tuple[str, ...], Rows], ...] = (
    (
        ("audited", "draws with accepted labels", "accepted", "missing labels found",
         "true precision", "target met", "lower bound", "bound true"),
        promised,
    ),
    (
        ("true k", "estimate", "error", "range", "range holds k", "picks found not random"),
        estimated,
    ),
    (
        ("ece, no audit: mean (worst)", "mean within 20 %", "random 100", "mean within 20 %",
         "drawn 100", "mean within 20 %"),
        calibrated,
    ),
    (("raw scores", "probabilities"), ranked),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the data sets")
    parser.add_argument("--ucmerced-features", type=Path)
    parser.add_argument("--names", nargs="+", default=list(NAMES))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--schemes", nargs="+", default=list(SCHEMES), choices=SCHEMES)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--keep", type=Path, default=Path("results/promises"))
    parser.add_argument("--out", type=Path, help="file for the tables")
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.keep.mkdir(parents=True, exist_ok=True)
    found = {
        (name, size, scheme): draws(name, size, scheme, args)
        for size in args.sizes
        for name in args.names
        for scheme in args.schemes
    }
    sets = {f"{name}, {size}": (name, size) for name, size, _ in found}
    parts: dict[str, list[dict[str, Any]]] = {
        head: [draw for key, own in found.items() if key[:2] == pair for draw in own]
        for head, pair in sets.items()
    }
    for scheme in args.schemes:
        parts[scheme] = [draw for key, own in found.items() if key[2] == scheme for draw in own]
    parts["all"] = [draw for own in found.values() for draw in own]
    lines = []
    for columns, rows in TABLES:
        lines += [f"| draws | {' | '.join(columns)} |", "| --- |" + " ---: |" * len(columns)]
        lines += [line for head, own in parts.items() for line in rows(head, own)] + [""]
    text = "\n".join(lines)
    print(text)
    if args.out is not None:
        write_text(args.out, text)


if __name__ == "__main__":
    main()
