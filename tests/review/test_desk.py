"""What the page gets and what its answers change."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from plusone.data.digits import load_digits_scenes
from plusone.data.formats import read, write
from plusone.errors import InputError
from plusone.reviewing import class_counts, reviewed_table
from plusone.reviewing.desk import ITEM, UnknownQuestionError
from plusone.reviewing.opening import open_new_items, open_suggestions, read_unlabelled
from plusone.reviewing.questions import Selection
from plusone.suggestions import write_suggestions

from .conftest import make_suggestions

A, B = "a" * 16, "b" * 16


@pytest.fixture
def desk(suggestions):
    return open_suggestions(suggestions)


def names(item):
    return [question["class"] for question in item["questions"] if question["open"]]


def test_items_come_in_order_with_what_is_seen(desk):
    item = desk.next_item(A)
    assert (item["row"], item["name"]) == (0, "photos/0.png")
    assert item["labels"] == [{"label": 0, "class": "cat", "seen": 1, "has": True}]
    assert names(item) == ["dog", "fox"]
    assert item["questions"][0]["probability"] == pytest.approx(0.8)
    assert item["after"] == 1
    assert item["progress"]["questions"] == 12
    assert desk.next_item(A)["row"] == 0  # a reload shows the same


def test_answers_move_on_and_count(desk):
    desk.answer(A, "01", [(0, 1, "yes"), (0, 2, "yes")])
    desk.answer(A, "02", [(1, 2, "no"), (1, 3, "skip")])
    item = desk.next_item(A)
    assert item["row"] == 2
    now = item["progress"]
    assert (now["yes"], now["no"], now["skipped"], now["left"]) == (2, 1, 1, 8)
    assert now["accepted"] == pytest.approx(2 / 3)
    assert now["expected"] == pytest.approx((0.8 + 0.4 + 0.81) / 3)
    assert now["agreement"] == pytest.approx(1 / 3)


def test_skipped_questions_come_again_when_asked_for(desk):
    for row in range(6):
        desk.answer(A, f"0{row}", [(row, (row + k) % 4, "skip") for k in (1, 2)])
    done = desk.next_item(A)
    assert done["row"] is None
    last = done["progress"]["last"]
    assert desk.next_item(A, again=last)["row"] == 0
    desk.answer(A, "10", [(0, 1, "yes"), (0, 2, "skip")])
    assert desk.next_item(A, again=last)["row"] == 1  # skipped again: not asked a third time


def test_two_tabs_get_different_items(desk):
    assert desk.next_item(A)["row"] == 0
    assert desk.next_item(B)["row"] == 1
    desk.release(A)
    assert desk.next_item(B)["row"] == 0


def test_two_servers_on_the_same_file_see_each_other(suggestions):
    one, other = open_suggestions(suggestions), open_suggestions(suggestions)
    one.answer(A, "01", [(0, 1, "yes"), (0, 2, "no")])
    assert other.next_item(B)["row"] == 1
    assert one.next_item(A)["row"] == 2
    other.answer(B, "02", [(0, 1, "no")])
    assert one.progress()["repeated"] == 1
    assert other.progress()["yes"] == 0


def test_undo_shows_the_item_again(desk):
    desk.answer(A, "01", [(0, 1, "yes"), (0, 2, "no")])
    assert desk.next_item(A)["row"] == 1
    taken = desk.undo(A, "02")
    assert taken == [
        {"row": 0, "label": 1, "action": "yes", "asked": True},
        {"row": 0, "label": 2, "action": "no", "asked": True},
    ]
    assert desk.next_item(A, row=taken[0]["row"])["row"] == 0
    assert desk.progress()["answered"] == 0
    assert desk.undo(B, "03") == []


def test_a_page_of_one_class(desk):
    page = desk.next_page(A, 1, 0, 2)
    assert page["name"] == "dog"
    assert [tile["row"] for tile in page["tiles"]] == [4, 0]  # the most probable first
    assert [tile["row"] for tile in desk.next_page(B, 1, 0, 2)["tiles"]] == [3]
    assert page["classes"][1] == {"label": 1, "name": "dog", "questions": 3, "left": 3}
    desk.answer(A, "01", [(0, 1, "yes"), (4, 1, "no")])
    desk.release(B)
    page = desk.next_page(A, 1, 0, 24)
    assert [tile["row"] for tile in page["tiles"]] == [3]
    assert page["classes"][1]["left"] == 1


def test_a_budget_asks_the_first_of_the_order_item_by_item(suggestions):
    desk = open_suggestions(suggestions, selection=Selection("likely", 3))
    assert desk.progress()["questions"] == 3
    asked = []
    while (item := desk.next_item(A))["row"] is not None:
        asked.append((item["row"], names(item)))
        desk.answer(
            A, f"0{len(asked)}", [(item["row"], q["label"], "yes") for q in item["questions"]]
        )
    assert asked == [(5, ["fox"]), (4, ["dog"]), (3, ["cat"])]


@pytest.mark.parametrize("wrong", [(0, 4, "yes"), (99, 1, "no"), (0, ITEM, "skip")])
def test_only_items_and_classes_of_the_table_can_be_answered(desk, wrong):
    with pytest.raises(UnknownQuestionError):
        desk.answer(A, "01", [(0, 1, "yes"), wrong])
    assert desk.progress()["answered"] == 0
    with pytest.raises(UnknownQuestionError):
        desk.next_item(A, row=6)
    with pytest.raises(UnknownQuestionError):
        desk.next_page(A, 4, 0, 24)


def test_the_labels_hold_yes_and_no(desk, suggestions):
    desk.answer(A, "01", [(0, 1, "yes"), (0, 2, "no")])
    desk.answer(A, "02", [(1, 2, "skip"), (1, 3, "yes")])
    desk.undo(A, "03")
    found = reviewed_table(desk)
    assert (found.yes, found.no, found.left_out) == (1, 1, 0)
    assert found.table.labels.dense([0, 1]).tolist() == [[1, 1, -1, 0], [0, 1, 0, 0]]
    assert class_counts(desk) == [
        {"class": "dog", "yes": 1, "no": 0, "skip": 0},
        {"class": "fox", "yes": 0, "no": 1, "skip": 0},
    ]


def test_a_seen_label_is_wrong_and_another_is_added(desk, suggestions, tmp_path):
    before = {path.name: path.read_bytes() for path in suggestions.glob("*.[nc]*")}
    desk.answer(A, "01", [(0, 0, "no")])  # the seen cat
    desk.answer(A, "02", [(0, 3, "yes")])  # an owl that was not suggested
    item = desk.next_item(A)
    assert names(item) == ["dog", "fox"]  # the questions stay
    assert item["labels"] == [
        {"label": 0, "class": "cat", "seen": 1, "has": False},
        {"label": 3, "class": "owl", "seen": 0, "has": True},
    ]
    now = item["progress"]
    assert (now["wrong"], now["added"], now["answered"]) == (1, 1, 0)
    found = reviewed_table(desk)
    assert (found.yes, found.no, found.wrong) == (1, 1, 1)
    assert found.table.labels.dense([0]).tolist() == [[-1, 0, 0, 1]]
    write(found.table, tmp_path / "labels.csv")
    assert read(tmp_path / "labels.csv").table.labels.dense([0]).tolist() == [[-1, 0, 0, 1]]
    again = open_suggestions(suggestions)  # kept like any answer
    assert again.progress()["wrong"] == 1
    again.answer(B, "03", [(0, 0, "yes")])  # another person: it is right
    assert desk.next_item(A)["progress"]["wrong"] == 0
    again.undo(B, "04")
    assert desk.undo(A, "05") == [{"row": 0, "label": 3, "action": "yes", "asked": False}]
    assert desk.undo(A, "06") == [{"row": 0, "label": 0, "action": "no", "asked": False}]
    assert reviewed_table(desk).table.labels.digest() == desk.table.labels.digest()
    assert len(desk.store.since()) == 6  # the history stays
    assert {path.name: path.read_bytes() for path in suggestions.glob("*.[nc]*")} == before


def test_the_questions_can_be_chosen_during_a_review(desk):
    desk.answer(A, "01", [(0, 1, "yes")])
    desk.select(Selection("likely", 3, 0.5))
    assert desk.progress()["questions"] == 3  # the answer, and two more
    assert desk.next_item(A)["row"] == 5
    assert desk.selection() == {"order": "likely", "budget": 3, "least": 0.5, "suggestions": 12}
    assert desk.next_item(A, row=1)["questions"] == []  # may still be looked at and corrected
    desk.select(Selection())
    assert desk.progress()["questions"] == 12


def test_answers_outlive_new_suggestions(desk, suggestions):
    desk.answer(A, "01", [(5, 2, "yes"), (0, 1, "no")])
    write_suggestions(make_suggestions(None, items=4), suggestions)
    again = open_suggestions(suggestions)
    assert (again.progress()["yes"], again.progress()["no"]) == (0, 1)
    found = reviewed_table(again)
    assert (found.no, found.left_out) == (1, 1)


def test_an_empty_folder_of_suggestions_is_done(tmp_path):
    full = make_suggestions(None)
    nothing = {name: getattr(full, name)[:0] for name in ("row", "label", "probability", "score")}
    write_suggestions(replace(full, **nothing), tmp_path)
    desk = open_suggestions(tmp_path)
    assert desk.next_item(A)["row"] is None
    assert desk.progress()["accepted"] is None


def test_the_embedded_digits_have_images(tmp_path):
    found = make_suggestions(None)
    ids = np.array(["scene-00003", "scene-00000", "scene-99999", "scene-x", "other", "scene--1"])
    table = replace(found.table, ids=ids)
    write_suggestions(replace(found, table=table, about={"data": "digits-features"}), tmp_path)
    desk = open_suggestions(tmp_path)
    assert desk.next_item(A)["image"]
    data, kind = desk.pictures.get(0, "large")
    assert kind == "image/png"
    expected = load_digits_scenes().images[3]
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data))), expected)
    assert [desk.pictures.get(row, "small") for row in (2, 3, 4, 5, 6, -1)] == [None] * 6


def test_new_items_are_asked_until_a_yes(tmp_path, suggestions):
    classes = tmp_path / "classes.txt"
    classes.write_text("cat\ndog\nfox\nowl\n")
    photos = tmp_path / "images" / "photos"
    desk = open_new_items(photos, classes, seed=3)
    truth = {row: {row % 4, (row + 1) % 4} for row in range(6)}
    asked = {row: [] for row in range(6)}
    step = 0
    while (item := desk.next_question(A))["row"] is not None:
        row, label, step = item["row"], item["label"], step + 1
        assert item["number"] == len(asked[row]) + 1
        asked[row].append(label)
        desk.answer(A, f"{step:02d}", [(row, label, "yes" if label in truth[row] else "no")])
    for row, labels in asked.items():
        assert labels == desk.items.order(row).tolist()[: len(labels)]
        assert [label in truth[row] for label in labels] == [False] * (len(labels) - 1) + [True]
    now = desk.progress()
    assert (now["answered"], now["left"], now["yes"]) == (6, 0, 6)
    assert now["per_item"] == pytest.approx(step / 6)
    table = reviewed_table(desk).table
    assert table.labels.per_item(1).tolist() == [1] * 6
    assert int(table.labels.per_class(-1).sum()) == step - 6
    assert len({tuple(desk.items.order(row)) for row in range(6)}) > 1


def test_new_items_undo_later_and_nothing_fits(tmp_path, suggestions):
    classes = tmp_path / "classes.txt"
    classes.write_text("cat\ndog\n")
    desk = open_new_items(tmp_path / "images" / "photos", classes)
    first = desk.next_question(A)
    desk.answer(A, "01", [(0, first["label"], "yes")])
    assert desk.next_question(A)["row"] == 1
    assert desk.undo(A, "02") == [
        {"row": 0, "label": first["label"], "action": "yes", "asked": True}
    ]
    assert desk.next_question(A)["label"] == first["label"]
    desk.answer(A, "03", [(0, ITEM, "skip")])
    assert desk.next_question(A)["row"] == 1
    assert desk.next_question(B)["row"] == 2
    now = desk.progress()
    assert (now["skipped"], now["left"]) == (1, 5)
    assert desk.next_question(A, again=now["last"])["row"] == 0
    desk.answer(A, "04", [(1, 0, "no"), (1, 1, "skip")])
    assert desk.progress()["without"] == 1
    assert desk.next_question(A)["row"] == 3


def test_items_that_have_a_label_are_not_asked(tmp_path):
    (tmp_path / "t.csv").write_text("image,labels,negatives\na,cat,\nb,,dog\nc,,\n")
    desk = open_new_items(tmp_path / "t.csv")
    assert desk.progress()["questions"] == 2
    item = desk.next_question(A)
    assert (item["row"], item["class"]) == (1, "cat")
    assert item["labels"] == [{"label": 1, "class": "dog", "seen": -1, "has": False}]
    desk.answer(A, "01", [(1, 0, "yes")])
    assert desk.next_question(A)["row"] == 2


def test_what_can_be_read_as_new_items(tmp_path, suggestions):
    classes = tmp_path / "classes.txt"
    classes.write_text("cat\ndog\n")
    table = read_unlabelled(tmp_path / "images", classes)
    assert table.ids.tolist() == [f"photos/{row}.png" for row in range(6)]
    assert table.path(0).is_file()
    (tmp_path / "list.csv").write_text("image\nimages/photos/0.png\nimages/photos/1.png\n")
    listed = read_unlabelled(tmp_path / "list.csv", classes)
    assert (len(listed), listed.root) == (2, tmp_path)
    (tmp_path / "names.csv").write_text("id\nfirst\nsecond\n")
    assert read_unlabelled(tmp_path / "names.csv", classes).root is None
    for data, words in (
        (tmp_path / "images", "--classes"),
        (tmp_path / "list.csv", "--classes"),
        (tmp_path / "none", "no such file"),
    ):
        with pytest.raises(InputError, match=words):
            read_unlabelled(data, None)
    # Where there is a labels.csv, shards beside it are not opened.
    (tmp_path / "labelled").mkdir()
    (tmp_path / "labelled" / "labels.csv").write_text("image,labels\na.tar/1.png,dog\n")
    (tmp_path / "labelled" / "a.tar").write_bytes(b"no tar file")
    assert read_unlabelled(tmp_path / "labelled", classes).labels.dense().tolist() == [[0, 1]]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no image"):
        read_unlabelled(tmp_path / "empty", classes)
    (tmp_path / "bad.csv").write_text("image\n../out.png\n")
    with pytest.raises(InputError, match="leaves its folder"):
        read_unlabelled(tmp_path / "bad.csv", classes)


def test_a_reviewed_table_is_trained_on_as_seen_labels(desk, tmp_path):
    from plusone.data.formats import write

    desk.answer(A, "01", [(0, 1, "yes"), (0, 2, "no")])
    write(reviewed_table(desk).table, tmp_path / "labels.npz")
    labels = read(tmp_path / "labels.npz").table.labels
    np.testing.assert_array_equal(labels.dense([0]), [[1, 1, -1, 0]])
