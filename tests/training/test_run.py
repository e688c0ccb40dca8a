"""Run folders: what is in them, what is refused, and that a killed run ends the same."""

import json
import multiprocessing
import os
import random
import signal
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from plusone.data.formats import read
from plusone.data.lazy import LazyArray
from plusone.errors import InputError, RunError
from plusone.inputs.task import make_task
from plusone.prediction import checkpoint
from plusone.prediction.load import MEMORY, load_run
from plusone.prediction.run_folder import read_metrics
from plusone.probabilities.thresholds import read_thresholds
from plusone.recipe import make_recipe
from plusone.training import run
from plusone.training.run import train
from plusone.training.summary import calibrate

RECIPE = make_recipe({"method": "em", "epochs": 3, "lr": 0.02, "options": {"alpha": 0.2}})


@pytest.fixture
def task(feature_data):
    return make_task(feature_data(), RECIPE)


def without_place(metrics):
    return {key: value for key, value in metrics.to_json().items() if key not in ("seconds", "run")}


def test_what_a_run_leaves_behind(task, tmp_path):
    folder = tmp_path / "deep" / "run"
    seen, clocks = [], []
    metrics = train(task, RECIPE, folder, on_record=seen.append, on_step=clocks.append,
                    source={"path": "x"}).to_json()  # fmt: skip
    assert sorted(path.name for path in folder.iterdir()) == [
        "calibration.json", "data.json", "memory.safetensors", "metrics.json", "model.safetensors",
        "observed.npz", "recipe.toml", "records.jsonl", "thresholds.json",
    ]  # fmt: skip
    assert json.loads((folder / "metrics.json").read_text()) == metrics
    assert metrics["method"] == "em"
    assert metrics["run"] == os.fspath(folder)
    assert 0 < metrics["test_map"] <= 1
    assert metrics["items"] == {"train": 144, "val": 36, "test": 60}
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    assert [line["val_map"] for line in lines] == [record.val_map for record in seen]
    assert metrics["val_map"] == max(line["val_map"] for line in lines)
    assert len(clocks) == 3 * 9
    about = json.loads((folder / "data.json").read_text())
    assert about["source"] == {"path": "x"}
    assert about["observation"]["digest"] == metrics["observation"]["digest"]
    table = read(folder / "observed.npz").table
    assert table.observation["digest"] == metrics["observation"]["digest"]
    assert table.truth is None
    rows = table.rows_of("train")
    assert table.labels.take(rows).digest() == task.train.observed.digest()


def test_an_existing_run_is_refused(task, tmp_path):
    first = train(task, RECIPE, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match="holds a run already; --resume"):
        train(task, RECIPE, tmp_path)
    assert train(task, RECIPE, tmp_path, resume=True) == first
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_run_cannot_become_another(task, tmp_path, feature_data):
    train(task, RECIPE, tmp_path)
    other = make_recipe(RECIPE.model_dump(), {"lr": 0.5})
    with pytest.raises(InputError, match=r"other settings \(lr was 0.02\)"):
        train(task, other, tmp_path, resume=True)
    elsewhere = make_task(feature_data(200), RECIPE)
    with pytest.raises(InputError, match="seen labels are not the same"):
        train(elsewhere, RECIPE, tmp_path, resume=True)


@pytest.mark.parametrize("row", [0, 1, 143, -1])
def test_one_changed_feature_is_noticed(feature_data, tmp_path, monkeypatch, row):
    data = feature_data()
    train(make_task(data, RECIPE), RECIPE, tmp_path / "run")
    x = np.array(data.features)
    x[row, 3] += 1e-3
    for changed in (x, LazyArray([x])):
        monkeypatch.setattr("plusone.inputs.task.LARGE", 1 << (40 if changed is x else 0))
        task = make_task(replace(data, features=changed), RECIPE)
        with pytest.raises(InputError, match="the items or their inputs are not the same"):
            train(task, RECIPE, tmp_path / "run", resume=True)
    monkeypatch.setattr("plusone.inputs.task.LARGE", 0)
    task = make_task(data, RECIPE)  # mapped or in memory, the same values are the same data
    train(task, RECIPE, tmp_path / "run", resume=True)


def test_resuming_where_nothing_is_starts(task, tmp_path):
    assert train(task, RECIPE, tmp_path / "new", resume=True).best_epoch >= 1


def test_options_that_are_none_can_be_resumed(feature_data, tmp_path):
    recipe = make_recipe({"method": "wan", "epochs": 1, "options": {"gamma": None}})
    task = make_task(feature_data(), recipe)
    first = train(task, recipe, tmp_path)
    assert train(task, recipe, tmp_path, resume=True) == first


class StopError(Exception):
    pass


def stop_after(epoch):
    def on_record(record):
        if record.epoch == epoch:
            raise StopError

    return on_record


def test_a_stopped_run_goes_on(task, tmp_path, monkeypatch):
    whole = train(task, RECIPE, tmp_path / "whole")
    monkeypatch.setattr(run, "SECONDS_BETWEEN_CHECKPOINTS", 0)
    folder = tmp_path / "stopped"
    for epoch in (1, 2, 3, 3):
        with pytest.raises(StopError):
            train(task, RECIPE, folder, resume=True, on_record=stop_after(epoch))
        with pytest.raises(InputError, match="the run is not complete"):
            load_run(folder)
    with (folder / "records.jsonl").open("ab") as file:
        file.write(b'7\n{"stage": 0, "ep\xff')  # torn: no record, no text
    assert without_place(train(task, RECIPE, folder, resume=True)) == without_place(whole)
    same_files(folder, tmp_path / "whole")


def same_files(ours, theirs):
    for name in ("model.safetensors", "recipe.toml", "observed.npz"):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
    lines = [(folder / "records.jsonl").read_text().splitlines() for folder in (ours, theirs)]
    records = [[json.loads(line) | {"seconds": 0} for line in part] for part in lines]
    assert records[0] == records[1]
    assert {path.name for path in ours.iterdir()} >= {path.name for path in theirs.iterdir()}


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content[:5],
        lambda content: b"",
        lambda content: b"garbage" * 100,
        lambda content: b"\xff" * 64,
    ],
)
def test_a_damaged_checkpoint_is_refused(task, tmp_path, monkeypatch, damage):
    monkeypatch.setattr(run, "SECONDS_BETWEEN_CHECKPOINTS", 0)
    with pytest.raises(StopError):
        train(task, RECIPE, tmp_path, on_record=stop_after(2))
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match="not a readable weights file"):
        train(task, RECIPE, tmp_path, resume=True)


def test_a_checkpoint_of_something_else_is_refused(task, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "SECONDS_BETWEEN_CHECKPOINTS", 0)
    with pytest.raises(StopError):
        train(task, RECIPE, tmp_path, on_record=stop_after(2))
    path = tmp_path / "checkpoint.safetensors"
    tensors, plain = checkpoint.load(path)
    for wrong in (({}, {}), ({}, plain), ({k: v[:1] for k, v in tensors.items() if v.ndim}, plain)):
        checkpoint.save(path, *wrong)
        with pytest.raises(InputError, match=r"checkpoint\.safetensors"):
            train(task, RECIPE, tmp_path, resume=True)


def test_a_lost_list_of_records_does_not_stop_a_resume(task, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "SECONDS_BETWEEN_CHECKPOINTS", 0)
    with pytest.raises(StopError):
        train(task, RECIPE, tmp_path, on_record=stop_after(3))
    (tmp_path / "records.jsonl").unlink()
    assert train(task, RECIPE, tmp_path, resume=True).best_epoch >= 1


def test_a_run_from_elsewhere_does_not_use_more_than_this_computer_has(task, tmp_path):
    given = {"cache_dir": str(tmp_path / "x"), "workers": 200, "threads": 900, "cache_mb": 10**7}
    recipe = make_recipe(RECIPE.model_dump(), given)
    train(task, recipe, tmp_path / "run")
    read_back = load_run(tmp_path / "run").recipe
    cores = os.cpu_count() or 1
    assert read_back.cache_dir is None
    assert read_back.workers == min(200, cores)
    assert read_back.threads == min(900, cores)
    assert read_back.cache_mb < 10**7
    train(task, recipe, tmp_path / "run", resume=True)


def test_a_loaded_run_predicts_what_training_predicted(task, tmp_path):
    train(task, RECIPE, tmp_path)
    predictor = load_run(tmp_path)
    assert predictor.classes == task.classes
    assert predictor.shape == (8,)
    scores = predictor.raw.probabilities(task.test.inputs)
    from plusone.training.closed_fit import fit_for

    again = fit_for(task, RECIPE)
    list(again.epochs())
    assert torch.equal(scores, again.predict(task.test))
    calibration, thresholds = calibrate(again)
    assert predictor.calibration == calibration
    assert read_thresholds(tmp_path, task.classes) == thresholds


def test_images_and_softmax_are_loaded_too(image_data, tmp_path):
    recipe = make_recipe({"method": "softmax", "epochs": 1, "flip": False})
    task = make_task(image_data(), recipe)
    train(task, recipe, tmp_path)
    scores = load_run(tmp_path).raw.probabilities(task.test.inputs)
    assert scores.shape == (16, 3)
    torch.testing.assert_close(scores.sum(1), torch.ones(16))


@pytest.mark.parametrize("method", ["recovery", "role", "crisp"])
def test_prediction_needs_nothing_about_training_items(method, feature_data, tmp_path):
    recipe = make_recipe({"method": method, "epochs": 1, "expected_positives": 2.0})
    task = make_task(feature_data(), recipe)
    train(task, recipe, tmp_path)
    inputs, whole = task.test.inputs, load_run(tmp_path, memory=True)
    scores = whole.probabilities(inputs)
    tables = {f"method.{name}" for name in whole.method.per_item} - {"method.hints"}
    weights, _ = checkpoint.load(tmp_path / "model.safetensors")
    memory, _ = checkpoint.load(tmp_path / MEMORY, "method.")
    assert tables.isdisjoint(weights)
    assert tables >= memory.keys()
    assert bool(memory) == (method != "crisp")
    assert all(len(table) == len(task.train) for table in memory.values())

    (tmp_path / MEMORY).unlink(missing_ok=True)
    seen = (tmp_path / "observed.npz").rename(tmp_path / "elsewhere.npz")
    assert load_run(tmp_path).probabilities(inputs).equal(scores)
    seen.rename(tmp_path / "observed.npz")

    # Up to version 0.2.0 the tables were in the same file.
    checkpoint.save(tmp_path / "model.safetensors", weights | memory, {})
    assert load_run(tmp_path).probabilities(inputs).equal(scores)
    old = load_run(tmp_path, memory=True).method.state_dict()
    for name, tensor in whole.method.state_dict().items():
        assert old[name].equal(tensor), name


def test_what_is_no_run_is_refused(task, tmp_path):
    with pytest.raises(InputError, match=r"not a run folder \(there is no recipe.toml\)"):
        load_run(tmp_path)
    with pytest.raises(InputError, match="holds no complete run"):
        read_metrics(tmp_path)
    folder = tmp_path / "run"
    train(task, RECIPE, folder)
    (folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match="not a readable weights file"):
        load_run(folder)
    checkpoint.save(folder / "model.safetensors", {"model.x": torch.zeros(1)}, {})
    with pytest.raises(InputError, match="its weights do not fit its recipe"):
        load_run(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="the run is not complete"):
        load_run(folder)
    (folder / "recipe.toml").write_text("lr = ")
    with pytest.raises(InputError, match=r"recipe\.toml: is not valid TOML"):
        load_run(folder)


def test_data_without_test_split_and_truth(feature_data, tmp_path):
    data = feature_data(complete=False, split=None)
    task = make_task(data, RECIPE)
    metrics = train(task, RECIPE, tmp_path).to_json()
    assert metrics["test_map"] is None
    assert metrics["selected_on"] == "observed"
    assert "recovery" not in metrics
    assert metrics["observation"]["scheme"] == "given"


LONG = make_recipe({"method": "an", "epochs": 20, "lr": 0.02, "ema": 0.9})


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_the_same(feature_data, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    target = import_module("slow_training").train_and_die
    task = make_task(feature_data(120), LONG)
    whole = train(task, LONG, tmp_path / "whole")
    folder, dice, kills = tmp_path / "killed", random.Random(0), 0
    # Not a fork of this process: after a backward pass torch may have threads.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["plusone.training.run", "torch._dynamo"])  # for the first step
    while not (folder / "metrics.json").exists():
        when = (dice.randint(1, 3), dice.random() * 0.02)  # epochs, and seconds after them
        process = context.Process(target=target, args=(task, LONG, folder, *when))
        process.start()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        kills += process.exitcode != 0
    assert kills >= 3
    assert without_place(train(task, LONG, folder, resume=True)) == without_place(whole)
    same_files(folder, tmp_path / "whole")


def test_features_rewritten_during_training_are_noticed(feature_data, tmp_path, monkeypatch):
    data = feature_data()
    np.save(tmp_path / "x.npy", data.features)
    mapped = replace(data, features=np.load(tmp_path / "x.npy", mmap_mode="r"))
    monkeypatch.setattr("plusone.inputs.task.LARGE", 0)
    task = make_task(mapped, RECIPE)

    def rewrite(record):
        with (tmp_path / "x.npy").open("r+b") as file:
            file.seek(-4, 2)
            file.write(b"1234")
        os.utime(tmp_path / "x.npy", ns=(1, 1))

    with pytest.raises(RunError, match="was changed while the training reads it"):
        train(task, RECIPE, tmp_path / "run", on_record=rewrite)
    assert len((tmp_path / "run" / "records.jsonl").read_text().splitlines()) == 1


def test_a_run_that_was_stopped_before_its_end_is_not_used(task, tmp_path):
    train(task, RECIPE, tmp_path)
    load_run(tmp_path)
    (tmp_path / "metrics.json").unlink()
    with pytest.raises(InputError, match="the run is not complete; finish it with --resume"):
        load_run(tmp_path)
