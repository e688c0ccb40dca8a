"""Jobs: the journal, so that nothing is trained twice, and which jobs are trained together."""

from __future__ import annotations

import json
import os

import pytest

from plusone.compare.jobs import (
    Failed,
    Job,
    Refused,
    Unit,
    make_units,
    maybe_features,
    read_journal,
    run_jobs,
    run_unit,
)
from plusone.data.source import Source
from plusone.errors import RunError
from plusone.recipe import make_recipe

FEATURES = Source("digits-features")


@pytest.fixture
def source(arrays):
    return Source(str(arrays))


def make_jobs(source):
    return [
        Job(source, make_recipe({"method": method, "seed": seed, "epochs": 2}))
        for method in ("an", "gr", "bce")
        for seed in (0, 1)
    ]


def figures(results):
    """What a table is made of, to the rounding that trainings at once or alone may differ in."""
    return [
        pytest.approx([*entry.test_ap, entry.val_map, entry.best_epoch], abs=1e-6)
        for entry in results
    ]


def same(first, second):
    assert [entry.key for entry in first] == [entry.key for entry in second]
    return [[*e.test_ap, e.val_map, e.best_epoch] for e in first] == figures(second)


def test_data_that_changes_meanwhile_is_said(source, trained, tmp_path):
    jobs = [job for job in make_jobs(source) if job.recipe.seed == 0]

    def touch(result, held):
        os.utime(source.data, ns=(1, 1))

    with pytest.raises(RunError, match="changed while the runs were trained"):
        run_jobs(jobs, tmp_path / "journal.jsonl", on_done=touch)
    assert len([*read_journal(tmp_path / "journal.jsonl")]) == 1


def test_resume_after_losing_half_of_the_journal(source, trained, tmp_path):
    journal, jobs = tmp_path / "new" / "journal.jsonl", make_jobs(source)
    first = run_jobs(jobs, journal)
    assert [r.method for r in first] == ["an", "an", "gr", "gr", "bce", "bce"]
    assert len(trained) == 6
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[::2]))
    trained.clear()
    calls = []
    second = run_jobs(jobs, journal, on_done=lambda r, before: calls.append((r.key, before)))
    assert trained == [job.key for job in jobs[1::2]]
    assert same(second, first)
    assert sorted(key for key, _ in calls) == sorted(job.key for job in jobs)
    assert sum(before for _, before in calls) == 3
    trained.clear()
    assert run_jobs(jobs, journal) == second
    assert trained == []


@pytest.mark.parametrize("cut", [1, 20])
def test_a_cut_off_last_line(source, trained, tmp_path, cut):
    journal, jobs = tmp_path / "journal.jsonl", make_jobs(source)
    first = run_jobs(jobs, journal)
    text = journal.read_text()
    journal.write_text(text[:-cut])  # cut = 1: only the end of the line is lost
    lost = 0 if cut == 1 else 1
    assert len(list(read_journal(journal))) == 6 - lost
    trained.clear()
    assert same(run_jobs(jobs, journal), first)
    assert len(trained) == lost
    assert len(list(read_journal(journal))) == 6, "the new line was glued to the broken one"


def test_junk_in_a_journal_is_passed_over(result, tmp_path):
    journal = tmp_path / "journal.jsonl"
    assert list(read_journal(journal)) == []
    good = result()
    incomplete = {name: value for name, value in good.to_json().items() if name != "val_map"}
    junk = b'\xff\xfe\n[]\n3\n\n{}\n{"key": "k"}\n'
    lines = [json.dumps(incomplete), json.dumps(good.to_json() | {"epochs": 3}), good.to_json()]
    journal.write_bytes(junk + "\n".join([*lines[:2], json.dumps(lines[2])]).encode() + b"\n")
    assert list(read_journal(journal)) == [good]


def test_the_same_job_twice_is_trained_once(source, trained, tmp_path):
    job = make_jobs(source)[0]
    results = run_jobs([job, job], tmp_path / "journal.jsonl")
    assert len(trained) == 1
    assert results[0] == results[1]


def test_keys_tell_trainings_apart(source):
    jobs = make_jobs(source)
    assert len({job.key for job in jobs}) == len(jobs)
    assert jobs[0].key == make_jobs(source)[0].key
    other = Job(Source(source.data, labels="complete"), jobs[0].recipe)
    assert other.key != jobs[0].key
    assert jobs[0].name == "an, seed 0, lr 0.001"


def test_other_weights_in_the_same_file_are_another_training(source, tmp_path):
    weights = tmp_path / "w.safetensors"
    weights.write_bytes(b"one")
    job = Job(source, make_recipe({"method": "an", "weights": str(weights)}))
    before = job.key
    assert job.key == before
    weights.write_bytes(b"another")
    assert job.key != before


def grid_of_jobs(source, methods=("an", "gr"), seeds=(0, 1), rates=(1e-2, 1e-3)):
    return [
        Job(source, make_recipe({"method": method, "seed": seed, "lr": lr, "epochs": 2}))
        for method in methods
        for lr in rates
        for seed in seeds
    ]


def sizes(units):
    return [len(unit.jobs) for unit in units]


def test_rates_and_seeds_go_together_on_features():
    jobs = grid_of_jobs(FEATURES)
    units = make_units(jobs, 2)
    assert sizes(units) == [4, 4]
    assert [job for unit in units for job in unit.jobs] == jobs
    assert {job.recipe.method for job in units[0].jobs} == {"an"}


def test_other_settings_and_other_data_do_not():
    one = grid_of_jobs(FEATURES, ["em"], [0, 1], [1e-3])
    other = [Job(FEATURES, make_recipe({"method": "em", "seed": 0, "options": {"alpha": 0.3}}))]
    elsewhere = grid_of_jobs(Source("digits-features", labels="complete"), ["em"], [0, 1], [1e-3])
    assert sizes(make_units([*one, *other, *elsewhere], 1)) == [2, 1, 2]


def test_images_are_trained_one_by_one():
    assert sizes(make_units(grid_of_jobs(Source("digits")), 2)) == [1] * 8


@pytest.mark.parametrize(
    ("workers", "expected"), [(1, [12]), (2, [6, 6]), (3, [3, 3, 6]), (20, [3] * 4), (0, [12])]
)
def test_groups_are_cut_only_to_keep_everybody_busy(workers, expected):
    assert (
        sizes(make_units(grid_of_jobs(FEATURES, ["an"], range(4), [1, 2, 3]), workers)) == expected
    )


def test_nothing_to_do():
    assert make_units([], 2) == []


def test_what_may_be_features(tmp_path):
    assert maybe_features(Source("x.csv", ("f.npz",)))
    assert maybe_features(Source("yeast.NPZ"))
    assert not maybe_features(Source("digits"))
    assert not maybe_features(Source(str(tmp_path)))
    (tmp_path / "yeast.arff").touch()
    assert maybe_features(Source(str(tmp_path)))


def test_a_stack_gives_what_single_trainings_give(arrays):
    jobs = grid_of_jobs(Source(str(arrays)), ["gr"])
    (unit,) = make_units(jobs, 1)
    stacked = run_unit(unit)
    assert [entry.stacked for entry in stacked] == [4] * 4
    for entry, job in zip(stacked, jobs, strict=True):
        (alone,) = run_unit(Unit((job,)))
        assert alone.stacked == 1
        assert entry.key == alone.key == job.key
        assert (entry.lr, entry.seed) == (job.recipe.lr, job.recipe.seed)
        assert entry.val_map == pytest.approx(alone.val_map, abs=1e-6)
        assert entry.test_ap == pytest.approx(alone.test_ap, abs=1e-6)
        assert len(entry.epochs) == 2


def test_what_cannot_be_stacked_says_why_and_is_cut_up(arrays):
    unit = Unit(tuple(grid_of_jobs(Source(str(arrays)), ["role"], [0, 1], [1e-3])))
    refused = run_unit(unit)
    assert isinstance(refused, Refused)
    assert "parameters" in refused.why
    single = refused.unit.one_by_one(refused.why)
    assert sizes(single) == [1, 1]
    (entry,) = run_unit(single[0])
    assert (entry.alone, entry.stacked) == (refused.why, 1)


def test_names_for_messages():
    jobs = grid_of_jobs(FEATURES, ["an"])
    assert Unit((jobs[0],)).name == "an, seed 0, lr 0.01"
    assert Unit(tuple(jobs)).name == "an, 4 runs at once"


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_rates_of_a_seed_are_never_parted(workers):
    for unit in make_units(grid_of_jobs(FEATURES, ["an"], range(3), [1, 2]), workers):
        for seed in unit.seeds:
            assert [job.recipe.lr for job in unit.jobs if job.recipe.seed == seed] == [1, 2]


@pytest.mark.slow
def test_a_training_that_diverges_harms_no_other(source):
    healthy, lost = grid_of_jobs(source, ["an"], [0], [1e-3, 1e38])
    outcome = run_unit(Unit((healthy, lost)))
    assert isinstance(outcome, Refused)
    assert "lr 1e+38 and seed 0 is not finite" in outcome.why
    assert run_unit(Unit((healthy,)))[0].val_map > 0
    failed = run_unit(Unit((lost,)))
    assert isinstance(failed, Failed)
    assert "an, seed 0, lr 1e+38: a loss term of an is not finite" in failed.message
