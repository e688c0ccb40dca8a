"""Optuna: studies of N finished trials, the same choice everywhere, going on after a stop."""

from __future__ import annotations

import re
import sys
import threading
from dataclasses import fields
from pathlib import Path

import pytest

from plusone.compare.bench import Entry
from plusone.compare.jobs import JobResult
from plusone.compare.search import RATE, tune_by_optuna
from plusone.data.source import Source
from plusone.errors import InputError
from plusone.extras import install_command
from plusone.methods import METHODS, Choice, Range

SOURCE = Source("digits-features")


def within(value, area):
    return value in area.values if isinstance(area, Choice) else area.low <= value <= area.high


def test_every_space_fits_its_method():
    for name, info in METHODS.items():
        space, defaults = info.search_space, {f.name: f.default for f in fields(info.options)}
        assert bool(space) == bool(info.grid), name
        for option, area in space.items():
            assert defaults[option] is None or within(defaults[option], area), (name, option)
            ends = area.values if isinstance(area, Choice) else (area.low, area.high)
            for value in ends:
                info.make_options({option: value})
            assert not isinstance(area, Range) or area.low < area.high
        for options in info.grid:
            assert all(within(value, space[option]) for option, value in options.items()), name
    assert within(1e-3, RATE)


@pytest.fixture
def tune(tmp_path):
    """Searches with trainings that like lr 1e-3 and alpha 0.2; counts them."""
    pytest.importorskip("optuna")
    trained, journal = [], set()

    def score(recipe):
        from math import log10

        bonus = -abs(recipe.options.get("alpha", 0.1) - 0.2)
        return 0.9 - 0.1 * abs(log10(recipe.lr) + 3) + bonus

    def search(entries=None, *, trials=8, rates=(), folder=tmp_path, stop_after=None, **rest):
        def run(jobs):
            new = [job for job in jobs if (folder, job.key) not in journal]
            if stop_after is not None and len(trained) + len(new) > stop_after:
                raise KeyboardInterrupt
            journal.update((folder, job.key) for job in new)
            trained.extend((job.recipe.method, job.recipe.lr, job.recipe.options) for job in new)
            return [JobResult.model_construct(val_map=score(job.recipe)) for job in jobs]

        entries = entries or [Entry(SOURCE, "em", {})]
        return tune_by_optuna(entries, rates, 0, run, trials=trials, folder=folder, **rest)

    search.trained = trained
    search.score = score
    return search


def test_the_first_trial_has_the_defaults_and_the_best_is_chosen(tune):
    (chosen,) = tune()
    assert len(tune.trained) == 8
    assert tune.trained[0] == ("em", 1e-3, {})
    best = max(
        tune.trained, key=lambda job: tune.score(type("R", (), {"lr": job[1], "options": job[2]}))
    )
    assert (chosen["lr"], chosen.get("options", {})) == best[1:]
    assert len({lr for _, lr, _ in tune.trained}) == 8
    assert all(within(lr, RATE) for _, lr, _ in tune.trained)


def test_the_same_search_makes_the_same_trials(tune, tmp_path):
    first = tune(folder=tmp_path / "a")
    trained = list(tune.trained)
    tune.trained.clear()
    assert tune(folder=tmp_path / "b") == first
    assert tune.trained == trained


def test_a_stopped_search_goes_on_and_killed_trials_do_not_count(tune):
    with pytest.raises(KeyboardInterrupt):
        tune(stop_after=3)
    assert len(tune.trained) == 3
    chosen = tune()
    assert len(tune.trained) == 8
    assert len({lr for _, lr, _ in tune.trained}) == 8, "a trial was tried twice"
    assert tune() == chosen
    assert len(tune.trained) == 8
    tune(trials=10)
    assert len(tune.trained) == 10


def test_defaults_that_were_killed_are_tried_again(tune):
    with pytest.raises(KeyboardInterrupt):
        tune(stop_after=0)
    tune(trials=2)
    assert tune.trained[0] == ("em", 1e-3, {})
    assert len(tune.trained) == 2


def test_one_study_per_entry_and_options_given_are_not_searched(tune):
    entries = [
        Entry(SOURCE, "em", {"options": {"alpha": 0.3}}),
        Entry(SOURCE, "an", {"lr": 1e-2}),
        Entry(SOURCE, "wan", {}),
    ]
    chosen = tune(entries, trials=4, workers=2)
    assert len(tune.trained) == 4 + 1 + 4  # an has nothing to choose: one training
    assert "options" not in chosen[0]
    assert chosen[1] == {}
    assert {lr for method, lr, _ in tune.trained if method == "an"} == {1e-2}
    wan = [options for method, _, options in tune.trained if method == "wan"]
    assert wan[0] == {}
    assert {len(options) for options in wan} <= {0, 1}


def test_given_rates_are_the_only_ones(tune):
    tune(rates=(1e-2, 1e-3), trials=6)
    assert {lr for _, lr, _ in tune.trained} == {1e-2, 1e-3}


def test_a_database_and_several_searchers(tune, tmp_path):
    pytest.importorskip("sqlalchemy")
    url = f"sqlite:///{tmp_path / 'studies.db'}"
    chosen = []
    tune(trials=1, folder=tmp_path / "0", storage=url)  # the tables exist before two use them
    workers = [
        threading.Thread(
            target=lambda number: chosen.extend(
                tune(trials=9, folder=tmp_path / str(number), storage=url)
            ),
            args=(number,),
        )
        for number in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(chosen) == 2
    assert chosen[0] == chosen[1]
    assert 9 <= len(tune.trained) <= 10
    assert not (tmp_path / "optuna.journal").exists()


def test_a_storage_that_cannot_be(tune):
    with pytest.raises(InputError, match=r"^--storage nonsense: cannot be used \("):
        tune(storage="nonsense")


def test_without_optuna_the_sentence_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=re.escape(install_command("tune"))):
        tune_by_optuna([Entry(SOURCE, "em", {})], (), 0, list, trials=1, folder=tmp_path)


def test_a_cut_off_journal_and_a_lock_left_behind(tune, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = tune(trials=3, folder=Path("op"))
    journal = tmp_path / "op" / "optuna.journal"
    whole = journal.read_bytes()
    journal.write_bytes(whole + whole[:20])
    assert tune(trials=3, folder=Path("op")) == first
    assert journal.read_bytes().startswith(whole)
    journal.write_text("not a journal\n")
    with pytest.raises(InputError, match=r"optuna\.journal: cannot be read; delete it"):
        tune(trials=3, folder=Path("op"))


def test_data_of_the_same_name_has_a_study_of_its_own(tune, tmp_path):
    entries = []
    for place, size in (("a", 10), ("b", 20)):
        (tmp_path / place).mkdir()
        (tmp_path / place / "data.npz").write_bytes(b"x" * size)
        entries.append(Entry(Source(str(tmp_path / place / "data.npz")), "em", {}))
    tune(entries, trials=2)
    assert len(tune.trained) == 4
    (tmp_path / "b" / "data.npz").write_bytes(b"x" * 10)
    with pytest.raises(InputError, match="the same name and size"):
        tune(entries, trials=2)


def test_a_password_is_not_shown(tune):
    with pytest.raises(InputError) as error:
        tune(storage="nonsense://me:secret@host/db")
    assert "secret" not in str(error.value)
