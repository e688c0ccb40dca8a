"""Choosing settings by Optuna, on one machine or on several that share a database.

The rule, by validation score with the first seed: for each method, data set and mode a study of N
finished trials; a trial draws a learning rate and options from `plusone.bench.spaces`, the first
one has the defaults. The best of the N trials that finished first is chosen, so that all machines
choose the same; it is trained with all seeds, and only it is reported.

Trials that were killed do not count. Where a database is shared, trials that run elsewhere count
while they give signs of life: nobody begins more than N, and who has none left to begin waits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plusone.bench.choice import choice_score
from plusone.bench.entries import Entry
from plusone.bench.spaces import RATE, Choice, Range, space_of
from plusone.bench.study_storage import alive, import_optuna, open_storage, quiet, said_plainly
from plusone.bench.tuning import Runner
from plusone.errors import InputError
from plusone.methods import get_method
from plusone.version import __version__

Settings = dict[str, Any]
PAUSE = 1.0  # seconds between two looks at trials that run elsewhere
DEFAULTS = "defaults"  # marks the trial that tries them
GIVEN = "give "  # whether an option has a value, where its default is none


@dataclasses.dataclass(frozen=True)
class _Study:
    """A study of one entry."""

    entry: Entry
    study: Any
    space: dict[str, Range | Choice]
    shared: bool

    def live(self) -> list[Any]:
        """Trials that are finished or, as far as is known, run: in the order of their numbers."""
        states = ("COMPLETE", "RUNNING")
        found = self.study.get_trials(deepcopy=False)
        return sorted((t for t in found if t.state.name in states), key=lambda t: t.number)

    def finished(self) -> list[Any]:
        """Finished trials, in order of finishing."""
        done = [
            trial
            for trial in self.study.get_trials(deepcopy=False)
            if trial.state.name == "COMPLETE"
        ]
        return sorted(done, key=lambda trial: (trial.datetime_complete, trial.number))


def tune_by_optuna(
    entries: Sequence[Entry],
    rates: Sequence[float],
    seed: int,
    run: Runner,
    *,
    trials: int,
    folder: Path,
    storage: str | None = None,
    workers: int = 1,
) -> list[Settings]:
    """The chosen settings of each entry.

    Args:
        entries: What to tune.
        rates: Learning rates to choose from; none = any within `plusone.bench.spaces.RATE`.
        seed: The seed to choose with.
        run: Trains jobs and returns their results in order.
        trials: Finished trials of each study.
        folder: Where the journal of the studies is kept.
        storage: The address of a database to keep them in instead.
        workers: How many trainings run at a time.
    """
    optuna = import_optuna()
    with quiet(optuna), said_plainly(storage):
        kept = open_storage(optuna, folder, storage)
        studies = [_begin(optuna, kept, entry, rates, seed, storage) for entry in entries]
        if len({study.study.study_name for study in studies}) < len(studies):
            raise InputError("two data sets have the same name and size; give them a name each")
        if storage is None:  # trials of an earlier call; the journal of trainings has them all
            before = [(s, _settings_of(s, trial)) for s in studies for trial in s.finished()]
            if before:
                run([job for study, tried in before for job in study.entry.jobs([tried], [seed])])
        while open_studies := [study for study in studies if len(study.finished()) < trials]:
            each = max(1, workers // len(open_studies))
            asked = [
                (study, *new)
                for study in open_studies
                for _ in range(each)
                if (new := _ask(optuna, study, trials)) is not None
            ]
            if asked:
                _try(optuna, kept, asked, seed, run, shared=storage is not None)
            else:
                time.sleep(PAUSE)
        return [_chosen(study, trials) for study in studies]


def _try(
    optuna: Any,
    storage: Any,
    asked: Sequence[tuple[_Study, Any, Settings]],
    seed: int,
    run: Runner,
    *,
    shared: bool,
) -> None:
    """Trains what trials ask for and tells their scores."""
    told = 0
    try:
        with alive(storage, [trial for _, trial, _ in asked], shared=shared):
            results = run(
                [job for study, _, tried in asked for job in study.entry.jobs([tried], [seed])]
            )
            for (study, trial, _), result in zip(asked, results, strict=True):
                study.study.tell(trial, choice_score(result), skip_if_finished=True)
                told += 1
    finally:
        for study, trial, _ in asked[told:] if shared else ():  # so that nobody waits for them
            _give_up(optuna, study, trial)


def _begin(
    optuna: Any,
    storage: Any,
    entry: Entry,
    rates: Sequence[float],
    seed: int,
    address: str | None,
) -> _Study:
    """Opens the study of an entry, which may have begun before or elsewhere."""
    space = dict(space_of(entry.method, entry.options))
    rate = Choice(tuple(rates)) if rates else RATE
    if "lr" not in entry.settings:
        space = {"lr": rate} | space
    study = optuna.create_study(
        study_name=_name(entry, space, seed),
        storage=storage,
        direction="maximize",
        load_if_exists=True,
    )
    found = _Study(entry, study, space, shared=address is not None)
    for trial in () if found.shared else study.get_trials(deepcopy=False):
        if trial.state.name == "RUNNING":  # it was killed: the journal is this process's alone
            _give_up(optuna, found, trial.number)
    return found


def _name(entry: Entry, space: Settings, seed: int) -> str:
    """The same for the same search on every machine: no paths, no times of change."""
    given = sorted((name, repr(value)) for name, value in entry.settings.items())
    paths = [Path(name) for name in (entry.source.data, *entry.source.features)]
    files = [(path.name, path.stat().st_size if path.is_file() else None) for path in paths]
    about = (
        __version__,
        entry.data,
        files,
        entry.source.format,
        entry.source.labels,
        given,
        sorted(space.items()),
        seed,
    )
    digest = hashlib.sha256(repr(about).encode()).hexdigest()[:10]
    return f"{entry.source.name}-{entry.method}-{entry.mode}-{digest}"


def _defaults(entry: Entry, space: Settings) -> Settings:
    """The trial that stands for the defaults."""
    recipe = entry.jobs([{}], [0])[0].recipe
    options = _option_defaults(entry.method)
    values: Settings = {}
    for name, area in space.items():
        value = recipe.lr if name == "lr" else options[name]
        if value is None:
            values[GIVEN + name] = False
        elif (value in area.values) if isinstance(area, Choice) else area.low <= value <= area.high:
            values[name] = value
    return values


def _ask(optuna: Any, study: _Study, trials: int) -> tuple[Any, Settings] | None:
    """A new trial and the settings it tries; None if enough of them are finished or run."""
    if study.shared:
        optuna.storages.fail_stale_trials(study.study)
    if len(study.live()) >= trials:
        return None
    trial = study.study.ask()
    before = [other for other in study.live() if other.number < trial.number]
    if study.shared and len(before) >= trials:  # others asked at the same moment and came first
        _give_up(optuna, study, trial)
        return None
    seed = int(
        hashlib.sha256(f"{study.study.study_name} {trial.number}".encode()).hexdigest()[:8], 16
    )
    sampler: Any = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    if not any(_may_have_defaults(other) for other in before):
        trial.set_user_attr(DEFAULTS, True)
        sampler = optuna.samplers.PartialFixedSampler(_defaults(study.entry, study.space), sampler)
    study.study.sampler = sampler
    defaults = _option_defaults(study.entry.method)
    drawn: Settings = {}
    for name, area in study.space.items():
        none = defaults.get(name, area) is None
        if none and not trial.suggest_categorical(GIVEN + name, [False, True]):
            continue
        if isinstance(area, Choice):
            drawn[name] = trial.suggest_categorical(name, list(area.values))
        else:
            drawn[name] = trial.suggest_float(name, area.low, area.high, log=area.log)
    return trial, _settings(study.entry.method, drawn)


def _may_have_defaults(trial: Any) -> bool:
    """Whether a trial tries the defaults, or has yet to say what it tries."""
    return DEFAULTS in trial.user_attrs or (trial.state.name == "RUNNING" and not trial.params)


def _give_up(optuna: Any, study: _Study, trial: Any) -> None:
    """Ends a trial without a score."""
    with contextlib.suppress(Exception):  # the database may be what is broken
        study.study.tell(trial, state=optuna.trial.TrialState.FAIL, skip_if_finished=True)


def _chosen(study: _Study, trials: int) -> Settings:
    """The settings of the best of the trials that finished first; of equals the earliest."""
    best = max(study.finished()[:trials], key=lambda trial: (trial.value, -trial.number))
    return _settings_of(study, best)


def _settings_of(study: _Study, trial: Any) -> Settings:
    """The settings that a trial tried."""
    params = {name: value for name, value in trial.params.items() if not name.startswith(GIVEN)}
    return _settings(study.entry.method, params)


def _settings(method: str, drawn: Settings) -> Settings:
    """Recipe settings from what was drawn; options that are the defaults are left out."""
    defaults = _option_defaults(method)
    options = {name: value for name, value in drawn.items() if name != "lr"}
    options = {name: value for name, value in options.items() if value != defaults[name]}
    settings = {"lr": drawn["lr"]} if "lr" in drawn else {}
    return settings | ({"options": options} if options else {})


def _option_defaults(method: str) -> Settings:
    return {field.name: field.default for field in dataclasses.fields(get_method(method).options)}
