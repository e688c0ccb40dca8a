"""A whole comparison: choose settings, train every seed, summarise the rows.

It consists of entries: a method on a data set in a mode, which becomes one row of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

from plusone.autorecipe import Composed, remarks
from plusone.compare.jobs import (
    Job,
    JobResult,
    Runner,
    Settings,
    composed,
    facts_about,
    make_jobs,
    maybe_features,
    rate_grid,
)
from plusone.compare.protocol import data_warnings, shared_settings
from plusone.compare.rows import Summary, mean_score, summarise, with_search
from plusone.compare.search import tune_by_optuna
from plusone.compare.spec import BenchSpec, DataSpec, merge_settings, settings_of_row
from plusone.data.source import EMBEDDED, Source, make_source
from plusone.errors import InputError, RunError
from plusone.methods import METHODS, get_method
from plusone.recipe import Recipe

IMAGE_MODES = ("finetune", "linear_init")
MOST_EXTENSIONS = 3  # rates that are added where one at the edge is best
RULES = {
    "default": "nothing was searched: the defaults, with the settings given",
    "rules": "what is not given is chosen by rules that look at the data; of several learning "
    "rates, the one with the best validation score, mean over the seeds",
    "rates": "the learning rate with the best validation score, mean over the seeds",
    "rate": "the learning rate with the best validation score with the first seed",
    "grid": "by validation score with the first seed: the learning rate with default options, then "
    "the options at that rate, from the grid of the method",
    "optuna": "by validation score with the first seed: the best of the {trials} trials of "
    "Optuna's TPE that finished first, the first one with the defaults",
}


@dataclass(frozen=True)
class Bench:
    """A finished comparison; `remarks` has sentences about each data set."""

    results: tuple[JobResult, ...]
    summary: Summary
    rule: str
    remarks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def run_bench(
    spec: BenchSpec,
    folder: Path,
    run: Runner,
    on_remark: Callable[[str], None] = lambda text: None,
) -> Bench:
    """Runs a comparison; Optuna keeps its studies in the folder, or in the database of the spec.

    `on_remark` is called with each remark on the data before anything is trained, and with warnings
    about the observed labels when they were drawn.
    """
    entries = make_entries(spec)
    grids = [entry.rates(spec.lr) for entry in entries]
    for entry, grid in zip(entries, grids, strict=True):
        entry.jobs(grid, spec.seeds)  # refuses wrong settings before anything is trained
    by_source = remarks_on(entries)
    for source, remarks_of in by_source.items():
        for sentence in remarks_of:
            on_remark(f"{source.name}: {sentence}")
    trained: dict[str, tuple[Job, JobResult]] = {}

    def run_and_record(jobs: Sequence[Job]) -> list[JobResult]:
        new = [job for job in jobs if job.key not in trained]
        for job, result in zip(new, run(new) if new else [], strict=True):
            trained[job.key] = job, result
        return [trained[job.key][1] for job in jobs]

    if spec.tune:
        grids = [[chosen] for chosen in _tune(spec, entries, grids, folder, run_and_record)]
    else:
        grids = search_rates(entries, grids, spec.seeds, run_and_record, extend=spec.extend)
    pairs = zip(entries, grids, strict=True)
    final = run_and_record([job for entry, grid in pairs for job in entry.jobs(grid, spec.seeds)])
    names = data_names(entries, [*trained.values()])
    named = {
        key: result.model_copy(update={"data": names[job.source]})
        for key, (job, result) in trained.items()
    }
    rows = with_search(
        summarise(named[result.key] for result in final), named.values(), spec.protocol
    )
    found = data_warnings([*named.values()])
    for data, sentences in found.items():
        for sentence in sentences:
            on_remark(f"{data}: warning: {sentence}")
    remarks = {
        names[source]: (*sentences, *found.get(names[source], ()))
        for source, sentences in by_source.items()
    }
    return Bench(tuple(named.values()), rows, rule_of(spec), remarks)


def rule_of(spec: BenchSpec) -> str:
    """The rule by which a comparison chooses settings."""
    if spec.tune:
        return RULES[spec.search].format(trials=spec.trials)
    return RULES["rates" if len(spec.lr) > 1 else "rules" if spec.rules else "default"]


@dataclass(frozen=True)
class Entry:
    """A method on a data set in a mode: one row of a table."""

    source: Source
    method: str
    settings: Settings
    data: str | None = None
    rules: bool = False
    draws: bool = False
    equal: bool = False

    @property
    def mode(self) -> str:
        """The mode that was asked for; auto if none was."""
        return str(self.settings.get("mode", Recipe.model_fields["mode"].default))

    @property
    def options(self) -> Settings:
        """Options of the method that the user gave."""
        return dict(self.settings.get("options", {}))

    @property
    def on_features(self) -> bool:
        """Whether only a head is trained, decided without reading images."""
        recipe = self._composed({}).recipe
        if recipe.mode == "auto" and not recipe.stages:
            if self.source.features or self.source.data == "digits-features":
                return True
            return maybe_features(self.source) and not _has_images(self.source)
        return recipe.mode == "linear"

    def rates(self, listed: Sequence[float]) -> list[Settings]:
        """Settings with each learning rate to try, unless the entry has one of its own.

        Without a list they are those that `plusone train` tries where a rule chooses the rate. In a
        comparison of equals these are tried around the default of every other method as well.
        """
        if "lr" in self.settings:
            return [{}]
        if listed or not self.rules or not self.on_features:
            return rate_grid(listed or (None,), self.method)
        from plusone.training.rates import MOST_ITEMS, rates_around

        made, info = self._composed({}), get_method(self.method)
        chosen = "lr" in made.chosen and (self.equal or info.alone is None)
        facts = facts_about(self.source, made.recipe.val_share)
        by_default = self.equal and "lr" in info.defaults
        if info.closed_form or facts.items > MOST_ITEMS or not (chosen or by_default):
            return [{}]
        return rate_grid(rates_around(made.recipe.lr), self.method)

    def jobs(self, grid: Sequence[Settings], seeds: Sequence[int]) -> list[Job]:
        """The runs with each of some settings and seeds."""
        grids = {self.method: grid}
        return make_jobs(
            self.source,
            [self.method],
            seeds,
            grids,
            self.settings,
            rules=self.rules,
            draws=self.draws,
        )

    def remarks(self) -> tuple[str, ...]:
        """What `plusone train` says of the data."""
        if self.source.data in EMBEDDED or not (self.rules or maybe_features(self.source)):
            return ()
        made = self._composed({})
        settings = {**self.settings, **made.recipe.model_dump(exclude_defaults=True)}
        facts = facts_about(self.source, made.recipe.val_share)
        return (*facts.notes, *remarks(facts, settings))

    def _composed(self, tried: Settings) -> Composed:
        return composed(self.source, self.settings, {"method": self.method}, tried, self.rules)


def remarks_on(entries: Sequence[Entry]) -> dict[Source, tuple[str, ...]]:
    """The remarks on each data set, each once."""
    found: dict[Source, dict[str, None]] = {}
    for entry in entries:
        sentences = found.setdefault(entry.source, {})
        sentences.update(dict.fromkeys(entry.remarks()))
    return {source: tuple(sentences) for source, sentences in found.items()}


def make_entries(spec: BenchSpec) -> list[Entry]:
    """The entries of a comparison; unknown data or methods and impossible modes are refused.

    Later settings take precedence: those of the spec, of the data set, of the method, then the
    mode.
    """
    methods = list(METHODS) if "all" in spec.methods else list(spec.methods)
    for name in (*methods, *spec.method):
        get_method(name)
    entries = []
    sources: set[Source] = set()
    for block in spec.data:
        source = make_source(
            block.path,
            [Path(path) for path in block.features],
            block.format,
            block.labels,
            None if block.hints is None else Path(block.hints),
            classes=None if block.classes is None else Path(block.classes),
        )
        if source in sources:
            raise InputError(
                f"{block.path}: is listed twice; plusone sweep compares settings on one data set"
            )
        sources.add(source)
        _check_modes(spec, block, source)
        for mode in spec.modes or (None,):
            for name in methods:
                shared = merge_settings(spec.settings, block.settings)
                own = spec.method.get(name, {})
                settings = merge_settings(settings_of_row(shared, name), own)
                settings |= {} if mode is None else {"mode": mode}
                equal = spec.protocol == "papers"
                entry = Entry(source, name, settings, block.name, spec.rules, spec.draws, equal)
                if "all" not in spec.methods or _suits(entry, hinted=block.hints is not None):
                    entries.append(entry)
    return [_with_shared(spec, entry, methods) for entry in entries]


def _with_shared(spec: BenchSpec, entry: Entry, methods: Sequence[str]) -> Entry:
    """An entry with the settings that the protocol gives all rows, below its own."""
    shared = shared_settings(spec.protocol, methods, on_features=entry.on_features)
    return replace(entry, settings=merge_settings(shared, entry.settings))


def _suits(entry: Entry, *, hinted: bool) -> bool:
    """Whether the data has what the method needs."""
    info = get_method(entry.method)
    if info.inputs == "any":
        return hinted or not info.needs_hints
    images = entry.source.data == "digits" or _has_images(entry.source)
    mode = entry.mode if entry.mode != "auto" else ("finetune" if images else "linear")
    first = "images" if mode == "finetune" else "features"
    return info.trains_on((first, "images") if mode in IMAGE_MODES else (first,))


def _check_modes(spec: BenchSpec, block: DataSpec, source: Source) -> None:
    """Refuses modes that need images where there are none, before anything is trained."""
    image_modes = [mode for mode in spec.modes if mode in IMAGE_MODES]
    if not image_modes or source.data == "digits":
        return
    if source.features or source.data == "digits-features" or not _has_images(source):
        raise InputError(
            f"{block.path}: has features but no images, so the mode {image_modes[0]} cannot be "
            "used; leave it out of --modes, or compare this data by itself"
        )


@lru_cache(maxsize=64)
def _has_images(source: Source) -> bool:
    features = source.load().features
    return features is None or features.ndim == 4


def option_grid(method: str, chosen: Settings, given: Settings) -> list[Settings]:
    """The chosen settings, and the same with each of the method's alternative options."""
    grid = get_method(method).grid
    others = [dict(options) for options in grid if not options.keys() & given.keys()]
    return [chosen, *(chosen | {"options": options} for options in others)]


def search_rates(
    entries: Sequence[Entry],
    grids: Sequence[Sequence[Settings]],
    seeds: Sequence[int],
    run: Runner,
    *,
    extend: bool,
) -> list[list[Settings]]:
    """The settings of each entry that were tried, the best first.

    Where the best learning rate is the lowest or the highest, a further one is tried: as far beyond
    it as its neighbour is before it. A run beyond the grid that fails ends the search there.
    """
    tried = [list(grid) for grid in grids]

    def jobs_of(grids: Mapping[int, Sequence[Settings]]) -> list[Job]:
        return [job for place, grid in grids.items() for job in entries[place].jobs(grid, seeds)]

    def best_first(place: int) -> list[Settings]:
        results = iter(run(jobs_of({place: tried[place]})))
        scores = [mean_score(list(islice(results, len(seeds)))) for _ in tried[place]]
        order = sorted(range(len(scores)), key=lambda number: -scores[number])
        return [tried[place][number] for number in order]

    run(jobs_of(dict(enumerate(tried))))
    growing = [place for place, grid in enumerate(tried) if extend and len(grid) > 1]
    for _ in range(MOST_EXTENSIONS):
        beyond_edge = {place: beyond(best_first(place)) for place in growing}
        new = {place: [settings] for place, settings in beyond_edge.items() if settings}
        with suppress(RunError):  # all at once; one that failed is found below
            run(jobs_of(new))
        growing = []
        for place, grid in new.items():
            with suppress(RunError):
                run(jobs_of({place: grid}))
                tried[place] += grid
                growing.append(place)
    return [best_first(place) for place in range(len(tried))]


def beyond(grid: Sequence[Settings]) -> Settings | None:
    """The settings with the next learning rate, if the first of a grid has one at its edge.

    >>> beyond([{"lr": 0.003}, {"lr": 0.001}]), beyond([{"lr": 1.0}, {"lr": 0.1}, {"lr": 3.0}])
    ({'lr': 0.009}, None)
    """
    rates = sorted(float(settings["lr"]) for settings in grid)
    rate = float(grid[0]["lr"])
    if rate not in (rates[0], rates[-1]):
        return None
    neighbour = rates[1] if rate == rates[0] else rates[-2]
    return dict(grid[0]) | {"lr": float(f"{rate * rate / neighbour:.0e}")}


def tune_by_grid(
    entries: Sequence[Entry],
    grids: Sequence[Sequence[Settings]],
    seed: int,
    run: Runner,
    *,
    options: bool = True,
    extend: bool = True,
) -> list[Settings]:
    """The chosen settings of each entry: the learning rate, then the options."""
    chosen = [tried[0] for tried in search_rates(entries, grids, [seed], run, extend=extend)]
    if not options:
        return chosen
    grids = [
        option_grid(entry.method, rate, entry.options)
        for entry, rate in zip(entries, chosen, strict=True)
    ]
    return [tried[0] for tried in search_rates(entries, grids, [seed], run, extend=False)]


def _tune(
    spec: BenchSpec,
    entries: Sequence[Entry],
    grids: Sequence[Sequence[Settings]],
    folder: Path,
    run: Runner,
) -> list[Settings]:
    if spec.search != "optuna":
        options = spec.search == "grid"
        first = spec.seeds[0]
        return tune_by_grid(entries, grids, first, run, options=options, extend=spec.extend)
    return tune_by_optuna(
        entries,
        spec.lr,
        spec.seeds[0],
        run,
        trials=spec.trials,
        folder=folder,
        storage=spec.storage,
        workers=spec.workers,
    )


def data_names(
    entries: Sequence[Entry], trained: Sequence[tuple[Job, JobResult]]
) -> dict[Source, str]:
    """The name of each data set, given by the user or its reader; equal names are numbered."""
    given = {entry.source: entry.data for entry in entries}
    names: dict[Source, str] = {}
    for job, result in trained:
        if job.source in names:
            continue
        name = given.get(job.source) or result.data
        same = sum(other == name or other.startswith(f"{name} (") for other in names.values())
        names[job.source] = f"{name} ({same + 1})" if same else name
    return names
