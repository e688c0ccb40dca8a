"""What is found at some places."""

import pytest

from plusone.compare.documents import Intervals, Sweep
from plusone.errors import InputError
from plusone.report.material import collect


def test_a_stopped_bench_is_summed_up_from_its_journal(make, tmp_path):
    make.journal(tmp_path, [make.result("an", 1), make.result("an", 0), make.result("bce", 0)])
    (group,) = collect([tmp_path]).groups
    assert (group.name, group.mode) == ("pets", "linear")
    assert [run.seed for run in group.find("an").runs] == [0, 1]
    assert group.find("an").row.seeds == 2
    assert group.best.method == "an"  # bce saw all labels
    assert [entry.method for entry in group.ranked] == ["an", "bce"]


def test_rows_of_a_finished_bench_are_taken_as_they_are(make, tmp_path):
    make.journal(tmp_path, [make.result("an", 0), make.result("an", 0, key="tried", lr=1.0)])
    row = {"data": "pets", "method": "an", "mode": "linear", "val_map": 0.1, "test_map": 0.123,
           "lr": 1e-3, "options": {}, "seeds": 1, "keys": ["an-0"], "best": True}  # fmt: skip
    make.document(tmp_path, {"kind": "bench", "title": "t", "rows": [row]})
    (tmp_path / "stopped").mkdir()
    (tmp_path / "stopped" / "recipe.toml").write_text("")
    found = collect([tmp_path])
    (group,) = found.groups
    assert group.best.row.score == 0.123
    assert [run.key for run in group.best.runs] == ["an-0"]
    stopped, tried = found.left_out
    assert "stopped: a run that is not finished" in stopped
    assert "1 run of an on pets, not chosen (lr 1)" in tried


def test_trainings_of_sweeps_are_no_rows(make, tmp_path):
    make.journal(tmp_path / "s", [make.result("em", 0)])
    make.document(tmp_path / "s", make.sweep)
    found = collect([tmp_path])
    assert found.groups == ()
    assert [sweep.over for sweep in found.of(Sweep)] == ["options.alpha"]


def test_two_tables_of_the_same_data_have_different_names(make, tmp_path):
    for name, score in (("a", 0.1), ("b", 0.2)):
        make.journal(tmp_path / name, [make.result("an", 0)])
        row = {"data": "pets", "method": "an", "mode": "linear", "val_map": score, "keys": []}
        make.document(tmp_path / name, {"kind": "bench", "rows": [row]})
    assert [group.name for group in collect([tmp_path]).groups] == ["pets", "pets (2)"]
    assert len(collect([tmp_path, tmp_path / "a"]).groups) == 2  # named twice, found once


def test_runs_beside_a_bench_of_the_same_data_are_told_apart(make, tmp_path):
    row = {"data": "pets", "method": "an", "mode": "linear", "val_map": 0.1, "keys": []}
    make.document(tmp_path / "bench", {"kind": "bench", "rows": [row]})
    make.journal(tmp_path / "more", [make.result("an", 0)])
    assert [group.name for group in collect([tmp_path]).groups] == ["pets", "pets (runs)"]


def test_modes_are_named_where_there_are_several(make, tmp_path):
    results = [make.result("an", 0), make.result("an", 0, key="x", mode="finetune")]
    make.journal(tmp_path, results)
    assert [group.name for group in collect([tmp_path]).groups] == [
        "pets, linear",
        "pets, finetune",
    ]


def test_the_focus_is_the_best_then_the_ends_then_known_ones(make, tmp_path):
    names = ("an", "bce", "gr", "em", "role", "hill", "focal", "asl", "pr")
    results = [make.result(name, 0, test_map=0.9 if name == "pr" else 0.5) for name in names]
    make.journal(tmp_path, results)
    (group,) = collect([tmp_path]).groups
    assert [entry.method for entry in group.focus] == ["pr", "an", "bce", "gr", "em", "role"]
    assert len(set(group.ink.values())) == 6


def test_nothing_to_report(tmp_path):
    with pytest.raises(InputError, match="holds no finished run"):
        collect([tmp_path])
    with pytest.raises(InputError, match="nowhere: no such folder"):
        collect([tmp_path / "nowhere"])


def test_other_json_files_are_passed_over_and_broken_ones_named(make, tmp_path):
    make.journal(tmp_path, [make.result()])
    (tmp_path / "other.json").write_text('{"kind": "something else"}')
    (tmp_path / "coco.json").write_text("[1, 2")
    assert collect([tmp_path]).documents == ()
    (tmp_path / "sweep.json").write_text('{"kind": "sweep", ')
    with pytest.raises(InputError, match=r"sweep\.json: is not valid JSON"):
        collect([tmp_path])
    (tmp_path / "sweep.json").write_text('{"kind": "sweep", "values": [], "rows": []}')
    with pytest.raises(InputError, match=r"sweep\.json: .*over is missing.*make it again"):
        collect([tmp_path])
    (tmp_path / "sweep.json").unlink()
    make.document(tmp_path / "k", make.intervals | {"rows": [{"size": 5}]})
    with pytest.raises(InputError, match=r"intervals\.json: .*rows\.0\.low is missing"):
        collect([tmp_path])


def test_files_of_others_that_look_like_ours_are_passed_over(make, tmp_path):
    make.journal(tmp_path, [make.result()])
    (tmp_path / "theirs.json").write_text('{"kind": "bench", "rows": 3}')
    (tmp_path / "half.json").write_text('{"kind": "sweep", ')
    (tmp_path / "list.json").write_text('[{"kind": "sweep"}]')
    (tmp_path / "odd.json").write_text('{"kind": ["sweep"]}')
    assert collect([tmp_path]).documents == ()


def test_copies_count_once(make, tmp_path):
    for name in ("a", "b"):
        make.journal(tmp_path / name, [make.result("an", 0, key=name), make.result("an", 1)])
        make.document(tmp_path / name / "k", make.intervals)
    found = collect([tmp_path])
    assert found.groups[0].find("an").row.seeds == 2
    assert len(found.of(Intervals)) == 1


def test_trainings_with_other_settings_are_rows_of_their_own(make, tmp_path):
    def result(name, epochs, key, **other):
        recipe = {"method": name, "epochs": epochs, "lr": 0.1}
        return make.result(name, 0, key=key, recipe=recipe, **other)

    results = [result("gr", 3, "a", val_map=0.9), result("gr", 5, "b"), result("an", 3, "c"),
               result("bce", 3, "d", test_map=0.99), result("bce", 5, "e", test_map=0.98),
               result("em", 3, "f"), result("em", 3, "g", lr=1.0, val_map=0.7)]  # fmt: skip
    make.journal(tmp_path, results)
    (group,) = collect([tmp_path]).groups
    assert [entry.method for entry in group.entries] == [
        "gr (epochs = 3)", "gr (epochs = 5)", "an", "bce (epochs = 3)", "bce (epochs = 5)", "em"
    ]  # fmt: skip
    assert [entry.row.seeds for entry in group.entries] == [1] * 6
    assert [entry.reference for entry in group.entries] == [False] * 3 + [True] * 2 + [False]
    assert [entry.row.best for entry in group.entries].count(True) == 1
    assert not group.find("bce (epochs = 3)").row.best


def test_trainings_that_saw_other_labels_are_rows_of_their_own(make, tmp_path):
    seen = [{"scheme": "single", "seed": 1, "digest": name * 8} for name in "ab"]
    make.journal(tmp_path, [make.result("gr", 0, key=one["digest"], observation=one)
                            for one in seen])  # fmt: skip
    (group,) = collect([tmp_path]).groups
    assert [entry.method for entry in group.entries] == [
        "gr (labels aaaaaaaa)",
        "gr (labels bbbbbbbb)",
    ]


def test_hidden_folders_and_figures_are_not_looked_into(make, tmp_path):
    make.journal(tmp_path, [make.result()])
    for name in (".venv", "figures", ".report-cache"):
        make.document(tmp_path / name, make.intervals)
    assert collect([tmp_path]).documents == ()


def test_older_journals_without_a_mode(make, tmp_path):
    result = make.result("gr", 0)
    del result["mode"], result["observation"]
    make.journal(tmp_path, [result])
    row = {"data": "pets", "method": "gr", "val_map": 0.1, "keys": [result["key"]]}
    make.document(tmp_path, {"kind": "bench", "rows": [row]})
    (group,) = collect([tmp_path]).groups
    (run,) = group.best.runs
    assert (run.mode, run.observation) == ("linear", {})
