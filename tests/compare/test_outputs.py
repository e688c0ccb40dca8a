"""The files of a comparison."""

from __future__ import annotations

import csv
import json

import pytest

from plusone.compare.outputs import COLUMNS, describe_inputs, write_outputs
from plusone.compare.spec import make_spec, read_spec
from plusone.compare.summary import summarise
from plusone.version import __version__


@pytest.fixture
def written(result, tmp_path):
    spec = make_spec(
        {"data": [{"path": "digits"}], "methods": ["an", "role"], "seeds": [0, 1]}, source="s"
    )
    results = [
        result(method, seed, lr, val=lr, recovery={"recovery_map": 0.4, "hidden_map": 0.2})
        for method in ("an", "role")
        for lr in (0.1, 0.2)
        for seed in (0, 1)
    ]
    results[-1] = results[-1].model_copy(update={"alone": "own parameters"})
    summary = summarise(results)
    whole = write_outputs(
        tmp_path, spec, results, summary, title="t", command="plusone bench", rule="by luck"
    )
    return tmp_path, spec, whole


def test_results_json(written):
    folder, _, whole = written
    assert json.loads((folder / "results.json").read_text()) == whole
    assert (whole["kind"], whole["title"], whole["command"]) == ("bench", "t", "plusone bench")
    assert whole["version"] == __version__
    assert [row["method"] for row in whole["rows"]] == ["an", "role"]
    assert {
        "data", "method", "mode", "lr", "options", "seeds", "val_map", "val_score", "test_map",
        "recovery_map", "seconds", "gap_closed", "published", "published_source", "best",
        "within_noise", "p_seeds", "p_classes", "keys", "test_sd",
    } == whole["rows"][0].keys()  # fmt: skip
    assert whole["settings"]["rule"] == "by luck"
    assert whole["settings"]["observations"][0]["digest"] == "ab"
    assert whole["alone"] == {"role": "own parameters"}
    assert whole["tests"][0]["data"] == "d"


def test_tidy_csv(written):
    folder, _, whole = written
    with (folder / "results.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == list(COLUMNS)
    assert len(lines) == 8
    chosen = [line["key"] for line in lines if line["chosen"] == "true"]
    assert chosen == [key for row in whole["rows"] for key in row["keys"]]
    assert {line["lr"] for line in lines if line["chosen"] == "true"} == {"0.2"}
    assert (lines[0]["hidden_map"], lines[0]["scheme"]) == ("0.2", "single(protocol='cole2021')")
    assert json.loads(lines[0]["options"]) == {}
    assert lines[0]["k"] == ""


def test_the_other_files(written):
    folder, spec, _ = written
    assert read_spec(folder / "bench.toml", {}, {}) == spec
    assert "by luck" in (folder / "table.md").read_text()
    assert (folder / "table.tex").read_text().startswith("% settings: by luck")


def test_inputs(result):
    source = {"data": "/x/l.csv", "features": [], "format": "auto", "labels": "auto"}
    features = source | {"features": ["/x/f.npz", "/y/g.npz"]}
    assert describe_inputs(result(source=features)) == "features f.npz, g.npz"
    assert describe_inputs(result()) == "features of the data set"
    assert describe_inputs(result(source=source)) == "backbone cnn"
    tuned = result(source=source, mode="finetune", recipe={"backbone": "lite0"})
    assert describe_inputs(tuned) == "backbone lite0"
