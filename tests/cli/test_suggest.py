"""The command `suggest`, from a run to a folder that `train` and others can read."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from plusone.data.formats import read
from plusone.suggestions import read_suggestions

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def suggestions(cli, run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("suggest") / "s"
    answer = cli(
        "suggest", run_folder, "--folds", 2, "--out", to, "--precision", 0.6,
        "--also", "json", "--also", "label-studio", "--image-prefix", "s3://bucket/",
        "--also", "probabilities", "--json",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    (to / "result.json").write_text(answer.out)
    return to


def test_the_folder_has_suggestions_for_all_but_test_items(suggestions: Path, run_folder) -> None:
    result = json.loads((suggestions / "result.json").read_text())
    found = read_suggestions(suggestions)
    assert len(found) == result["suggestions"] > 0
    assert result["items"] == 40
    assert {found.table.ids[row] for row in found.row} <= {f"item{n:02d}" for n in range(40)}
    assert "No audit" in result["calibration"]["sentence"]
    assert {"json", "label-studio"} == {
        name.split(".")[0].replace("suggestions", "json")
        for name in result["files"]
        if name.endswith(".json") and name != "about.json"
    }
    for name in result["files"]:
        assert (suggestions / name).is_file(), name
    task = json.loads((suggestions / "label-studio.json").read_text())[0]
    assert task["data"]["image"].startswith("s3://bucket/item")
    everything = np.load(suggestions / "probabilities.npz", allow_pickle=False)
    assert everything["probabilities"].shape == everything["scores"].shape == (40, 3)
    assert (everything["seen"].sum(axis=1) == 1).all()
    first = found.row[0], found.label[0]
    assert everything["probabilities"][first] == pytest.approx(found.probability[0], abs=1e-6)
    seen = dict(np.load(run_folder / "observed.npz", allow_pickle=False))
    assert len(seen["ids"]) == 40
    assert found.table.labels.per_item(1)[:40].tolist() == [1] * 40


def test_the_truth_is_reported_where_it_is_known(suggestions: Path) -> None:
    accepted = json.loads((suggestions / "result.json").read_text())["accepted"]
    assert accepted["target"] == 0.6
    assert "true_precision" in accepted
    assert accepted["precision_at_least"] is None
    assert sum(row["accepted"] for row in accepted["classes"]) == accepted["accepted"]
    lines = list(csv.DictReader((suggestions / "accepted.csv").open()))
    ones = sum(line[name] == "1" for line in lines[:40] for name in ("ant", "bee", "cat"))
    assert ones == 40 + accepted["accepted"]


def test_accepted_labels_can_be_trained_on(cli, suggestions, folder, tmp_path) -> None:
    answer = cli(
        "train", suggestions / "accepted.csv", "-x", folder / "x.npz", "--epochs", 1,
        "--method", "em", "--out", tmp_path / "again",
    )  # fmt: skip
    assert answer.code == 0, answer.err


def test_an_audit_and_calls_that_fit_nothing_again(cli, suggestions, run_folder, folder):
    lines = (folder / "labels.csv").read_text().splitlines()
    audit = suggestions.parent / "audit.csv"
    audit.write_text("\n".join(lines[:26]) + "\n")
    copy = suggestions.parent / "copy"
    shutil.copytree(suggestions, copy)
    answer = cli("suggest", run_folder, "--folds", 2, "--out", copy, "--audit", audit)
    assert answer.code == 0, answer.err
    assert not (copy / "folds").exists()
    assert "nothing was fitted again" in answer.err
    first = json.loads((suggestions / "result.json").read_text())
    assert first["scores"] == "kept by the run"
    other = cli("suggest", run_folder, "--folds", 2, "--out", copy, "--seed", 1)
    assert "fitted anew" in other.err
    assert "Calibrated on 50 answers about 25 items" in answer.err
    assert f"next: plusone review {copy}" in answer.err
    assert "accepted" in answer.out
    assert "all" in answer.out


def test_what_can_be_written_is_written(cli, suggestions: Path, run_folder) -> None:
    copy = suggestions.parent / "blocked"
    shutil.copytree(suggestions, copy)
    for name in ("suggestions.csv", "accepted.csv", "suggestions.json", "label-studio.json"):
        (copy / name).unlink()
    (copy / "label-studio.json").mkdir()
    answer = cli(
        "suggest", run_folder, "--folds", 2, "--out", copy, "--also", "json",
        "--also", "label-studio",
    )  # fmt: skip
    assert answer.code == 2
    assert "label-studio.json" in answer.err
    for name in ("suggestions.csv", "about.json", "accepted.csv", "suggestions.json"):
        assert (copy / name).is_file(), name


def test_heads_on_images_are_cross_fitted(cli, photo_run: Path, tmp_path: Path) -> None:
    answer = cli(
        "suggest", photo_run, "--folds", 2, "--out", tmp_path / "s", "--linear", "--positives", 1.2,
        "--also", "fiftyone", "--accepted", tmp_path / "more.csv", "--json",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    assert answer.json["backbone_saw_items"]
    assert answer.json["accepted_labels"] == str(tmp_path / "more.csv")
    assert (tmp_path / "more.csv").is_file()
    assert answer.json["calibration"]["k_from"] == "given"
    files = json.loads((tmp_path / "s" / "fiftyone" / "data.json").read_text())
    assert all(Path(path).is_file() for path in files.values())


def test_the_next_commands_can_be_copied(cli, run_folder, folder, tmp_path) -> None:
    to = tmp_path / "a b"
    given = ("--folds", 2, "--out", to, "--positives", 1.8)
    answer = cli("suggest", run_folder, *given)
    assert "no label is accepted: nobody checked any" in answer.err
    assert f"next: plusone review '{to}'" in answer.err
    answer = cli("suggest", run_folder, *given, "--precision", 0.8)
    assert f"plusone train '{to / 'accepted.csv'}' --features {folder / 'x.npz'}" in answer.err
    answer = cli("suggest", run_folder, "--folds", 2, "--out", to, "--precision", 0.999)
    assert "no label can be accepted at 99.90 %" in answer.err
    assert "plusone train" not in answer.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--also", "excel"), "label-studio"),
        (("--also", "fiftyone"), "these items have none"),
        (("--image-prefix", "s3://bucket/"), "--also label-studio"),
        (("--linear",), "trained on features"),
        (("--audit", "absent.csv"), "absent.csv"),
        (("--folds", "1000"), "folds"),
    ],
)
def test_wrong_use_is_refused(bad, run_folder, tmp_path, options, words) -> None:
    answer = bad("suggest", run_folder, "--out", tmp_path / "s", *options)
    assert words in answer.err
    assert not list(tmp_path.glob("s/folds/*"))  # before any model is trained


@pytest.mark.parametrize("name", ["cat ", "split"])
def test_names_that_csv_cannot_hold_are_refused_before_any_fold(cli, bad, tmp_path, name):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4)).astype(np.float32)
    classes = np.array(["a|b", "=c", name])
    np.savez(tmp_path / "d.npz", x=x, y=np.eye(3, dtype=int)[x[:, :3].argmax(1)], classes=classes)
    run = tmp_path / "run"
    assert cli("train", tmp_path / "d.npz", "--out", run, "--no-report").code == 0
    to = tmp_path / "to"
    err = bad("suggest", run, "--folds", 2, "--out", to).err
    assert f"accepted.csv: class {name!r}" in err
    assert "write npz instead (--accepted FILE.npz)" in err
    assert not (to / "folds").exists()
    assert "suffix" in bad("suggest", run, "--out", to, "--accepted", tmp_path / "l.txt").err
    labels = tmp_path / "l.npz"
    answer = cli("suggest", run, "--folds", 2, "--out", to, "--accepted", labels)
    assert answer.code == 0, answer.err
    assert read(labels).table.classes == tuple(classes)
    assert read_suggestions(to).table.classes == tuple(classes)


def test_an_audit_is_drawn_filled_in_and_used(cli, bad, tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.random((300, 5)) < 0.3
    truth[np.arange(300), rng.integers(5, size=300)] = True
    x = (truth + 0.2 * rng.normal(size=truth.shape)).astype("float32")
    names, ids = "abcde", [f"i{row:03d}" for row in range(300)]
    seen = (truth * rng.random(truth.shape)).argmax(1)
    lines = ["image,labels", *(f"{ids[row]},{names[label]}" for row, label in enumerate(seen))]
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    np.savez(tmp_path / "x.npz", x=x, ids=np.array(ids))
    run, out = tmp_path / "run", tmp_path / "s"
    data = (tmp_path / "labels.csv", "-x", tmp_path / "x.npz")
    assert cli("train", *data, "--out", run, "--no-report").code == 0
    first = cli("suggest", run, "--out", out, "--draw-audit", 100, "--json").json
    assert first["accepted"]["accepted"] == 0
    assert first["to_audit"] == str(out / "audit.csv")
    drawn = read(out / "audit.csv").table
    weights = json.loads((out / "audit.json").read_text())["weights"]
    assert set(weights) == set(drawn.ids.tolist())
    assert len(drawn) == 100
    assert "is there already" in bad("suggest", run, "--out", out, "--draw-audit", 100).err
    rows = [ids.index(name) for name in drawn.ids.tolist()]
    filled = [
        f"{ids[row]},{'|'.join(names[c] for c in np.flatnonzero(truth[row]))}" for row in rows
    ]
    (out / "audit.csv").write_text("\n".join(["image,labels", *filled]) + "\n")
    found = cli("suggest", run, "--out", out, "--audit", out / "audit.csv", "--json").json
    calibration, accepted = found["calibration"], found["accepted"]
    assert calibration["k_from"] == "counted"
    weight = np.array([weights[ids[row]] for row in rows])
    assert calibration["k"] == pytest.approx((weight @ truth[rows].sum(1)) / weight.sum())
    assert accepted["accepted"] > 12
    assert accepted["precision_at_least"] > 0.6
    (out / "audit.json").write_text('{"weights": {"i000": -1}}')
    assert (
        "weights are positive"
        in bad("suggest", run, "--out", out, "--audit", out / "audit.csv").err
    )
