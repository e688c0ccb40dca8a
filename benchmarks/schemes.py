"""How much each method depends on which of its positives an item's annotator names.

    python benchmarks/schemes.py DATA --ucmerced FEATURES.npz --out FOLDER [--sets yeast voc]

DATA holds mulan/yeast.npz, ucmerced/labels.csv, VOCdevkit and voc2012_features. FEATURES.npz comes
from `plusone features DATA/ucmerced/labels.csv --out FEATURES.npz`. Linear training on features
with one positive per item, 25 epochs, batch 64, k from the truth and each method's default options.
For each set, scheme and method the learning rate is chosen on validation items of the first draw of
labels; the figure is the test mAP, mean over three draws. `recovery` learns how readily each class
is named; "recovery, picks uniform" is the same without (`--picks uniform`).

No boxes are at hand, so preferences are simulated. A generator with seed 0 gives each class a
weight exp(z), z standard normal, which the last three schemes share:

| scheme | which positive of an item is picked |
| --- | --- |
| uniform | any (`single`) |
| frequent | in proportion to its class's share of the items (`frequent(1)`) |
| rare | in inverse proportion to it (`frequent(-1)`) |
| dominant | the one of largest area: its class's weight times exp(e), e normal for each label |
| size | in proportion to its area |
| named | in proportion to its class's weight, as `named` does with weights from a file |

`FOLDER/journal.jsonl` has a line for each finished training, and the same command goes on after
them. `FOLDER/table.md` is the table, which is also printed; `--table` makes it of the methods and
schemes that are complete, and trains nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev

import numpy as np

from plusone.compare.bench import Entry, tune_by_grid
from plusone.compare.jobs import Job, JobResult, read_journal, run_jobs
from plusone.compare.results_table import markdown
from plusone.data.dataset import Dataset
from plusone.data.formats import write
from plusone.data.matrix import LabelMatrix
from plusone.data.observation import Biased, Frequent, Scheme, Single, observe_table
from plusone.data.source import Source
from plusone.io.files import write_text

UNIFORM = "recovery, picks uniform"  # without learning how readily each class is named
METHODS = ("an", "wan", "epr", "role", "em", "gr", "lasd", "softmax", "ridge", "recovery", UNIFORM)
ALL_LABELS = "bce"  # sees everything, whatever the scheme
SCHEMES = ("uniform", "frequent", "rare", "dominant", "size", "named")
SETS = ("yeast", "ucmerced", "voc")
RATES = (1e-2, 1e-3, 1e-4)
SETTINGS = {
    "mode": "linear",
    "epochs": 25,
    "batch_size": 64,
    "expected_positives": "truth",
    "observe": "given",
}
SEEDS = (1200, 1201, 1202)  # of the draws; the first is that of the published single positives
Run = Callable[[Sequence[Job]], list[JobResult]]


def source_of(name: str, data: Path, ucmerced: Path | None) -> Source:
    """Where one of the sets is."""
    if name == "voc":
        return Source(str(data / "VOCdevkit"), (str(data / "voc2012_features"),))
    if name == "ucmerced":
        if ucmerced is None:
            raise SystemExit("UC Merced needs --ucmerced FEATURES.npz")
        return Source(str(data / "ucmerced" / "labels.csv"), (str(ucmerced),))
    return Source(str(data / "mulan" / f"{name}.npz"))


def scheme_of(name: str, truth: LabelMatrix, draw: int) -> Scheme:
    """The scheme, for a set with these labels."""
    if name == "uniform":
        return Single()
    if name in ("frequent", "rare"):
        return Frequent(1.0 if name == "frequent" else -1.0)
    weights = np.exp(np.random.default_rng(0).normal(size=truth.n_classes))
    if name == "named":
        return Biased(weights)
    areas = weights * np.exp(np.random.default_rng([1, draw]).normal(size=truth.shape))
    if name == "size":
        return Biased(areas)
    largest = np.where(truth.dense() == 1, areas, 0.0).argmax(axis=1)
    return Biased(np.eye(truth.n_classes)[largest])


def observed(name: str, scheme: str, source: Source, folder: Path) -> list[Source]:
    """Files with the seen labels of each draw; they are written if they are missing."""
    sources, data = [], None
    for draw, seed in enumerate(SEEDS):
        path = folder / f"{name}-{scheme}-{draw}.npz"
        if not path.exists():
            data = data or source.load()
            truth = data.table.truth
            assert truth is not None
            table = observe_table(data.table, scheme_of(scheme, truth, draw), seed)
            table = replace(table, root=None, observation={"scheme": scheme, "seed": seed})
            write(Dataset(table, None if source.features else data.features), path)
        sources.append(Source(str(path), source.features))
    return sources


def entry_of(source: Source, name: str) -> Entry:
    """A row of the table on one draw."""
    if name == UNIFORM:
        return Entry(source, "recovery", SETTINGS | {"picks": "uniform"})
    return Entry(source, name, SETTINGS | ({"observe": "all"} if name == ALL_LABELS else {}))


def measured(sources: Sequence[Source], methods: Sequence[str], run: Run) -> list[list[float]]:
    """Test mAP in per cent of each method in each draw, with settings that the first one chose."""
    draws = [[entry_of(source, name) for name in methods] for source in sources]
    chosen = tune_by_grid(draws[0], RATES, 0, run, options=False)
    jobs = [
        job
        for draw, entries in enumerate(draws)
        for entry, settings in zip(entries, chosen, strict=True)
        for job in entry.jobs([settings], [draw])
    ]
    maps = np.array([100 * result.test_map for result in run(jobs)])
    return maps.reshape(len(draws), len(methods)).T.tolist()


def finished(
    sources: Sequence[Source], method: str, done: Mapping[str, JobResult]
) -> list[float] | None:
    """What `measured` gives for a method, if all its runs are there."""
    try:
        return measured(sources, [method], lambda jobs: [done[job.key] for job in jobs])[0]
    except KeyError:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--ucmerced", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="only print what is there")
    given = parser.parse_args()
    journal = given.out / "journal.jsonl"
    given.out.mkdir(parents=True, exist_ok=True)
    sources = {
        (name, scheme): observed(
            name, scheme, source_of(name, given.data, given.ucmerced), given.out
        )
        for scheme in SCHEMES
        for name in given.sets
    }
    if not given.table:
        train = partial(run_jobs, journal=journal, workers=given.workers)
        for (name, scheme), draws in sources.items():
            known = [ALL_LABELS] if scheme == "uniform" else []
            measured(draws, [*known, *given.methods], train)
            print(f"{name}: {scheme}", flush=True)
    done = {result.key: result for result in read_journal(journal)}
    rows = []
    for name in given.sets:
        for method in (ALL_LABELS, *METHODS):
            maps = [finished(sources[name, scheme], method, done) for scheme in SCHEMES]
            means = [fmean(each) if each else np.nan for each in maps]
            cells = [f"{fmean(each):.2f} ± {stdev(each):.2f}" if each else "-" for each in maps]
            loss = means[0] - np.min(means[1:])  # NaN unless all schemes are there
            if any(maps):
                rows.append([name, method, *cells, "-" if np.isnan(loss) else f"{loss:.2f}"])
    table = markdown(("set", "method", *SCHEMES, "largest loss"), rows)
    write_text(given.out / "table.md", table)
    print(table)


if __name__ == "__main__":
    main()
