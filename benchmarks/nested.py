"""Constants of recovery chosen by seen labels of other data sets, beside the default.

    python benchmarks/nested.py DATA --ucmerced-features FILE --out DIR

Variants of `recovery` differ in the number of rounds, the step length and the penalty. Each is
scored on the seen labels of VOC, UC Merced, yeast and digits, three draws of them (`weighted_auc`,
the default score of `plusone choose`), by predictions of five folds that it was not fitted on. For
each data set that variant is chosen which has the best mean rank on the three others, and, for
comparison, the one with the best score on its own seen labels. Test labels are looked at only
then: for the chosen variants and the default, once for each draw.

All learn from the seen labels of training and validation items, in the kernel head: of 1,680 items
drawn at random where there are more, which is what UC Merced has. The kernel's width is chosen by
seen labels as always, once for all folds. Finished parts are kept in DIR, so several processes can
share the work (`--sets` names the data sets of which scores are made); the tables are in
DIR/nested.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from defaults import part_of
from recovery import SEEDS, settings, sources

from plusone.closed_form.folds import fold_of
from plusone.closed_form.ridge import Ridge, Solution, seen_label_regression
from plusone.compare.results_table import markdown
from plusone.data.dataset import Dataset
from plusone.data.matrix import LabelMatrix
from plusone.inputs.task import make_task
from plusone.io.files import write_json, write_text
from plusone.methods import get_method
from plusone.metrics import mean_average_precision
from plusone.metrics.seen_labels import weighted_auc
from plusone.training.closed_fit import fit_for
from plusone.types import TrainLabels

SETS = ("yeast", "ucmerced", "digits", "voc")
ITEMS = 1680
INFO = get_method("recovery")
# Rounds, whether steps have the length of Fisher scoring, and the penalty over that of least
# leave-one-out error. Without a round there is no step.
Variant = tuple[int, bool, float]
VARIANTS: tuple[Variant, ...] = tuple(
    (rounds, scoring, factor)
    for rounds in (0, 1, 2, 5, 8)
    for scoring in (True, False)
    for factor in (1.0, 0.5)
    if rounds or scoring
)
DEFAULT: Variant = (INFO.options().rounds, INFO.options().scoring, 1.0)  # type: ignore[attr-defined]


def name_of(variant: Variant) -> str:
    """A variant in words."""
    rounds, scoring, factor = variant
    steps = "" if not rounds else ", Fisher steps" if scoring else ", steps of length one"
    many = "1 round" if rounds == 1 else f"{rounds} rounds"
    return f"{many}{steps}" + (", half the penalty" if factor != 1 else "")


def solutions(ridge: Ridge, observed: LabelMatrix, variants: list[Variant]) -> list[Solution]:
    """Solutions of variants for labels `[n, L]`."""
    penalty = seen_label_regression(ridge, observed).penalty
    solved = []
    for rounds, scoring, factor in variants:
        options = {"rounds": rounds, "scoring": scoring, "penalty": factor * penalty}
        method = INFO.build(TrainLabels(observed), INFO.make_options(options))
        solved.append(method.solve(ridge, observed))
    return solved


class Draw:
    """One draw of the seen labels of a data set, in its kernel.

    Args:
        dataset: The data set.
        seed: Of the draw.
    """

    def __init__(self, dataset: Dataset, seed: int) -> None:
        recipe = settings("recovery", seed, select_on="observed")
        more = len(dataset.table) - len(dataset.table.rows_of("test")) > ITEMS
        part = part_of(dataset, ITEMS, seed) if more else dataset
        assert part is not None
        self.task = make_task(part, recipe)
        self.training = fit_for(self.task, recipe)
        self.training.inputs.enter_space()
        assert self.training.inputs.space is not None
        self.vectors = self.training.inputs.space.vectors
        self.observed = LabelMatrix.concatenate([self.task.train.observed, self.task.val.observed])

    def seen_scores(self) -> list[float]:
        """Scores of all variants on the seen labels, by predictions of folds."""
        ridge = Ridge(self.vectors, folds=fold_of(len(self.vectors), self.vectors.width))
        seen = torch.from_numpy(self.observed.dense())
        solved = solutions(ridge, self.observed, list(VARIANTS))
        return [weighted_auc(each.left_out(), seen) for each in solved]

    def test_maps(self, variants: list[Variant]) -> list[float]:
        """Test mAP of variants in per cent."""
        assert self.training.inputs.space is not None
        assert self.task.test is not None
        assert self.task.test.truth is not None
        x, truth = (
            self.training.inputs.space.of(self.task.test.inputs).x,
            self.task.test.truth.dense(),
        )
        return [
            100 * mean_average_precision(x @ each.weight.T + each.bias, truth, empty="zero")
            for each in solutions(Ridge(self.vectors), self.observed, variants)
        ]


def kept(file: Path, make: Callable[[], list[float]]) -> list[float]:
    """A finished part, or a new one."""
    if not file.exists():
        write_json(file, {"values": make()})
        print(file.stem, flush=True)
    values: list[float] = json.loads(file.read_text(encoding="utf-8"))["values"]
    return values


def chosen(scores: dict[str, np.ndarray], sets: list[str]) -> Variant:
    """The variant with the best mean rank on some data sets; of equal ones, the first."""
    ranks = [(-scores[name]).argsort().argsort() for name in sets]
    return VARIANTS[int(np.mean(ranks, axis=0).argmin())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--ucmerced-features", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("nested"))
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    (given.out / "parts").mkdir(parents=True, exist_ok=True)
    known = sources(given.data, given.ucmerced_features)

    def measured(name: str, part: str, measure: Callable[[Draw], list[float]]) -> np.ndarray:
        """The mean over draws."""
        dataset: list[Dataset] = []  # loaded if something is to be measured

        def make(seed: int) -> list[float]:
            dataset[:] = dataset or [known[name]()]
            return measure(Draw(dataset[0], seed))

        folder = given.out / "parts"
        rows = [
            kept(folder / f"{name}-{part}-{seed}.json", lambda seed=seed: make(seed))
            for seed in SEEDS
        ]
        return np.mean(rows, axis=0)

    scores = {name: measured(name, "seen", Draw.seen_scores) for name in given.sets}
    if len(scores) < len(SETS):
        return
    lines: list[list[Any]] = []
    for name in SETS:
        nested = chosen(scores, [other for other in SETS if other != name])
        variants = [DEFAULT, nested, chosen(scores, [name])]
        maps = measured(name, "test", lambda draw, v=variants: draw.test_maps(v))
        texts = [name_of(variant) for variant in variants[1:]]
        cells = [f"{value:.2f}" for value in maps]
        lines.append([name, cells[0], cells[1], texts[0], cells[2], texts[1]])
    means = [f"{fmean(float(line[at]) for line in lines):.2f}" for at in (1, 2, 4)]
    lines.append(["mean", means[0], means[1], "", means[2], ""])
    head = [
        "test mAP",
        "default",
        "chosen on the other sets",
        "",
        "chosen on its own seen labels",
        "",
    ]
    seen = [
        [name_of(variant), *(f"{100 * scores[name][place]:.2f}" for name in SETS)]
        for place, variant in enumerate(VARIANTS)
    ]
    text = markdown(head, lines) + "\n\n" + markdown(["score on seen labels", *SETS], seen) + "\n"
    write_text(given.out / "nested.md", text)
    print(text)


if __name__ == "__main__":
    main()
