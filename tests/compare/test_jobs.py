"""The journal: what is done is never done again, and a cut-off line costs one training."""

from __future__ import annotations

import json

import pytest

from plusone.compare.jobs import Job, Source, read_journal, run_jobs
from plusone.recipe import make_recipe


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


@pytest.mark.slow
def test_processes_give_the_same_results(source, trained, tmp_path, monkeypatch):
    here = run_jobs(make_jobs(source), tmp_path / "a.jsonl")
    monkeypatch.undo()
    there = run_jobs(make_jobs(source), tmp_path / "b.jsonl", workers=2)
    assert same(there, here)
