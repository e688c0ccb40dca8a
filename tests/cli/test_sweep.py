"""sweep and ablate on the command line."""

from __future__ import annotations

import json
import shlex

import pytest

from plusone.methods import METHODS

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture
def data(folder):
    return folder / "labels.csv", "-x", folder / "x.npz", "--set", "epochs=2"


def test_a_line_per_value_and_a_column_per_method(cli, data, tmp_path):
    words = ("sweep", *data, "-m", "an,em,gr", "--over", "train_share=0.5,1.0", "--seeds", "0,1")
    answer = cli(*words, "--baseline", "bce", "--out", tmp_path)
    assert answer.code == 0, answer.err
    lines = [line.split() for line in answer.out.splitlines() if line.strip()]
    assert max(map(len, answer.out.splitlines())) <= 80
    assert lines[1] == ["train_share", "an", "em", "gr"]
    assert [line[0] for line in lines[3:]] == ["0.5", "1.0", "baseline"]
    found = json.loads((tmp_path / "sweep.json").read_text())
    assert lines[3][1] == f"{100 * found['rows'][0]['test_map']:.2f}"
    assert lines[5][1] == "bce"
    assert (tmp_path / "table.md").read_text().count("\n") == 5
    assert str(tmp_path / "sweep.csv") in answer.err
    again = cli(*words, "--out", tmp_path, "--json")
    assert again.err.count("done before") == 12
    assert again.json["rows"] == found["rows"]
    assert again.json["baseline"] is None


def test_the_command_in_the_result_repeats_it(cli, data, tmp_path):
    words = ("sweep", *data, "-m", "em", "--over", "options.alpha=0.1", "--seed", 3)
    first = cli(*words, "--lr", "1e-2,1e-3", "--out", tmp_path, "--json").json
    program, *repeated = shlex.split(first["command"])
    assert program == "plusone"
    again = cli(*repeated, "--json")
    assert again.err.count("done before") == 2
    assert again.json["rows"] == first["rows"]


def test_a_recipe_file_is_that_of_train(cli, bad, folder, tmp_path):
    recipe = tmp_path / "mine.toml"
    recipe.write_text('method = "em"\nepochs = 9\nlr = 0.02\n[options]\nalpha = 0.3\n')
    data = (folder / "labels.csv", "-x", folder / "x.npz", "-r", recipe, "--seeds", "0")
    words = ("--epochs", 1, "--out", tmp_path / "s", "--json")
    swept = cli("sweep", *data, "--over", "batch_size=8", *words)
    assert swept.code == 0, swept.err
    (row,) = swept.json["rows"]
    assert (row["method"], row["lr"]) == ("em", 0.02)
    (run,) = (tmp_path / "s" / "journal.jsonl").read_text().splitlines()
    assert json.loads(run)["options"] == {"alpha": 0.3}
    alone = cli(
        "train", *data[:-2], "-s", "batch_size=8", "--epochs", 1, "-o", tmp_path / "r", "--json"
    )
    assert row["test_map"] == pytest.approx(alone.json["test_map"], abs=1e-6)
    assert "em has no parts" in bad("ablate", *data, "--epochs", 1, "--out", tmp_path / "a").err
    both = bad("sweep", *data, "--over", "epochs=1,2", "--epochs", 1, "-o", tmp_path / "e")
    assert "--over epochs and --epochs are the same setting" in both.err


def test_an_ablation_says_what_each_part_is_worth(cli, data, tmp_path):
    answer = cli("ablate", *data, "-m", "lasd", "--seeds", "0", "--out", tmp_path)
    assert answer.code == 0, answer.err
    lines = [line for line in answer.out.splitlines() if line.strip()]
    assert max(map(len, lines)) <= 80
    for part, line in zip(METHODS["lasd"].ablation, lines[3:], strict=True):
        assert part.name in line
    assert lines[-1].split()[-1] == "+0.00"
    assert "the consistency is zero" in answer.err
    found = json.loads((tmp_path / "ablation.json").read_text())
    assert (found["kind"], len(found["rows"])) == ("ablation", 5)
    again = cli("ablate", *data, "-m", "lasd", "--seed", 0, "--out", tmp_path, "--json")
    assert again.err.count("done before") == 5
    assert again.json["rows"] == found["rows"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-m", "em", "--over", "lr=1,2", "--lr", "1e-3"), "--over lr and --lr"),
        (("-m", "em", "--over", "alpha=1"), "--over alpha: unknown setting"),
        (("-m", "an,em", "--over", "options.alpha=1"), "an with options.alpha=1: unknown method"),
        (("-m", "em", "--over", "keep=2"), "keep=2: the share of positives"),
        (("-m", ",", "--over", "keep=1"), "--methods ',': write names separated by commas"),
        (("-m", "em", "--over", "keep=1", "--seeds", "x"), "--seeds 'x': write whole numbers"),
    ],
)
def test_mistakes_are_told_in_a_sentence(bad, data, tmp_path, words, sentence):
    answer = bad("sweep", *data, *words, "--out", tmp_path / "s")
    assert sentence in answer.err
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "s").exists()


def test_ablate_refuses_methods_without_parts(bad, data, tmp_path):
    answer = bad("ablate", *data, "-m", "an", "--out", tmp_path / "a")
    able = ", ".join(name for name, info in METHODS.items() if info.ablation)
    assert f"an has no parts to switch off; methods: {able}" in answer.err
    assert "no such file" in bad("ablate", "nowhere.csv", "--out", tmp_path / "a").err
