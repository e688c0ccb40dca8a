"""Choosing settings by Optuna, on one machine or on several that share a database.

The rule, by validation score with the first seed: for each method, data set and mode a study of N
finished trials; a trial draws a learning rate and options from `plusone.bench.spaces`, the first
one has the defaults. The best of the N trials that finished first is chosen, so that all machines
choose the same; it is trained with all seeds, and only it is reported.

Trials that were killed do not count; the sampler keeps away from where they were, as from trials
that still run elsewhere.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plusone.bench.choice import choice_score
from plusone.bench.entries import Entry
from plusone.bench.spaces import RATE, Choice, Range, space_of
from plusone.bench.tuning import Runner
from plusone.errors import InputError
from plusone.files import write_text
from plusone.methods import get_method
from plusone.version import __version__

Settings = dict[str, Any]
JOURNAL = "optuna.journal"
GIVEN = "give "  # whether an option has a value, where its default is none


@dataclasses.dataclass(frozen=True)
class _Study:
    """A study of one entry."""

    entry: Entry
    study: Any
    space: dict[str, Range | Choice]

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
    optuna = _optuna()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        kept = _storage(optuna, folder, storage)
        studies = [_begin(optuna, kept, entry, rates, seed) for entry in entries]
        if len({study.study.study_name for study in studies}) < len(studies):
            raise InputError("two data sets have the same name and size; give them a name each")
        if storage is None:  # trials of an earlier call; the journal of trainings has them all
            before = [(s, _settings_of(s, trial)) for s in studies for trial in s.finished()]
            if before:
                run([job for study, tried in before for job in study.entry.jobs([tried], [seed])])
        while open_studies := [study for study in studies if len(study.finished()) < trials]:
            each = max(1, workers // len(open_studies))
            asked = []
            for study in open_studies:
                for _ in range(min(each, trials - len(study.finished()))):
                    asked.append((study, *_ask(optuna, study)))
            results = run(
                [job for study, _, tried in asked for job in study.entry.jobs([tried], [seed])]
            )
            for (study, trial, _), result in zip(asked, results, strict=True):
                study.study.tell(trial, choice_score(result))
    return [_chosen(study, trials) for study in studies]


def _optuna() -> Any:
    try:
        optuna = importlib.import_module("optuna")
    except ImportError:
        raise InputError(
            "--search optuna needs Optuna, which is not installed: pip install 'plusone[tune]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _storage(optuna: Any, folder: Path, address: str | None) -> Any:
    """Where the studies are kept."""
    if address is None:
        journal = importlib.import_module("optuna.storages.journal")
        folder.mkdir(parents=True, exist_ok=True)
        path = (folder / JOURNAL).resolve()  # its lock is a link to this path
        try:
            _mend(path)
            return optuna.storages.JournalStorage(journal.JournalFileBackend(str(path)))
        except (ValueError, KeyError, AssertionError, TypeError):  # whatever stands in the file
            raise InputError(
                f"{folder / JOURNAL}: cannot be read; delete it to begin the search again"
            ) from None
    try:
        return optuna.storages.get_storage(address)
    except Exception as error:  # whatever a database has to say
        first = str(error).strip().splitlines()[0].replace(address, "it")
        place = address.rpartition("@")[2]  # without a password
        raise InputError(f"--storage {place}: cannot be used ({first})") from None


def _mend(path: Path) -> None:
    """Drops a line that a kill cut off, unless another process may be writing it now.

    Raises:
        ValueError: Another line is not JSON.
    """
    if not path.exists() or path.with_name(path.name + ".lock").is_symlink():
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        write_text(path, "".join(lines[:-1]))
        del lines[-1]
    for line in lines:
        json.loads(line)


def _begin(optuna: Any, storage: Any, entry: Entry, rates: Sequence[float], seed: int) -> _Study:
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
    states = {trial.state.name for trial in study.get_trials(deepcopy=False)}
    if not states & {"COMPLETE", "WAITING"}:  # also where the first one was killed
        study.enqueue_trial(_defaults(entry, space))
    return _Study(entry, study, space)


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


def _ask(optuna: Any, study: _Study) -> tuple[Any, Settings]:
    """A new trial and the settings it tries."""
    trial = study.study.ask()
    seed = int(
        hashlib.sha256(f"{study.study.study_name} {trial.number}".encode()).hexdigest()[:8], 16
    )
    study.study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
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
