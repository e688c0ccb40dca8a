"""Help: there for every command, with an example, and fast because torch stays away."""

from __future__ import annotations

import subprocess
import sys

import pytest

from plusone.version import __version__

COMMANDS = (
    "demo",
    "example",
    "methods",
    "prepare",
    "inspect",
    "observe",
    "features",
    "priors",
    "choose",
    "train",
    "evaluate",
    "predict",
    "export",
    "maps",
    "suggest",
    "review",
    "bench",
    "sweep",
    "ablate",
    "loop",
    "gradients",
    "intervals",
    "surface",
    "report",
)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example_and_the_common_options(cli, name):
    answer = cli(name, "--help")
    assert answer.code == 0
    assert f"Example: plusone {name}" in answer.out
    assert "--json" in answer.out
    assert "--seed" in answer.out
    assert cli(name, "-h").out == answer.out
    assert max(len(line) for line in answer.out.splitlines()) <= 80


def test_help_lists_the_commands_in_the_order_of_use(cli):
    answer = cli("--help")
    assert answer.code == 0
    places = [answer.out.index(f"│ {name} ") for name in COMMANDS]
    assert places == sorted(places)
    assert cli("-h").out == answer.out
    assert cli("--version").out == f"{__version__}\n"


def test_without_arguments_there_is_help(cli):
    answer = cli()
    assert "Usage: plusone" in answer.out + answer.err


def test_help_imports_nothing_heavy():
    code = """
import sys
from plusone.cli.app import main
try:
    main(["train", "--help"])
except SystemExit as left:
    assert not left.code
heavy = {"torch", "numpy", "sklearn", "PIL", "pandas", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_installed_command_shows_its_help(command):
    done = subprocess.run([*command, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "Usage: plusone" in done.stdout


def test_commands_need_no_click_of_their_own(cli):
    """Typer carries its own copy of click, so nothing installs the real one for us."""
    code = "import sys; sys.modules['click'] = None; import plusone.cli.app"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
