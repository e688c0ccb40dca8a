"""Recipes, runs and suggestions of a version that does not exist yet."""

from __future__ import annotations

import json

import pytest

from plusone.errors import InputError
from plusone.version import __version__, is_newer, refuse_newer

TRAIN = ("-m", "gr", "--epochs", 1, "--no-report", "--json")
UPGRADE = f"this is plusone {__version__}, which reads up to format 1: upgrade it"


@pytest.fixture
def run(cli, words, tmp_path):
    assert cli("train", *words, *TRAIN, "--out", tmp_path / "run").code == 0
    return tmp_path / "run"


def changed(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_recipe_of_a_newer_format(cli, words, tmp_path):
    recipe = tmp_path / "new.toml"
    recipe.write_text("format = 2\nwonder = true\n")
    answer = cli("train", *words, "-r", recipe, "--out", tmp_path / "run")
    assert answer.code == 2
    assert answer.sentence == f"{recipe}: was made by a newer plusone (format 2); {UPGRADE}\n"


def test_a_setting_that_does_not_exist_yet(cli, words, tmp_path):
    recipe = tmp_path / "new.toml"
    recipe.write_text("wonder = true\n")
    answer = cli("train", *words, "-r", recipe, "--out", tmp_path / "run")
    assert answer.code == 2
    assert f"{recipe}: unknown setting 'wonder'" in answer.sentence
    assert f"a newer plusone than this one ({__version__}) may know it" in answer.sentence


def test_a_run_of_a_newer_format(cli, run, data):
    versions = {"plusone": "9.1.0"}
    changed(run / "data.json", format=2, versions=versions)
    said = f"{run / 'data.json'}: was made by plusone 9.1.0 (format 2); {UPGRADE}\n"
    for command in (("evaluate", run), ("predict", run, data / "x.npz")):
        answer = cli(*command)
        assert (answer.code, answer.sentence) == (2, said)
    changed(run / "data.json", format=1, versions=versions)
    recipe = run / "recipe.toml"
    plain = recipe.read_text()
    recipe.write_text(plain.replace("format = 1", "format = 2"))
    answer = cli("evaluate", run)
    assert answer.sentence == f"{recipe}: was made by plusone 9.1.0 (format 2); {UPGRADE}\n"
    recipe.write_text(plain + "wonder = true\n")
    answer = cli("evaluate", run)
    assert answer.code == 2
    assert "unknown setting 'wonder'" in answer.sentence
    assert "the run was made by plusone 9.1.0, this is plusone" in answer.sentence
    assert cli("evaluate", run, "--split", "val").code == 2


def test_a_run_of_a_newer_version_and_the_same_format_is_read(cli, run):
    changed(run / "data.json", versions={"plusone": "9.1.0"})
    assert cli("evaluate", run, "--split", "val").code == 0


def test_suggestions_of_a_newer_format(cli, run, tmp_path):
    folder = tmp_path / "s"
    assert cli("suggest", run, "--folds", 2, "--out", folder, "--json").code == 0
    about = json.loads((folder / "about.json").read_text())
    assert (about["format"], about["version"]) == (1, __version__)
    changed(folder / "about.json", format=3, version="9.1.0")
    answer = cli("review", folder, "--summary")
    assert answer.code == 2
    assert answer.sentence.startswith(f"{folder / 'about.json'}: was made by plusone 9.1.0")


def test_what_counts_as_newer():
    assert is_newer("10.0.0")
    assert not is_newer(__version__)
    assert not is_newer(None)
    refuse_newer("x", 1, 1)
    refuse_newer("x", None, 1)
    with pytest.raises(InputError, match=r"^x: was made by a newer plusone \(format 2\)"):
        refuse_newer("x", 2, 1)
