"""The model card: what it says, and that nothing in a name can break it."""

from __future__ import annotations

import re

import pytest

from plusone.export.card import front_matter, make_card

TEST = {"map": 0.9, "cf1": 0.7, "of1": 0.8, "ece": None}


@pytest.fixture
def config():
    return {
        "num_labels": 2,
        "input": {
            "name": "inputs", "type": "float32", "shape": ["batch", 5], "meaning": "vectors",
        },
        "backbone": None,
        "paper": "Someone 2020",
        "plusone_version": "1.2",
        "thresholds": {"from": "seen", "by_class": {"ant": 0.25, "bee": 0.5}},
        "training": {
            "method": "gr", "data": "photos", "seed": 3, "val_map": 0.8, "test": TEST,
            "best_epoch": 7, "selected_on": "observed", "items": {"train": 10, "val": 2},
            "observation": {"scheme": "given"}, "rules": ["lr 0.1: because"],
        },
    }  # fmt: skip


def test_what_the_card_says(config):
    card = make_card(config, "photos-gr", onnx=None)
    for part in (
        "# photos-gr", "| seed | 3 |", "10 train, 2 val", "Someone 2020", "| ant | 0.2500 |",
        "**not calibrated**", "- lr 0.1: because", "0.9000", "the seen labels",
    ):  # fmt: skip
        assert part in card
    assert "model.onnx" not in card
    assert "plusone predict THIS_FOLDER features.npz" in card
    checked = {"difference": 3e-7, "items": 16, "real": False}
    assert "3e-07 on 16 made-up items" in make_card(config, "x", onnx=checked)


def test_without_test_items_it_says_that_nothing_is_known(config):
    config["training"]["test"] = None
    card = make_card(config, "x", onnx=None)
    assert "nothing here says how often it is right" in card
    assert "model-index" not in card


def test_the_front_matter_is_yaml_and_leaves_the_licence_open(config):
    config["training"]["data"] = 'a: "b"\n- c # d'
    text = front_matter(config, "name: [x")
    assert text.startswith("---\n")
    assert text.rstrip().endswith("---")
    assert "\nlicense:" not in text
    assert "# license:" in text
    yaml = pytest.importorskip("yaml")
    content = yaml.safe_load(text.strip().strip("-"))
    assert content["model-index"][0]["name"] == "name: [x"
    result = content["model-index"][0]["results"][0]
    assert result["dataset"]["name"] == 'a: "b"\n- c # d'
    assert result["metrics"][0]["value"] == 0.9
    assert content["pipeline_tag"] == "tabular-classification"


def test_names_cannot_break_the_page(config):
    names = {"a|b": 0.1, "<script>alert(1)</script>": 0.2, "[x](http://y)": 0.3, "two\nlines": 0.4}
    config["thresholds"]["by_class"] = names
    card = make_card(config, "<b>*x*", onnx=None)
    table = card[card.index("| class |") : card.index("## Limits")].strip().splitlines()
    assert len(table) == 2 + len(names)
    for line in table:
        assert len(re.findall(r"(?<!\\)\|", line)) == 3
    assert "<script>" not in card
    assert "[x](" not in card.replace("\\[", "").replace("\\]", "")
    assert "# &lt;b&gt;\\*x\\*" in card


def test_many_classes_are_cut(config):
    config["thresholds"]["by_class"] = {f"class{number}": 0.5 for number in range(1000)}
    card = make_card(config, "x", onnx=None)
    assert "800 more classes are in `config.json`" in card
    assert "class200" not in card
