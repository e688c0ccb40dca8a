"""plusone doctor: what it says, what is missing, what it estimates; no probe stops it."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from plusone.cli import doctor as command
from plusone.extras import install_command
from plusone.training.probe import Speeds

ROOT = Path(__file__).parents[2]
QUICK = ("--seconds", "0.2", "--backbone", "cnn", "--device", "cpu")


@pytest.fixture(autouse=True)
def _no_compiler(monkeypatch):
    """As on a machine without one."""
    monkeypatch.setattr(command, "COMPILERS", ())
    monkeypatch.delenv("CXX", raising=False)


def test_the_report_for_people_says_also_what_is_missing_or_fails(cli, monkeypatch):
    from importlib import util

    def fails():
        raise OSError("the disk is gone")

    def without(name, package=None, *, find=util.find_spec):
        return None if name == "pyarrow" else find(name, package)

    monkeypatch.setitem(command.SYSTEM, "disk", fails)
    monkeypatch.setattr(util, "find_spec", without)
    answer = cli("doctor", *QUICK)
    assert answer.code == 0, answer
    for text in ("plusone", "python", "torch", "numpy", "timm", "cores", "memory", "disk", "cpu ("):
        assert text in answer.out
    for name in command.EXTRAS:
        assert name in answer.out
    assert "not known: the disk is gone" in answer.out
    assert "no C++ compiler" in answer.out
    assert "decoding, one worker" in answer.out
    assert "cnn, 64 pixels: forward and backward" in answer.out
    sentence = "missing: label tables as parquet files; in a clone of the repository: "
    assert sentence + install_command("parquet") in answer.err.replace("\n", " ")


def test_the_report_for_machines_has_the_same(cli):
    report = cli("doctor", *QUICK, "--json").json
    assert report["versions"]["torch"]
    assert report["system"]["cores"] >= 1
    assert report["devices"][0]["device"] == "cpu"
    assert report["extras"]["plots"]["install"] == install_command("plots")
    assert report["speeds"]["one_thread"]["product"] > 1e8
    assert report["speeds"]["backbone"]["forward"] > 0
    assert report["speeds"]["backbone"]["train"] > 0
    assert report["speeds"]["backbone"]["width"] == 48
    assert "estimate" not in report


def test_the_compiler_of_the_environment_is_named(monkeypatch, tmp_path):
    compiler = tmp_path / "c++"
    compiler.touch(mode=0o755)
    monkeypatch.setenv("CXX", str(compiler))
    assert command._compiler().startswith(str(compiler))


@pytest.mark.slow  # torch.compile takes seconds
def test_compile_tries_torch_compile(cli):
    """It works or not, as the machine is; the sentence is about torch.compile either way."""
    sentence = cli("doctor", *QUICK, "--compile", "--json").json["compiler"]
    assert sentence == "torch.compile works" or "does not work on cpu" in sentence


def test_mistakes_of_the_program_are_not_problems_of_the_machine():
    with pytest.raises(TypeError):
        command.attempt(lambda: len(3))
    assert "gone" in command.attempt(lambda: (_ for _ in ()).throw(OSError("gone"))).sentence


@pytest.fixture
def embeddings(tmp_path):
    draw = np.random.default_rng(0)
    ids = [f"item{row}" for row in range(60)]
    np.savez(tmp_path / "x.npz", x=draw.normal(size=(60, 7)).astype(np.float32), ids=ids)
    lines = [f"{name},{'abc'[row % 3]}" for row, name in enumerate(ids)]
    (tmp_path / "labels.csv").write_text("image,labels\n" + "\n".join(lines) + "\n")
    return tmp_path / "labels.csv", tmp_path / "x.npz"


def test_an_estimate_of_time_and_memory(cli, embeddings):
    labels, x = embeddings
    given = ("doctor", labels, "-x", x, "-m", "gr", "--seconds", "0.2", "-s", "lr=0.1")
    estimate = cli(*given, "--json").json["estimate"]
    assert estimate["data"]["train"] == 48
    assert estimate["data"]["width"] == 7
    assert estimate["recipe"]["method"] == "gr"
    assert [cost["what"] for cost in estimate["costs"]] == ["25 epochs of the head"]
    assert estimate["seconds"] > 0
    assert estimate["bytes"] > 5e7
    assert "gr on" in cli(*given).out


def test_a_closed_form_and_a_backbone_are_estimated(cli, embeddings):
    labels, x = embeddings
    closed = cli("doctor", labels, "-x", x, "--seconds", "0.2", "--json").json["estimate"]
    assert [cost["what"] for cost in closed["costs"]] == ["closed form"]
    tuned = cli("doctor", "digits", *QUICK, "-s", "epochs=3", "--json").json["estimate"]
    assert [cost["what"] for cost in tuned["costs"]] == ["3 epochs of the backbone"]
    assert tuned["seconds"] > 0


def test_wrong_settings_are_refused(bad):
    assert "unknown setting 'rate'" in bad("doctor", "-s", "rate=1").err


def test_a_device_and_a_backbone_that_are_not_there_are_said_in_their_lines(cli):
    given = ("--seconds", "0.2", "--backbone", "nothing", "--device", "xpu")
    speeds = cli("doctor", *given, "--json").json["speeds"]
    if speeds["device"] == "xpu":
        pytest.skip("this machine has one")
    assert "not on this machine" in speeds["device"]["problem"]
    assert "unknown backbone 'nothing'" in speeds["backbone"]["problem"]
    assert speeds["one_thread"]["copy"] > 0


def test_the_extras_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    assert set(command.EXTRAS) == set(extras) - {"dev", "docs"}  # for work on plusone itself
    for name, extra in command.EXTRAS.items():
        needed = {entry.split(">")[0].replace("-", "_") for entry in extras[name]}
        assert set(extra.modules) == needed, name


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        (
            "raise RuntimeError('operator torchvision::nms does not exist')",
            "it was built for another torch; backbones of timm work all the same",
        ),
        ("raise RuntimeError('something else')", "cannot be imported (something else)"),
    ],
)
def test_a_broken_torchvision_is_named(cli, tmp_path, monkeypatch, module, sentence):
    (tmp_path / "torchvision.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    assert sentence in cli("doctor", *QUICK, "--json").json["torchvision"]


def test_memory_that_does_not_suffice_is_a_warning(cli, embeddings, monkeypatch):
    labels, x = embeddings
    monkeypatch.setitem(command.SYSTEM, "memory", lambda: {"total": 10, "free": 10})
    answer = cli("doctor", labels, "-x", x, "-m", "gr", "--seconds", "0.2")
    assert "warning: 0.0 GB are free" in answer.err


def test_a_busy_machine_is_a_warning(cli, monkeypatch):
    monkeypatch.setattr(command, "BUSY", 100.0)
    assert "warning: this machine is busy" in cli("doctor", *QUICK).err


def test_speeds_are_those_of_one_thread_and_of_the_device(monkeypatch):
    import torch

    from plusone.recipe import Recipe
    from plusone.training import probe

    threads = []

    def measured(device, seconds, clock=None):
        threads.append(torch.get_num_threads())
        return Speeds(1.0, 1.0, 1.0, 1.0, 1.0)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        monkeypatch.setattr(probe, "measure_speeds", measured)
        command._speeds(Recipe(device="cpu"), None, None, 1.0)
        assert threads == [1, 2]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
