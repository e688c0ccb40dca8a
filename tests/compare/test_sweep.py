"""Sweeps: the values of `--over`, the points, the files, and that nothing is trained twice."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from plusone.compare import jobs as module
from plusone.compare.sweep import (
    Point,
    label_of,
    parse_over,
    run_sweep,
    settings_for,
    summarise_sweep,
    tidy_runs,
    write_sweep,
)
from plusone.data.observation import observe
from plusone.data.source import Source
from plusone.errors import InputError

SHORT = {"epochs": 2}


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("lr=1e-3,1e-4", "lr", (1e-3, 1e-4)),
        ("lr = 1e-3 , 1e-4 , 1e-3", "lr", (1e-3, 1e-4)),
        ("options.variant=paper,released", "options.variant", ("paper", "released")),
        ("options.negatives=true,false", "options.negatives", (True, False)),
        ("options.lam=none,1,1.0", "options.lam", (None, 1, 1.0)),
        ("freeze=[],['conv1', 'bn1']", "freeze", ([], ["conv1", "bn1"])),
        ("observe=single,fraction(0.5)", "observe", ("single", "fraction(0.5)")),
        ("keep=0.1,0.2,...,1.0", "keep", (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)),
        ("epochs=9,6,...,0", "epochs", (9, 6, 3, 0)),
    ],
)
def test_values_are_read_as_settings_are(text, name, values):
    assert parse_over(text) == (name, values)
    assert [type(value) for value in parse_over(text)[1]] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("lr", "write it as name=value,value"),
        ("lr=", "write it as name=value,value"),
        ("=1,2", "write it as name=value,value"),
        ("alpha=1,2", r"--over alpha: unknown setting; settings: .*lr.*options\.NAME"),
        ("seed=1,2", "name the seeds with --seeds"),
        ("method=an,em", "name the methods with --methods"),
        ("options=1", r"write options\.NAME"),
        ("stages=[]", "stages cannot be swept"),
        ("keep=0.1,...,1.0", r"write three dots as in 0\.1,0\.2,\.\.\.,1\.0"),
        ("keep=0.1,0.2,...", r"write three dots as in"),
        ("keep=a,b,...,c", r"write three dots as in"),
        ("keep=0.1,0.2,...,0.55", r"steps of 0\.1 do not lead from 0\.1 to 0\.55"),
        ("keep=0.2,0.1,...,0.5", r"steps of -0\.1 do not lead"),
        ("keep=0.1,0.1,...,0.5", r"steps of 0 do not lead"),
    ],
)
def test_what_cannot_be_swept_is_refused_in_a_sentence(text, sentence):
    with pytest.raises(InputError, match=sentence):
        parse_over(text)


@pytest.mark.parametrize(
    ("over", "value", "method", "sentence"),
    [
        ("keep", 0, "em", "keep=0: the share of positives must be above 0"),
        ("keep", 1.5, "em", r"keep=1\.5"),
        ("keep", "half", "em", "keep=half"),
        ("keep", 0.5, "bce", "bce is defined by the labels it sees.*--baseline bce"),
        ("expected_positives", 2, "em", "em does not use expected_positives; .*epr.*lasd"),
        ("lr", 1, "nothing", "unknown method 'nothing'"),
    ],
)
def test_values_without_a_meaning_are_refused(over, value, method, sentence):
    with pytest.raises(InputError, match=sentence):
        settings_for(over, value, method)


def test_settings_of_a_value():
    assert settings_for("options.alpha", 0.2, "em") == {"options": {"alpha": 0.2}}
    assert settings_for("epochs", 3, "em") == {"epochs": 3}
    assert settings_for("expected_positives", 2, "epr") == {"expected_positives": 2}


def test_labels_kept_at_a_small_share_are_kept_at_every_larger_one():
    truth = (np.random.default_rng(0).random((200, 10)) < 0.4).astype(int)
    seen = [observe(truth, settings_for("keep", q, "em")["observe"]) for q in (0.2, 0.5, 1.0)]
    assert (seen[0] <= seen[1]).all()
    assert (seen[1] <= seen[2]).all()
    np.testing.assert_array_equal(seen[2], truth)
    assert abs(seen[0].sum() / truth.sum() - 0.2) < 0.05
    assert (seen[0].sum(axis=1) == 0).any()


def test_axis_labels():
    assert label_of("options.alpha") == "alpha"
    assert label_of("train_share") == "share of the training items"
    assert label_of("batch_size") == "batch_size"


@pytest.fixture
def source(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(70, 5)).astype(np.float32)
    y = (x[:, :3] > 0).astype(np.int8)
    y[y.sum(axis=1) == 0, 0] = 1
    np.savez(tmp_path / "small.npz", xtr=x[:50], ytr=y[:50], xte=x[50:], yte=y[50:])
    return Source(str(tmp_path / "small.npz"))


def test_validation_picks_the_learning_rate_of_each_point(result):
    points = [Point("em", 0.1), Point("em", 0.2, 77)]
    results = [
        [
            result("em", 0, 0.1, 0.5, 0.9, key="a"),
            result("em", 1, 0.1, 0.5, 0.9, key="b"),
            result("em", 0, 0.2, 0.8, 0.4, key="c"),
            result("em", 1, 0.2, 0.3, 0.6, key="d"),
        ],
        [result("em", 0, 0.1, 0.7, None, key="e"), result("em", 0, 0.2, 0.7, None, key="f")],
    ]
    first, second = summarise_sweep(points, results)
    assert first.to_json() == {
        "data": "d", "method": "em", "value": 0.1, "lr": 0.2, "seeds": 2,
        "val_map": pytest.approx(0.55), "test_map": pytest.approx(0.5),
        "test_sd": pytest.approx(0.1 * 2**0.5), "keys": ["c", "d"],
        "if_negative": None, "if_positive": None,
    }  # fmt: skip
    assert second.keys == ("e",)  # of equals the first
    assert (second.test_map, second.test_sd) == (None, None)
    assert second.to_json()["labels"] == 77
    runs = tidy_runs([first, second], results)
    assert [run["chosen"] for run in runs] == [False, False, True, True, True, False]


def test_the_file_holds_what_figures_need(source, trained, tmp_path):
    sweep = run_sweep(
        source,
        ["em"],
        "options.alpha",
        [0.05, 0.3],
        tmp_path / "s",
        seeds=[0, 1],
        rates=[1e-2, 1e-3],
        settings=SHORT,
        baseline="an",
        command="plusone sweep small.npz",
    )
    json_file, csv_file = write_sweep(sweep, tmp_path / "s")
    document = json.loads(json_file.read_text())
    assert document["kind"] == "sweep"
    assert document["title"] == "small: mAP against alpha"
    assert document["command"] == "plusone sweep small.npz"
    assert (document["over"], document["label"]) == ("options.alpha", "alpha")
    assert (document["values"], document["default"]) == ([0.05, 0.3], 0.1)
    assert document["baseline"]["name"] == "an"
    assert 0 < document["baseline"]["test_map"] < 1
    assert document["baseline"]["test_sd"] >= 0
    assert [(row["method"], row["value"]) for row in document["rows"]] == [
        ("em", 0.05),
        ("em", 0.3),
    ]
    journal = {entry.key: entry for entry in module.read_journal(tmp_path / "s/journal.jsonl")}
    assert len(journal) == 2 * 2 * 2 + 2 * 2
    for row in document["rows"]:
        assert set(row) == {
            "data", "method", "value", "test_map", "test_sd", "val_map", "seeds", "lr", "keys",
            "if_negative", "if_positive",
        }  # fmt: skip
        behind = [journal[key] for key in row["keys"]]
        assert {run.seed for run in behind} == {0, 1}
        assert {run.lr for run in behind} == {row["lr"]}
        assert {run.options["alpha"] for run in behind} == {row["value"]}
        assert row["test_map"] == pytest.approx(np.mean([run.test_map for run in behind]))
    lines = list(csv.DictReader(csv_file.open()))
    assert len(lines) == 8
    assert sum(line["chosen"] == "True" for line in lines) == 4
    assert {line["value"] for line in lines} == {"0.05", "0.3"}


def test_the_second_time_nothing_is_trained(source, trained, tmp_path):
    def go():
        return run_sweep(source, ["an", "em"], "epochs", [1, 2], tmp_path, seeds=[0], baseline="an")

    first = go()
    assert len(trained) == 5
    trained.clear()
    assert go() == first
    assert trained == []
    more = run_sweep(source, ["an", "em"], "epochs", [1, 2, 3], tmp_path, seeds=[0])
    assert len(trained) == 2
    assert [row.value for row in more.rows] == [1, 2, 3, 1, 2, 3]
    assert more.rows[0] == first.rows[0]


def test_a_share_of_the_items_tells_how_many_labels_were_seen(source, trained, tmp_path):
    sweep = run_sweep(
        source, ["an", "bce"], "train_share", [0.5, 1.0], tmp_path, seeds=[0], settings=SHORT
    )
    assert [row.to_json()["labels"] for row in sweep.rows] == [20, 40, 60, 120]
    assert sweep.default == 1.0
    journal = list(module.read_journal(tmp_path / "journal.jsonl"))
    assert sorted(entry.items["train"] for entry in journal) == [20, 20, 40, 40]


def test_kept_positives_and_wrong_k(source, trained, tmp_path):
    kept = run_sweep(source, ["em"], "keep", [0.3, 1.0], tmp_path, seeds=[0], settings=SHORT)
    seen = {
        entry.observation["scheme"]: sum(entry.labels.seen)
        for entry in module.read_journal(tmp_path / "journal.jsonl")
    }
    assert seen["fraction(q=0.3)"] < seen["fraction(q=1.0)"]
    assert kept.default is None
    run_sweep(
        source, ["epr"], "expected_positives", [1, 2.5], tmp_path / "k", seeds=[0], settings=SHORT
    )
    ks = [entry.k for entry in module.read_journal(tmp_path / "k/journal.jsonl")]
    assert sorted(ks) == [1, 2.5]


def test_methods_with_other_defaults_have_none_in_common(source, trained, tmp_path):
    sweep = run_sweep(source, ["em", "em_apl"], "options.alpha", [0.1], tmp_path, seeds=[0])
    assert sweep.default is None


def test_the_baseline_keeps_settings_but_not_options(source, trained, tmp_path):
    given = SHORT | {"options": {"sigma": 0.4}, "batch_size": 8}
    run_sweep(
        source, ["gr"], "options.mu", [0.8], tmp_path, seeds=[0], settings=given, baseline="an"
    )
    journal = {entry.method: entry for entry in module.read_journal(tmp_path / "journal.jsonl")}
    assert journal["gr"].options == {"sigma": 0.4, "mu": 0.8}
    assert journal["an"].options == {}
    assert journal["an"].recipe["batch_size"] == 8


@pytest.mark.parametrize(
    ("methods", "over", "values", "baseline", "sentence"),
    [
        (
            ["em", "an"],
            "options.alpha",
            [0.1],
            None,
            r"an with options\.alpha=0\.1: unknown method",
        ),
        (["em"], "options.alpha", [0.1, "x"], None, r"em with options\.alpha=x: .*cannot be 'x'"),
        (["gr"], "options.sigma", [0.5, -1], None, r"gr with options\.sigma=-1: .*positive"),
        (["em"], "epochs", [1, 0], None, r"em with epochs=0: .*epochs = 0"),
        (["em"], "train_share", [1, 2], None, r"em with train_share=2: .*train_share = 2"),
        (["epr"], "expected_positives", [2, 9], None, "9 is more than the 3 classes"),
        (["em"], "keep", [0.5], "nobody", "unknown method 'nobody'"),
    ],
)
def test_refused_before_anything_is_trained(
    source, trained, tmp_path, methods, over, values, baseline, sentence
):
    with pytest.raises(InputError, match=sentence):
        run_sweep(source, methods, over, values, tmp_path / "s", baseline=baseline)
    assert trained == []
    assert not (tmp_path / "s").exists()
