"""Hierarchies of classes: reading `classes.csv`, and labels that follow it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plusone.data.classes_file import closed, read_parents, with_parents, write_parents
from plusone.data.hierarchy import Hierarchy
from plusone.data.matrix import LabelMatrix
from plusone.data.observation import SCHEMES, observe_table
from plusone.data.source import load_source, make_source
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.reviewing.reviewed_labels import apply_answers

ANIMALS = {"dog": "mammal", "cat": "mammal", "mammal": "animal", "animal": "", "car": ""}


def table(rows: list[list[int]], *, complete: bool = False) -> LabelTable:
    """Labels of dog, cat and car, with the hierarchy of `ANIMALS`."""
    states = LabelMatrix.from_dense(rows, default=-1 if complete else 0)
    ids = np.array([f"item-{row}" for row in range(len(rows))])
    own = LabelTable(ids, ("dog", "cat", "car"), states, states if complete else None)
    return with_parents(own, ANIMALS)


def lines(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(("class,parent", *rows)) + "\n")
    return path


def naive(parent: tuple[int | None, ...], states: np.ndarray) -> np.ndarray:
    """Closed labels, one at a time: parents of positives first, then children of negatives."""
    out = states.copy()
    for state, kept in ((1, ()), (-1, (1,))):
        for row, label in np.argwhere(states == 1 if state == 1 else out != 1):
            at = parent[label]
            while at is not None:
                if state == 1:
                    out[row, at] = 1
                elif states[row, at] == -1 and out[row, at] not in kept:
                    out[row, label] = -1
                at = parent[at]
    return out


def test_closing_agrees_with_a_loop_over_labels() -> None:
    rng = np.random.default_rng(0)
    contradictions = 0
    for _ in range(60):
        parent = tuple(
            None if label == 0 or rng.random() < 0.3 else int(rng.integers(label))
            for label in range(int(rng.integers(2, 9)))
        )
        hierarchy = Hierarchy(parent)
        states = rng.choice([1, 0, -1], p=[0.2, 0.5, 0.3], size=(6, len(parent))).astype(np.int8)
        known = states != -1
        sparse = LabelMatrix.from_entries(
            *np.nonzero(known), states[known], states.shape, default=-1
        )
        np.testing.assert_array_equal(hierarchy.closed(sparse).dense(), naive(parent, states))
        dense = LabelMatrix.from_dense(states)
        if hierarchy.contradiction(dense) is not None:
            contradictions += 1
            continue
        both = hierarchy.closed(dense)
        np.testing.assert_array_equal(both.dense(), naive(parent, states))
        specific = hierarchy.most_specific(both)
        np.testing.assert_array_equal(hierarchy.closed(specific).dense(), both.dense())
        for row, label in np.argwhere(specific.dense() == 1):
            below = [one for one in specific.positives(row) if label in hierarchy.lineage(one)]
            assert below == []
    assert 10 < contradictions < 60


def test_classes_above_those_of_the_table_are_added() -> None:
    own = table([[1, 0, 0], [0, 0, 1], [0, -1, 0]])
    assert own.classes == ("dog", "cat", "car", "mammal", "animal")
    assert own.labels.dense().tolist() == [[1, 0, 0, 1, 1], [0, 0, 1, 0, 0], [0, -1, 0, 0, 0]]
    few = own.with_classes(["animal", "dog"])  # mammal is left out: animal is the parent then
    assert few.hierarchy == Hierarchy((None, 0))


def test_a_file_without_parents_changes_nothing() -> None:
    own = LabelTable(np.array(["a"]), ("dog",), LabelMatrix.from_dense([[1]]))
    assert with_parents(own, {"dog": "", "whale": "animal", "animal": ""}) is own


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["dog,mamal", "mammal,"], "row 2: the parent 'mamal' of 'dog' has no row of its own"),
        (["dog,mammal", "mammal,dog"], "row 2: a class lies below itself: dog -> mammal -> dog"),
        (["dog,dog"], "row 2: a class lies below itself: dog -> dog"),
        (
            ["dog,mammal", "mammal,", "pet,", "dog,pet"],
            "row 5: class 'dog' has a second parent 'pet' (row 2 says 'mammal')",
        ),
        (["dog,", "dog,"], "row 3: class 'dog' occurs twice (first in row 2)"),
        ([",mammal", "mammal,"], "row 2: class '' is empty"),
        (["dog"], "row 2: has 1 columns, the header has 2"),
    ],
)
def test_wrong_rows_are_named(tmp_path: Path, rows: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_parents(lines(tmp_path / "classes.csv", *rows))
    assert message in str(caught.value)
    assert str(tmp_path / "classes.csv") in str(caught.value)


def test_other_columns_and_missing_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "classes.csv"
    with pytest.raises(InputError, match=r"classes\.csv: cannot be read"):
        read_parents(path)
    path.write_text("name,above\ndog,mammal\n")
    with pytest.raises(InputError, match="row 1: needs the columns class,parent"):
        read_parents(path)


def test_a_positive_below_a_seen_negative_is_refused() -> None:
    own = table([[0, 0, 0], [1, 0, 0]])
    states = own.labels.dense()
    states[1, own.classes.index("animal")] = -1
    with pytest.raises(InputError, match="item 'item-1' has the class 'dog', but not 'animal'"):
        closed(replace(own, labels=LabelMatrix.from_dense(states)))


def test_what_was_named_and_what_was_answered_stay_apart() -> None:
    named = LabelMatrix.from_dense([[1, 0, 0]])
    both = LabelMatrix.from_dense([[1, 0, 1]])  # car was answered
    own = LabelTable(np.array(["a"]), ("dog", "cat", "car"), both, named=named)
    own = with_parents(own, ANIMALS | {"car": "vehicle", "vehicle": ""})
    assert own.named is not None
    assert [own.classes[label] for label in own.named.positives(0)] == ["dog", "mammal", "animal"]
    assert [own.classes[label] for label in own.labels.positives(0)] == [*own.classes[:1], "car",
        "mammal", "animal", "vehicle"]  # fmt: skip


@pytest.mark.parametrize("scheme", ["single", "all", "yes_no(True)", "partial(0.7)",
    "positives_and_negatives(1, None)", "positives_and_negatives(1, 1)", "frequent"])  # fmt: skip
def test_a_scheme_draws_the_most_specific_labels_and_nothing_wrong_follows(scheme: str) -> None:
    assert scheme.split("(")[0] in SCHEMES
    truth = np.random.default_rng(0).random((80, 3)) < 0.5
    truth[:, 2] |= ~truth.any(axis=1)
    whole = table(truth.astype(int).tolist(), complete=True)
    assert whole.truth is not None
    seen, true = observe_table(whole, scheme, 3).labels.dense(), whole.truth.dense()
    assert (seen[seen != 0] == true[seen != 0]).all()  # nothing is seen that is not so
    place = whole.classes.index
    dog, cat = seen[:, place("dog")] == 1, seen[:, place("cat")] == 1
    mammal, animal = seen[:, place("mammal")], seen[:, place("animal")]
    np.testing.assert_array_equal(mammal == 1, dog | cat)  # a parent follows, it is not drawn
    np.testing.assert_array_equal(animal == 1, mammal == 1)
    if scheme == "single":
        assert ((seen[:, :3] == 1).sum(axis=1) == 1).all()
    if scheme == "all":
        np.testing.assert_array_equal(seen, true)


def test_an_answer_is_one_about_parents_or_children() -> None:
    own = table([[1, 0, 0], [0, 0, 1]])
    place = own.classes.index
    new = apply_answers(own, [0, 1], [place("mammal"), place("cat")], [False, True])
    assert [new.classes[label] for label in new.labels.positives(0)] == ["animal"]
    assert new.labels.dense()[0, :2].tolist() == [-1, -1]
    assert [new.classes[label] for label in new.labels.positives(1)] == ["cat", "car", "mammal",
        "animal"]  # fmt: skip
    assert new.observation["answers"] == 2
    closed(new)  # no contradiction


def test_the_file_beside_the_labels_is_found(tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("image,labels\na,dog\nb,car\n")
    path = lines(tmp_path / "classes.csv", "dog,mammal", "mammal,animal", "animal,")
    found = load_source(str(labels), check_images=False).table
    assert found.classes == ("car", "dog", "mammal", "animal")
    assert "classes.csv puts the classes on 3 levels; 2 of them are new" in found.notes[-1]
    assert "it does not have car" in found.notes[-1]
    assert make_source(str(labels), (), "auto", "auto").classes == str(path)
    assert load_source(str(tmp_path), check_images=False).table.hierarchy == found.hierarchy
    assert load_source(str(labels), classes=None, check_images=False).table.hierarchy is None
    path.write_text("class,weight\ndog,1\n")  # something else
    assert load_source(str(labels), check_images=False).table.hierarchy is None
    assert make_source(str(labels), (), "auto", "auto").classes is None


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    own = table([[1, 0, 0]])
    assert own.hierarchy is not None
    write_parents(tmp_path / "classes.csv", own.classes, own.hierarchy)
    assert read_parents(tmp_path / "classes.csv") == ANIMALS
