"""What a reviewer's answers are worth, as the report shows it."""

import json

import pytest

from plusone.compare.documents import Loop, LoopRow
from plusone.report.blocks import Code, Drawing, Table
from plusone.report.loops import answer_curves, answers, finding
from plusone.report.material import Material
from plusone.report.writing import write_report


def row(order, questions, gain, sd=0.01):
    return {"order": order, "questions": questions, "yes": questions / 2, "test_map": 0.6 + gain,
            "test_sd": sd, "gain": gain,
            "over_random": None if order == "any" else gain - 0.01}  # fmt: skip


@pytest.fixture
def loop():
    return Loop.model_validate({
        "data": "pets <b>",
        "method": "gr",
        "items": 1000,
        "hidden": 1500,
        "seeds": [0, 1],
        "folds": 5,
        "before": 0.6,
        "before_sd": 0.005,
        "all_labels": 0.8,
        "rows": [row("worth", 100, 0.02), row("worth", 500, 0.05), row("likely", 500, 0.03),
                 row("any", 100, 0.0), row("any", 500, 0.01)],
        "command": "plusone loop pets",
    })  # fmt: skip


def test_the_section_has_a_figure_a_table_and_the_command(loop):
    section = answers(Material(documents=(loop,)))
    drawing, table, command = section.blocks
    assert isinstance(drawing, Drawing)
    assert isinstance(table, Table)
    assert isinstance(command, Code)
    cells = [[cell.text for cell in line] for line in table.rows]
    assert cells[0] == ["no questions", "0", "0", "60.00 ± 0.50", "–", "–"]
    assert cells[2] == ["worth", "500", "250", "65.00 ± 1.00", "+5.00", "+4.00"]
    assert cells[-2][0] == "random questions"
    assert cells[-1] == ["all labels known (bce, same lr)", "–", "–", "80.00", "+20.00", "–"]
    assert "1,000 items with 1,500 hidden positives" in table.caption


def test_there_is_no_section_without_a_loop(loop):
    assert not answers(Material()).blocks
    assert not answers(Material(documents=(loop.model_copy(update={"rows": ()}),))).blocks


def test_the_figure_has_a_line_per_order_from_the_same_start(loop):
    figure = answer_curves(loop)
    lines = [line for line in figure.axes[0].lines if len(line.get_xdata()) > 1]
    curves = {tuple(line.get_xdata()): line for line in lines if line.get_marker() == "o"}
    assert set(curves) == {(0, 100, 500), (0, 500)}
    for line in curves.values():
        assert line.get_ydata()[0] == pytest.approx(60)
    words = figure.get_suptitle().replace("\n", " ")
    assert words == ("500 questions in the order “worth”: +5.0 points of mAP; random ones: +1.0")


def test_one_seed_and_random_questions_alone_can_be_drawn(loop):
    rows = (LoopRow.model_validate(row("any", 500, 0.01, sd=None)),)
    alone = loop.model_copy(update={"before_sd": None, "rows": rows})
    assert finding(alone) == "500 random questions: +1.0 points of mAP"
    answer_curves(alone)


def test_the_page_escapes_names(loop, tmp_path):
    (tmp_path / "loop.json").write_text(json.dumps(loop.to_json()))
    write_report([tmp_path / "loop.json"], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "What a reviewer" in page
    assert "pets &lt;b&gt;" in page
    assert "pets <b>" not in page
