"""The commands as Python calls: the same files and numbers as the commands themselves."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import plusone
from plusone.cli.app import PANELS
from plusone.data.formats import read
from plusone.errors import InputError
from plusone.reviewing.opening import open_audit, open_suggestions

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(160, 8)).astype(np.float32)
    truth = x[:, :4] + 0.2 * x[:, 4:] > 0.3
    truth[np.arange(160), x[:, :4].argmax(axis=1)] = True
    y = np.zeros(truth.shape, dtype=np.int8)
    y[np.arange(160), np.where(truth, rng.random(truth.shape), -1).argmax(axis=1)] = 1
    folder = tmp_path_factory.mktemp("calls")
    names = np.array([f"item{row:03d}" for row in range(160)])
    np.savez(folder / "data.npz", x=x, y=y, ids=names)
    np.savez(folder / "new.npz", x=x[:20], ids=names[:20])
    return folder


def test_the_calls_do_what_the_commands_do(cli, data):
    records = []
    run = plusone.train(data / "data.npz", out=data / "run", on_record=records.append)
    assert run.run == str(data / "run")
    assert len(records) == 1
    assert cli("train", data / "data.npz", "-o", data / "same", "--no-report").code == 0
    weights = [(data / name / "model.safetensors").read_bytes() for name in ("run", "same")]
    assert weights[0] == weights[1]
    again = plusone.train(data / "data.npz", out=data / "run", resume=True)
    assert again.to_json() == run.to_json()
    with pytest.raises(InputError, match="holds a run already"):
        plusone.train(data / "data.npz", out=data / "run")

    tags = plusone.predict(run, data / "new.npz")
    shown = cli("predict", data / "run", data / "new.npz", "--json").json
    assert list(tags.ids) == [item["id"] for item in shown["items"]]
    assert [list(labels) for labels in tags.labels] == [item["labels"] for item in shown["items"]]
    expected = [[*item["probabilities"].values()] for item in shown["items"]]
    np.testing.assert_allclose(tags.probabilities, expected, atol=1e-6)
    assert plusone.predict(run, data / "new.npz", threshold=0.0).labels[0] != tags.labels[0]
    with pytest.raises(InputError, match="exclude each other"):
        plusone.predict(run, data / "new.npz", threshold=0.5, recall=0.5)

    found = plusone.suggest(run, precision=0.5, wrong=True)
    command = cli("suggest", data / "run", "-o", data / "s", "--precision", 0.5, "--wrong")
    assert command.code == 0
    for name in ("suggestions.csv", "accepted.csv", "wrong.csv"):
        own = (data / "run-suggestions" / name).read_bytes()
        assert own == (data / "s" / name).read_bytes()
    assert len(found.suggestions()) == len(own_lines(data / "s" / "suggestions.csv"))

    reviewed = plusone.review(data / "run-suggestions", stop_after=0, out=data / "labels.csv")
    assert (reviewed.labels.dense() == read(data / "labels.csv").table.labels.dense()).all()
    desk = open_suggestions(data / "run-suggestions")
    item = desk.next_item("a" * 16)
    question = item["questions"][0]["label"]
    desk.answer("a" * 16, "0" * 16, [(item["row"], question, "no")])
    desk.store.close()
    answered = plusone.review(data / "run-suggestions", stop_after=0)
    assert answered.labels.dense()[item["row"], question] == -1

    assert len(plusone.audit(run, items=25, stop_after=0)) == 0  # nothing is answered yet
    desk = open_audit(data / "run-audit", lambda table: "")
    step = 0
    while (item := desk.next_item("a" * 16))["row"] is not None:
        answers = [(item["row"], one["label"], "no") for one in item["questions"]]
        desk.answer("a" * 16, f"{step:016x}", answers)
        step += 1
    desk.store.close()
    audited = plusone.audit(run, items=25, stop_after=0)
    assert len(audited) == step == 25
    assert (audited.labels.dense() != 0).all()
    found = plusone.suggest(run, audit=audited, out=data / "audited")
    assert found.calibrated.checked is not None


def own_lines(path):
    return path.read_text(encoding="utf-8").splitlines()[1:]


def test_a_page_is_served_and_stops(data, capsys):
    pytest.importorskip("fastapi", reason="needs the extra review")
    if not (data / "run-suggestions").exists():
        plusone.train(data / "data.npz", out=data / "run")
        plusone.suggest(data / "run")
    plusone.review(data / "run-suggestions", stop_after=0.5, browser=False)
    assert re.search(r"answer at http://127\.0\.0\.1:\d+", capsys.readouterr().out)


def test_a_run_without_a_folder_is_refused():
    x = np.random.default_rng(0).normal(size=(40, 5)).astype("float32")
    dataset = plusone.Dataset.from_arrays(x, (x[:, :3] > 0).astype(int), complete=True)
    fitted = plusone.fit(dataset, "an", epochs=1)
    with pytest.raises(InputError, match=r"plusone\.train writes one"):
        plusone.predict(fitted.result, "photos")
    with pytest.raises(InputError, match="Dataset has its own"):
        plusone.train(dataset, features="x.npz")


def test_every_command_has_a_call():
    rows = dict(
        re.findall(r"^\| `plusone ([\w -]+)` \| `([\w.]+)`", PAGE.read_text(), re.MULTILINE)
    )
    assert set(rows) == {name for names in PANELS.values() for name in names}
    for call in rows.values():
        module, _, name = call.rpartition(".")
        assert getattr(import_module(module), name) is not None
