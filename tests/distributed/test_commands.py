"""Commands under torchrun: one process writes and talks; a killed one stops the others."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from plusone.cli.app import main
from plusone.cli.processes import check_command
from plusone.errors import InputError

HERE = Path(__file__).parent
LOST = "processes was lost"


def plusone(*arguments):
    """A command in this process."""
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    assert left.value.code == 0


@pytest.fixture
def photos(tmp_path):
    """Pictures of two kinds."""
    folder = tmp_path / "photos"
    for number in range(40):
        kind = ("dark", "light")[number % 2]
        (folder / kind).mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 120, (24, 20 + number, 3))
        picture = Image.fromarray((pixels + 130 * (number % 2)).astype(np.uint8))
        picture.save(folder / kind / f"{number:02d}.png")
    return folder


@pytest.fixture
def table(tmp_path):
    """Labels and features, as the arguments of a command."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 8)).astype(np.float32)
    y = (x @ rng.normal(size=(8, 4)) > 0.4).astype(int)
    ids = [f"item{number}" for number in range(len(x))]
    lines = [
        "image,a,b,c,d",
        *(f"{n},{','.join(map(str, r))}" for n, r in zip(ids, y, strict=True)),
    ]
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    np.savez(tmp_path / "x.npz", ids=np.array(ids), x=x)
    return (tmp_path / "labels.csv", "--features", tmp_path / "x.npz")


BY_STEPS = ("-m", "role", "--epochs", 4, "--batch-size", 16, "--lr", 0.02)
BY_PASSES = ("-m", "recovery", "--set", "options.rounds=3")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "kills", "epochs"),
    [(BY_STEPS, ((2, 1, 2), (3, 0, 2)), [1, 2, 3, 4]), (BY_PASSES, ((2, 1, 4), (4, 0, 3)), [1])],
)
def test_killed_processes_stop_the_others_and_any_number_goes_on(
    method, kills, epochs, table, tmp_path, together, capsys
):
    whole, run = tmp_path / "whole", tmp_path / "run"
    settings = (*table, *method)
    settings += (
        "-s",
        "expected_positives=1.5",
        "--labels",
        "complete",
        "--json",
        "--resume",
        "--out",
    )
    plusone("train", *settings, whole)
    for size, victim, count in kills:  # each saves the epoch, or the pass, before
        stopped = together(size, HERE / "killed.py", victim, count, "train", *settings, run)
        assert stopped.code == 1
        said = "".join(stopped.err)
        assert said.count(LOST) == 1, said  # one sentence, from one of those that are left
        assert "--resume" in said
        assert "Traceback" not in said
        assert not (run / "metrics.json").exists()
        saved = load_file(run / "checkpoint.safetensors")
        assert method == BY_STEPS or sum(name.startswith("pass_") for name in saved) >= 3
    capsys.readouterr()
    plusone("train", *settings, run)
    found = json.loads(capsys.readouterr().out)
    expected = json.loads((whole / "metrics.json").read_text())
    for name in ("val_map", "best_epoch", "k"):
        assert found[name] == pytest.approx(expected[name], rel=1e-3), name
    records = [json.loads(line)["epoch"] for line in (run / "records.jsonl").open()]
    assert records == epochs
    mine, theirs = (load_file(folder / "model.safetensors") for folder in (run, whole))
    for key, value in theirs.items():
        torch.testing.assert_close(mine[key], value, rtol=1e-3, atol=1e-4)


def by_command(said):
    """What a process said, command by command."""
    return re.split(r"command \d+\n", said)[1:]


@pytest.mark.slow
def test_one_process_writes_and_talks(photos, tmp_path, together, capsys, monkeypatch):
    monkeypatch.setenv("PLUSONE_CACHE", str(tmp_path / "kept"))
    run, alone = tmp_path / "run", tmp_path / "alone"
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "98.png").write_bytes(b"no picture")
    common = ["-m", "an", "--backbone", "cnn", "--mode", "linear_init", "--epochs", 1, "--json"]
    own = ("freeze_norm=true",)  # batch norm of one process sees other rows than that of two
    for setting in ("image_size=16", "finetune_epochs=1", "optimizer=sgd", "observe=given", *own):
        common += ["-s", setting]
    extract = ["features", photos, "--backbone", "cnn", "--size", 16, "--out"]
    plusone("train", photos, *common, "--out", alone)
    plusone("predict", alone, photos, tmp_path / "more", "--out", tmp_path / "one.csv")
    plusone(*extract, tmp_path / "one.npz")
    commands = [
        ["train", photos, *common, "-s", f"cache_dir={tmp_path / 'cache'}", "--out", run],
        ["evaluate", run, "--split", "all", "--json"],
        ["predict", alone, photos, tmp_path / "more", "--out", tmp_path / "two.csv"],
        [*extract, tmp_path / "two.npz"],
        ["train", tmp_path / "only-RANK", *common, "--out", tmp_path / "never"],
    ]
    (tmp_path / "only-0").symlink_to(photos)
    (tmp_path / "commands.json").write_text(json.dumps([[*map(str, one)] for one in commands]))
    done = together(2, HERE / "commands.py", tmp_path / "commands.json")
    out, err = ([by_command(said) for said in both] for both in (done.out, done.err))
    assert done.code == 1, done.err  # of torchrun, for the last command
    assert [*out[1], *err[1][:-1]] == [""] * 9

    trained, expected = json.loads(out[0][0]), json.loads((alone / "metrics.json").read_text())
    assert trained["run"] == str(run)
    assert trained["val_map"] == pytest.approx(expected["val_map"], abs=0.02)
    assert len((run / "records.jsonl").read_text().splitlines()) == 2
    mine, theirs = (load_file(folder / "model.safetensors") for folder in (run, alone))
    for key, value in theirs.items():
        torch.testing.assert_close(mine[key], value, rtol=1e-3, atol=1e-4)
    assert {file.suffix for file in (tmp_path / "cache").iterdir()} == {".npy"}

    assert json.loads(out[0][1])["items"] == 40

    assert err[0][2].count("98.png") == 1
    names, scores = zip(
        *(table_of(tmp_path / name) for name in ("one.csv", "two.csv")), strict=True
    )
    assert names[0] == names[1]
    assert len(names[0]) == 40
    np.testing.assert_allclose(scores[0], scores[1], atol=2e-4)

    x = [np.load(tmp_path / name)["x"] for name in ("one.npz", "two.npz")]
    np.testing.assert_allclose(*x, rtol=2e-3)

    # The other has no such folder, and says so for both.
    said = "".join(each[-1] for each in err)
    assert said.count("plusone: ") == 1, said
    assert "only-1" in said
    assert "Traceback" not in said
    assert not (tmp_path / "never" / "recipe.toml").exists()


@pytest.mark.slow
def test_suggestions_of_two_processes_are_those_of_one(table, tmp_path, together):
    """Of a closed form, whose items they share in each pass, and of networks with folds."""
    rest = ("--labels", "complete", "-s", "expected_positives=1.5", "--out")
    networks = ("-m", "an", "--epochs", 2, "--lr", 0.1, "--batch-size", 16)
    commands, settings = [], ("--min-probability", 0.01, "--precision", 0.3, "--wrong", "--out")
    for name, method in (("recovery", BY_PASSES), ("an", networks)):
        plusone("train", *table, *method, *rest, tmp_path / name)
        ask = ("suggest", tmp_path / name, "--folds", 2, "--seed", 5, *settings)
        plusone(*ask, tmp_path / f"{name}-one")
        commands.append([*map(str, (*ask, tmp_path / f"{name}-two"))])
    (tmp_path / "commands.json").write_text(json.dumps(commands))
    done = together(2, HERE / "commands.py", tmp_path / "commands.json")
    assert done.code == 0, done.err
    assert "terminate called" not in "".join(done.err)
    for name in ("recovery", "an"):
        one, two = (tmp_path / f"{name}-{number}" for number in ("one", "two"))
        accepted = [(folder / "accepted.csv").read_text() for folder in (one, two)]
        assert accepted[0] == accepted[1]
        for file in ("suggestions.csv", "wrong.csv"):
            mine, theirs = (
                {tuple(line.split(",")[:2]): line.split(",")[2] for line in lines[1:]}
                for lines in ((folder / file).read_text().splitlines() for folder in (one, two))
            )
            assert len(mine) >= 5
            assert mine.keys() == theirs.keys()
            for key, value in mine.items():
                assert float(value) == pytest.approx(float(theirs[key]), abs=2e-3)


@pytest.mark.slow
def test_four_processes_end_where_one_does(table, tmp_path, together):
    settings = (*table, *BY_PASSES, "--labels", "complete", "--out")
    plusone("train", *settings, tmp_path / "one")
    done = together(4, "-m", "plusone", "train", *settings, tmp_path / "four")
    assert done.code == 0, done.err
    assert "terminate called" not in "".join(done.err)
    mine, theirs = (load_file(tmp_path / name / "model.safetensors") for name in ("four", "one"))
    for key, value in theirs.items():
        torch.testing.assert_close(mine[key], value, rtol=1e-3, atol=1e-4)


def test_commands_that_cannot_be_shared_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match=r"bench runs in one process.*--workers"):
        check_command("bench")
    with pytest.raises(InputError, match="audit runs in one process; start it without torchrun"):
        check_command("audit")
    check_command("train")
    monkeypatch.delenv("WORLD_SIZE")
    check_command("bench")


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"WORLD_SIZE": "abc"}, "WORLD_SIZE = 'abc' in the environment is not a whole number"),
        ({"WORLD_SIZE": "-2"}, "WORLD_SIZE = '-2' in the environment"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is 2 in the environment, but there is no RANK"),
        ({"WORLD_SIZE": "2", "RANK": "first"}, "RANK = 'first' in the environment"),
        ({"WORLD_SIZE": "2", "RANK": "0"}, "there is no MASTER_ADDR"),
    ],
)
def test_an_environment_that_is_not_that_of_torchrun_is_refused(
    variables, sentence, monkeypatch, capsys
):
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    before = signal.getsignal(signal.SIGTERM)
    streams = sys.stdout, sys.stderr
    try:
        with pytest.raises(SystemExit) as left:
            main(["train", "photos"])
    finally:
        signal.signal(signal.SIGTERM, before)
        sys.stdout, sys.stderr = streams
    assert left.value.code == 2
    assert sentence in capsys.readouterr().err


def table_of(path):
    """Names and probabilities of a file of predictions."""
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    return [row[0] for row in rows], np.array([row[2:] for row in rows], dtype=float)
