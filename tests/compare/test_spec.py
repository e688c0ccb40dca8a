"""Comparisons as TOML: read, written, refused."""

from __future__ import annotations

import pytest

from plusone.compare.spec import make_spec, merge_settings, read_spec
from plusone.errors import InputError

TEXT = """
methods = ["an", "gr", "an"]
seeds = [0, 1]
modes = ["linear"]
lr = [1e-3]
settings = { epochs = 3, options = { w = 3.0 } }

[[data]]
path = "digits-features"

[[data]]
path = "sub/labels.csv"
features = ["sub/x.npz"]
labels = "complete"
name = "mine"
settings = { batch_size = 8, epochs = 4 }

[method.gr]
lr = 1e-4
options = { b = -3.0, w = 5.0 }
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(TEXT)
    return path


def test_paths_start_at_the_file(file, tmp_path):
    spec = read_spec(file, {}, {})
    assert spec.methods == ("an", "gr")
    first, second = spec.data
    assert first.path == "digits-features"
    assert second.path == str(tmp_path / "sub" / "labels.csv")
    assert second.features == (str(tmp_path / "sub" / "x.npz"),)
    assert (second.labels, second.name) == ("complete", "mine")
    assert spec.method["gr"]["options"] == {"b": -3.0, "w": 5.0}


def test_flags_win(file):
    spec = read_spec(
        file, {"seeds": [7], "workers": 3}, {"epochs": 9, "options": {"w": 1.0, "q3": 0.5}}
    )
    assert (spec.seeds, spec.workers) == ((7,), 3)
    assert spec.settings == {"epochs": 9, "options": {"w": 1.0, "q3": 0.5}}
    assert spec.data[1].settings == {"batch_size": 8}
    assert spec.method["gr"] == {"lr": 1e-4, "options": {"b": -3.0}}


@pytest.mark.parametrize("place", [".", "out/deep"])
def test_what_is_written_reads_back(file, tmp_path, place):
    flags = {"tune": True, "search": "optuna", "trials": 5, "storage": "db://me:secret@host"}
    spec = read_spec(file, flags, {"patience": None})
    folder = tmp_path / place
    folder.mkdir(parents=True, exist_ok=True)
    text = spec.to_toml(folder)
    assert str(tmp_path) not in text, "a path of this machine"
    assert "secret" not in text
    (folder / "bench.toml").write_text(text)
    again = read_spec(folder / "bench.toml", {}, {})
    moved = [block.model_copy(update={"path": "", "features": ()}) for block in again.data]
    assert moved == [block.model_copy(update={"path": "", "features": ()}) for block in spec.data]
    assert (folder / again.data[1].path).resolve() == (tmp_path / "sub/labels.csv").resolve()
    for name in ("methods", "seeds", "modes", "lr", "tune", "search", "trials", "method"):
        assert getattr(again, name) == getattr(spec, name), name
    assert again.settings == {"epochs": 3, "options": {"w": 3.0}, "patience": None}


def test_a_file_does_not_say_where_decoded_images_go(tmp_path):
    path = tmp_path / "b.toml"
    path.write_text(
        "settings = {cache_dir = '/a', epochs = 2}\nmethod.an = {cache_dir = '/b', lr = 1.0}\n"
        "[[data]]\npath = 'x'\nsettings = {cache_dir = '/c', flip = false}\n"
    )
    spec = read_spec(path, {}, {})
    assert spec.settings == {"epochs": 2}
    assert spec.method == {"an": {"lr": 1.0}}
    assert spec.data[0].settings == {"flip": False}
    assert read_spec(path, {}, {"cache_dir": "mine"}).settings["cache_dir"] == "mine"


def test_all_methods_in_a_word(tmp_path):
    (tmp_path / "s.toml").write_text('methods = "all"\ndata = [{ path = "digits" }]\n')
    assert read_spec(tmp_path / "s.toml", {}, {}).methods == ("all",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"needs a \[\[data\]\] block with a path"),
        ("[[data]]\n", r"needs data\.0\.path"),
        (
            "metods = ['an']\n[[data]]\npath = 'x'",
            r"unknown entry 'metods'; entries: data, methods",
        ),
        (
            "[[data]]\npath = 'x'\nfeature = 'y'",
            r"unknown entry 'data\.0\.feature'; entries: path,",
        ),
        ("modes = ['quick']\n[[data]]\npath = 'x'", r"modes\.0 = 'quick': .*'finetune'"),
        ("seeds = []\n[[data]]\npath = 'x'", r"seeds = \[\]: "),
        ("data = []", r"data = \[\]: "),
        ("search = 'luck'\n[[data]]\npath = 'x'", r"search = 'luck': .*'grid', 'optuna' or 'rate'"),
        ("trials = 0\n[[data]]\npath = 'x'", r"trials = 0: "),
        ("workers = 5000\n[[data]]\npath = 'x'", r"workers = 5000: .*less than or equal to 256"),
        ("storage = 'sqlite:////tmp/x'\n[[data]]\npath = 'x'", "given by --storage, not by a file"),
        ("x = ", "is not valid TOML"),
        ("[settings]\nseed = 1\n[[data]]\npath = 'x'", "seed is also among the settings"),
        ("lr = [0.1]\n[settings]\nlr = 1.0\n[[data]]\npath = 'x'", "lr is also among"),
        ("modes = ['linear']\n[[data]]\npath = 'x'\nsettings = {mode = 'auto'}", "modes decides"),
        ("[method.em]\nmethod = 'an'\n[[data]]\npath = 'x'", "methods decides it"),
    ],
)
def test_what_is_wrong_is_a_sentence(tmp_path, text, message):
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        read_spec(path, {}, {})
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_merging_goes_into_options():
    merged = merge_settings({"lr": 1, "options": {"a": 1, "b": 1}}, {"options": {"b": 2}})
    assert merged == {"lr": 1, "options": {"a": 1, "b": 2}}
    assert merge_settings({"lr": 1}, {"lr": 2}) == {"lr": 2}


def test_a_spec_without_a_file():
    with pytest.raises(InputError, match="settings: methods"):
        make_spec({"data": [{"path": "digits"}], "methods": []}, source="settings")


def test_settings_of_the_command_line_are_not_ignored(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("lr = [0.1, 0.2]\n[[data]]\npath = 'digits'")
    with pytest.raises(InputError, match="--set: lr is also among the settings"):
        read_spec(path, {}, {"lr": 0.5})


def test_a_way_to_search_means_to_tune(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("search = 'optuna'\n[[data]]\npath = 'digits'")
    assert read_spec(path, {}, {}).tune
