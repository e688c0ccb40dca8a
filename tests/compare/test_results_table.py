"""The tables and files of a comparison: marks, footnotes, escapes."""

from __future__ import annotations

import csv
import json

import pytest

from plusone.compare.results_files import RUN_COLUMNS, describe_inputs, write_outputs
from plusone.compare.results_table import (
    cells_of,
    latex_tables,
    latex_text,
    markdown,
    markdown_tables,
    spread,
)
from plusone.compare.rows import summarise
from plusone.compare.spec import make_spec, read_spec
from plusone.version import __version__

VOC = {
    "data": "VOC_2012",
    "items": {"train": 4574, "val": 1143, "test": 5823},
    "labels": {"classes": list(map(str, range(20))), "seen": [1] * 20, "true": [2] * 20},
}


@pytest.fixture
def summary(result):
    seen = {"scheme": "all", "seed": 1200, "digest": "cd"}
    released = {"options": {"variant": "released"}}
    rows = [result("an_ls", seed, test=0.80 + 0.01 * seed, **VOC, **released) for seed in (0, 1)]
    rows += [result("gr", seed, test=0.802 + 0.012 * seed, **VOC) for seed in (0, 1)]
    rows += [result("wan", seed, test=0.5, options={"gamma": 1 / 3}, **VOC) for seed in (0, 1)]
    rows += [result("bce", seed, test=0.9, observation=seen, **VOC) for seed in (0, 1)]
    rows += [result("an", data="50 % & more_{x}", test=None)]
    return summarise(rows)


def test_markdown(summary):
    text = markdown_tables(summary, {"VOC_2012": "features voc.npz"}, ["a note"])
    lines = text.splitlines()
    assert lines[0] == "**VOC_2012, linear**"
    assert "published (ResNet-50)" in lines[2]
    rows = {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}
    assert "| **80.80 ± 0.85** |" in rows["**GR, paper**"]
    assert "| 80.50 ± 0.71 = |" in rows["AN-LS, released"]
    assert "| 85.3 |" in rows["AN-LS, released"]
    assert "gamma 0.3333" in rows["WAN"]
    assert "=" not in rows["WAN"]
    assert "**" not in rows["BCE"]
    assert "does not contain the draw of the observed labels" in text
    assert "**50 % & more_{x}, linear**" in lines
    assert any(line.startswith("- published: an_ls, wan, bce: Cole et al.") for line in lines)
    assert "- published figures are of ResNet-50; ours: VOC_2012: features voc.npz" in lines
    assert lines[-1] == "- a note"


def test_unknown_test_labels(result, tmp_path):
    """Three figures in every table and file, and a note on what they are."""
    ends = {"test_if_negative": {"map": 0.25}, "test_if_positive": {"map": 0.75}}
    rows = [result("gr", seed, test=0.875, test_unknown=9, **ends) for seed in (0, 1)]
    found = summarise(rows)
    spec = make_spec({"data": [{"path": "d.npz"}], "methods": ["gr"]}, source="s")
    write_outputs(tmp_path, spec, rows, found, title="t", command="c", rule="r")
    (row,) = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert (row["test_map"], row["if_negative"], row["if_positive"]) == (0.875, 0.25, 0.75)
    text = (tmp_path / "table.md").read_text()
    assert "| method | test mAP | if negative | if positive |" in text
    assert "| **87.50 ± 0.00** | 25.00 | 75.00 |" in text
    assert "- test mAP leaves unknown test labels out" in text
    for line in csv.DictReader((tmp_path / "results.csv").open()):
        assert (line["if_negative"], line["if_positive"]) == ("0.25", "0.75")


def test_columns_without_content_are_left_out(result):
    text = markdown_tables(summarise([result()]), {}, [])
    head = next(line for line in text.splitlines() if line.startswith("|"))
    assert head == "| method | test mAP | val mAP | lr | seconds |"
    assert "ResNet" not in text


def test_terminals_show_what_fits(summary):
    (rows, untested) = summary.tables().values()
    heads = [cells_of(rows, "terminal", width)[0] for width in (60, 80, 120)]
    assert heads[0] == ["method", "test mAP", "recovered"]
    assert set(heads[1]) - set(heads[0]) == {"sd", "lr"}
    assert set(heads[2]) - set(heads[1]) == {"published", "options", "val mAP", "seconds"}
    head, cells = cells_of(rows, "terminal")
    assert [line[head.index("test mAP")] for line in cells][:2] == ["= 80.50", "80.80"]
    assert cells_of(untested, "markdown")[1][0][:2] == ["**AN**", "**50.00**"]  # val mAP ranks


def test_latex(summary):
    text = latex_tables(summary, {"VOC_2012": "features voc_x.npz"}, ["a note"])
    assert text.startswith("% a note\n")
    assert r"\textbf{80.80 $\pm$ 0.85}" in text
    assert r"AN-LS, released & \underline{80.50 $\pm$ 0.71}" in text
    assert r"\label{tab:plusone-voc-2012-linear}" in text
    assert "$p$ (seeds) & Learning rate" in text
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
    assert r"50 \% \& more\_\{x\}" in text
    assert r"ours: features voc\_x.npz" in text
    first = text.split(r"\end{table}")[0]
    assert first.index("WAN") < first.rindex(r"\midrule") < first.index("BCE &")
    widths = {line.count(" & ") for line in first.splitlines() if line.endswith(r"\\")}
    assert len(widths) == 1
    assert text.isascii()


def test_escapes():
    assert latex_text("a_b%&#$~^\\{}\n x") == (
        r"a\_b\%\&\#\$\textasciitilde{}\textasciicircum{}\textbackslash{}\{\} x"
    )


def test_spread():
    assert spread(0.5, None) == "50.00"
    assert spread(None, None) == "-"
    assert spread(0.12345, 0.001) == "12.35 ± 0.10"


def test_a_markdown_table():
    assert markdown(("a", "b"), [("x|y", 1)]) == "| a | b |\n| --- | --- |\n| x\\|y | 1 |\n"


def test_tables_show_it_where_it_is_not_the_map(result):
    seen = summarise([result("an", val=0.9, val_score=0.5), result("gr", val=0.2, val_score=0.8)])
    assert "| val score |" in markdown_tables(seen, {}, ())
    assert "0.8000" in markdown_tables(seen, {}, ())
    known = summarise([result("an", val=0.9, val_score=0.9), result("gr", val=0.2, val_score=0.2)])
    assert "val score" not in markdown_tables(known, {}, ())


@pytest.fixture
def written(result, tmp_path):
    spec = make_spec(
        {"data": [{"path": "digits"}], "methods": ["an", "role"], "seeds": [0, 1]}, source="s"
    )
    recovery = {"recovery_map": 0.4, "hidden_map": 0.2}
    results = [
        result(method, seed, lr, val=lr, test=0.5 + 0.1 * seed, recovery=recovery)
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
        "within_noise", "p_seeds", "p_classes", "keys", "test_sd", "if_negative", "if_positive",
        "head", "learned", "searched", "at_edge", "improving", "digests", "protocol",
    } == whole["rows"][0].keys()  # fmt: skip
    assert whole["settings"]["rule"] == "by luck"
    assert whole["settings"]["observations"][0]["digest"] == "ab"
    assert whole["alone"] == {"role": "own parameters"}
    assert whole["tests"][0]["data"] == "d"


def test_tidy_csv(written):
    folder, _, whole = written
    with (folder / "results.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == list(RUN_COLUMNS)
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
    assert describe_inputs(result(images=True)) == "backbone cnn"  # paths of images in an npz
    assert describe_inputs(result(source=source)) == "backbone cnn"
    tuned = result(source=source, mode="finetune", recipe={"backbone": "lite0"})
    assert describe_inputs(tuned) == "backbone lite0"
    five = result(source=source, mode="linear", recipe={"backbone": "lite0", "crops": "five"})
    assert describe_inputs(five) == "backbone lite0, five crops"
