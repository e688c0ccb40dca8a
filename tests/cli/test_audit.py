"""The command audit: it draws, asks, and writes one file that the other commands take."""

from __future__ import annotations

import numpy as np
import pytest

from plusone.data.formats import read
from plusone.data.source import load_source
from plusone.reviewing.opening import open_audit
from plusone.suggestions import read_suggestions

pytestmark = pytest.mark.slow
BEGIN = ("--no-browser", "--stop-after", 0.1, "--json")


@pytest.fixture(scope="module")
def trained(cli, tmp_path_factory):
    """A run on digit scenes with one label each, and their truth by name."""
    folder = tmp_path_factory.mktemp("audit")
    scenes = load_source("digits-features")
    rows = np.arange(400)
    truth = scenes.table.truth.dense(rows) == 1
    kept = truth.any(axis=1)
    x = np.asarray(scenes.features[rows], dtype=np.float32).reshape(len(rows), -1)[kept]
    truth, names = truth[kept], np.array([f"item{row:03d}" for row in rows[kept]])
    y = np.zeros_like(truth, dtype=np.int8)
    y[np.arange(len(truth)), truth.argmax(axis=1)] = 1
    np.savez(folder / "data.npz", x=x, y=y, ids=names)
    answer = cli("train", folder / "data.npz", "-o", folder / "run", "--no-report")
    assert answer.code == 0, answer.err
    return folder, dict(zip(names.tolist(), truth, strict=True))


def say_everything(folder, truth, items=None):
    """The truth answers all questions about the first items that the page shows."""
    promised = []
    desk = open_audit(folder, lambda table: promised.append(len(table)) or f"{len(table)} items")
    step = 0
    while (item := desk.next_item("a" * 16))["row"] is not None and (items is None or step < items):
        own = truth[item["name"]]
        likely = [one["probability"] for one in item["questions"]]
        assert likely == sorted(likely, reverse=True)
        answers = [
            (item["row"], one["label"], "yes" if own[one["label"]] else "no")
            for one in item["questions"]
        ]
        desk.answer("a" * 16, f"{step:016x}", answers)
        desk.promise()
        step += 1
    desk.store.close()
    return step, promised


def test_one_file_serves_every_command(cli, trained):
    folder, truth = trained
    run, file = folder / "run", folder / "run-audit.csv"
    first = cli("audit", run, "--items", 40, *BEGIN)
    assert first.code == 0, first.err
    drawn = np.unique(read_suggestions(folder / "run-audit").row)
    assert len(drawn) == 40
    say_everything(folder / "run-audit", truth, 5)
    again = cli("audit", run, *BEGIN)  # the same items, and the answers so far
    assert again.code == 0, again.err
    assert "5 items are done" in again.err
    assert np.unique(read_suggestions(folder / "run-audit").row).tolist() == drawn.tolist()
    step, promised = say_everything(folder / "run-audit", truth)
    assert (step, promised) == (35, [10, 20, 30, 40])
    last = cli("audit", run, *BEGIN)
    assert "all labels of 40 items" in last.err
    assert "after 40 items" in last.err
    table = read(file, check_images=False).table
    known = np.flatnonzero(table.labels.per_item(0) == 0)
    assert len(known) == 40
    for row in known:
        assert ((table.labels.dense([row])[0] == 1) == truth[str(table.ids[row])]).all()
    k = np.mean([truth[str(table.ids[row])].sum() for row in known])
    counted = cli("priors", folder / "data.npz", "--audit", file, "--json").json
    assert counted["audit"]["items"] == 40
    assert counted["audit"]["k"] == pytest.approx(k)
    suggested = cli("suggest", run, "--audit", file, "-o", folder / "s", "--json").json
    assert suggested["calibration"]["audit"]["items"] == 40
    # A precision that an audit of 40 items supports, or the sentence that says how many would.
    predicted = cli("predict", run, folder / "data.npz", "--precision", 0.3, "--audit", file)
    assert predicted.code in (0, 2)
    assert "none of the 40" not in predicted.err
    trained_again = cli(
        "train", file, "-x", folder / "data.npz", "-o", folder / "run-2", "--json"
    ).json
    assert trained_again["calibration"]["from"] == "audit"
    low, high = trained_again["calibration"]["k_range"]
    every = np.mean([own.sum() for own in truth.values()])
    assert low < every < high


def test_uneven_draws_are_weighed_back_and_give_no_guarantee(cli, trained):
    folder, truth = trained
    run, file = folder / "run", folder / "uneven.csv"
    assert cli("audit", run, "-o", file, "--items", 20, "--stratified", *BEGIN).code == 0
    say_everything(folder / "uneven", truth)
    assert cli("audit", run, "-o", file, *BEGIN).code == 0
    suggested = cli("suggest", run, "--audit", file, "-o", folder / "t", "--json").json
    assert suggested["calibration"]["audit"]["items"] == 20
    refused = cli("predict", run, folder / "data.npz", "--precision", 0.8, "--audit", file)
    assert refused.code == 2
    assert "evenly" in refused.err


def test_suggest_offers_it_where_nothing_is_accepted(cli, trained):
    folder, _ = trained
    answer = cli("suggest", folder / "run", "-o", folder / "u")
    said = " ".join(answer.err.split())
    assert "plusone audit" in said
    assert "--budget 100" in said
