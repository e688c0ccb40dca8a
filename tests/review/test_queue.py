"""The order of questions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.reviewing import ORDERS, order_questions
from plusone.reviewing.questions import WORTH, Selection, Suggested, select_by_default
from plusone.reviewing.store import Verdict
from plusone.suggestions import Suggestions


def found(row, label, probability, n_classes=3):
    n = max(row, default=0) + 1
    empty = LabelMatrix.from_entries([], [], [], (n, n_classes))
    table = LabelTable(
        np.array([f"{number}.png" for number in range(n)]), tuple("abcdefgh"[:n_classes]), empty
    )
    p = np.array(probability, dtype=np.float32)
    return Suggestions(table, np.array(row), np.array(label, dtype=np.int32), p, p, {})


@pytest.fixture
def some():
    # Class 0 misses many labels, class 1 some, class 2 few.
    return found(
        [0, 0, 1, 2, 3, 4, 5, 6, 7],
        [0, 1, 0, 0, 0, 0, 1, 2, 0],
        [0.9, 0.5, 0.6, 0.8, 0.7, 0.95, 0.9, 0.1, 0.99],
    )


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_asks_everything_once_and_the_same_again(some, order):
    asked = order_questions(some, order, seed=3)
    assert asked.dtype == np.int64
    assert sorted(asked.tolist()) == list(range(len(some)))
    np.testing.assert_array_equal(order_questions(some, order, seed=3), asked)
    np.testing.assert_array_equal(order_questions(some, order, 4, seed=3), asked[:4])
    assert len(order_questions(some, order, 1000)) == len(some)
    assert len(order_questions(found([], [], []), order, 5)) == 0


def test_item_keeps_the_order_of_the_suggestions(some):
    assert order_questions(some).tolist() == list(range(9))


def test_likely_and_uncertain_go_by_the_probability(some):
    assert order_questions(some, "likely", 3).tolist() == [8, 5, 0]
    assert order_questions(some, "uncertain", 3).tolist() == [1, 2, 4]


def test_balanced_gives_every_class_its_turn(some):
    labels = some.label[order_questions(some, "balanced")]
    assert sorted(labels[:3].tolist()) == [0, 1, 2]
    assert sorted(labels[3:5].tolist()) == [0, 1]
    assert labels[5:].tolist() == [0] * 4


def test_classes_take_turns_and_within_a_class_the_uncertain_come_first(some):
    for order in ("worth", "frequent", "balanced"):
        asked = order_questions(some, order)
        of_class = asked[some.label[asked] == 0]
        assert of_class.tolist() == [2, 4, 3, 0, 5, 8], order
    first = {order: some.label[order_questions(some, order)].tolist() for order in ORDERS}
    assert first["frequent"].index(2) >= first["balanced"].index(2) > first["worth"].index(2)


def test_random_follows_the_seed(some):
    assert (
        order_questions(some, "random", seed=1).tolist()
        != order_questions(some, "random", seed=2).tolist()
    )


def test_unknown_orders_and_budgets_are_refused(some):
    with pytest.raises(InputError, match="unknown order 'best'; known: item, worth"):
        order_questions(some, "best")
    with pytest.raises(InputError, match="at least 1"):
        order_questions(some, "item", 0)


def answered(questions, places, answer):
    questions.update({questions.pairs[place]: Verdict(answer, {}, 1) for place in places})


def test_answers_correct_the_rest_and_the_order_follows():
    """Promised 44 % and no yes: what is left is promised less; undoing takes it back."""
    n = 60
    suggestions = found(list(range(n)), [k % 2 for k in range(n)], np.linspace(0.3, 0.58, n))
    queue = order_questions(suggestions, "uncertain", 50)
    questions = Suggested(suggestions, Selection("uncertain", 50))
    first = questions.progress()["rest"]
    asked = questions.queue[:20].tolist()
    answered(questions, asked, "no")
    now = questions.progress()
    assert now["rest"] < 0.6 * first
    assert now["expected"] > 0.4  # what was promised stays on the page
    left = questions.queue[questions.state[questions.queue] == 0]
    assert (questions.probability[left] < suggestions.probability[left]).all()
    nearest = np.abs(questions.probability[left] - 0.5)
    assert (np.diff(nearest) >= -1e-6).all()  # the nearest to one half is asked about first
    assert len(questions.queue) == len(queue)
    answered(questions, asked, None)
    np.testing.assert_allclose(questions.probability, suggestions.probability, atol=1e-5)
    assert questions.queue.tolist() == queue.tolist()


def test_few_answers_change_little_and_other_classes_less(some):
    questions = Suggested(some, Selection())
    answered(questions, [0], "no")
    change = some.probability - questions.probability
    assert (change[1:] > 0).all()
    assert change[1:].max() < 0.3


def test_classes_keep_their_turns_and_earlier_answers_use_the_budget():
    rng, n = np.random.default_rng(0), 400
    label = np.arange(n) % 4
    suggestions = found(list(range(n)), label.tolist(), rng.uniform(0.2, 0.4 + 0.15 * label), 4)
    queue = order_questions(suggestions, "balanced", 80)
    questions = Suggested(suggestions, Selection("balanced", 80))
    for _ in range(40):
        place = questions.next_item(frozenset(), 0)[0]
        answered(questions, [place], "yes" if rng.random() < 0.4 else "no")
    assert set(questions.queue.tolist()) != set(queue.tolist())  # others are nearer to one half now
    assert np.bincount(label[questions.queue]).tolist() == [20] * 4
    assert np.bincount(label[questions.state != 0]).tolist() == [10] * 4
    later = Suggested(suggestions, Selection("balanced", 30))
    answered(later, np.flatnonzero(questions.state != 0), "yes")
    assert later.progress()["left"] == 0


def test_by_default_only_what_is_worth_asking_is_asked(some):
    questions = Suggested(some, select_by_default())
    assert sorted(questions.queue.tolist()) == [0, 1, 2, 3, 4, 5, 6, 8]  # not 7, of 0.1
    assert select_by_default() == Selection("worth", None, WORTH)
    assert select_by_default(budget=3) == Selection("worth", 3, 0.0)
    assert select_by_default("likely", 3, 0.5) == Selection("likely", 3, 0.5)
    answered(questions, [7], "yes")  # added by a person: it stays, and makes nothing more likely
    assert questions.of_item(6).tolist() == [7]
    assert 7 in questions.queue
    np.testing.assert_allclose(questions.probability, some.probability, atol=1e-5)
    questions.select(Selection("likely", 3, 0.9))
    assert questions.queue.tolist() == [8, 5, 7]
    questions.select(Selection())
    assert sorted(questions.queue.tolist()) == list(range(9))
    with pytest.raises(InputError, match="from 0 to 1, not 7"):
        Selection(least=7)


def test_answers_end_a_review_that_is_no_longer_worth_it():
    suggestions = found(list(range(60)), [0] * 60, [0.25] * 60)
    questions = Suggested(suggestions, select_by_default())
    assert questions.progress()["left"] == 60
    answered(questions, range(10), "no")
    assert questions.progress()["left"] == 0
    answered(questions, range(10), None)
    assert questions.progress()["left"] == 60


def test_a_page_of_a_class_begins_with_the_most_probable(some):
    questions = Suggested(some, Selection())
    assert questions.next_page(0, frozenset(), 0, 3).tolist() == [8, 5, 0]


def albums(probability, n_classes=1):
    """Suggestions about six photos in two albums of three, for every class."""
    row, label = np.repeat(np.arange(6), n_classes), np.tile(np.arange(n_classes), 6)
    made = found(row.tolist(), label.tolist(), probability, n_classes)
    return replace(made, table=replace(made.table, groups=np.array(list("aaabbb"))))


@pytest.mark.parametrize("order", ORDERS)
def test_one_question_for_each_group_and_class_comes_first(order):
    rng = np.random.default_rng(0)
    suggestions = albums(rng.uniform(0.3, 0.7, 12), 2)
    asked = order_questions(suggestions, order)
    assert sorted(asked.tolist()) == list(range(12))
    topics = {(suggestions.row[place] // 3, suggestions.label[place]) for place in asked[:4]}
    assert len(topics) == 4
    single = replace(suggestions, table=replace(suggestions.table, groups=np.array(list("abcdef"))))
    alone = replace(suggestions, table=replace(suggestions.table, groups=None))
    np.testing.assert_array_equal(order_questions(single, order), order_questions(alone, order))


def test_an_answer_informs_its_group_most():
    suggestions = albums([0.6] * 6)
    questions = Suggested(suggestions, Selection("uncertain"))
    first, second = questions.queue[:2].tolist()
    answered(questions, [first], "no")
    own = [place for place in range(6) if place // 3 == first // 3]
    others = [place for place in range(6) if place // 3 != first // 3]
    assert questions.probability[own].max() < questions.probability[others].min()
    assert questions.probability[others].max() < 0.6  # as without groups
    left = [place for place in questions.queue.tolist() if place != first]
    assert left[0] // 3 == second // 3  # the other album is asked about first
    answered(questions, [first], None)
    np.testing.assert_allclose(questions.probability, suggestions.probability, atol=1e-5)


def test_all_answers_are_counted_and_the_first_number_of_questions_stays():
    """Answers make unlikely labels worth asking: answers about these count like the others."""
    suggestions = found(list(range(90)), [0] * 90, [0.5] * 20 + [0.18] * 70)
    questions = Suggested(suggestions, select_by_default())
    assert questions.progress()["questions"] == 20
    answered(questions, range(20), "yes")
    more = np.flatnonzero(questions.state[questions.queue] == 0)
    assert len(more) == 70  # they have become likely
    answered(questions, questions.queue[more][:40].tolist(), "no")
    now = questions.progress()
    assert (now["judged"], now["at_first"]) == (60, 20)
    assert now["accepted"] == 20 / 60
