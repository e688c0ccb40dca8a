"""Tables for documents: marks, footnotes, escapes."""

from __future__ import annotations

import pytest

from plusone.compare.summary import summarise
from plusone.compare.tables import latex_tables, latex_text, markdown_tables, spread

VOC = {
    "data": "VOC_2012",
    "items": {"train": 4574, "val": 1143, "test": 5823},
    "labels": {"classes": list(map(str, range(20))), "seen": [1] * 20, "true": [2] * 20},
}


@pytest.fixture
def summary(result):
    seen = {"scheme": "all", "seed": 1200, "digest": "cd"}
    rows = [result("an_ls", seed, test=0.80 + 0.01 * seed, **VOC) for seed in (0, 1)]
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
    assert "| **80.80 ± 0.85** |" in rows["**gr**"]
    assert "| 80.50 ± 0.71 = |" in rows["an_ls"]
    assert "| 85.3 |" in rows["an_ls"]
    assert "gamma 0.3333" in rows["wan"]
    assert "=" not in rows["wan"]
    assert "**" not in rows["bce"]
    assert "**50 % & more_{x}, linear**" in lines
    assert any(line.startswith("- published: an_ls, wan, bce: Cole et al.") for line in lines)
    assert "- published figures are of ResNet-50; ours: VOC_2012: features voc.npz" in lines
    assert lines[-1] == "- a note"


def test_columns_without_content_are_left_out(result):
    text = markdown_tables(summarise([result()]), {}, [])
    head = next(line for line in text.splitlines() if line.startswith("|"))
    assert head == "| method | test mAP | val mAP | lr | seconds |"
    assert "ResNet" not in text


def test_latex(summary):
    text = latex_tables(summary, {"VOC_2012": "features voc_x.npz"}, ["a note"])
    assert text.startswith("% a note\n")
    assert r"\textbf{80.80 $\pm$ 0.85}" in text
    assert r"an\_ls & \underline{80.50 $\pm$ 0.71}" in text
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
    assert r"50 \% \& more\_\{x\}" in text
    assert r"ours: features voc\_x.npz" in text
    first = text.split(r"\end{table}")[0]
    assert first.index("wan") < first.rindex(r"\midrule") < first.index("bce &")
    for line in first.splitlines():
        if line.endswith(r"\\"):
            assert line.count(" & ") == 5
    assert text.isascii()


def test_escapes():
    assert latex_text("a_b%&#$~^\\{}\n x") == (
        r"a\_b\%\&\#\$\textasciitilde{}\textasciicircum{}\textbackslash{}\{\} x"
    )


def test_spread():
    assert spread(0.5, None) == "50.00"
    assert spread(None, None) == "-"
    assert spread(0.12345, 0.001) == "12.35 ± 0.10"
