"""Trackers: whoever listens hears of a training; each one is written to for real."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys

import pytest

from plusone.errors import InputError, RunError
from plusone.extras import install_command
from plusone.inputs.task import make_task
from plusone.recipe import make_recipe
from plusone.training.run import train
from plusone.training.tracking import TRACKERS, make_listeners

RECIPE = make_recipe({"method": "em", "epochs": 3, "lr": 0.02, "options": {"alpha": 0.25}})


@pytest.fixture
def task(feature_data):
    return make_task(feature_data(), RECIPE)


class Ear:
    """Writes down what it hears; it can fail, or stop the training after an epoch."""

    def __init__(self, fail=None, stop_after=None):
        self.fail, self.stop_after, self.heard = fail, stop_after, []

    def _hear(self, what, *more):
        if self.fail == what:
            raise ConnectionError("no server")
        self.heard.append((what, *more))

    def start(self, folder, recipe, description, epochs):
        self._hear("start", recipe.method, description.data, epochs)

    def record(self, record, step):
        self._hear("record", step, record.epoch)
        if step == self.stop_after:
            raise KeyboardInterrupt

    def finish(self, result):
        self._hear("finish", None if result is None else result.method)


def test_listeners_hear_a_training_from_start_to_end(task, tmp_path):
    ear = Ear()
    train(task, RECIPE, tmp_path / "run", listeners=[ear])
    assert ear.heard == [
        ("start", "em", "arrays", 0), ("record", 1, 1), ("record", 2, 2), ("record", 3, 3),
        ("finish", "em"),
    ]  # fmt: skip


def test_a_stopped_training_says_so_and_resumes_where_it_was(task, tmp_path, monkeypatch):
    monkeypatch.setattr("plusone.training.run.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    ear = Ear(stop_after=2)
    with pytest.raises(KeyboardInterrupt):
        train(task, RECIPE, tmp_path / "run", listeners=[ear])
    assert ear.heard[-1] == ("finish", None)
    again = Ear()
    train(task, RECIPE, tmp_path / "run", resume=True, listeners=[again])
    # Epoch 2 was not saved yet when the training stopped.
    assert [entry[1:] for entry in again.heard if entry[0] == "record"] == [(2, 2), (3, 3)]
    assert again.heard[0] == ("start", "em", "arrays", 1)


def test_a_listener_that_fails_later_does_not_stop_the_training(task, tmp_path):
    deaf, ear = Ear(fail="record"), Ear()
    with pytest.warns(UserWarning, match="Ear gets no more figures: no server"):
        train(task, RECIPE, tmp_path / "run", listeners=[deaf, ear])
    assert [entry[0] for entry in deaf.heard] == ["start"]
    assert ear.heard[-1] == ("finish", "em")
    with pytest.raises(RunError, match="Ear could not be started: no server"):
        train(task, RECIPE, tmp_path / "other", listeners=[Ear(fail="start")])


def test_unknown_and_missing_trackers_are_refused(monkeypatch):
    with pytest.raises(InputError, match="unknown tracker 'x'; there are tensorboard, mlflow"):
        make_listeners(["x"])
    monkeypatch.setattr("plusone.training.tracking.find_spec", lambda name: None)
    for name in TRACKERS:
        with pytest.raises(InputError, match=re.escape(install_command(name))):
            make_listeners([name])


@pytest.mark.slow
def test_nobody_is_imported_unasked():
    code = (
        "import sys, plusone, plusone.training.run, plusone.training.tracking\n"
        "assert not {'tensorboard', 'mlflow', 'wandb'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def tracked(name, task, tmp_path):
    """The records and the result of a training with one tracker, stopped and resumed."""
    records = []
    with pytest.raises(KeyboardInterrupt):
        train(
            task, RECIPE, tmp_path / "run", listeners=[*make_listeners([name]), Ear(stop_after=2)]
        )
    result = train(task, RECIPE, tmp_path / "run", resume=True, listeners=make_listeners([name]))
    lines = (tmp_path / "run" / "records.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["epoch"] for record in records] == [1, 2, 3]
    return [record["val_map"] for record in records], result


@pytest.fixture(autouse=True)
def _every_epoch_is_saved(monkeypatch):
    monkeypatch.setattr("plusone.training.run.SECONDS_BETWEEN_CHECKPOINTS", 0.0)


@pytest.mark.slow
def test_tensorboard_files_hold_every_epoch_once(task, tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    maps, result = tracked("tensorboard", task, tmp_path)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert any(name.startswith("loss/") for name in events.Tags()["scalars"])
    scalars = events.Scalars("val/map")
    assert [one.step for one in scalars] == [1, 2, 3]
    assert [one.value for one in scalars] == pytest.approx(maps)
    assert events.Scalars("final/test_map")[0].value == pytest.approx(result.test_map)


@pytest.mark.slow
def test_mlflow_holds_one_run_with_settings_and_every_epoch(task, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    pytest.importorskip("sqlalchemy", reason="mlflow-skinny has no store of runs")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    maps, result = tracked("mlflow", task, tmp_path)
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("plusone")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["method"] == "em"
    assert run.data.params["options.alpha"] == "0.25"
    assert run.data.metrics["final/test_map"] == pytest.approx(result.test_map)
    history = {one.step: one.value for one in client.get_metric_history(run.info.run_id, "val/map")}
    assert list(history.values()) == pytest.approx(maps)
    assert sorted(history) == [1, 2, 3]


def logged(path):
    """The records of a file of Weights & Biases, in the log format of LevelDB."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, place, pending = path.read_bytes(), 7, b""
    while place + 7 <= len(content):
        if (room := 32768 - place % 32768) < 7:  # the rest of a block is too short for a header
            place += room
            continue
        length, kind = struct.unpack_from("<HB", content, place + 4)
        pending += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # the whole record, or its last part
            yield Record.FromString(pending)
            pending = b""


@pytest.mark.slow
def test_wandb_writes_a_run_without_a_network(task, tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    result = train(task, RECIPE, tmp_path / "run", listeners=make_listeners(["wandb"]))
    (file,) = (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")

    def values(items):
        return {one.key or "/".join(one.nested_key): json.loads(one.value_json) for one in items}

    records = list(logged(file))
    rows = [values(one.history.item) for one in records if one.HasField("history")]
    assert [row["_step"] for row in rows] == [1, 2, 3]
    assert max(row["val/map"] for row in rows) == pytest.approx(result.val_map)
    summary = {}
    for one in records:
        summary |= values(one.summary.update)
    assert summary["final/test_map"] == pytest.approx(result.test_map)
    (started,) = (one.run for one in records if one.HasField("run"))
    assert values(started.config.update)["options.alpha"] == 0.25
    known = json.loads((tmp_path / "run" / "tracking.json").read_text(encoding="utf-8"))
    assert known == {"wandb": started.run_id}
