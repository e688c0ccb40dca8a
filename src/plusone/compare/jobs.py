"""Jobs: the runs of a comparison, executed in parallel processes, each done once.

Each finished job is a line of the journal; a comparison that was stopped or killed resumes with the
jobs that have no line. Jobs on features that differ only in learning rate and seed are trained as
one stack.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from plusone.autorecipe import Composed, Facts, compose, facts_of
from plusone.data.shards import named_files
from plusone.data.source import Source
from plusone.errors import RunError
from plusone.io.jsonl import append_jsonl, read_jsonl, repair_jsonl
from plusone.io.keys import content_key, file_state
from plusone.methods import get_method
from plusone.parallel.worker_pool import in_processes
from plusone.recipe import Recipe
from plusone.results import EpochRecord, RunResult
from plusone.version import __version__

if TYPE_CHECKING:
    from plusone.training.trainer import Training


Settings = dict[str, Any]
DRAWN = ("observe_seed", "split_seed")  # settings that a seed moves, where it draws the data too
ARRAY_FILES = (".npz", ".arff", ".xml", ".parquet")  # formats that contain features


@dataclass(frozen=True)
class Job:
    """One run."""

    source: Source
    recipe: Recipe
    rules: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """A hash that identifies the training."""
        options = get_method(self.recipe.method).make_options(self.recipe.options)
        # Only what differs from the defaults, so that a setting added later changes no key.
        given = sorted(self.recipe.portable.model_dump(exclude_defaults=True).items())
        files = (self.source.data, *self.source.features, self.recipe.weights)
        # Changed files are another run.
        states = [file_state(file) for name in files for file in named_files(Path(name))]
        parts: tuple[object, ...] = (__version__, self.source, states, options, given)
        if (hints := self.source.hints) is not None:
            parts += (hints, file_state(Path(hints)))
        if self.source.encoder is not None:
            parts += (self.source.encoder,)
        if (classes := self.source.classes) is not None:
            parts += (classes, file_state(Path(classes)))
        return content_key(parts)

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return f"{self.recipe.method}, seed {self.recipe.seed}, lr {self.recipe.lr:g}"


def make_jobs(
    source: Source,
    methods: Sequence[str],
    seeds: Sequence[int],
    grids: Mapping[str, Sequence[Settings]],
    settings: Settings,
    *,
    rules: bool = False,
    draws: bool = False,
) -> list[Job]:
    """One job per method, settings to try and seed; wrong settings are refused at once.

    With `draws` a seed also draws the observed labels and the validation items: seed 0 those of the
    settings, others their own.
    """
    jobs = []
    for name in methods:
        for tried in grids[name]:
            for seed in seeds:
                made = composed(source, settings, {"method": name, "seed": seed}, tried, rules)
                recipe = made.recipe
                if draws:
                    drawn = {key: getattr(recipe, key) + seed for key in DRAWN}
                    recipe = recipe.model_copy(update=drawn)
                jobs.append(Job(source, recipe, made.rules))
    return jobs


def composed(
    source: Source, settings: Settings, fixed: Settings, tried: Settings, rules: bool
) -> Composed:
    """The recipe of a run and its reasons.

    Of the settings to try, the rules see only the learning rate, so that the other settings stay
    the same whatever is tried.
    """
    facts = partial(facts_about, source) if rules else None
    rate = {key: tried[key] for key in ("lr",) if key in tried}
    return compose(facts, settings, rate, fixed, name=source.data, over=tried)


@lru_cache(maxsize=64)
def facts_about(source: Source, val_share: float) -> Facts:
    """What the rules look at, read once per data set."""
    return facts_of(source.load(), val_share)


def rate_grid(rates: Sequence[float | None], method: str) -> list[Settings]:
    """Settings with each learning rate; None is the one that the rules or the method give.

    A method with a closed form needs none, so the first stands for all.
    """
    rates = rates[:1] if get_method(method).closed_form else rates
    return [{} if rate is None else {"lr": rate} for rate in rates]


class JobResult(RunResult):
    """The result of a job; a line of the journal.

    Args:
        source: Its data; None for the result of a run folder.
        stacked: How many jobs were trained at once.
        alone: Why it was not trained together with others, where that was tried.
        broken: Number of items left out because their images cannot be read.
        images: Whether its items are images; None in journals of earlier versions.
    """

    key: str
    source: Source | None = None
    stacked: int = 1
    alone: str | None = None
    broken: int = 0
    images: bool | None = None


Runner = Callable[[Sequence[Job]], list[JobResult]]  # trains jobs, results in order


def run_jobs(
    jobs: Sequence[Job],
    journal: Path,
    *,
    workers: int = 2,
    on_done: Callable[[JobResult, bool], None] | None = None,
) -> list[JobResult]:
    """Runs the jobs that are not in the journal yet; returns the results of all, in order.

    The journal gets a line as each job finishes, so that a stopped comparison resumes. Each worker
    process computes on one thread, so that they do not compete for cores. `on_done` is called with
    each result and whether the journal already had it.
    """
    results = {result.key: result for result in read_journal(journal)}
    keys = [job.key for job in jobs]
    jobs_by_key = dict(zip(keys, jobs, strict=True))
    for key in jobs_by_key:
        if key in results and on_done is not None:
            on_done(results[key], True)
    journal.parent.mkdir(parents=True, exist_ok=True)
    repair_jsonl(journal)
    open_jobs = [job for key, job in jobs_by_key.items() if key not in results]
    waiting = deque(make_units(open_jobs, workers))
    failures: list[str] = []
    from plusone.data.feature_store import features_folder

    train = partial(run_unit, features=features_folder())
    running = in_processes(train, waiting, workers, lambda unit: unit.name)
    with closing(running):
        for outcome in running:
            if isinstance(outcome, Refused):
                waiting.extendleft(reversed(outcome.unit.one_by_one(outcome.why)))
                continue
            if isinstance(outcome, Failed):
                failures.append(outcome.message)
                continue
            if any(result.key not in jobs_by_key for result in outcome):
                raise RunError(
                    "the data, or features or hints of it, changed while the runs were trained; "
                    "run the same command again"
                )
            append_jsonl(journal, *(result.to_json() for result in outcome))
            for result in outcome:
                results[result.key] = result
                if on_done is not None:
                    on_done(result, False)
    if failures:
        raise RunError(
            f"{len(failures)} of {len(keys)} runs failed, all others are kept: "
            f"{'; '.join(failures)}"
        )
    return [results[key] for key in keys]


def read_journal(journal: Path) -> Iterator[JobResult]:
    """The results in a journal; damaged lines are skipped."""
    if not journal.exists():
        return
    for line in read_jsonl(journal, skip_damaged=True):
        with suppress(ValidationError):
            yield JobResult.model_validate(line)


@dataclass(frozen=True)
class Refused:
    """Jobs that cannot be trained as one stack, and why."""

    unit: Unit
    why: str


@dataclass(frozen=True)
class Failed:
    """A run that failed, and why."""

    message: str


def run_unit(unit: Unit, features: Path | None = None) -> list[JobResult] | Refused | Failed:
    """Trains the jobs of a unit in this process, several at once if they can be stacked."""
    if len(unit.jobs) == 1:
        try:
            result = run_job(unit.jobs[0], features)
            return [result.model_copy(update={"alone": unit.alone}) if unit.alone else result]
        except RunError as error:
            return Failed(f"{unit.name}: {error}")
    from plusone.inputs.task import make_task
    from plusone.training.stack import AloneError, train_stacked

    recipes = [job.recipe for job in unit.jobs]
    task = make_task(_load(unit.jobs[0].source), recipes[0])
    try:
        trained = train_stacked(task, recipes)
    except (AloneError, RunError) as error:  # where one failed, the others are trained one by one
        return Refused(unit, str(error))
    return [
        _result(job, training, records, len(trained))
        for job, (training, records) in zip(unit.jobs, trained, strict=True)
    ]


def run_job(job: Job, features: Path | None = None) -> JobResult:
    """Trains one job in this process."""
    from plusone.inputs.task import make_task
    from plusone.training.closed_fit import fit_for

    task = make_task(_load(job.source), job.recipe)
    training = fit_for(task, job.recipe, features=features if task.images else None)
    with closing(task.workers):
        return _result(job, training, list(training.epochs()), 1)


def _result(
    job: Job, training: Training, records: Sequence[EpochRecord], stacked: int
) -> JobResult:
    """The result of a finished training, one of `stacked` that were trained together."""
    from plusone.training.summary import summarise

    seconds = sum(record.seconds for record in records)
    result = summarise(training, None, seconds, job.rules)
    values = result.to_json() | {"key": job.key, "source": job.source, "stacked": stacked}
    dataset = _load(job.source)
    values["images"] = dataset.features is None or dataset.features.ndim == 4
    if broken := dataset.broken:
        values["broken"] = len(broken)
    return JobResult(**values, epochs=tuple(records))


_load = lru_cache(maxsize=2)(Source.load)


@dataclass(frozen=True)
class Unit:
    """Jobs for one process.

    Args:
        jobs: They differ only in the learning rate and the seed.
        alone: Why they cannot be stacked, where stacking was tried.
    """

    jobs: tuple[Job, ...]
    alone: str | None = None

    @property
    def name(self) -> str:
        """What to call it in a message."""
        first = self.jobs[0]
        if len(self.jobs) == 1:
            return first.name
        return f"{first.recipe.method}, {len(self.jobs)} runs at once"

    @property
    def seeds(self) -> list[int]:
        """The seeds of its jobs."""
        return list(dict.fromkeys(job.recipe.seed for job in self.jobs))

    def halves(self) -> list[Unit]:
        """Two units with about half of the seeds each."""
        first = self.seeds[: (len(self.seeds) + 1) // 2]
        parts = [
            [job for job in self.jobs if (job.recipe.seed in first) is half]
            for half in (True, False)
        ]
        return [Unit(tuple(part)) for part in parts]

    def one_by_one(self, why: str) -> list[Unit]:
        """A unit for each job."""
        return [Unit((job,), why) for job in self.jobs]


def make_units(jobs: Sequence[Job], workers: int) -> list[Unit]:
    """Groups jobs that differ only in the learning rate and the seed, in order of appearance.

    Image data is never grouped: its runs are long and cannot be stacked. If there are fewer
    groups than workers, the largest are halved until no worker is idle, but only between seeds: the
    learning rates of a seed are columns of one matrix product, and other columns beside one may
    change its last digits, which training at a high rate amplifies.
    """
    groups: dict[object, list[Job]] = {}
    for job in jobs:
        same = job.recipe.model_copy(update={"lr": 1.0, "seed": 0}).model_dump_json()
        key = (job.source, same) if maybe_features(job.source) else job.key
        groups.setdefault(key, []).append(job)
    units = [Unit(tuple(group)) for group in groups.values()]
    while len(units) < workers:
        largest = max(range(len(units)), key=lambda place: len(units[place].seeds), default=None)
        if largest is None or len(units[largest].seeds) == 1:
            break
        units[largest : largest + 1] = units[largest].halves()
    return units


def maybe_features(source: Source) -> bool:
    """Whether the data may be feature vectors, decided without reading it."""
    if source.features or source.data == "digits-features":
        return True
    path = Path(source.data)
    return path.suffix.lower() in ARRAY_FILES or any(path.glob("*.arff"))
