"""Choosing settings with Optuna, on one machine or on several that share a database.

The rule, by validation score with the first seed: each method, data set and mode has a study of N
finished trials; a trial draws a learning rate and options from the method's search space, and the
first trial has the defaults. The best of the N trials that finished first is chosen, so that all
machines make the same choice; it is trained with all seeds, and only it is reported.

Trials that were killed do not count. Where a database is shared, trials that run elsewhere count
as long as they send heartbeats: at most N are started in all, and a machine that has none left to
start waits.
"""

from __future__ import annotations

import dataclasses
import importlib
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from plusone.compare.jobs import Runner, Settings
from plusone.errors import InputError, RunError, first_line
from plusone.extras import install_command
from plusone.io.jsonl import read_jsonl, repair_jsonl
from plusone.io.keys import content_key
from plusone.methods import Choice, Range, get_method
from plusone.version import __version__

if TYPE_CHECKING:
    from plusone.compare.bench import Entry

RATE = Range(1e-5, 1e-2, log=True)  # learning rates, where none are given
DEFAULTS = "defaults"  # attribute of the trial that tries the defaults
GIVEN = "give "  # prefix of a parameter: whether an option has a value, where its default is none
JOURNAL = "optuna.journal"
DATABASES = ("sqlite", "postgresql", "mysql", "mariadb")
DATABASE_MODULES = ("optuna", "sqlalchemy", "psycopg", "sqlite3", "pymysql", "MySQLdb")
POLL_SECONDS = 1.0  # between two checks of trials that run elsewhere
HEARTBEAT = 10  # seconds
GRACE = 60  # seconds without a heartbeat after which a trial counts as failed
TRIES = 5  # to open a new database, whose tables several processes may create at the same time


@dataclasses.dataclass(frozen=True)
class _Study:
    """The study of one entry; `shared` if it is in a database."""

    entry: Entry
    study: Any
    space: dict[str, Range | Choice]
    shared: bool

    def live(self) -> list[Any]:
        """Trials that are finished or seem to be running, by number."""
        trials = self.study.get_trials(deepcopy=False)
        live = (trial for trial in trials if trial.state.name in ("COMPLETE", "RUNNING"))
        return sorted(live, key=lambda trial: trial.number)

    def finished(self) -> list[Any]:
        """Finished trials, in order of finishing."""
        done = (trial for trial in self.live() if trial.state.name == "COMPLETE")
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
    """The chosen settings of each entry, after `trials` finished trials of each.

    Without `rates`, the learning rate is drawn from `RATE`. The studies are in the database at
    `storage`, or in a journal in `folder`.
    """
    optuna = import_optuna()
    with quiet(optuna), database_errors(storage):
        opened = open_storage(optuna, folder, storage)
        studies = [_open_study(optuna, opened, entry, rates, seed, storage) for entry in entries]
        if len({study.study.study_name for study in studies}) < len(studies):
            raise InputError("two data sets have the same name and size; give them a name each")
        if storage is None:  # trials of an earlier call; the journal of runs has them all
            earlier = [(s, _settings_of(s, trial)) for s in studies for trial in s.finished()]
            if earlier:
                run([job for study, tried in earlier for job in study.entry.jobs([tried], [seed])])
        while open_studies := [study for study in studies if len(study.finished()) < trials]:
            each = max(1, workers // len(open_studies))
            new_trials = [
                (study, *new)
                for study in open_studies
                for _ in range(each)
                if (new := _ask(optuna, study, trials)) is not None
            ]
            if new_trials:
                _run_trials(optuna, opened, new_trials, seed, run, shared=storage is not None)
            else:
                time.sleep(POLL_SECONDS)
        return [_chosen(study, trials) for study in studies]


def _run_trials(
    optuna: Any,
    storage: Any,
    trials: Sequence[tuple[_Study, Any, Settings]],
    seed: int,
    run: Runner,
    *,
    shared: bool,
) -> None:
    """Trains the settings of trials and reports their scores to Optuna."""
    reported = 0
    try:
        with heartbeats(storage, [trial for _, trial, _ in trials], shared=shared):
            results = run(
                [job for study, _, tried in trials for job in study.entry.jobs([tried], [seed])]
            )
            for (study, trial, _), result in zip(trials, results, strict=True):
                study.study.tell(trial, result.choice_score, skip_if_finished=True)
                reported += 1
    finally:
        for study, trial, _ in trials[reported:] if shared else ():  # other machines wait for them
            _fail(optuna, study, trial)


def _open_study(
    optuna: Any,
    storage: Any,
    entry: Entry,
    rates: Sequence[float],
    seed: int,
    address: str | None,
) -> _Study:
    """Opens the study of an entry, which an earlier call or another machine may have created."""
    rate = Choice(tuple(rates)) if rates else RATE
    whole: dict[str, Range | Choice] = {"lr": rate, **get_method(entry.method).search_space}
    given = {*entry.options, *(["lr"] if "lr" in entry.settings else [])}
    space = {name: area for name, area in whole.items() if name not in given}
    study = optuna.create_study(
        study_name=_name(entry, space, seed),
        storage=storage,
        direction="maximize",
        load_if_exists=True,
    )
    opened = _Study(entry, study, space, shared=address is not None)
    for trial in () if opened.shared else study.get_trials(deepcopy=False):
        if trial.state.name == "RUNNING":  # it was killed: no other process uses the journal
            _fail(optuna, opened, trial.number)
    return opened


def _name(entry: Entry, space: Settings, seed: int) -> str:
    """Equal for the same search on every machine: no paths, no modification times."""
    given = sorted((name, repr(value)) for name, value in entry.settings.items())
    names = (entry.source.data, *entry.source.features, entry.source.hints)
    paths = [Path(name) for name in names if name is not None]
    files = [(path.name, path.stat().st_size if path.is_file() else None) for path in paths]
    identity = (
        __version__,
        entry.data,
        files,
        entry.source.format,
        entry.source.labels,
        given,
        sorted(space.items()),
        seed,
    )
    return f"{entry.source.name}-{entry.method}-{entry.mode}-{content_key(identity, length=10)}"


def _defaults(entry: Entry, space: Settings) -> Settings:
    """The parameters of the trial that has the defaults."""
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
    """A new trial and the settings it tries; None if enough are finished or running."""
    if study.shared:
        optuna.storages.fail_stale_trials(study.study)
    if len(study.live()) >= trials:
        return None
    trial = study.study.ask()
    before = [other for other in study.live() if other.number < trial.number]
    if study.shared and len(before) >= trials:  # others asked at the same time and came first
        _fail(optuna, study, trial)
        return None
    seed = int(content_key(f"{study.study.study_name} {trial.number}", length=8), 16)
    sampler: Any = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    if not any(_may_have_defaults(other) for other in before):
        trial.set_user_attr(DEFAULTS, True)
        sampler = optuna.samplers.PartialFixedSampler(_defaults(study.entry, study.space), sampler)
    study.study.sampler = sampler
    defaults = _option_defaults(study.entry.method)
    drawn: Settings = {}
    for name, area in study.space.items():
        optional = defaults.get(name, area) is None
        if optional and not trial.suggest_categorical(GIVEN + name, [False, True]):
            continue
        if isinstance(area, Choice):
            drawn[name] = trial.suggest_categorical(name, list(area.values))
        else:
            drawn[name] = trial.suggest_float(name, area.low, area.high, log=area.log)
    return trial, _settings(study.entry.method, drawn)


def _may_have_defaults(trial: Any) -> bool:
    """Whether a trial tries the defaults, or has not recorded yet what it tries."""
    return DEFAULTS in trial.user_attrs or (trial.state.name == "RUNNING" and not trial.params)


def _fail(optuna: Any, study: _Study, trial: Any) -> None:
    """Ends a trial without a score."""
    with suppress(Exception):  # the database itself may be broken
        study.study.tell(trial, state=optuna.trial.TrialState.FAIL, skip_if_finished=True)


def _chosen(study: _Study, trials: int) -> Settings:
    """The settings of the best of the trials that finished first; the earliest of equals."""
    best = max(study.finished()[:trials], key=lambda trial: (trial.value, -trial.number))
    return _settings_of(study, best)


def _settings_of(study: _Study, trial: Any) -> Settings:
    params = {name: value for name, value in trial.params.items() if not name.startswith(GIVEN)}
    return _settings(study.entry.method, params)


def _settings(method: str, drawn: Settings) -> Settings:
    """Recipe settings from drawn parameters; options that equal the defaults are left out."""
    defaults = _option_defaults(method)
    options = {name: value for name, value in drawn.items() if name != "lr"}
    options = {name: value for name, value in options.items() if value != defaults[name]}
    settings = {"lr": drawn["lr"]} if "lr" in drawn else {}
    return settings | ({"options": options} if options else {})


def _option_defaults(method: str) -> Settings:
    return {field.name: field.default for field in dataclasses.fields(get_method(method).options)}


def import_optuna() -> Any:
    """The module optuna; an error that says how to install it if it is missing."""
    try:
        optuna = importlib.import_module("optuna")
    except ImportError:
        raise InputError(
            f"--search optuna needs Optuna, which is not installed: {install_command('tune')}"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


@contextmanager
def quiet(optuna: Any) -> Iterator[None]:
    """Silences Optuna's warnings about its experimental features."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", "Heartbeat of storage")
        yield


def open_storage(optuna: Any, folder: Path, address: str | None) -> Any:
    """Opens the storage of the studies."""
    if address is None:
        return _journal(optuna, folder)
    place = without_password(address)
    kind = address.partition(":")[0].partition("+")[0]
    if kind not in DATABASES or "://" not in address:
        known = ", ".join(f"{name}://" for name in DATABASES)
        raise InputError(f"--storage {place}: cannot be used (it must begin with one of {known})")
    for attempt in range(1, TRIES + 1):
        try:
            return optuna.storages.RDBStorage(
                address, heartbeat_interval=HEARTBEAT, grace_period=GRACE
            )
        except Exception as error:  # each database has its own errors
            # Another process may be creating the same tables.
            words = ("already exists", "duplicate", "unique", "locked")
            if attempt == TRIES or not any(word in str(error).lower() for word in words):
                raise InputError(
                    f"--storage {place}: cannot be used ({_without_password(error, address)})"
                ) from None
        time.sleep(0.2 * attempt)
    raise AssertionError("unreachable")


def without_password(address: str) -> str:
    """The address of a database for messages.

    >>> without_password("postgresql://me:secret@host:5432/db")
    'host:5432/db'
    """
    return address.rpartition("@")[2]


def _without_password(error: Exception, address: str) -> str:
    """The first line of an error's message, without the password."""
    text = first_line(error).replace(address, "it")
    try:
        secret = urlsplit(address).password or ""
    except ValueError:
        secret = ""
    for word in (secret, unquote(secret)):
        text = text.replace(word, "***") if word else text
    return text


@contextmanager
def database_errors(address: str | None) -> Iterator[None]:
    """Turns an error of the database during a search into a `RunError` of one sentence."""
    try:
        yield
    except Exception as error:
        if address is None or type(error).__module__.partition(".")[0] not in DATABASE_MODULES:
            raise
        raise RunError(
            f"--storage {without_password(address)}: stopped answering "
            f"({_without_password(error, address)}); finished runs are kept, run the same command "
            "again to continue"
        ) from None


@contextmanager
def heartbeats(storage: Any, trials: Sequence[Any], *, shared: bool) -> Iterator[None]:
    """Sends heartbeats of running trials; trials whose heartbeats stop count as failed."""
    if not shared:
        yield
        return
    stop = threading.Event()

    def beat() -> None:
        while True:
            for trial in trials:
                with suppress(Exception):  # the next may succeed; `tell` raises if none does
                    storage.record_heartbeat(trial._trial_id)
            if stop.wait(HEARTBEAT):
                return

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _journal(optuna: Any, folder: Path) -> Any:
    journal = importlib.import_module("optuna.storages.journal")
    folder.mkdir(parents=True, exist_ok=True)
    path = (folder / JOURNAL).resolve()  # its lock is a link to this path
    try:
        if path.exists() and not path.with_name(path.name + ".lock").is_symlink():
            repair_jsonl(path)  # no other process is writing its last line now
            for _ in read_jsonl(path):
                pass
        return optuna.storages.JournalStorage(journal.JournalFileBackend(str(path)))
    except (ValueError, KeyError, AssertionError, TypeError):  # depending on what the file contains
        raise InputError(
            f"{folder / JOURNAL}: cannot be read; delete it to begin the search again"
        ) from None
