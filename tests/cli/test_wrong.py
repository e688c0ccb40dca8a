"""`suggest --wrong`, and the review of seen labels that are probably wrong."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from plusone.data.formats import read
from plusone.errors import InputError
from plusone.reviewing.opening import open_suggestions
from plusone.reviewing.questions import Selection
from plusone.reviewing.reviewed_labels import reviewed_table

pytestmark = pytest.mark.slow

NAMES = ("ant", "bee", "cat", "dog", "eel")
ITEMS, WRONG = 300, 30


@pytest.fixture(scope="module")
def made(cli, tmp_path_factory) -> Path:
    """Suggestions for items whose first 30 seen labels are wrong."""
    folder, rng = tmp_path_factory.mktemp("wrong"), np.random.default_rng(0)
    truth = rng.random((ITEMS, 5)) < 0.25
    truth[np.arange(ITEMS), rng.integers(5, size=ITEMS)] = True
    truth[truth.all(axis=1), 4] = False
    x = (truth + 0.25 * rng.normal(size=truth.shape)).astype("float32")
    order = rng.random(truth.shape)
    seen = np.where(np.arange(ITEMS) < WRONG, (~truth * order).argmax(1), (truth * order).argmax(1))
    lines = [f"i{row:03d},{NAMES[label]}" for row, label in enumerate(seen)]
    (folder / "seen.csv").write_text("\n".join(["image,labels", *lines, ""]))
    np.savez(folder / "x.npz", x=x, ids=np.array([f"i{row:03d}" for row in range(ITEMS)]))
    run = folder / "run"
    answer = cli("train", folder / "seen.csv", "-x", folder / "x.npz", "--out", run, "--no-report")
    assert answer.code == 0, answer.err
    answer = cli("suggest", run, "--out", folder / "s", "--wrong", "--json")
    assert answer.code == 0, answer.err
    about = answer.json["wrong"]
    assert WRONG <= about["at_most"] == about["listed"]
    assert "wrong.csv" in answer.json["files"]
    return folder


def test_wrong_labels_are_listed_first_with_what_is_right(made):
    lines = list(csv.DictReader((made / "s" / "wrong.csv").open()))
    first = [int(line["image"][1:]) < WRONG for line in lines[:WRONG]]
    assert np.mean(first) > 0.6  # by chance 0.1
    assert lines[0]["label"] not in lines[0]["instead"]
    assert set(lines[0]["instead"].split(", ")) <= set(NAMES)
    scores = [float(line["score"]) for line in lines]
    assert scores == sorted(scores, reverse=True)


def test_a_review_asks_about_them_and_the_export_has_the_answers(made, tmp_path):
    desk = open_suggestions(
        made / "s", selection=Selection(least=0.5), database=tmp_path / "answers.sqlite"
    )
    try:
        item = desk.next_item("me")
        while not any(one["seen"] for one in item["questions"]):
            skipped = [(item["row"], one["label"], "skip") for one in item["questions"]]
            desk.answer("me", str(item["row"]), skipped)
            item = desk.next_item("me")
        (doubt,) = [one for one in item["questions"] if one["seen"]]
        assert doubt["probability"] is None
        before = desk.progress()
        assert before["wrong"] == 0
        desk.answer("me", "no", [(item["row"], doubt["label"], "no")])
        after = desk.progress()
        assert after["wrong"] == 1
        assert after["agreement"] is None  # no probability was stated
        again = desk.next_item("me", row=item["row"])
        (label,) = [one for one in again["labels"] if one["label"] == doubt["label"]]
        assert label["seen"] == 1
        assert not label["has"]
        result = reviewed_table(desk)
        assert result.wrong == 1
        assert result.table.labels.dense()[item["row"], doubt["label"]] == -1
        seen = read(made / "s" / "seen.npz").table.labels.dense()
        assert seen[item["row"], doubt["label"]] == 1  # the folder keeps it
    finally:
        desk.store.close()


def test_answers_about_seen_labels_do_not_correct_the_suggestions(made, tmp_path):
    desk = open_suggestions(made / "s", database=tmp_path / "answers.sqlite")
    try:
        questions = desk.questions
        before = questions.probability.copy()
        some = np.flatnonzero(questions.seen)[:5]
        rows, labels = questions.suggestions.row[some], questions.suggestions.label[some]
        for row, label in zip(rows.tolist(), labels.tolist(), strict=True):
            desk.answer("me", str(row), [(row, label, "no")])
        desk.progress()
        assert np.allclose(questions.probability, before, atol=1e-5)
    finally:
        desk.store.close()


def test_without_the_option_the_list_is_gone_and_a_damaged_one_is_refused(cli, made):
    path = made / "s" / "wrong.csv"
    text = path.read_text()
    path.write_text(text.replace("i0", "x0", 1))
    with pytest.raises(InputError, match="row 2"):
        open_suggestions(made / "s")
    answer = cli("suggest", made / "run", "--out", made / "s")
    assert answer.code == 0, answer.err
    assert not path.exists()
    answer = cli("suggest", made / "run", "--out", made / "s", "--wrong")
    assert "At most" in answer.err
    assert path.read_text() == text
