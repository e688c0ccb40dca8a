"""The model card: what it says, and that nothing in a name can break it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from plusone.export.card import ModelConfig, front_matter, make_card
from plusone.export.inputs import InputSpec
from plusone.export.onnx import OnnxCheck
from plusone.probabilities.calibration import Calibration
from plusone.probabilities.thresholds import Thresholds
from plusone.recipe import Recipe
from plusone.results import RunResult

TEST = {"map": 0.9, "cf1": 0.7, "of1": 0.8, "ece": None}


RESULT = RunResult(
    method="gr", data="photos", seed=3, val_map=0.8, test_map=0.9, test=TEST, best_epoch=7,
    selected_on="observed", items={"train": 10, "val": 2}, observation={"scheme": "given"},
    rules=("lr 0.1: because",), seconds=1.0, lr=0.1,
)  # fmt: skip


@pytest.fixture
def config():
    return ModelConfig(
        classes=("ant", "bee"),
        input=InputSpec("float32", ("batch", 5), "vectors"),
        backbone=None,
        thresholds=Thresholds((0.25, 0.5), "seen"),
        calibration=Calibration.none(2),
        result=RESULT,
        paper="Someone 2020",
        recipe=Recipe(),
    )


def test_what_the_card_says(config):
    card = make_card(config)
    for part in (
        "# photos-gr", "| seed | 3 |", "10 train, 2 val", "Someone 2020", "| ant | 0.2500 |",
        "**not calibrated**", "- lr 0.1: because", "0.9000", "the seen labels",
    ):  # fmt: skip
        assert part in card
    assert "model.onnx" not in card
    assert "plusone predict THIS_FOLDER features.npz" in card
    checked = replace(config, onnx=OnnxCheck(3e-7, 16, real=False))
    assert "3e-07 on 16 random items" in make_card(checked)


def test_the_card_of_a_model_of_texts(config):
    spec = InputSpec("float32", ("batch", 5), "vectors of texts", encoder={"name": "use"})
    card = make_card(replace(config, input=spec))
    for part in (
        "pipeline_tag: text-classification", "labels for texts", 'model("a text")',
        "plusone predict THIS_FOLDER texts.csv", "plusone features texts.csv --encoder use",
    ):  # fmt: skip
        assert part in card


def test_unknown_test_labels(config):
    ends = {"test_if_negative": {"map": 0.25}, "test_if_positive": {"map": 0.75}}
    result = RESULT.model_copy(update={"test_unknown": 9, "val_against": "known"} | ends)
    card = make_card(replace(config, result=result))
    assert "average precision against the known labels" in card
    for value, state in (("0.2500", "negative"), ("0.7500", "positive")):
        line = next(line for line in card.splitlines() if f"were {state}" in line)
        assert "the 9 unknown labels" in line
        assert value in line


def test_without_test_items_it_says_that_nothing_is_known(config):
    card = make_card(replace(config, result=RESULT.model_copy(update={"test": None})))
    assert "nothing here says how often it is right" in card
    assert "model-index" not in card


def test_the_front_matter_is_yaml_and_leaves_the_licence_open(config):
    result = RESULT.model_copy(update={"data": 'a: "b"\n- c # d'})
    text = front_matter(replace(config, result=result))
    assert text.startswith("---\n")
    assert text.rstrip().endswith("---")
    assert "\nlicense:" not in text
    assert "# license:" in text
    yaml = pytest.importorskip("yaml")
    content = yaml.safe_load(text.strip().strip("-"))
    assert content["model-index"][0]["name"] == 'a: "b"\n- c # d-gr'
    result = content["model-index"][0]["results"][0]
    assert result["dataset"]["name"] == 'a: "b"\n- c # d'
    assert result["metrics"][0]["value"] == 0.9
    assert content["pipeline_tag"] == "tabular-classification"


def test_names_cannot_break_the_page(config):
    names = ("a|b", "<script>alert(1)</script>", "[x](http://y)", "two\nlines")
    thresholds = Thresholds((0.1, 0.2, 0.3, 0.4), "seen")
    result = RESULT.model_copy(update={"data": "<b>*x*"})
    card = make_card(replace(config, classes=names, thresholds=thresholds, result=result))
    table = card[card.index("| class |") : card.index("## Limits")].strip().splitlines()
    assert len(table) == 2 + len(names)
    for line in table:
        assert len(re.findall(r"(?<!\\)\|", line)) == 3
    assert "<script>" not in card
    assert "[x](" not in card.replace("\\[", "").replace("\\]", "")
    assert "# &lt;b&gt;\\*x\\*-gr" in card


def test_many_classes_are_cut(config):
    classes = tuple(f"class{number}" for number in range(1000))
    card = make_card(replace(config, classes=classes, thresholds=Thresholds.same(0.5, 1000)))
    assert "800 more classes are in `config.json`" in card
    assert "class200" not in card
