"""Published figures stand beside ours only where the setting is the same."""

from __future__ import annotations

import dataclasses

import pytest

from plusone.compare.published import PARTS_OF_NAMES, published
from plusone.data.public import PUBLIC
from plusone.methods import METHODS, PublishedFigure

VOC = {
    "data": "VOC2012",
    "items": {"train": 4574, "val": 1143, "test": 5823},
    "labels": {"classes": list(map(str, range(20))), "seen": [1] * 20, "true": [2] * 20},
}


def test_voc_linear(result):
    found = published(result("role", **VOC))
    assert found is not None
    assert found.value == 86.5
    assert "Cole et al." in found.source
    assert published(result("gr", **VOC)) is None
    assert published(result("gr", **VOC, mode="finetune")).value == 89.83
    assert published(result("role", **VOC, mode="linear_init")).value == 88.26
    assert published(result("gr", **VOC, mode="stages")) is None


def test_all_labels(result):
    seen = {"scheme": "all", "seed": 1200, "digest": "x"}
    assert published(result("bce", **VOC, observation=seen)).value == 86.7
    assert published(result("bce", **VOC)) is None
    iun = {"scheme": "positives_and_negatives(n_pos=1, n_neg=None)", "digest": "x"}
    assert published(result("iun", **VOC, observation=iun)).value == 86.4


@pytest.mark.parametrize(
    "other",
    [
        {"data": "photos"},
        {"items": {"train": 4574, "val": 1143, "test": 5822}},
        {"items": {"train": 457, "val": 1143, "test": 5823}},
        {"labels": {"classes": ["a"], "seen": [1], "true": [2]}},
        {"observation": {"scheme": "fraction(0.5)", "digest": "x"}},
        {"observation": {"scheme": "given", "digest": "x"}},
        {"data": "coco"},
    ],
)
def test_other_settings_have_no_published_figure(result, other):
    assert published(result("an", **VOC)) is not None
    assert published(result("an", **(VOC | other))) is None


def test_unknown_truth_has_no_published_figure(result):
    assert published(result("an", data="VOC2012", items=VOC["items"])) is None


def test_the_tables_name_methods_and_data_that_exist():
    names = {field.name for field in dataclasses.fields(PublishedFigure)} - {"mode", "source"}
    assert names == PUBLIC.keys() == PARTS_OF_NAMES.keys()
    for info in METHODS.values():
        modes = [figure.mode for figure in info.published]
        assert len(set(modes)) == len(modes)
        assert set(modes) <= {"linear", "finetune", "linear_init"}
        for figure in info.published:
            places = ("CVPR", "ECCV", "ICLR", "IJCAI", "NeurIPS")
            assert any(place in figure.source for place in places)


def test_figures_agree_with_the_method_sheet(shared):
    """Every figure of the sheet's section on published results that has a row of its own."""
    sheet = (shared / "METHODS.md").read_text(encoding="utf-8")
    names = {"BCE, all labels": "bce", "AN-LS": "an_ls", "N-LS": "n_ls", "LAC (LEM)": "lac"}
    names |= {"AN": "an", "WAN": "wan", "Focal": "focal", "ASL": "asl", "ROLE": "role"}
    names |= {"SPLC": "splc", "EM": "em", "EM + APL": "em_apl", "LASD": "lasd", "GR": "gr"}
    found = 0
    for line in sheet.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 6 and cells[0] in names and cells[1].replace(".", "").isdigit():
            info = METHODS[names[cells[0]]]
            (figure,) = (figure for figure in info.published if figure.mode == "finetune")
            figures = (figure.voc, figure.coco, figure.nuswide, figure.cub)
            assert figures == tuple(map(float, cells[1:5])), cells[0]
            found += 1
    assert found == len(names)
